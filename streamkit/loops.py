"""The loop: one state threaded through steps until one says stop.

A step is the user's own, mostly a model turn and the calls that it asks for; the ready-made one is in `conversing`.
"""

from __future__ import annotations

import contextlib
import inspect
import math
from collections.abc import Awaitable, Callable, Iterable
from typing import Any, Generic, TypeVar, cast

import anyio
import anyio.lowlevel
import msgspec

from .conversation import Conversation
from .execution.inner_runs import Course, going_on, inner_runs
from .flows.closing import CLOSING_SECONDS
from .flows.flow import Flow, Sink, flow
from .flows.sinks import MappedSink
from .journal.log import RunLog, check_driven
from .journal.recorded_sink import RecordedSink
from .ledger import Ledger, new_ledger
from .tool_events import RunEvent, ToolResult
from .turns import ToolInputAbandoned, ToolInputAvailable, ToolInputStart, Turn, TurnEvent

E = TypeVar("E")
S = TypeVar("S")
N = TypeVar("N")


class Next(msgspec.Struct, Generic[S], frozen=True):
    """The loop goes on with this state."""

    state: S


class Stop(msgspec.Struct, Generic[S], frozen=True):
    """The loop ends; the state is its value."""

    state: S


Step = Callable[[Sink[Any], S], Awaitable[Next[S] | Stop[S]]] | Callable[[S], Flow[Any, Next[S] | Stop[S]]]
"""`async (out, state) -> Next | Stop`, or a function of the state that gives a Flow with that value."""


@flow
async def loop(out: Sink[RunEvent], step: Step[S], state: S, *, journal: RunLog | None = None) -> S:
    """Run steps until one returns Stop; the value is its state. A Conversation that has `ended` stops the loop, too. If
    it had ended before, and no call waits in it, it is returned unchanged: `conversation.say(…)` continues it.

    A call that became available in a step, and that the step neither executed nor left pending, is abandoned as
    discarded when the step ends. A step that returns anything but Next or Stop is a TypeError.

    Inside a call that continues after it had to wait, a loop with a Conversation starts where it stood. So a step of
    your own that may continue in this way, or from a stored state, first runs the calls that wait: `if state.turn is
    not None: return Next(state.settle(await out.forward(execute_all(toolkit, state.waiting.values(), …))))`.

    journal: a run that is written down: its events, and the state, which must be a Conversation, before the first step
    and after each. A step reports what happens in between: `await journal.take(turn)`, `execute_all(journal=journal)`.
    A run that has come further than the state raises JournalMismatch: start with `journal.conversation`.
    """
    check_driven(journal)
    step = step if _takes_sink(step) else _forwarding(step)
    if journal is None:
        return await _run_inside(out, step, state)
    with journal.looping():
        journal.check_begins(state)
        recorded = RecordedSink(out, journal)
        owed, journal.owed = journal.owed, ()
        for event in owed:
            await recorded.send(event)
        await _save(journal, state)
        return await _run_steps(recorded, step, state, journal)


async def _run_inside(out: Sink[RunEvent], step: Callable[..., Any], state: S) -> S:
    """The loop as an inner run of a call, if it is one: that goes on where it stood."""
    around = inner_runs()
    if around is None or not isinstance(state, Conversation):
        return await _run_steps(out, step, state, None)
    course = around.begin(state)
    return await _run_steps(out, step, cast(S, course.state), None, course)


async def _run_steps(
    out: Sink[RunEvent], step: Callable[..., Any], state: S, journal: RunLog | None, course: Course | None = None
) -> S:
    if isinstance(state, Conversation) and state.ended is not None and state.turn is None:
        return state
    while True:
        with new_ledger() as ledger, going_on(state):
            outcome = await _run_step(out, step, state, ledger)
        if not isinstance(outcome, Next | Stop):
            raise TypeError(f"a step returns Next(state) or Stop(state), not {type(outcome).__name__}")
        state = outcome.state
        if course is not None and isinstance(state, Conversation):
            course.state = state
        if journal is not None:
            await _save(journal, state)
        if isinstance(outcome, Stop) or (isinstance(state, Conversation) and state.ended is not None):
            return state
        await anyio.lowlevel.checkpoint()


async def _save(journal: RunLog, state: object) -> None:
    if not isinstance(state, Conversation):
        raise TypeError(f"the state of a run that is written down is a Conversation, not a {type(state).__name__}")
    await journal.save(state)


async def _run_step(out: Sink[RunEvent], step: Callable[..., Any], state: object, ledger: Ledger) -> Any:
    writing: set[str] = set()

    def note(event: RunEvent) -> RunEvent:
        if type(event) is ToolInputStart:
            writing.add(event.call_id)
        elif type(event) is ToolInputAvailable:
            writing.discard(event.call_id)
            ledger[event.call_id] = None
        elif type(event) is ToolInputAbandoned:
            writing.discard(event.call_id)
            ledger.pop(event.call_id, None)
        return event

    noting: Sink[RunEvent] = MappedSink(out, note)
    try:
        working = step(noting, state)
        if not isinstance(working, Awaitable):
            raise TypeError(f"a step is an async function of (out, state), but returned a {type(working).__name__}")
        outcome = await working
    except BaseException as error:
        # An error waits for its consumer, as ever; whoever was cancelled, or is interrupted, has no time.
        waits = isinstance(error, Exception)
        limit = math.inf if waits else CLOSING_SECONDS
        with anyio.move_on_after(limit, shield=not waits), contextlib.suppress(Exception):
            await _discard(out, writing, ledger)
        raise
    await _discard(out, writing, ledger)
    return outcome


def _forwarding(step: Callable[..., Any]) -> Callable[[Sink[RunEvent], Any], Awaitable[Any]]:
    def forward(out: Sink[RunEvent], state: Any) -> Awaitable[Any]:
        given = step(state)
        if inspect.iscoroutine(given):
            given.close()
            raise TypeError(
                f"{step!r} takes the sink first: async def step(out, state); with the state alone it gives a Flow"
            )
        return out.forward(given)

    return forward


def _takes_sink(step: Callable[..., object]) -> bool:
    """Whether it is called with the sink and the state; a parameter with a default is neither."""
    parameters = inspect.signature(step).parameters.values()
    by_position = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    needed = [each for each in parameters if each.default is each.empty and each.kind in by_position]
    return len(needed) > 1


async def _discard(out: Sink[RunEvent], writing: Iterable[str], ledger: Ledger) -> None:
    for call_id in tuple(writing):  # of a model that does not close its calls
        await out.send(ToolInputAbandoned(call_id, "incomplete"))
    for call_id, hook in ledger.items():
        event = ToolInputAbandoned(call_id, "discarded", "the step ended without running this call")
        if hook is not None:
            await hook(event)
        await out.send(event)


@flow
async def stream_until_complete(
    out: Sink[RunEvent], turn: Flow[TurnEvent, Turn], decide: Callable[[Turn], N | Flow[RunEvent, N]]
) -> N:
    """Run the turn to its end, then decide: Next, Stop, or a Flow whose value is one of them."""
    decided = decide(await out.forward(turn))
    return await out.forward(decided) if isinstance(decided, Flow) else decided


def next_state_from(
    execution: Flow[E, tuple[ToolResult, ...]], build: Callable[[tuple[ToolResult, ...]], S]
) -> Flow[E, Next[S]]:
    """Run the calls, then continue with the state that `build` makes of their results."""
    return execution.then(lambda results: Next(build(results)))
