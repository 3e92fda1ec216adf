"""`execute_all`: the calls of a turn, side by side. Validate, authorize, run, reduce; events as they come, results in
call order.

A call needs, in this order: a known tool, valid input, a verdict, its turn among the calls that share its `serial` key,
and one of `max_concurrency` places. It holds nothing while it waits. Whatever goes wrong with one call is its own
`Failure`.
"""

from __future__ import annotations

import contextvars
import copy
import json
import logging
from collections import deque
from collections.abc import Callable, Coroutine, Iterable, Mapping, Sequence
from contextvars import ContextVar
from dataclasses import dataclass
from functools import partial
from time import perf_counter
from typing import Any

import anyio
import anyio.lowlevel

from .approval import Allow, Authorize, Deny, Question, Undecided, Verdict, allow_all
from .calls import run_call
from .errors import InvalidCall
from .flows import Sink, flow
from .groups import LoneErrorGroup, drop_own_cancellation, must_leave, raise_as_it_is
from .items import ToolCall
from .ledger import hide_ledger, strike_out
from .tool_events import ApprovalRequested, Failure, FailureKind, Output, Pending, ToolEvent, ToolResult, ToolStarted
from .toolkit import Toolkit, ValidCall
from .tools import ToolContext

logger = logging.getLogger("streamkit")

_NEVER_CHANGES = {str, int, float, bool, type(None)}

_outer_execution: ContextVar[str] = ContextVar("streamkit_execution", default="")


@flow
async def execute_all(
    out: Sink[ToolEvent],
    toolkit: Toolkit,
    calls: Iterable[ToolCall],
    *,
    authorize: Authorize = allow_all,
    context: Any = None,
    max_concurrency: int = 8,
) -> tuple[ToolResult, ...]:
    """Run the calls; the value is one result for each, in the order of the calls.

    authorize: decides about each valid call before it runs; a call that it leaves undecided is `Pending` and has no
    Output. context: given to every tool that takes a ToolContext; never written down. max_concurrency: how many run at
    once.

    A call id that comes twice runs once: its second place holds the same result, or Failure(duplicate_call) where the
    arguments differ. Cancellation cancels the tools, waits for their cleanup, and leaves as cancellation; a plain
    function is left behind on its thread. Raises only what a consumer downstream raised.
    """
    if max_concurrency < 1:
        raise ValueError(f"max_concurrency must be at least 1, not {max_concurrency}")
    calls = tuple(calls)
    strike_out(call.call_id for call in calls)
    return await _Execution(out, toolkit, authorize, context, max_concurrency).run(calls)


@dataclass(slots=True, eq=False)
class _Place:
    """One call on its way."""

    call: ToolCall
    execution_id: str
    lane: deque[_Place]
    """The calls that run one after another, in call order; most have a lane of their own."""
    valid: ValidCall | None = None  # once it may run
    started: bool = False
    result: ToolResult | None = None


