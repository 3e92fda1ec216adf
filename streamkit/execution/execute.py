"""`execute_all`: the calls of a turn, side by side. Validate, authorize, run, reduce; events as they come, results in
call order.

A call needs, in this order: a known tool, valid input, a verdict, its turn among the calls that share its `serial` key,
and one of `max_concurrency` places. It holds nothing while it waits. Whatever goes wrong with one call is its own
`Failure`.
"""

from __future__ import annotations

import contextvars
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Sequence
from contextvars import ContextVar
from functools import partial
from time import perf_counter
from typing import Any, TypeVar

import anyio
import anyio.lowlevel
from msgspec import UNSET

from ..conversation import Paused
from ..errors import InvalidCall, JournalError
from ..flows.flow import Sink, flow
from ..flows.groups import LoneErrorGroup, raise_if_all_are
from ..items import ToolCall
from ..journal.entry import CallFinished
from ..journal.log import RunLog, check_driven
from ..ledger import hide_ledger, strike_out
from ..tool_events import Failure, FailureKind, Output, Pending, ToolEvent, ToolResult, ToolStarted, Value
from ..tools.tool import ToolContext
from ..tools.toolkit import Toolkit, ValidCall, check_toolkit_given
from ..tools.values import model_text
from .approval import Allow, Authorize, Deny, allow_all, check_authorize_given
from .asking import Asking
from .calls import given_value, run_call
from .inner_runs import InnerRuns, inner_runs, paused_call, tell_what_waits, use_inner_runs
from .large_results import READER, cut_to
from .places import Lanes, Place
from .running import Running, check_running_given
from .verdicts import from_verdicts
from .written_calls import WrittenCalls

R = TypeVar("R")

_CUT_OFF: tuple[FailureKind, ...] = ("cancelled", "timeout", "idle_timeout")

_outer_execution: ContextVar[str] = ContextVar("streamkit_execution", default="")


@flow
async def execute_all(
    out: Sink[ToolEvent],
    toolkit: Toolkit,
    calls: Iterable[ToolCall],
    *,
    authorize: Authorize | None = None,
    context: Any = None,
    max_concurrency: int = 8,
    journal: RunLog | None = None,
    running: Running | None = None,
) -> tuple[ToolResult, ...]:
    """Run the calls; the value is one result for each, in the order of the calls.

    authorize: decides about each valid call before it runs; a call that it leaves undecided is `Pending` and has no
    Output. None, inside another call and in its event loop, means whoever decides about that call; elsewhere it leaves
    calls of tools with `approval=True` pending, and allows all others. context: passed to every tool that takes a
    ToolContext; never written down. max_concurrency: how many calls run at once. running: shows what is running, and
    cancels single calls.

    If a call inside a sub-agent waits, the call around it is Pending, too, whatever its tool returns. In a step of
    `loop` with a Conversation, that call continues when it comes again: its tool runs from its beginning, as the next
    attempt and whatever its `effects`, and finds its inner runs (`converse`, `loop` with a Conversation) where they
    stood. They are recognised by the histories they start with. A tool that starts its first inner run with another
    history fails, because nothing would tell which verdict belongs to which call.

    journal: a run that is written down. Each call is written as started before its tool runs, and as finished before
    its Output is sent. A call that has finished there is answered with its result, and does not run again. One that had
    only started runs again, as the next attempt, if its tool has `effects` of "none" or "idempotent"; otherwise it is
    answered with Failure(interrupted).

    A call id that comes twice runs once: the second place holds the same result, or Failure(duplicate_call) if the
    arguments differ. Cancellation cancels the tools, waits for their cleanup, and leaves as cancellation; a plain
    function is left behind on its thread. Raises what a consumer downstream raised; JournalError if the journal fails,
    and JournalMismatch for a call that is written down with another tool or other arguments.
    """
    check_toolkit_given(toolkit)
    if max_concurrency < 1:
        raise ValueError(f"max_concurrency must be at least 1, not {max_concurrency}")
    check_authorize_given(authorize)
    check_driven(journal)
    check_running_given(running)
    calls = tuple(calls)
    if strange := [type(call).__name__ for call in calls if not isinstance(call, ToolCall)]:
        raise TypeError(f"calls are those of a turn, such as turn.calls, and not of {strange[0]}")
    if journal is not None and not _outer_execution.get():
        journal.check_taken(calls)
    strike_out(call.call_id for call in calls)
    asks_with, inside = context, inner_runs()
    if authorize is None and inside is not None:
        authorize, asks_with = inside.decides
    if authorize is None and any(tool.approval for tool in toolkit):
        authorize = from_verdicts({})
    decides = None if authorize is None or authorize is allow_all else authorize
    asking = Asking(toolkit, decides, asks_with, journal) if decides is not None else None
    execution = _Execution(
        out,
        toolkit,
        asking=asking,
        decides=(authorize, asks_with),
        context=context,
        max_concurrency=max_concurrency,
        journal=journal,
        running=running,
    )
    return await execution.run(calls)


