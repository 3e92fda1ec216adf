"""Changing a turn on its way to whoever watches: held back until it was checked, calls of it dropped or renamed.

Both take a turn and give one, so they nest. Tools that hear their input (`on_input=`) hear what is left of it when they
listen outside: `toolkit.listen(hold_back(edit_calls(model.stream_turn(request), f), check))`. Inside they hear what the
model writes, and nobody tells them that a call of it was taken away.
"""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Iterator
from typing import TypeVar

import msgspec

from .closing import send_closing
from .codec.json_object import object_text
from .flows import Flow, Sink, flow
from .items import Message, Reasoning, ToolCall
from .sinks import MappedSink, SinkBefore
from .turns import (
    ReasoningDelta,
    RefusalDelta,
    TextDelta,
    ToolInputAbandoned,
    ToolInputAvailable,
    ToolInputDelta,
    ToolInputEvent,
    ToolInputStart,
    Turn,
    TurnEnded,
    TurnEvent,
    TurnRestarted,
    TurnStarted,
)

R = TypeVar("R")

Check = Callable[[Turn], Turn | Awaitable[Turn | None] | None]
"""The turn that is to be shown, for the one that was written, None for itself: plain or async. What it raises ends the
turn."""

EditCall = Callable[[ToolCall], ToolCall | Awaitable[ToolCall | None] | None]
"""The call itself, another one in its place, or None for none: plain or async. What it raises ends the turn."""


@flow
async def hold_back(out: Sink[TurnEvent], turn: Flow[TurnEvent, Turn], check: Check) -> Turn:
    """The turn that check gives for the one that was written; nothing of either is shown before.

    TurnStarted alone goes out at once, as a sign of life; more of them come by a `tap` on the turn inside. Then come
    the items of the checked turn in their order: a text as one delta, a call as start, delta and end; at last a
    refusal. Calls that go nowhere are not told of: nobody has heard of them. A turn with an id of its own, such as one
    that check has asked another model for, is announced by a TurnStarted of its own.

    What check raises leaves as itself, and of the turn nothing was shown; so it is with a turn that fails. Raises
    ValueError for a turn that has two calls with one id, or a new call whose arguments are not one JSON object.
    """
    started = ""

    def is_start(event: TurnEvent) -> bool:
        nonlocal started
        if type(event) is TurnStarted:
            started = event.turn_id
        return type(event) is TurnStarted

    written = await out.forward(turn.filter(is_start))
    checked = check(written)
    if inspect.isawaitable(checked):
        checked = await checked
    checked = written if checked is None else checked
    _refuse_bad_turn(checked, written)

    async def show(telling: Sink[TurnEvent], _: _ShownCalls) -> Turn:
        if checked.turn_id != started:
            await telling.send(TurnStarted(checked.turn_id, checked.model))
        for event in _events_of(checked):
            await telling.send(event)
        await telling.send(TurnEnded(checked))
        return checked

    return await _closing_calls(out, show)


@flow
async def edit_calls(out: Sink[TurnEvent], turn: Flow[TurnEvent, Turn], f: EditCall) -> Turn:
    """The turn with each of its calls replaced by f(call): the call itself, one with another name or other arguments,
    or None.

    f is asked once for each call that would have to be answered, when it is whole: those that cannot run have a
    `problem`, and f may mend them. Of what f gives, name, arguments and problem count. A call that f changes is
    abandoned as discarded, instead of becoming available, and begins anew with the same id, which is the provider's.
    One that f drops is abandoned, too, and stays among `turn.dropped`, so that a history answers it. A turn that wanted
    calls and keeps none stops as unknown: that is no answer one may trust.

    What f raises ends the turn with that error, after what is open was abandoned. Raises TypeError for what is no call,
    ValueError for a call with another id, without a name, or whose arguments are not one JSON object.
    """

    async def show(telling: Sink[TurnEvent], shown: _ShownCalls) -> Turn:
        edits = _Edits(f, shown)
        return edits.applied_to(await _EditingSink(telling, edits).forward(turn))

    return await _closing_calls(out, show)


def _events_of(turn: Turn) -> Iterator[TurnEvent]:
    for item in turn.items:
        match item:
            case ToolCall():
                if item.abandoned is None:
                    yield from _events_of_call(item)
            case Message(text=text):
                if text:
                    yield TextDelta(text)
            case Reasoning(text=text, kind=kind):
                if text:
                    yield ReasoningDelta(text, kind)
            case _:
                yield item
    if turn.refusal:
        yield RefusalDelta(turn.refusal)


