"""What a client of MCP is told of our calls: progress, and the result.

All text is whole: at half a character the task of the SDK that writes ends, and the server with it.
"""

from __future__ import annotations

import math
from base64 import b64encode
from collections.abc import Awaitable, Callable
from typing import Any

import msgspec

from ..bars import Bar, progress_of
from ..codec.surrogates import whole
from ..items import Image
from ..tool_events import Failure, Intermediate, Pending, ToolResult, Value
from .exchange import Progress
from .sdk import types

_MESSAGE_CHARS = 4000
"""So much of an intermediate goes out: it is there to be shown, and nothing holds back a client who asked for it."""

Report = Callable[[float, float | None, str | None], Awaitable[None]]


class ProgressTeller:
    """Tells the intermediates of one call. The number of a report must grow, by the rule of the protocol.

    What says how far it is (see `progress_of`), and progress of another server, keeps its numbers as far as they grow;
    anything else counts one more until then, and stands where the last number stood after it. What begins again behind
    its last number has no total any more, of which it would be too much.
    """

    def __init__(self, report: Report) -> None:
        self._report = report
        self._last = math.nextafter(0.0, -math.inf)  # so that 0 is one step on
        self._total: float | None = None
        self._is_measured = False

    async def tell(self, event: Intermediate) -> None:
        shown = event.data if event.event is None else event.event
        match shown if isinstance(shown, Progress) else progress_of(shown):
            case Progress(progress=at, total=total, message=message):
                self._measure(at, total)
            case Bar() as bar:
                self._measure(float(bar.done), float(bar.total))
                message = bar.text or _beside(shown, bar)
            case _:
                message = _text(shown)
                self._last = math.nextafter(self._last, math.inf) if self._is_measured else int(self._last) + 1
        await self._report(self._last, self._total, _cut(message))

    def _measure(self, at: float, total: float | None) -> None:
        self._is_measured = True
        grows = self._last < at < math.inf
        self._total = total if grows or math.isclose(at, self._last) else None
        self._last = at if grows else math.nextafter(self._last, math.inf)


def answer(result: ToolResult) -> types.CallToolResult:
    """The result of a call. An object is given as structured content, too, unless it is cut."""
    match result:
        case Value(text=text, images=images):
            content: list[types.ContentBlock] = [_picture(image) for image in images]
            if text or not images:
                content.insert(0, types.TextContent(text=whole(text)))
            return types.CallToolResult(content=content, structured_content=_object(result))
        case Failure(message=message):
            return _error(message)
        case Pending(tool=tool):
            return _error(f"The call of {tool} was not allowed: a person has to allow it, and none was asked here.")


def _error(message: str) -> types.CallToolResult:
    return types.CallToolResult(content=[types.TextContent(text=whole(message))], is_error=True)


def _picture(image: Image) -> types.ImageContent | types.TextContent:
    if image.url is not None:
        return types.TextContent(text=whole(image.url))
    return types.ImageContent(data=b64encode(image.data).decode(), mime_type=image.media_type)


def _object(result: Value) -> Any:
    """The value as JSON has it, if it is an object; the text is its JSON already."""
    if isinstance(result.value, str | list | tuple) or not result.text.startswith("{"):
        return None
    try:
        return msgspec.json.decode(result.text)
    except msgspec.DecodeError:
        return None


def _beside(shown: Any, bar: Bar) -> str | None:
    """What is said beside the numbers: all of it, or nothing where there are only these."""
    try:
        fields = len(msgspec.to_builtins(shown))
    except Exception:  # as of `_text`
        return None
    return _text(shown) if fields > (1 if bar.unit == "percent" else 2) else None


def _text(shown: Any) -> str | None:
    if isinstance(shown, str):
        return shown
    try:
        return msgspec.json.encode(shown).decode()
    except Exception:  # of a type of the user's, which need not have a JSON form to be shown
        return None


def _cut(message: str | None) -> str | None:
    if message is None or len(message) <= _MESSAGE_CHARS:
        return message and whole(message)
    return f"{whole(message[:_MESSAGE_CHARS])}… [cut: {len(message)} characters]"
