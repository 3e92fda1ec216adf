"""Seals: a client that holds the conversation answers only what it was asked, and hands back only what it was given.

A server that keeps nothing between two requests reads from the client what had been said. A seal is a code that only
the server can make: over the question that was asked, or around data that is to come back unchanged.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import os
from typing import Any

import msgspec

from ..items import ToolCall

_LENGTH = 16


class Seal:
    """secret: at least 16 bytes, the same on all servers that read each other's; None makes one for this process."""

    def __init__(self, secret: bytes | None = None) -> None:
        if secret is not None and len(secret) < 16:
            raise ValueError(f"the secret of a seal needs at least 16 bytes, but has {len(secret)}")
        self._secret = os.urandom(32) if secret is None else secret

    def __repr__(self) -> str:
        return "<Seal>"

    def narrowed(self, to: bytes) -> Seal:
        """The seal of one of several, such as a user: it opens nothing that was closed for another."""
        return Seal(hmac.digest(self._secret, to, "sha256"))

    def of_call(self, thread_id: str, call_id: str, call: ToolCall) -> str:
        """The code of a call, as somebody was asked about it in a thread. call_id: as the client knows it."""
        return self._code("call", thread_id, call_id, call.name, _canonical(call.arguments)).hex()

    def close(self, thread_id: str, value: Any) -> str:
        """Plain data, for a client to keep; it can be read by it."""
        written = msgspec.msgpack.encode(value)
        return base64.b64encode(self._code("data", thread_id, written) + written).decode()

    def open(self, thread_id: str, closed: str) -> Any:
        """The data that was closed; None for anything else."""
        try:
            both = base64.b64decode(closed.encode("ascii"), validate=True)
        except (binascii.Error, UnicodeEncodeError):
            return None
        code, written = both[:_LENGTH], both[_LENGTH:]
        if not hmac.compare_digest(code, self._code("data", thread_id, written)):
            return None
        return msgspec.msgpack.decode(written)

    def _code(self, *parts: str | bytes) -> bytes:
        """Each part goes in with its length: no two lists of parts are written alike."""
        told = hmac.new(self._secret, digestmod=hashlib.sha256)
        for part in parts:
            written = part.encode("utf-8", "surrogatepass") if isinstance(part, str) else part
            told.update(b"%d:" % len(written) + written)
        return told.digest()[:_LENGTH]


def _canonical(arguments: str) -> bytes:
    """The same for the same JSON, however it is written."""
    try:
        return msgspec.json.encode(msgspec.json.decode(arguments), order="sorted")
    except (msgspec.DecodeError, UnicodeEncodeError, RecursionError):
        return arguments.encode("utf-8", "surrogatepass")
