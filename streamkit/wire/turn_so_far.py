"""A turn, put together again from its events, where nothing else of it is known."""

from __future__ import annotations

from typing import Literal

from ..items import Message, ProviderTool, Reasoning, StopReason, ToolCall, TurnItem, UnknownItem, Usage
from ..turns import (
    ReasoningDelta,
    RefusalDelta,
    TextDelta,
    ToolInputAbandoned,
    ToolInputAvailable,
    ToolInputDelta,
    ToolInputStart,
    Turn,
    TurnEvent,
    TurnRestarted,
)


class TurnSoFar:
    """take(event) -> nothing; in order. turn(…) -> the turn, without what goes back to its provider unread."""

    def __init__(self, model: str = "") -> None:
        self._model = model
        self._begin()

    def _begin(self) -> None:
        self._items: list[_Text | _Call | ProviderTool | UnknownItem] = []
        self._open: _Text | None = None  # what the next piece of the same kind goes on with
        self._calls: dict[str, _Call] = {}
        self._refusal: list[str] = []

    def take(self, event: TurnEvent) -> None:
        match event:
            case TextDelta(text=text):
                self._add_piece("text", text)
            case ReasoningDelta(text=text, kind=kind):
                self._add_piece(kind, text)
            case RefusalDelta(text=text):
                self._refusal.append(text)
            case ToolInputStart(call_id=call_id, tool=tool):
                self._open = None
                call = self._calls[call_id] = _Call(call_id, tool, len(self._calls))
                self._items.append(call)
            case ToolInputDelta() | ToolInputAvailable() | ToolInputAbandoned():
                if event.call_id in self._calls:
                    self._calls[event.call_id].take(event)
            case UnknownItem():
                self._items.append(event)  # between two pieces of text it does not part them
            case ProviderTool():
                self._open = None
                self._items.append(event)
            case TurnRestarted():
                self._begin()

    def _add_piece(self, kind: Literal["text", "trace", "summary"], piece: str) -> None:
        if self._open is None or self._open.kind != kind:
            self._open = _Text(kind)
            self._items.append(self._open)
        self._open.pieces.append(piece)

    def turn(self, turn_id: str, stop_reason: StopReason, stop_word: str | None, usage: Usage) -> Turn:
        items = tuple(
            item if isinstance(item, ProviderTool | UnknownItem) else item.record(turn_id) for item in self._items
        )
        return Turn(turn_id, self._model, items, stop_reason, stop_word, usage, "".join(self._refusal))


class _Text:
    """Text or reasoning that may go on."""

    def __init__(self, kind: Literal["text", "trace", "summary"]) -> None:
        self.kind = kind
        self.pieces: list[str] = []

    def record(self, turn_id: str) -> TurnItem:
        text = "".join(self.pieces)
        return Message("assistant", text) if self.kind == "text" else Reasoning(text, self.kind)


class _Call:
    def __init__(self, call_id: str, tool: str, place: int) -> None:
        self._call_id = call_id
        self._tool = tool
        self._place = place
        self._pieces: list[str] = []
        self._problem: str | None = None
        self._abandoned: Literal["incomplete", "discarded"] | None = None

    def take(self, event: ToolInputDelta | ToolInputAvailable | ToolInputAbandoned) -> None:
        match event:
            case ToolInputDelta(delta=delta):
                self._pieces.append(delta)
            case ToolInputAvailable(arguments=arguments):
                self._pieces = [arguments]
            case ToolInputAbandoned(reason="malformed", detail=detail):
                self._problem = detail
            case ToolInputAbandoned(reason="incomplete" | "discarded" as reason):
                self._abandoned = reason

    def record(self, turn_id: str) -> TurnItem:
        arguments = "".join(self._pieces)
        return ToolCall(
            self._call_id, self._tool, arguments, turn_id, self._place, self._problem, abandoned=self._abandoned
        )
