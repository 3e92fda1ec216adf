"""Running one valid call: start the tool, show its events, reduce them, make the result that the model sees.

Whatever a tool does comes out as a `Value` or a `Failure`. Only two things leave as exceptions: cancellation from
outside, and an error from downstream, out of the place where an event was sent to: that is no fault of the tool.
"""

from __future__ import annotations

import logging
import math
from collections.abc import AsyncIterator, Awaitable, Callable, Generator
from functools import partial
from typing import Any, NoReturn, TypeVar, get_args

import anyio
import anyio.lowlevel
import msgspec

from .channel import refuse
from .errors import ReducerError, StreamkitError, ToolError
from .flows import Flow, Sink
from .groups import raise_as_it_is, without_cancellations
from .metering import Meter
from .reducers import Reducer
from .threads import iterate_in_thread, run_in_thread
from .tool_events import Failure, FailureKind, Intermediate, RunEvent, ToolEvent, Value
from .toolkit import ValidCall
from .tools import StreamingTool, Tool, ToolContext, use_sink

R = TypeVar("R")

logger = logging.getLogger("streamkit")

_RUN_EVENTS = frozenset(get_args(RunEvent))


async def run_call(call: ValidCall, context: ToolContext[Any], out: Sink[ToolEvent]) -> Value | Failure:
    """Run a call to its end and give its result. out: gets an Intermediate for each event of the tool, nothing else.

    Raises what a send downstream raised, and the cancellation that comes from outside.
    """
    tool, call_id = call.tool, call.call.call_id
    limits = None if tool.timeout_seconds is None and tool.idle_timeout_seconds is None else Limits(tool)
    course = _Course(call_id, tool, limits)
    sink = ToolSink(out, course)
    result: Value | Failure
    use_sink(sink)
    with Meter() as meter:
        try:
            work = _run_tool(tool, context, sink, call.arguments)
            value = await (work if limits is None else limits.run(work))
            result = Value(call_id, tool.name, value, model_text(value), meter.total)
        except BaseException as raised:
            if course.downstream is None:
                kind, message = _explain(course.reducer_failed or raised, tool)
                result = Failure(call_id, tool.name, kind, message, usage=meter.total).caused_by(raised)
        finally:
            course.ended = True
    if course.downstream is not None:  # also where the tool swallowed it
        raise_as_it_is(course.downstream)
    return result


async def _run_tool(tool: Tool[..., Any], context: ToolContext[Any], sink: ToolSink, arguments: dict[str, Any]) -> Any:
    """What the tool returned, or what its reducer made of its events. What came back decides how it is run."""
    sink.course.start_reducer()
    start = partial(tool.start, context, sink, arguments)
    returned = await run_in_thread(start, name=tool.name) if tool.in_thread else start()
    while isinstance(returned, Awaitable) and not isinstance(returned, Flow):
        returned = await returned
    yields = True
    if isinstance(returned, Flow):
        returned, yields = await sink.forward(returned), False
    elif isinstance(returned, AsyncIterator):
        await drive(returned, sink.send)
    elif isinstance(returned, Generator):
        await iterate_in_thread(returned, sink.send, name=tool.name)
    else:
        yields = False
    if isinstance(tool, StreamingTool):
        return sink.course.value()
    if yields:
        raise TypeError(f"{tool.name} yields events, but has no reducer: use @streaming_tool(finalize=…)")
    return returned


async def drive(iterator: AsyncIterator[Any], send: Callable[[Any], Awaitable[None]]) -> None:
    """Send each event of an async iterator; closed in the end, and all of it in this task.

    A scope that the generator holds across a `yield` may be cancelled while its event waits in our send. That
    cancellation belongs to the generator: it is thrown in where the event came from, and what the generator makes of it
    decides.
    """
    throw = getattr(iterator, "athrow", None)
    try:
        event = await anext(iterator)
        while True:
            try:
                await send(event)
            except anyio.get_cancelled_exc_class() as cancellation:
                if throw is None:
                    raise
                event = await throw(cancellation)
            else:
                event = await anext(iterator)
    except StopAsyncIteration:
        pass
    finally:
        await close(iterator)


async def close(iterator: AsyncIterator[Any]) -> None:
    """Close an async generator. What its cleanup raises is logged: a result or a cancellation is on its way already."""
    aclose = getattr(iterator, "aclose", None)
    if aclose is None:
        return
    cancelled = anyio.get_cancelled_exc_class()
    try:
        await aclose()
    except BaseExceptionGroup as group:
        # A task group that the generator held across its `yield` wraps the GeneratorExit, and what it cancelled.
        if group.split((GeneratorExit, cancelled))[1] is not None:
            logger.warning("closing %r raised", iterator, exc_info=group)
    except Exception as error:
        logger.warning("closing %r raised", iterator, exc_info=error)


