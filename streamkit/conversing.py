"""`converse`: the ready-made loop. Ask, run the calls, ask again, until the model answers or a limit is reached."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from typing import Any

import msgspec

from .budgets import Budget
from .conversation import Conversation
from .errors import HistoryError
from .execution.approval import Authorize, check_authorize_given
from .execution.execute import execute_all
from .execution.inner_runs import inner_runs
from .execution.limits import Limits
from .execution.running import Running, check_running_given
from .flows.flow import Flow, Sink
from .history import unanswered
from .items import History, Item, Tagged, ToolCall
from .journal.log import RunLog
from .loops import Next, Stop, loop
from .providers.model import Model, check_model_given, check_request_given
from .timed_runs import check_times, run_within
from .tool_events import Failure, RunEvent, ToolEvent, ToolResult
from .tools.toolkit import Toolkit, check_toolkit_given
from .turns import Turn, TurnEvent, TurnRequest


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

    history: items, or a Conversation to continue. If calls wait in it, for a verdict or because a process died, they
    run first, without asking the model; if some are still undecided, the run ends with `ended` "pending". A
    Conversation that has `ended` in any other way is returned unchanged: call `conversation.say(…)` to continue it.
    instructions: the system prompt. request: everything else about a request (limits, tool choice, effort); its history
    and tools are replaced.

    max_turns, max_calls, max_tokens: what a run may use; tokens include those of inner runs. A run that continues from
    a stored state, or after a crash, counts what it used before; `say` starts at zero. When one of them is used up, the
    model is asked a last time, with `tool_choice="none"`, and `ended` is "turn_limit" (turns) or "budget". (The tools
    stay in the request: some providers refuse a history with calls of undeclared tools.) Calls that the model writes
    anyway are discarded, and calls beyond max_calls are answered as not run, so the history stays whole and may go on.
    closing_turn: False asks for the last turn as usual, and answers its calls as not run.
    max_repairs: how many turns in a row the model may get all its calls of one tool wrong (`invalid_input`) and still
    try again. One more, and `ended` is "repair_limit"; the last Output of the tool says what was wrong.
    timeout_seconds, idle_timeout_seconds: limits for the whole run, and until its next event. Time spent waiting for a
    slow consumer does not count; time spent waiting for a person's decision does. At the limit, whatever is running is
    cancelled, and `ended` is "budget".
    authorize, context, max_concurrency, journal, running: as in `execute_all`. With a journal, events and states are
    written down, too: `converse(model, toolkit, run.conversation or (user("…"),), journal=run)` starts a run, and
    continues it after a crash.
    """
    check_model_given(model)
    check_toolkit_given(toolkit)
    request = TurnRequest(()) if request is None else request
    check_request_given(request)
    if not isinstance(max_concurrency, int) or max_concurrency < 1:
        raise ValueError(f"max_concurrency must be at least 1, not {max_concurrency!r}")
    check_authorize_given(authorize)
    check_running_given(running)
    budget = Budget(max_turns, max_calls, max_tokens, max_repairs)
    check_times(timeout_seconds, idle_timeout_seconds)
    start = history if isinstance(history, Conversation) else Conversation(_items(history))
    execute = partial(
        execute_all,
        toolkit,
        authorize=authorize,
        context=context,
        max_concurrency=max_concurrency,
        journal=journal,
        running=running,
    )
    closes = closing_turn and bool(toolkit.specs)
    steps = _Steps(model, toolkit, request, instructions, execute, budget, closes, journal)

    async def run(out: Sink[RunEvent], begin: Conversation) -> Conversation:
        if begin.ended is not None and begin.turn is None:
            return begin
        looping = loop(steps.step, begin, journal=journal)
        if timeout_seconds is None and idle_timeout_seconds is None:
            return await out.forward(looping)
        limits = Limits(timeout_seconds, idle_timeout_seconds)
        return await run_within(limits, looping, out, start=begin, toolkit=toolkit, journal=journal)

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

    model: Model
    toolkit: Toolkit
    request: TurnRequest
    instructions: str | None
    execute: Callable[[Iterable[ToolCall]], Flow[ToolEvent, tuple[ToolResult, ...]]]
    budget: Budget
    closing_turn: bool
    journal: RunLog | None

    async def step(self, out: Sink[RunEvent], state: Conversation) -> Next[Conversation] | Stop[Conversation]:
        if state.turn is not None:  # calls of it wait
            return Next(state.settle(await out.forward(self.execute(state.waiting.values()))))
        if self.budget.has_no_repairs_left(state):
            return Stop(msgspec.structs.replace(state, ended="repair_limit"))
        last = self.budget.used_up(state)
        closing = last is not None and self.closing_turn
        turn = await out.forward(self._ask(state, may_call=not closing))
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

    def _ask(self, state: Conversation, *, may_call: bool) -> Flow[TurnEvent, Turn]:
        asked = msgspec.structs.replace(self.request, history=state.history, tools=self.toolkit.specs)
        if self.instructions is not None:
            asked = msgspec.structs.replace(asked, instructions=self.instructions)
        if not may_call:
            asked = msgspec.structs.replace(asked, tool_choice="none")
        return self.toolkit.listen(self.model.stream_turn(asked))


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
