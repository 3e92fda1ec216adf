"""Messages that the SDK does not read, as JSON or as messages of the protocol.

It drops them, and whoever waits for such an answer waits for ever. A program in JavaScript that cuts text cuts an emoji
in two, and writes one half as `"\\ud83d"`: that is JSON, but the SDK refuses it.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from types import TracebackType
from typing import Any

import pydantic

from ..codec.surrogates import whole
from .sdk import SessionMessage, types


class Readable:
    """What a transport reads, each item mended."""

    def __init__(self, stream: Any, mended: Callable[[Any], Any]) -> None:
        self._stream = stream
        self._mended = mended

    def __aiter__(self) -> Readable:
        return self

    async def __anext__(self) -> Any:
        return self._mended(await self._stream.__anext__())

    async def receive(self) -> Any:
        return self._mended(await self._stream.receive())

    async def aclose(self) -> None:
        await self._stream.aclose()

    async def __aenter__(self) -> Readable:
        await self._stream.__aenter__()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> bool | None:
        left: bool | None = await self._stream.__aexit__(kind, error, traceback)
        return left


def with_whole_text(line: str) -> str:
    """A message as JSON, without halves of characters."""
    if "\\ud" not in line and "\\uD" not in line:
        return line
    try:
        return json.dumps(whole(json.loads(line)))
    except (ValueError, RecursionError):
        return line


def mended(item: Any) -> Any:
    """An item that was read, where the SDK may have put the error in place of what it did not read: the message after
    all, or else the error of the call that it would have answered.
    """
    if not isinstance(item, pydantic.ValidationError):
        return item
    said = _said(item.errors(include_url=False)[0]["input"])
    try:
        return SessionMessage(types.jsonrpc_message_adapter.validate_python(said, by_name=False))
    except pydantic.ValidationError:
        pass
    if not isinstance(said, dict) or "method" in said or not isinstance(said.get("id"), int | str):
        return item
    problem = types.ErrorData(code=types.PARSE_ERROR, message="the answer cannot be read")
    return SessionMessage(types.JSONRPCError(jsonrpc="2.0", id=said["id"], error=problem))


def _said(given: Any) -> Any:
    """The message, from what the error has of it: its line, or the object in it."""
    try:
        try:
            return whole(json.loads(given) if isinstance(given, str) else given)
        except RecursionError:
            return _surface(given) if isinstance(given, str) else None
    except ValueError:
        return None


_PARTS = re.compile(r'("(?:[^"\\]|\\.)*+(?:"|$))(\s*:\s*(\d+|"[^"\\]*")?)?|[\[{]|[\]}]')
"""A string, with what stands behind it if it is a key; a bracket. A string that nothing ends goes to the end, or else
what is in it would be tried again from each quote."""


def _surface(line: str) -> dict[str, Any]:
    """The keys of an object in which something is nested too deeply, with their values where these are plain."""
    found: dict[str, Any] = {}
    depth = 0
    for part in _PARTS.finditer(line):
        if part[1] is None:
            depth += 1 if part[0] in "[{" else -1
        elif depth == 1 and part[2] is not None:
            found[json.loads(part[1])] = part[3] and json.loads(part[3])
    return found