class _Course:
    """What the sinks of one running call share: where its events go to, and what went wrong on their way."""

    __slots__ = ("call_id", "downstream", "ended", "limits", "reducer", "reducer_failed", "state", "tool")

    def __init__(self, call_id: str, tool: Tool[..., Any], limits: Limits | None) -> None:
        self.call_id = call_id
        self.tool = tool.name
        self.limits = limits
        self.reducer: Reducer[Any, Any, Any] | None = tool.reducer if isinstance(tool, StreamingTool) else None
        self.state: Any = None
        self.downstream: Exception | None = None
        self.reducer_failed: _ReducerFailed | None = None
        self.ended = False

    def start_reducer(self) -> None:
        try:
            self.state = self.reducer.start() if self.reducer is not None else None
        except Exception as error:
            self.fail(error)

    def reduce(self, reducer: Reducer[Any, Any, Any], event: Any) -> None:
        try:
            self.state = reducer.step(self.state, event)
        except Exception as error:
            self.fail(error)

    def value(self) -> Any:
        """What the reducer makes of the events, also where the tool went on after the reducer had failed."""
        if self.reducer_failed is not None:
            raise self.reducer_failed
        try:
            return self.reducer.finish(self.state) if self.reducer is not None else None
        except Exception as error:
            self.fail(error)

    def fail(self, error: Exception) -> NoReturn:
        self.reducer_failed = _ReducerFailed()
        raise self.reducer_failed from error


class ToolSink(Sink[Any]):
    """The sink of one tool call: each event goes to the consumer as an Intermediate, then to the reducer."""

    __slots__ = ("_out", "course")

    def __init__(self, out: Sink[ToolEvent], course: _Course) -> None:
        self._out = out
        self.course = course

    async def send(self, event: Any) -> None:
        course = self.course
        if course.ended:
            refuse(event)
        if type(event) in _RUN_EVENTS:
            shown = Intermediate(course.call_id, course.tool, None, event)
        else:
            shown = Intermediate(course.call_id, course.tool, event)
        if course.limits is not None:
            course.limits.pause()
        try:
            await self._out.send(shown)
        except Exception as error:
            course.downstream = error
            raise
        finally:
            if course.limits is not None:
                course.limits.resume()
        if course.reducer is not None:
            course.reduce(course.reducer, event)

    def branch(self) -> ToolSink:
        return ToolSink(self._out.branch(), self.course)

    def close(self) -> None:
        self._out.close()

    @property
    def _token(self) -> anyio.lowlevel.EventLoopToken:
        return self._out._token


class Limits:
    """The time limits of one call. They count our waiting for the tool only, so they rest while an event is sent."""

    def __init__(self, tool: Tool[..., Any]) -> None:
        self._total = tool.timeout_seconds
        self._idle = tool.idle_timeout_seconds
        self._resting = 1  # how many sends are under way; begun before the run

    async def run(self, work: Awaitable[R]) -> R:
        """The value of the work. Raises _TimedOut when it was cut off; a value that came all the same counts."""
        self._left = math.inf if self._total is None else self._total
        with anyio.CancelScope() as self._scope:
            self.resume()
            try:
                return await work
            except Exception as error:
                if not self._scope.cancel_called:
                    raise
                raise self._timed_out() from error
        raise self._timed_out()

    def resume(self) -> None:
        self._resting -= 1
        if self._resting:
            return
        self._since = anyio.current_time()
        idle = math.inf if self._idle is None else self._idle
        self._idles_first = idle < self._left
        self._scope.deadline = self._since + min(self._left, idle)

    def pause(self) -> None:
        self._resting += 1
        if self._resting > 1:  # another task of the tool is sending
            return
        self._left -= anyio.current_time() - self._since
        self._scope.deadline = math.inf

    def _timed_out(self) -> _TimedOut:
        if self._idles_first:
            return _TimedOut("idle_timeout", f"gave no sign of life for {self._idle:g} seconds")
        return _TimedOut("timeout", f"did not finish within {self._total:g} seconds")


class _TimedOut(StreamkitError):
    """A time limit cut the tool off."""

    def __init__(self, kind: FailureKind, what: str) -> None:
        super().__init__(what)
        self.kind = kind


class _ReducerFailed(StreamkitError):
    """The reducer raised, or had nothing to give."""


class _NotSerialisable(StreamkitError):
    """The value has no JSON form."""


def model_text(value: Any) -> str:
    """What the model reads: text as it is, None as `null`, everything else as JSON. Lone surrogates become U+FFFD."""
    if isinstance(value, str):
        try:
            value.encode()
        except UnicodeEncodeError:
            return value.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
        return value
    try:
        return msgspec.json.encode(value).decode()
    except Exception as error:
        raise _NotSerialisable(
            f"returned a value of type {type(value).__name__}, which cannot be written as JSON"
        ) from error


def _explain(raised: BaseException, tool: Tool[..., Any]) -> tuple[FailureKind, str]:
    """The kind of the failure and a safe sentence for the model; raises what must not become a result."""
    error = without_cancellations(raised)
    from_outside = error is None and anyio.current_effective_deadline() == -math.inf
    if from_outside or isinstance(error, KeyboardInterrupt):
        raise raised
    kind: FailureKind = "failed"
    match error:
        case None:
            kind, message = "cancelled", f"{tool.name} cancelled itself."
        case ToolError():
            message = str(error)
        case _TimedOut():
            still = "; it may still be running" if tool.in_thread else ""
            kind, message = error.kind, f"{tool.name} {error}{still}."
        case _ReducerFailed(__cause__=ReducerError() as cause):
            kind, message = "reducer_failed", f"{tool.name} gave no result: {cause}."
        case _ReducerFailed():
            kind, message = "reducer_failed", f"{tool.name} ran, but its result could not be made."
        case _NotSerialisable():
            kind, message = "not_serialisable", f"{tool.name} {error}."
        case _:
            message = f"{tool.name} failed with an internal error."
    return kind, message
