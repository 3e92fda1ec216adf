"""`edit_calls`: a turn whose calls are dropped, renamed or rewritten on its way to whoever watches.

See `held_turns` for how it nests, and for what tools hear of it.
"""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable

import msgspec

from .codec.json_object import object_text
from .flows.flow import Flow, Sink, flow
from .flows.sinks import SinkBefore
from .items import ToolCall
from .shown_calls import ShownCalls, closing_calls, end_of_call, events_of_call, refuse_bad_call
from .turns import (
    TextDelta,
    ToolInputAbandoned,
    ToolInputAvailable,
    ToolInputDelta,
    ToolInputStart,
    Turn,
    TurnEnded,
    TurnEvent,
    TurnRestarted,
    TurnStarted,
)

EditCall = Callable[[ToolCall], ToolCall | Awaitable[ToolCall | None] | None]
"""The call itself, another one in its place, or None for none: plain or async. What it raises ends the turn."""


@flow
async def edit_calls(out: Sink[TurnEvent], turn: Flow[TurnEvent, Turn], f: EditCall) -> Turn:
    """The turn with each of its calls replaced by f(call): the call itself, one with another name or other arguments,
    or None to drop it.

    f gets each call that would have to be answered, once it is whole; those that cannot run have a `problem`, and f may
    mend them. Of what f returns, name, arguments and problem count. A call that f changes is abandoned as discarded
    instead of becoming available, and starts over with the same id, which is the provider's. One that f drops is
    abandoned, too, and stays in `turn.dropped`, so that a history answers it. A turn that wanted calls and keeps none
    stops as "unknown", because it is no answer to trust.

    If f raises, open calls are abandoned and the turn ends with that error. Raises TypeError if f returns something
    that is not a call, and ValueError for a call with another id, without a name, or whose arguments are not one JSON
    object.
    """

    async def show(telling: Sink[TurnEvent], shown: ShownCalls) -> Turn:
        edits = _Edits(f, shown)
        return edits.applied_to(await _EditingSink(telling, edits).forward(turn))

    return await closing_calls(out, show)


class _Edits:
    """What became of the calls of one turn. feed(event) -> the events in its place."""

    def __init__(self, f: EditCall, shown: ShownCalls) -> None:
        self._f = f
        self._shown = shown
        self._raised = False  # f did, and is not asked again: the turn is on its way out
        self._begin("")

    def _begin(self, turn_id: str) -> None:
        self._shown.held.clear()
        self._turn_id = turn_id
        self._begun: dict[str, ToolCall] = {}
        self._edited: dict[str, ToolCall | None] = {}

    async def feed(self, event: TurnEvent) -> list[TurnEvent]:
        match event:
            case TurnStarted(turn_id=turn_id):
                self._begin(turn_id)
            case TurnRestarted():
                self._begin(self._turn_id)
            case ToolInputStart(call_id=call_id, tool=tool):
                self._begun[call_id] = ToolCall(call_id, tool, "", self._turn_id, len(self._begun))
            case ToolInputAvailable(call_id=call_id, arguments=arguments) if call_id in self._begun:
                if self._raised:
                    return []  # it will be abandoned next
                call = msgspec.structs.replace(self._begun[call_id], arguments=arguments)
                return self._retell(call, await self._edit(call))
            case ToolInputAbandoned(reason="malformed"):
                self._shown.held[event.call_id] = event  # its text comes with the turn, which has ended
                return []
            case ToolInputAbandoned(call_id=call_id) if call_id not in self._shown:
                return []  # f dropped it before
            case TurnEnded(turn=turn):
                return await self._end(turn)
        return [event]

    async def _end(self, turn: Turn) -> list[TurnEvent]:
        events: list[TurnEvent] = []
        for call in turn.calls:
            if call.call_id not in self._edited:
                events += self._retell(call, await self._edit(call))
        held = [event for event in self._shown.held.values() if event.call_id not in self._edited]
        return [*events, *held, TurnEnded(self.applied_to(turn))]

    async def _edit(self, call: ToolCall) -> ToolCall | None:
        try:
            answer = self._f(call)
            if inspect.isawaitable(answer):
                answer = await answer
            edited = self._edited[call.call_id] = _edited(call, answer)
        except BaseException:
            self._raised = True
            raise
        return edited

    def _retell(self, call: ToolCall, edited: ToolCall | None) -> list[TurnEvent]:
        """The events after which whoever was told of the call knows of the edited one."""
        is_open = call.call_id in self._shown
        if edited == call:
            return [end_of_call(call)] if is_open else []
        detail = "the program dropped this call" if edited is None else "the program changed this call"
        gone = [ToolInputAbandoned(call.call_id, "discarded", detail)] if is_open else []
        return [*gone, *(() if edited is None else events_of_call(edited))]

    def applied_to(self, turn: Turn) -> Turn:
        items = tuple(self._applied_to_call(item) if type(item) is ToolCall else item for item in turn.items)
        edited = msgspec.structs.replace(turn, items=items)
        if edited.stop_reason == "tool_calls" and not edited.calls:
            return msgspec.structs.replace(edited, stop_reason="unknown")
        return edited

    def _applied_to_call(self, call: ToolCall) -> ToolCall:
        if call.call_id not in self._edited:
            return call
        edited = self._edited[call.call_id]
        if edited is None:
            return msgspec.structs.replace(call, abandoned=call.abandoned or "discarded")
        return _with_edit(call, edited)


def _edited(call: ToolCall, answer: object) -> ToolCall | None:
    """What an answer of f makes of a call."""
    if answer is None:
        return None
    if not isinstance(answer, ToolCall):
        raise TypeError(f"edit_calls: the function returns a call or None, not {type(answer).__name__}")
    if answer.call_id != call.call_id:
        raise ValueError(f"call {call.call_id} keeps its id, which is the provider's: {answer.call_id} was given")
    if answer.abandoned is not None:
        return None
    edited = _with_edit(call, answer)
    may_be_plain_text = call.problem is None and object_text(call.arguments)[1] is not None
    if edited != call and not may_be_plain_text:
        refuse_bad_call(edited)
    return edited


def _with_edit(call: ToolCall, edit: ToolCall) -> ToolCall:
    return msgspec.structs.replace(call, name=edit.name, arguments=edit.arguments, problem=edit.problem)


class _EditingSink(SinkBefore[TurnEvent]):
    __slots__ = ("_edits",)

    def __init__(self, to: Sink[TurnEvent], edits: _Edits) -> None:
        super().__init__(to)
        self._edits = edits

    async def send(self, event: TurnEvent) -> None:
        for told in await self._edits.feed(event):
            await self._to.send(told)

    def put(self, event: TurnEvent) -> Awaitable[None] | None:
        if type(event) is ToolInputDelta or type(event) is TextDelta:  # most of them
            return self._to.put(event)
        return self.send(event)

    def branch(self) -> _EditingSink:
        return _EditingSink(self._to.branch(), self._edits)
