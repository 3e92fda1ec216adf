"""Hiding what is private in arguments and values, before they are written down or leave the program.

The user says what: `redact(tool, value)` gives what is to be seen instead. It is asked about the arguments of a call,
by name, about what the call shows of its work, and about its value.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any, TypeVar

import msgspec

from .codec.surrogates import whole
from .items import Item, ProviderTool, ToolCall, ToolOutput
from .tool_events import (
    ApprovalRequested,
    Failure,
    Intermediate,
    Output,
    RunEvent,
    ToolEvent,
    ToolInputField,
    ToolResult,
    ToolStarted,
    Value,
)
from .turns import ToolInputAvailable, ToolInputDelta, ToolInputEvent, ToolInputStart, Turn, TurnEnded

UNFIT = "its arguments do not fit"
HIDDEN = {"hidden": "it is nested too deeply to be looked through"}

Redact = Callable[[str, Any], Any]

T = TypeVar("T", bound=Item)
R = TypeVar("R", bound=ToolResult)


class Redaction:
    """Applies one `redact` to the records of one run, inner runs included.

    Pieces of arguments cannot be looked through, since a secret may be cut in two: so there are no deltas and fields of
    a call, but its whole arguments when they are available. A failure that quotes arguments says only that they do not
    fit.
    """

    def __init__(self, redact: Redact) -> None:
        self._redact = redact
        self._tools: dict[tuple[str, ...], str] = {}  # by call id and those around it, while its input is written

    def event(self, event: RunEvent, around: tuple[str, ...] = ()) -> RunEvent | None:
        """The event as it may be seen; None where it may not.

        around: the ids of the calls around it: two inner runs that go on at once may give one id to two calls.
        """
        match event:
            case ToolInputStart() | ToolInputDelta() | ToolInputField() | ToolInputAvailable():
                return self._input_event(event, around)
            case TurnEnded(turn=turn):
                return TurnEnded(self.turn(turn))
            case ProviderTool():
                return self.item(event)
            case ApprovalRequested() | ToolStarted() | Intermediate() | Output():
                return self._tool_event(event, around)
        return event

    def _tool_event(self, event: ToolEvent, around: tuple[str, ...]) -> ToolEvent | None:
        match event:
            case Intermediate(event=inner) if inner is not None:
                seen = self.event(inner, (*around, event.call_id))
                return None if seen is None else msgspec.structs.replace(event, event=seen)
            case Intermediate(data=data):
                return msgspec.structs.replace(event, data=self._look(event.tool, data))
            case Output(result=result):
                return msgspec.structs.replace(event, result=self.result(result))
        return msgspec.structs.replace(event, arguments=self._look(event.tool, event.arguments))

    def _input_event(self, event: ToolInputEvent | ToolInputField, around: tuple[str, ...]) -> RunEvent | None:
        match event:
            case ToolInputStart(call_id=call_id, tool=tool):
                self._tools[*around, call_id] = tool
            case ToolInputDelta() | ToolInputField():
                return None
            case ToolInputAvailable(call_id=call_id, arguments=text):
                return ToolInputAvailable(call_id, self._text(self._tools.pop((*around, call_id), ""), text))
        return event

    def arguments(self, tool: str, arguments: Any) -> Any:
        return self._look(tool, arguments)

    def turn(self, turn: Turn) -> Turn:
        return msgspec.structs.replace(turn, items=tuple(self.item(item) for item in turn.items))

    def item(self, item: T) -> T:
        """An item of a history or a turn."""
        if isinstance(item, ToolCall):
            seen = self._text(item.name, item.arguments)
            return item if seen == item.arguments else msgspec.structs.replace(item, arguments=seen)
        if isinstance(item, ToolOutput):
            return msgspec.structs.replace(item, text=self._text(item.tool, item.text))
        if isinstance(item, ProviderTool):
            given, gave = (self._seen(item.name, value) for value in (item.input, item.output))
            if (given, gave) != (item.input, item.output):  # as the provider wrote it, it holds them once more
                return msgspec.structs.replace(item, input=given, output=gave, opaque=None)
        return item

    def result(self, result: R) -> R:
        match result:
            case Value(tool=tool, value=value, text=text):
                return msgspec.structs.replace(result, value=self._look(tool, value), text=self._text(tool, text))
            case Failure(tool=tool, kind=kind, partial=partial):
                told = f"The call of {tool} did not run: {UNFIT}" if kind == "invalid_input" else result.message
                return msgspec.structs.replace(result, message=told, partial=self._seen(tool, partial))
        return result

    def _seen(self, tool: str, value: Any) -> Any:
        """A value that may be absent."""
        return None if value is None else self._look(tool, value)

    def _text(self, tool: str, text: str) -> str:
        """Text that stands for a value: JSON, or itself."""
        try:
            try:
                value = json.loads(text)
            except ValueError:
                value = text
            seen = self._redact(tool, value)
            if seen == value:
                return text
            return seen if isinstance(seen, str) else msgspec.json.encode(whole(seen)).decode()
        except RecursionError:
            return msgspec.json.encode(HIDDEN).decode()

    def _look(self, tool: str, value: Any) -> Any:
        """What is to be seen of a value; nothing of it, where it is nested more deeply than `redact` can follow."""
        try:
            return self._redact(tool, value)
        except RecursionError:
            return HIDDEN
