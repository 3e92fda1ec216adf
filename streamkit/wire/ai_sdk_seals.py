"""Signatures on questions: a client brings one back with its answer, and it has to be the one that we asked."""

from __future__ import annotations

import hmac
import json
from typing import Any, NamedTuple

from ..codec.surrogates import whole
from ..items import ToolCall
from ..journal.entry import plain
from .seals import Seal


class Asked(NamedTuple):
    """A call that somebody has to decide about. call_id: as the client knows it. arguments: as JSON."""

    approval_id: str
    call_id: str
    tool: str
    arguments: Any


def sealed(seal: Seal, chat_id: str, asked: Asked) -> str:
    """The signature; after JavaScript has read and written the arguments they have the same one."""
    arguments = json.dumps(whole(_as_javascript_has_it(plain(asked.arguments))), sort_keys=True)
    both_ids = json.dumps([asked.approval_id, asked.call_id])
    return seal.of_call(chat_id, both_ids, ToolCall(asked.call_id, asked.tool, arguments))


def is_signed(signature: str, seal: Seal, chat_id: str, asked: Asked) -> bool:
    return hmac.compare_digest(signature.encode(errors="replace"), sealed(seal, chat_id, asked).encode())


def as_json(arguments: str) -> Any:
    """The arguments of a call as they are signed."""
    try:
        return json.loads(arguments)
    except (ValueError, RecursionError):
        return arguments


def _as_javascript_has_it(value: Any) -> Any:
    """Where all numbers are doubles: 1.0 comes back as 1.

    The last digits of a long integer are lost there, and it is not taken for the same: this call was changed.
    """
    if isinstance(value, float) and value.is_integer():
        return int(value)
    if isinstance(value, list):
        return [_as_javascript_has_it(item) for item in value]
    if isinstance(value, dict):
        return {key: _as_javascript_has_it(item) for key, item in value.items()}
    return value
