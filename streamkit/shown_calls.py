"""The calls of a turn that is changed on its way, for whoever watches: how they are told, and that none stays open."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator
from typing import TypeVar

from .codec.json_object import object_text
from .flows.closing import send_closing
from .flows.flow import Sink
from .flows.sinks import MappedSink
from .items import ToolCall
from .turns import (
    ToolInputAbandoned,
    ToolInputAvailable,
    ToolInputDelta,
    ToolInputEvent,
    ToolInputStart,
    TurnEvent,
)

R = TypeVar("R")


class ShownCalls:
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


async def closing_calls(out: Sink[TurnEvent], show: Callable[[Sink[TurnEvent], ShownCalls], Awaitable[R]]) -> R:
    """Run `show`; where it is cut off, the calls that it leaves open are abandoned before the error leaves."""
    shown = ShownCalls()
    try:
        return await show(MappedSink(out, shown.note), shown)
    except GeneratorExit:
        raise  # this coroutine is thrown away, and must not await any more
    except BaseException as error:
        await send_closing(out, shown.left(), is_cancelled=not isinstance(error, Exception))
        raise


def events_of_call(call: ToolCall) -> Iterator[ToolInputEvent]:
    """One without a name cannot be announced."""
    if call.name:
        yield ToolInputStart(call.call_id, call.name)
        if call.arguments:
            yield ToolInputDelta(call.call_id, call.arguments)
        yield end_of_call(call)


def end_of_call(call: ToolCall) -> ToolInputEvent:
    if call.problem is not None:
        return ToolInputAbandoned(call.call_id, "malformed", call.problem)
    return ToolInputAvailable(call.call_id, call.arguments)


def refuse_bad_call(call: ToolCall) -> None:
    """Whoever hears that a call is available relies on its arguments."""
    if call.problem is None and not call.name:
        raise ValueError(f"call {call.call_id} has no name")
    if call.problem is None and not call.custom and object_text(call.arguments) != (call.arguments, None):
        raise ValueError(f"the arguments of call {call.call_id} of {call.name} are not the text of one JSON object")