class _Execution:
    def __init__(
        self, out: Sink[ToolEvent], toolkit: Toolkit, authorize: Authorize, context: Any, max_concurrency: int
    ) -> None:
        self._out = out
        self._toolkit = toolkit
        self._authorize = authorize
        self._context = context
        self._free = max_concurrency
        self._ready: deque[_Place] = deque()
        self._lanes: dict[str, deque[_Place]] = {}
        self._caller = contextvars.copy_context()

    async def run(self, calls: Sequence[ToolCall]) -> tuple[ToolResult, ...]:
        places: dict[str, _Place] = {}
        outer = _outer_execution.get()
        async with LoneErrorGroup() as self._tasks:
            for number, call in enumerate(calls):
                if call.call_id not in places:
                    execution_id = f"{outer}{call.turn_id}.{call.place if call.turn_id else number}"
                    place = places[call.call_id] = _Place(call, execution_id, deque())
                    await self._admit(place)
        for place in places.values():
            if place.result is None:  # its task was cancelled by something that is not ours
                await self._end(place, self._failure(place, "cancelled", "was cancelled."), self._out)
        return tuple(_result(call, places[call.call_id]) for call in calls)

    async def _admit(self, place: _Place) -> None:
        """Validate a call, give it its lane, and see to its verdict."""
        call = place.call
        if call.abandoned is not None:
            await self._end(
                place, self._failure(place, "truncated", f"was {call.abandoned}, so it did not run."), self._out
            )
            return
        try:
            valid = self._toolkit.validate(call)
        except InvalidCall as invalid:
            await self._end(place, invalid.failure, self._out)
            return
        if valid.tool.serial is not None:
            place.lane = self._lanes.setdefault(valid.tool.serial, place.lane)
        place.lane.append(place)
        if self._authorize is allow_all:
            self._allow(place, valid)
        else:
            self._spawn(self._ask, place, valid)

    def _spawn(self, function: Callable[..., Coroutine[Any, Any, None]], *args: Any) -> None:
        """A task that sees what the caller set in context variables, and nothing that another task set."""

        def start() -> None:
            self._tasks.start_soon(function, *args)

        self._caller.copy().run(start)

    async def _ask(self, place: _Place, valid: ValidCall) -> None:
        hide_ledger()
        with self._out.branch() as out:
            match await self._verdict(place, valid, out):
                case Undecided():
                    place.result = Pending(place.call.call_id, valid.tool.name)
                case Deny(reason=reason):
                    await self._end(place, self._failure(place, "denied", f"was denied: {reason}"), out)
                case Allow(arguments=None):
                    self._allow(place, valid)
                case Allow(arguments=Mapping() as arguments):
                    try:
                        self._allow(place, self._toolkit.revalidate(valid, arguments))
                    except InvalidCall as invalid:
                        await self._end(place, invalid.failure, out)
        self._advance(place.lane)

    async def _verdict(self, place: _Place, valid: ValidCall, out: Sink[ToolEvent]) -> Verdict:
        announced = False
        downstream: Exception | None = None

        async def announce(card: Any = None) -> None:
            nonlocal announced, downstream
            if announced:
                return
            announced = True
            request = ApprovalRequested(place.execution_id, place.call.call_id, valid.tool.name, valid.arguments, card)
            try:
                await out.send(request)
            except Exception as error:
                downstream = error
                raise

        try:
            verdict = await self._authorize(
                Question(valid, place.execution_id, self._context, announce, partial(self._problem_with, valid))
            )
            await drop_own_cancellation()
            if not isinstance(verdict, Allow | Deny | Undecided):
                raise TypeError(f"authorize gave a {type(verdict).__name__}, not Allow, Deny or Undecided")
            if isinstance(verdict, Allow) and not isinstance(verdict.arguments, Mapping | None):
                raise TypeError(f"authorize allowed a {type(verdict.arguments).__name__} as arguments, not a mapping")
            return verdict
        except BaseException as raised:
            if downstream is not None or must_leave(raised):
                raise_as_it_is(downstream or raised)
            logger.warning("authorize raised for a call of %s", valid.tool.name, exc_info=raised)
            return Deny("it could not be decided whether this call may run")

    def _problem_with(self, valid: ValidCall, arguments: Mapping[str, Any]) -> str | None:
        try:
            self._toolkit.revalidate(valid, arguments)
        except InvalidCall as invalid:
            return invalid.failure.message
        return None

    def _allow(self, place: _Place, valid: ValidCall) -> None:
        place.valid = valid
        self._advance(place.lane)

    def _advance(self, lane: deque[_Place]) -> None:
        """Let the first call of a lane that has no result run, if it may; and start what there are places for."""
        while lane and lane[0].result is not None:
            lane.popleft()
        if lane and lane[0].valid is not None and not lane[0].started:
            lane[0].started = True
            self._ready.append(lane[0])
        while self._ready and self._free:
            self._free -= 1
            self._spawn(self._run, self._ready.popleft())

    async def _run(self, place: _Place) -> None:
        # A call that waited for the end of another must not start because that one was cancelled.
        await anyio.lowlevel.checkpoint_if_cancelled()
        hide_ledger()
        _outer_execution.set(place.execution_id + "/")
        valid = place.valid
        assert valid is not None
        call, tool = place.call, valid.tool
        with self._out.branch() as out:
            await out.send(ToolStarted(place.execution_id, call.call_id, tool.name, valid.arguments))
            began = perf_counter()
            context = ToolContext(place.execution_id, call.call_id, call.turn_id, tool.name, 1, self._context)
            result = await run_call(_with_own_arguments(valid), context, out)
            await self._end(place, result, out, perf_counter() - began)
        self._free += 1
        self._advance(place.lane)

    async def _end(self, place: _Place, result: ToolResult, out: Sink[ToolEvent], seconds: float = 0.0) -> None:
        place.result = result
        await out.send(Output(place.call.call_id, result.tool, result, seconds))

    def _failure(self, place: _Place, kind: FailureKind, what: str) -> Failure:
        name = place.call.name or "unnamed"
        return Failure(place.call.call_id, name, kind, f"The call of {name} {what}")


def _with_own_arguments(valid: ValidCall) -> ValidCall:
    """The call with arguments that the tool may change; those of the event stay what they were."""
    if all(type(value) in _NEVER_CHANGES for value in valid.arguments.values()):
        return valid
    return ValidCall(valid.call, valid.tool, copy.deepcopy(valid.arguments))


def _result(call: ToolCall, place: _Place) -> ToolResult:
    """The result for one place in the list; a second call with the same id shares it, if it asks for the same."""
    assert place.result is not None
    if call is place.call or _same_arguments(call, place.call):
        return place.result
    message = f"Two calls of one turn have the id {call.call_id}, with different arguments; this one did not run."
    return Failure(call.call_id, call.name or "unnamed", "duplicate_call", message)


def _same_arguments(one: ToolCall, other: ToolCall) -> bool:
    if one.name != other.name:
        return False
    try:
        return one.arguments == other.arguments or bool(json.loads(one.arguments) == json.loads(other.arguments))
    except (ValueError, RecursionError):
        return False
