"""What a client of MCP is told of our calls: progress, and the result."""

from __future__ import annotations

import math
from base64 import b64encode
from collections.abc import Awaitable, Callable
from typing import Any

import msgspec

from ..items import Image
from ..tool_events import Failure, Intermediate, Pending, ToolResult, Value
from .exchange import Progress
from .sdk import types

_MESSAGE_CHARS = 4000
"""So much of an intermediate goes out: it is there to be shown, and nothing holds back a client who asked for it."""

Report = Callable[[float, float | None, str | None], Awaitable[None]]


class ProgressTeller:
    """Tells the intermediates of one call. The number of a report must grow, by the rule of the protocol.

    Progress of another server keeps its numbers, as far as they grow; anything else counts one more.
    """

    def __init__(self, report: Report) -> None:
        self._report = report
        self._last = math.nextafter(0.0, -math.inf)  # so that 0 is one step on

    async def tell(self, event: Intermediate) -> None:
        shown = event.data if event.event is None else event.event
        if isinstance(shown, Progress):
            at, total, message = shown.progress, shown.total, shown.message
            self._last = at if self._last < at < math.inf else math.nextafter(self._last, math.inf)
        else:
            total, message = None, _text(shown)
            self._last = int(self._last) + 1
        await self._report(self._last, total, _cut(message))


def answer(result: ToolResult) -> types.CallToolResult:
    """The result of a call. An object is given as structured content, too, unless it is cut."""
    match result:
        case Value(text=text, images=images):
            content: list[types.ContentBlock] = [_picture(image) for image in images]
            if text or not images:
                content.insert(0, types.TextContent(text=text))
            return types.CallToolResult(content=content, structured_content=_object(result))
        case Failure(message=message):
            return _error(message)
        case Pending(tool=tool):
            return _error(f"The call of {tool} was not allowed: a person has to allow it, and none was asked here.")


def _error(message: str) -> types.CallToolResult:
    return types.CallToolResult(content=[types.TextContent(text=message)], is_error=True)


def _picture(image: Image) -> types.ImageContent | types.TextContent:
    if image.url is not None:
        return types.TextContent(text=image.url)
    return types.ImageContent(data=b64encode(image.data).decode(), mime_type=image.media_type)


def _object(result: Value) -> Any:
    """The value as JSON has it, if it is an object; the text is its JSON already."""
    if isinstance(result.value, str | list | tuple) or not result.text.startswith("{"):
        return None
    try:
        return msgspec.json.decode(result.text)
    except msgspec.DecodeError:
        return None


def _text(shown: Any) -> str | None:
    if isinstance(shown, str):
        return shown
    try:
        return msgspec.json.encode(shown).decode()
    except Exception:  # of a type of the user's, which need not have a JSON form to be shown
        return None


def _cut(message: str | None) -> str | None:
    if message is None or len(message) <= _MESSAGE_CHARS:
        return message
    return f"{message[:_MESSAGE_CHARS]}… [cut: {len(message)} characters]"