def _events_of_call(call: ToolCall) -> Iterator[ToolInputEvent]:
    """One without a name cannot be announced."""
    if call.name:
        yield ToolInputStart(call.call_id, call.name)
        if call.arguments:
            yield ToolInputDelta(call.call_id, call.arguments)
        yield _end_of_call(call)


def _end_of_call(call: ToolCall) -> ToolInputEvent:
    if call.problem is not None:
        return ToolInputAbandoned(call.call_id, "malformed", call.problem)
    return ToolInputAvailable(call.call_id, call.arguments)


def _refuse_bad_turn(checked: object, written: Turn) -> None:
    if not isinstance(checked, Turn):
        raise TypeError(f"check returns the turn, or another one, not {type(checked).__name__}")
    calls = [item for item in checked.items if type(item) is ToolCall]
    if len({call.call_id for call in calls}) < len(calls):
        raise ValueError("check returned a turn that has two calls with one id")
    for call in checked.calls:
        if call not in written.calls:
            _refuse_bad_call(call)


def _refuse_bad_call(call: ToolCall) -> None:
    """Whoever hears that a call is available relies on its arguments."""
    if call.problem is None and not call.name:
        raise ValueError(f"call {call.call_id} has no name")
    if call.problem is None and not call.custom and object_text(call.arguments) != (call.arguments, None):
        raise ValueError(f"the arguments of call {call.call_id} of {call.name} are not the text of one JSON object")


# Calls that the consumer has heard of must not stay open


class _ShownCalls:
    """The calls that are open for whoever watches. held: the end of a call that was not shown yet."""

    def __init__(self) -> None:
        self._whole: dict[str, bool] = {}
        self.held: dict[str, ToolInputAbandoned] = {}

    def __contains__(self, call_id: str) -> bool:
        return call_id in self._whole

    def note(self, event: TurnEvent) -> TurnEvent:
        """An event counts as shown when its sending has begun: cut off then, it lies in the channel already."""
        if type(event) is ToolInputStart:
            self._whole[event.call_id] = False
        elif type(event) is ToolInputAvailable:
            self._whole[event.call_id] = True
        elif type(event) is ToolInputAbandoned:
            self._whole.pop(event.call_id, None)
        return event

    def left(self) -> Iterator[ToolInputAbandoned]:
        for call_id, is_whole in tuple(self._whole.items()):
            reason = "discarded" if is_whole else "incomplete"
            held = None if is_whole else self.held.get(call_id)  # else it was mended
            yield held or ToolInputAbandoned(call_id, reason, "the turn was cut off")  # type: ignore[arg-type]


async def _closing_calls(out: Sink[TurnEvent], show: Callable[[Sink[TurnEvent], _ShownCalls], Awaitable[R]]) -> R:
    """Run `show`; where it is cut off, the calls that it leaves open are abandoned before the error leaves."""
    shown = _ShownCalls()
    try:
        return await show(MappedSink(out, shown.note), shown)
    except GeneratorExit:
        raise  # this coroutine is thrown away, and must not await any more
    except BaseException as error:
        await send_closing(out, shown.left(), is_cancelled=not isinstance(error, Exception))
        raise


# Editing


class _Edits:
    """What became of the calls of one turn. feed(event) -> the events in its place."""

    def __init__(self, f: EditCall, shown: _ShownCalls) -> None:
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
            return [_end_of_call(call)] if is_open else []
        detail = "the program dropped this call" if edited is None else "the program changed this call"
        gone = [ToolInputAbandoned(call.call_id, "discarded", detail)] if is_open else []
        return [*gone, *(() if edited is None else _events_of_call(edited))]

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
        raise TypeError(f"edit_calls: the function gives a call or None, not {type(answer).__name__}")
    if answer.call_id != call.call_id:
        raise ValueError(f"call {call.call_id} keeps its id, which is the provider's: {answer.call_id} was given")
    if answer.abandoned is not None:
        return None
    edited = _with_edit(call, answer)
    may_be_plain_text = call.problem is None and object_text(call.arguments)[1] is not None
    if edited != call and not may_be_plain_text:
        _refuse_bad_call(edited)
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
