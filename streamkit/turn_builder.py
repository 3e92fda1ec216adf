"""From parts to a turn, the same for every provider, streamed or not: turn events come out, and at last the `Turn`."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Literal

from .call_input import CallInput, Phase
from .items import Message, Opaque, ProviderTool, Reasoning, StopReason, TurnItem, UnknownItem, Usage
from .parts import (
    Failed,
    Finished,
    InputDelta,
    InputEnd,
    InputOpaque,
    InputStart,
    NextItem,
    Part,
    ReasoningOpaque,
    TextOpaque,
    UsageReported,
    WholeCall,
)
from .tool_input import BOUNDS, Bounds, ToolInput
from .turns import ReasoningDelta, RefusalDelta, TextDelta, ToolInputEvent, Turn, TurnEvent

_WHY_NO_CALLS: dict[StopReason, str] = {
    "length": "the turn was cut at its token limit",
    "content_filter": "the turn was cut by the provider's filter",
    "refusal": "the model refused",
    "error": "the turn failed",
    "cancelled": "the turn was cancelled",
}
"""The reasons for which a turn runs no calls."""


class TurnBuilder:
    """One turn while it is written.

    add(part) -> its events; raises the error of a `Failed`. Then either end() -> the events that close a turn whose end
    was declared, or fail(reason) -> those of a turn that was cut; fail also after end, for a turn that nobody will
    answer any more. turn() -> the turn, after either. restart() -> the events that take the calls back; the same turn
    begins anew, and nothing is left of what came but its usage. TurnStarted, TurnRestarted and TurnEnded are sent by
    whoever runs the turn.

    finished: the end has been declared; parts after it are let go. usage: reported until now. tool_names: the known
    tools. may_call: False for a turn that may call none: calls that the model writes all the same are discarded.
    """

    def __init__(
        self,
        turn_id: str,
        model: str,
        tool_names: Iterable[str] = (),
        *,
        may_call: bool = True,
        bounds: Bounds = BOUNDS,
    ) -> None:
        self.turn_id = turn_id
        self.model = model
        self._tool_names = frozenset(tool_names)
        self._may_call = may_call
        self._bounds = bounds
        self._spent = Usage()  # before the restart
        self._begin()

    def _begin(self) -> None:
        self.finished = False
        self._input = ToolInput(self.turn_id, self._tool_names, self._bounds)
        self._calls = self._input.calls
        self._calls_placed = 0
        self._items: list[_OpenItem | CallInput | ProviderTool | UnknownItem] = []
        self._open: _OpenItem | None = None  # what the next piece of the same kind goes on with
        self._reasoning: _OpenItem | None = None  # the last
        self._refusal: list[str] = []
        self.usage = self._spent
        self._stop_reason: StopReason = "unknown"
        self._stop_word: str | None = None

    def restart(self) -> list[ToolInputEvent]:
        shown = [call for call in self._calls if call.phase in (Phase.COLLECTING, Phase.READY)]
        events = [event for call in shown for event in call.abandon("retried", "the turn begins anew")]
        self._spent = self.usage
        self._begin()
        return events

    def add(self, part: Part) -> list[TurnEvent]:
        events: list[TurnEvent] = []
        self.add_all((part,), events)
        return events

    def add_all(self, parts: Iterable[Part], events: list[TurnEvent]) -> None:
        """Add many parts, and their events to a list; they are in it also when the error of a `Failed` is raised."""
        if self.finished:
            return
        for part in parts:
            if type(part) is TextDelta:  # the most frequent parts come first
                open_item = self._open
                if open_item is None or open_item.kind != "text":
                    open_item = self._open = self._place(_OpenItem("text"))
                open_item.pieces.append(part.text)
                events.append(part)
            elif type(part) is InputDelta:
                call = self._input.by_index.get(part.index)
                if call is not None and call.in_stride and part.name is None and part.call_id is None:
                    events += call.take_text(part.text)
                else:
                    events += self._input.feed(part)
                    self._place_calls()
            elif type(part) is ReasoningDelta:
                if self._open is None or self._open.kind != part.kind:
                    self._open = self._reasoning = self._place(_OpenItem(part.kind))
                self._open.pieces.append(part.text)
                events.append(part)
            elif type(part) is Finished:
                self.finished = True
                self._stop_reason, self._stop_word = part.stop_reason, part.stop_word
                return
            else:
                self._add_rare(part, events)

    def _add_rare(self, part: Part, events: list[TurnEvent]) -> None:
        match part:
            case InputStart() | InputEnd() | InputOpaque() | WholeCall():
                events += self._input.feed(part)
                self._place_calls()
            case RefusalDelta(text=text):
                self._refusal.append(text)
                events.append(part)
            case UnknownItem():
                self._items.append(part)  # between two pieces of text it does not part them
                events.append(part)
            case ProviderTool():
                self._items.append(part)
                self._open = None
                events.append(part)
            case NextItem():
                self._open = self._reasoning = None
            case ReasoningOpaque(opaque=opaque, dialect=dialect):
                if self._reasoning is None:
                    self._open = self._reasoning = self._place(_OpenItem("trace"))
                self._reasoning.add_opaque(dialect, opaque)
            case TextOpaque(opaque=opaque, dialect=dialect):
                item = self._open if self._open is not None and self._open.kind == "text" else None
                (item or self._place(_OpenItem("text"))).add_opaque(dialect, opaque)
                self._open = None
            case UsageReported(usage=usage):
                self.usage = self._spent + usage
            case Failed(error=error, stop_word=word):
                self._stop_word = word
                raise error
            case _:
                raise TypeError(f"{part!r} is not a part of a turn; text is TextDelta('…')")

    def _place_calls(self) -> None:
        """Give the calls that have begun their place among the items."""
        for call in self._calls[self._calls_placed :]:
            self._items.append(call)
            self._open = None
        self._calls_placed = len(self._calls)

    def _place(self, item: _OpenItem) -> _OpenItem:
        self._items.append(item)
        return item

    def end(self) -> list[ToolInputEvent]:
        if self._refusal and self._stop_reason == "stop":
            self._stop_reason = "refusal"
        if self._stop_reason in _WHY_NO_CALLS:
            return self._input.cut(_WHY_NO_CALLS[self._stop_reason])
        events = self._input.end()
        lost_calls = any(call.abandoned is not None for call in self._calls)
        if not self._may_call:
            events += self._input.cut("the turn may not call tools")
        has_calls = any(call.abandoned is None for call in self._calls)
        if has_calls:
            self._stop_reason = "tool_calls"
        elif self._stop_reason == "tool_calls" or (lost_calls and self._stop_reason == "stop"):
            self._stop_reason = "unknown"  # the calls that were wanted are lost: this is no answer to trust
        return events

    def fail(self, stop_reason: Literal["error", "cancelled"]) -> list[ToolInputEvent]:
        self._stop_reason = stop_reason
        return self._input.cut(_WHY_NO_CALLS[stop_reason])

    def turn(self) -> Turn:
        items = tuple(self._finished_item(item) for item in self._items)
        refusal = "".join(self._refusal)
        return Turn(self.turn_id, self.model, items, self._stop_reason, self._stop_word, self.usage, refusal)

    def _finished_item(self, item: _OpenItem | CallInput | ProviderTool | UnknownItem) -> TurnItem:
        if isinstance(item, CallInput):
            return item.record(self.turn_id)
        if not isinstance(item, _OpenItem):
            return item
        text = "".join(item.pieces)
        if item.kind == "text":
            return Message("assistant", text, opaque=item.opaque)
        return Reasoning(text, item.kind, item.opaque)


class _OpenItem:
    """Text or reasoning that may go on."""

    __slots__ = ("kind", "opaque", "pieces")

    def __init__(self, kind: Literal["text", "trace", "summary"]) -> None:
        self.kind = kind
        self.pieces: list[str] = []
        self.opaque: Opaque | None = None

    def add_opaque(self, dialect: str, opaque: dict[str, Any]) -> None:
        known = self.opaque or {}
        self.opaque = {**known, dialect: {**known.get(dialect, {}), **opaque}}
