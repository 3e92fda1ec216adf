"""The loop: one state threaded through steps until one says stop.

A step is the user's own, mostly a model turn and the calls that it asks for; `converse` is the ready-made one.
"""

from __future__ import annotations

import contextlib
import inspect
import math
from collections.abc import Awaitable, Callable, Iterable
from typing import Any, Generic, TypeVar

import anyio
import anyio.lowlevel
import msgspec

from .approval import Authorize, allow_all
from .errors import HistoryError
from .execute import execute_all
from .flows import Flow, Sink, flow
from .history import Conversation
from .items import History, Item, Tagged, ToolCall
from .ledger import Ledger, new_ledger
from .providers.model import Model
from .sinks import MappedSink
from .tool_events import Failure, RunEvent, ToolResult
from .toolkit import Toolkit
from .turns import ToolInputAbandoned, ToolInputAvailable, ToolInputStart, Turn, TurnEvent, TurnRequest

E = TypeVar("E")
S = TypeVar("S")
N = TypeVar("N")

CLOSING_SECONDS = 0.5
"""How long the consumer may take over the calls that are abandoned while an error or a cancellation is on its way."""


class Next(msgspec.Struct, Generic[S], frozen=True):
    """The loop goes on with this state."""

    state: S


class Stop(msgspec.Struct, Generic[S], frozen=True):
    """The loop ends; the state is its value."""

    state: S


Step = Callable[[Sink[Any], S], Awaitable[Next[S] | Stop[S]]] | Callable[[S], Flow[Any, Next[S] | Stop[S]]]
"""`async (out, state) -> Next | Stop`, or a function of the state that gives a Flow with that value."""


@flow
async def loop(out: Sink[RunEvent], step: Step[S], state: S) -> S:
    """Run steps until one gives Stop; the value is its state. A Conversation that has `ended` stops the loop, too.

    A call that became available in a step, and that the step neither executed nor left pending, is abandoned as
    discarded when the step ends. Anything but Next or Stop is a TypeError.
    """
    takes_sink = _takes_sink(step)
    while True:
        with new_ledger() as ledger:
            outcome = await _run_step(out, step if takes_sink else _forwarding(step), state, ledger)
        match outcome:
            case Stop(state=state):
                return state
            case Next(state=state):
                if isinstance(state, Conversation) and state.ended is not None:
                    return state
            case _:
                raise TypeError(f"a step returns Next(state) or Stop(state), not {type(outcome).__name__}")
        await anyio.lowlevel.checkpoint()


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
        outcome = await step(noting, state)
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
    return lambda out, state: out.forward(step(state))


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
    """Run the turn to its end, then decide: Next, Stop, or a Flow that gives one of them."""
    decided = decide(await out.forward(turn))
    return await out.forward(decided) if isinstance(decided, Flow) else decided


def next_state_from(
    execution: Flow[E, tuple[ToolResult, ...]], build: Callable[[tuple[ToolResult, ...]], S]
) -> Flow[E, Next[S]]:
    """Run the calls, then go on with the state that is built from their results."""
    return execution.then(lambda results: Next(build(results)))


def converse(
    model: Model,
    toolkit: Toolkit,
    history: Iterable[Item] | Conversation,
    *,
    request: TurnRequest | None = None,
    max_turns: int = 16,
    max_repairs: int = 2,
    authorize: Authorize = allow_all,
    context: Any = None,
    max_concurrency: int = 8,
) -> Flow[RunEvent, Conversation]:
    """The ready-made loop: ask, run the calls, ask again, until the model answers.

    request: what else the model is asked (instructions, limits, tool choice); its history and tools are replaced.
    max_turns: of this run. The calls of the last one are not run, but answered as not run, and `ended` is "turn_limit":
    the history is whole and may go on. max_repairs: how many turns the model has to mend its calls of one tool: after
    one more turn in a row in which all of them were `invalid_input`, `ended` is "repair_limit"; the last Output of the
    tool says what was wrong. authorize, context, max_concurrency: as in `execute_all`.
    Raises HistoryError for a Conversation whose last turn has pending calls.
    """
    asked = request or TurnRequest(())
    start = history if isinstance(history, Conversation) else Conversation(_items(history))
    if max_turns < 1:
        raise ValueError(f"max_turns must be at least 1, not {max_turns}")
    if max_repairs < 0:
        raise ValueError(f"max_repairs must not be negative, and is {max_repairs}")
    if start.turn is not None:
        raise HistoryError(f"turn {start.turn.turn_id} has pending calls: settle it before the model is asked again")

    async def run(out: Sink[RunEvent]) -> Conversation:
        repairs = _Repairs(max_repairs)

        async def step(out: Sink[RunEvent], state: Conversation) -> Next[Conversation] | Stop[Conversation]:
            ask = msgspec.structs.replace(asked, history=state.history, tools=toolkit.specs)
            turn = await out.forward(toolkit.listen(model.stream_turn(ask)))
            if not turn.wants_more:
                return Stop(state.add(turn))
            if state.turns + 1 >= start.turns + max_turns:
                settled = state.add(turn, [_not_run(call) for call in turn.calls])
                return Stop(msgspec.structs.replace(settled, ended="turn_limit"))
            execution = execute_all(
                toolkit, turn.calls, authorize=authorize, context=context, max_concurrency=max_concurrency
            )
            results = await out.forward(execution)
            state = state.add(turn, results)
            if repairs.are_used_up(results) and state.ended is None:
                return Stop(msgspec.structs.replace(state, ended="repair_limit"))
            return Next(state)

        return await out.forward(loop(step, start))

    return Flow(run)


def _items(history: Iterable[Item]) -> History:
    items = tuple(history) if isinstance(history, Iterable) else ()
    if not items or not all(isinstance(item, Tagged) for item in items):
        raise TypeError(f"history is a sequence of items, such as (user('…'),), not {type(history).__name__}")
    return items


def _not_run(call: ToolCall) -> Failure:
    return Failure(call.call_id, call.name, "cancelled", "This call did not run: the limit of turns was reached.")


class _Repairs:
    """Counts for each tool the turns in a row in which the model got none of its calls right.

    Turns and not calls: of several calls side by side none could be mended yet.
    """

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._turns: dict[str, int] = {}

    def are_used_up(self, results: Iterable[ToolResult]) -> bool:
        """Take note of the results of a turn; whether it was one too many for one of the tools."""
        invalid: dict[str, bool] = {}
        for result in results:
            is_invalid = isinstance(result, Failure) and result.kind == "invalid_input"
            invalid[result.tool] = is_invalid and invalid.get(result.tool, True)
        for tool, is_invalid in invalid.items():
            self._turns[tool] = self._turns.get(tool, 0) + 1 if is_invalid else 0
        return any(turns > self._limit for turns in self._turns.values())
