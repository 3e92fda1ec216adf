"""`converse`: the ready-made loop. Ask, run the calls, ask again, until the model answers or a limit is reached."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import msgspec

from .approval import Authorize
from .conversation import Conversation, Ended
from .errors import HistoryError
from .execute import execute_all
from .flows import Flow, Sink
from .history import unanswered
from .inner_runs import inner_runs
from .items import History, Item, Tagged, ToolCall
from .journal.log import RunLog
from .journal.recorded_sink import RecordedSink
from .limits import LimitedSink, Limits, TimedOut
from .loops import Next, Stop, loop
from .metering import Meter
from .providers.model import Model, check_model_given
from .running import Running
from .sinks import TappedSink
from .tool_events import Failure, Output, RunEvent, ToolEvent, ToolResult, ToolStarted
from .toolkit import Toolkit, check_toolkit_given
from .transcript import Transcript
from .turns import ToolInputAbandoned, Turn, TurnEnded, TurnEvent, TurnRequest


def converse(
    model: Model,
    toolkit: Toolkit,
    history: Iterable[Item] | Conversation,
    *,
    request: TurnRequest | None = None,
    instructions: str | None = None,
    max_turns: int = 16,
    max_calls: int | None = None,
    max_tokens: int | None = None,
    closing_turn: bool = True,
    max_repairs: int = 2,
    timeout_seconds: float | None = None,
    idle_timeout_seconds: float | None = None,
    authorize: Authorize | None = None,
    context: Any = None,
    max_concurrency: int = 8,
    journal: RunLog | None = None,
    running: Running | None = None,
) -> Flow[RunEvent, Conversation]:
    """The ready-made loop: ask, run the calls, ask again, until the model answers.

    history: items, or a Conversation that goes on. Calls that wait in it, for a verdict or since a process died, are
    run first, without asking the model; those that are still undecided end the run with `ended` "pending". One that has
    `ended` otherwise is the value as it is: `conversation.say(…)` lets it go on.
    instructions: what the model is told before all. request: what else it is asked (limits, tool choice, effort); its
    history and tools are replaced.

    max_turns, max_calls, max_tokens: what a run may use, inner runs counted in tokens. One that goes on from a stored
    state, or after a crash, has used what it had used before; `say` begins anew. When one of them is used up the model
    is asked for the last time, with `tool_choice="none"`, and `ended` is "turn_limit" (turns) or "budget". (The tools
    stay in the request: some providers refuse a history with calls of tools that are not declared.) Calls that it
    writes all the same are discarded, calls beyond max_calls answered as not run: the history is whole and may go on.
    closing_turn: False asks the last turn as usual, and answers its calls as not run.
    max_repairs: how many turns the model has to mend its calls of one tool: after one more turn in a row in which all
    of them were `invalid_input`, `ended` is "repair_limit"; the last Output of the tool says what was wrong.
    timeout_seconds, idle_timeout_seconds: for the whole run, and until its next event; a slow consumer does not count,
    a person who decides does. What runs then is cancelled, and `ended` is "budget".
    authorize, context, max_concurrency, journal, running: as in `execute_all`. With a journal the events and states
    are written down, too: `converse(model, toolkit, run.conversation or (user("…"),), journal=run)` begins a run, and
    goes on with it after a crash.
    """
    check_model_given(model)
    check_toolkit_given(toolkit)
    for name, least in (("max_turns", max_turns), ("max_concurrency", max_concurrency)):
        if not isinstance(least, int) or least < 1:
            raise ValueError(f"{name} must be at least 1, not {least!r}")
    for name, limit in (("max_repairs", max_repairs), ("max_calls", max_calls), ("max_tokens", max_tokens)):
        if limit is not None and limit < 0:
            raise ValueError(f"{name} must not be negative, and is {limit}")
    for name, seconds in (("timeout_seconds", timeout_seconds), ("idle_timeout_seconds", idle_timeout_seconds)):
        if seconds is not None and not seconds > 0:
            raise ValueError(f"{name} must be more than 0, and is {seconds}")
    start = history if isinstance(history, Conversation) else Conversation(_items(history))
    budget = _Budget(max_turns, max_calls, max_tokens, max_repairs)

    def execute(calls: Iterable[ToolCall]) -> Flow[ToolEvent, tuple[ToolResult, ...]]:
        return execute_all(
            toolkit,
            calls,
            authorize=authorize,
            context=context,
            max_concurrency=max_concurrency,
            journal=journal,
            running=running,
        )

    def ask(state: Conversation, *, may_call: bool) -> Flow[TurnEvent, Turn]:
        asked = msgspec.structs.replace(request or TurnRequest(()), history=state.history, tools=toolkit.specs)
        if instructions is not None:
            asked = msgspec.structs.replace(asked, instructions=instructions)
        return toolkit.listen(
            model.stream_turn(asked if may_call else msgspec.structs.replace(asked, tool_choice="none"))
        )

    async def run(out: Sink[RunEvent], begin: Conversation) -> Conversation:
        if begin.ended is not None and begin.turn is None:
            return begin
        closes = closing_turn and bool(toolkit.specs)
        steps = _Steps(ask, execute, budget, closes, journal)
        looping = loop(steps.step, begin, journal=journal)
        if timeout_seconds is None and idle_timeout_seconds is None:
            return await out.forward(looping)
        limits = Limits(timeout_seconds, idle_timeout_seconds)
        return await _within(limits, looping, out, start=begin, toolkit=toolkit, journal=journal)

    async def run_inside(out: Sink[RunEvent]) -> Conversation:
        around = inner_runs()
        if around is None or journal is not None:
            return await run(out, start)
        asked = model.name, instructions, toolkit.names
        course = around.begin(start, asked)  # the loop finds it by its state
        course.state = state = await run(out, course.state)
        return state

    return Flow(run_inside)


class _Steps(msgspec.Struct, frozen=True):
    """The step of the loop, and what it needs."""

    ask: Callable[..., Flow[TurnEvent, Turn]]
    execute: Callable[[Iterable[ToolCall]], Flow[ToolEvent, tuple[ToolResult, ...]]]
    budget: _Budget
    closing_turn: bool
    journal: RunLog | None

    async def step(self, out: Sink[RunEvent], state: Conversation) -> Next[Conversation] | Stop[Conversation]:
        if state.turn is not None:  # calls of it wait
            return Next(state.settle(await out.forward(self.execute(state.waiting.values()))))
        if self.budget.has_no_repairs_left(state):
            return Stop(msgspec.structs.replace(state, ended="repair_limit"))
        last = self.budget.used_up(state)
        closing = last is not None and self.closing_turn
        turn = await out.forward(self.ask(state, may_call=not closing))
        if last is not None and (closing or turn.wants_more):
            settled = state.add(turn, [_not_run(call) for call in turn.calls])
            return Stop(msgspec.structs.replace(settled, ended=last))
        if not turn.wants_more:
            return Stop(state.add(turn))
        may_run, others = self.budget.share(state, turn.calls)
        not_run = [_not_run(call) for call in others]
        if self.journal is not None:
            await self.journal.take(turn, not_run)
        results = await out.forward(self.execute(may_run))
        return Next(state.add(turn, [*results, *not_run]))


def _items(history: object) -> History:
    if not isinstance(history, Iterable) or isinstance(history, str):
        raise TypeError(f"history is a sequence of items, such as (user('…'),), not {type(history).__name__}")
    items = tuple(history)
    if strange := [type(item).__name__ for item in items if not isinstance(item, Tagged)]:
        raise TypeError(f"history is a sequence of items, such as (user('…'),), and not of {strange[0]}")
    if not items:
        raise TypeError("history is a sequence of items, and begins with what the person says: (user('…'),)")
    if left := unanswered(items):
        raise HistoryError(f"call {left[0].call_id} has no result: cancel_pending(history, 'why') answers such calls")
    return items


def _not_run(call: ToolCall) -> Failure:
    return Failure(call.call_id, call.name or "unnamed", "cancelled", "This call did not run: the limit was reached.")


async def _within(
    limits: Limits,
    run: Flow[RunEvent, Conversation],
    out: Sink[RunEvent],
    *,
    start: Conversation,
    toolkit: Toolkit,
    journal: RunLog | None,
) -> Conversation:
    """The run, cut off by its limits: then the history has all that was whole by then, and no call stays open."""
    transcript = Transcript(start)
    open_calls = {call.call_id: call for call in start.waiting.values()}
    left_behind: set[str] = set()
    turns = 0

    def note(event: RunEvent) -> None:
        nonlocal turns
        match event:
            case TurnEnded(turn=turn):
                turns += 1
                open_calls.update((call.call_id, call) for call in turn.calls)
            case ToolStarted(call_id=call_id, tool=tool) if tool in toolkit and toolkit[tool].in_thread:
                left_behind.add(call_id)
            case Output(call_id=call_id) | ToolInputAbandoned(call_id=call_id):
                open_calls.pop(call_id, None)
                left_behind.discard(call_id)
        transcript.feed(event)

    with Meter() as meter:
        try:
            return await limits.run(LimitedSink(TappedSink(out, note), limits).forward(run))
        except TimedOut as timed_out:
            reason = f"This call was cancelled: the run {timed_out}."
            to = out if journal is None else RecordedSink(out, journal)
            for call in open_calls.values():
                still = " It may still be running." if call.call_id in left_behind else ""
                failure = Failure(call.call_id, call.name or "unnamed", "cancelled", reason + still)
                output = Output(call.call_id, failure.tool, failure, 0.0)
                transcript.feed(output)
                await to.send(output)
            history = transcript.history(reason)
            state = Conversation(history, None, (), start.turns + turns, start.usage + meter.total, "budget")
            if journal is not None:
                await journal.save(state)
            return state


class _Budget(msgspec.Struct, frozen=True):
    """What a run may use. A state tells what it has used, also before it went on with it."""

    max_turns: int
    max_calls: int | None
    max_tokens: int | None
    max_repairs: int

    def has_no_repairs_left(self, state: Conversation) -> bool:
        return any(turns > self.max_repairs for turns in state.used.invalid.values())

    def used_up(self, state: Conversation) -> Ended | None:
        """Why the next turn has to be the last."""
        used = state.used
        if used.turns + 1 >= self.max_turns:
            return "turn_limit"
        if self.max_calls is not None and used.calls >= self.max_calls:
            return "budget"
        return "budget" if self.max_tokens is not None and used.tokens >= self.max_tokens else None

    def share(
        self, state: Conversation, calls: tuple[ToolCall, ...]
    ) -> tuple[tuple[ToolCall, ...], tuple[ToolCall, ...]]:
        """The calls that may run, and those for which nothing is left."""
        left = len(calls) if self.max_calls is None else self.max_calls - state.used.calls
        return calls[:left], calls[left:]