class _Execution:
    def __init__(
        self,
        out: Sink[ToolEvent],
        toolkit: Toolkit,
        *,
        asking: Asking | None,
        decides: tuple[Authorize | None, Any],
        context: Any,
        max_concurrency: int,
        journal: RunLog | None,
        running: Running | None,
    ) -> None:
        self._out = out
        self._toolkit = toolkit
        self._asking = asking
        self._decides = decides
        self._context = context
        self._lanes = Lanes(max_concurrency)
        self._written = WrittenCalls(journal)
        self._keeps_results = journal is not None or running is not None
        self._running = running
        self._caller = contextvars.copy_context()

    async def run(self, calls: Sequence[ToolCall]) -> tuple[ToolResult, ...]:
        places: dict[str, Place] = {}
        outer = _outer_execution.get()
        try:
            async with LoneErrorGroup() as self._tasks:
                for number, call in enumerate(calls):
                    if call.call_id not in places:
                        execution_id = f"{outer}{call.turn_id}.{call.place if call.turn_id else number}"
                        place = places[call.call_id] = Place(call, execution_id, paused=paused_call(call))
                        if self._running is not None:
                            self._running.enter(execution_id, call, partial(self._cancel, place))
                        await self._admit(place)
            for place in places.values():
                if place.result is None:  # its task was cancelled by something that is not ours
                    await self._end(place, place.failure("cancelled", "was cancelled."), self._out)
        except BaseExceptionGroup as group:
            raise_if_all_are(JournalError, group)  # where the store fails, it fails all calls that run
            raise
        finally:
            if self._running is not None:
                for place in places.values():
                    self._running.leave(place.execution_id, place.result)
        for place in places.values():
            tell_what_waits(place.execution_id, place.call, place.result)
        return tuple(places[call.call_id].result_for(call) for call in calls)

    async def _admit(self, place: Place) -> None:
        """Validate a call, give it its lane, and see to its verdict."""
        call, out = place.call, self._out
        if await self._is_recalled(place):
            return
        if call.abandoned is not None:
            await self._end(place, place.failure("truncated", f"was {call.abandoned}, so it did not run."), out)
            return
        try:
            valid = self._toolkit.validate(call)
        except InvalidCall as invalid:
            await self._end(place, invalid.failure, out)
            return
        self._lanes.enter(place, valid.tool.serial)
        if place.paused is not None:  # it was allowed to run
            place.allowed = place.paused.arguments
            place.attempt = max(place.attempt, place.paused.attempt + 1)
            place.may_have_happened = True
            await self._let_run(place, valid, out)
        elif self._asking is not None:
            self._spawn(self._ask, place, valid, self._asking)
        elif not valid.tool.has_body:
            self._leave_pending(place)
        else:
            self._allow(place, valid)

    def _spawn(self, function: Callable[..., Coroutine[Any, Any, None]], *args: Any) -> None:
        """A task that sees what the caller set in context variables, and nothing that another task set."""

        def start() -> None:
            self._tasks.start_soon(function, *args)

        self._caller.copy().run(start)

    # What is known of it, and what is decided

    async def _is_recalled(self, place: Place) -> bool:
        """Whether the call is answered with what is written down of it."""
        match await self._written.recall(place):
            case None:
                return False
            case Failure() as failure:
                await self._end(place, failure, self._out)
            case CallFinished(result=result, seconds=seconds):
                call_id, started = place.call.call_id, self._written.started(place)
                if started is not None:
                    await self._out.send(
                        ToolStarted(place.execution_id, call_id, place.call.name, started.arguments, started.attempt)
                    )
                place.result = result
                await self._out.send(Output(call_id, result.tool, result, seconds))
        return True

    async def _ask(self, place: Place, valid: ValidCall, asking: Asking) -> None:
        hide_ledger()
        use_inner_runs(None)
        with self._out.branch() as out:
            ask = partial(asking.verdict, is_cancelled=lambda: place.cancelled is not None)
            verdict = await self._unless_cancelled(place, partial(ask, valid, place.execution_id, out))
            match verdict:
                case None:
                    await self._end(place, place.as_cancelled(), out)
                case Deny(reason=reason):
                    await self._end(place, place.failure("denied", f"was denied: {reason}"), out)
                case Allow(value=value) if value is not UNSET:
                    arguments = valid.plain_arguments
                    await out.send(ToolStarted(place.execution_id, place.call.call_id, valid.name, arguments))
                    await self._end(place, given_value(valid, value), out)
                case Allow(arguments=arguments) if valid.tool.has_body:
                    place.allowed = arguments
                    await self._let_run(place, valid, out)
                case _:
                    self._leave_pending(place)
        self._advance(place)

    async def _let_run(self, place: Place, valid: ValidCall, out: Sink[ToolEvent]) -> None:
        """With other arguments, where somebody has allowed those."""
        try:
            if place.allowed is not None:
                valid = self._toolkit.revalidate(valid, place.allowed)
                place.allowed = valid.plain_arguments
            self._allow(place, valid)
        except InvalidCall as invalid:
            await self._end(place, invalid.failure, out)

    def _leave_pending(self, place: Place, result: Pending | None = None) -> None:
        place.result = result or Pending(place.call.call_id, place.call.name)
        if self._running is not None:
            self._running.leave(place.execution_id, place.result)

    def _allow(self, place: Place, valid: ValidCall) -> None:
        place.valid = valid
        self._advance(place)

    def _advance(self, place: Place) -> None:
        """Start what may run, now that something has changed in the lane of this call."""
        for ready in self._lanes.advance(place.lane):
            self._spawn(self._run, ready)

    # Running it

    async def _run(self, place: Place) -> None:
        # A call that waited for the end of another must not start because that one was cancelled.
        await anyio.lowlevel.checkpoint_if_cancelled()
        hide_ledger()
        _outer_execution.set(place.execution_id + "/")
        use_inner_runs(inner := InnerRuns(place.paused, *self._decides))
        assert place.valid is not None
        with self._out.branch() as out:
            began = perf_counter()
            result = await self._unless_cancelled(place, partial(self._run_tool, place, place.valid, out))
            if result is None:
                result = place.as_cancelled()
            if inner.waits and (isinstance(result, Value) or result.kind not in _CUT_OFF):
                await self._pause(place, Paused(inner.waits, inner.runs, place.attempt, place.allowed, result.usage))
            else:
                await self._end(place, result, out, perf_counter() - began)
        self._lanes.release()
        self._advance(place)

    async def _run_tool(self, place: Place, valid: ValidCall, out: Sink[ToolEvent]) -> Value | Failure:
        call, tool, arguments = place.call, valid.tool, valid.plain_arguments
        await self._written.start(place, arguments, tool.effects)
        await out.send(ToolStarted(place.execution_id, call.call_id, tool.name, arguments, place.attempt))
        context = ToolContext(place.execution_id, call.call_id, call.turn_id, tool.name, place.attempt, self._context)
        result = await run_call(valid.with_own_arguments(), context, out)
        can_read_on = self._keeps_results and READER in self._toolkit
        return cut_to(tool.result_limit_bytes, result, place.execution_id, can_read_on=can_read_on)

    async def _pause(self, place: Place, paused: Paused) -> None:
        """Whatever the tool made of inner runs that wait is not what it gives when they have ended."""
        await self._written.pause(place, paused)
        self._leave_pending(place, paused.result(place.call))

    async def _end(self, place: Place, result: Value | Failure, out: Sink[ToolEvent], seconds: float = 0.0) -> None:
        result = await self._keep(place, result, seconds)
        await out.send(Output(place.call.call_id, result.tool, result, seconds))

    async def _keep(self, place: Place, result: Value | Failure, seconds: float = 0.0) -> Value | Failure:
        """The call has its result, whether or not anybody is there to hear of it; what the result is."""
        if place.may_have_happened and not place.started and isinstance(result, Failure):
            result = place.interrupted(f". It did not run again: {result.message}")
        if isinstance(result, Failure) and (text := model_text(result.message)) != result.message:
            result = result.saying(text)
        place.result = result
        await self._written.finish(place, result, seconds)
        if self._running is not None:
            self._running.leave(place.execution_id, result)
        return result

    # Cancelling it

    async def _unless_cancelled(self, place: Place, work: Callable[[], Awaitable[R]]) -> R | None:
        """The value of the work; None where somebody has cancelled the call, and no value came all the same."""
        if self._running is None:
            return await work()
        try:
            with anyio.CancelScope() as place.scope:
                if place.cancelled is None:
                    return await work()
        except anyio.get_cancelled_exc_class():
            if place.cancelled is not None:  # and then everything was: a run that goes on must know of the call
                await self._keep(place, place.as_cancelled())
            raise
        return None

    def _cancel(self, place: Place, reason: str) -> None:
        if place.cancelled is not None:
            return
        place.cancelled = reason
        if place.scope is not None:
            place.scope.cancel()
        elif place.waits_for_its_turn:
            self._spawn(self._drop, place)

    async def _drop(self, place: Place) -> None:
        with self._out.branch() as out:
            await self._end(place, place.as_cancelled(), out)
        self._advance(place)
