"""Running one valid call: start the tool, show its events, reduce them, make the result that the model sees.

Whatever a tool does comes out as a `Value` or a `Failure`. Only two things leave as exceptions: cancellation from
outside, and an error from downstream, out of the place where an event was sent to: that is no fault of the tool.
"""

from __future__ import annotations

import logging
import os
import traceback
from collections.abc import AsyncIterable, Awaitable, Iterator
from functools import partial
from typing import Any, NoReturn, get_args

from ..errors import ReducerError, StreamkitError, ToolError, words_of
from ..flows.channel import refuse
from ..flows.flow import Flow, Sink
from ..flows.generators import drive
from ..flows.groups import drop_own_cancellation, must_leave, raise_as_it_is, without_cancellations
from ..flows.sinks import SinkAtOnce, SinkBefore
from ..flows.threads import iterate_in_thread, run_in_thread
from ..metering import Meter
from ..tool_events import Failure, FailureKind, Intermediate, RunEvent, ToolEvent, Value
from ..tools.reducers import Reducer
from ..tools.signatures import definition
from ..tools.tool import StreamingTool, Tool, ToolContext, use_sink
from ..tools.toolkit import ValidCall
from ..tools.values import NotSerialisable, written_value
from .limits import Limits, TimedOut, rest_while_people_decide

logger = logging.getLogger("streamkit")

_PACKAGE = os.path.dirname(os.path.dirname(__file__)) + os.sep

_RUN_EVENTS = frozenset(get_args(RunEvent))


async def run_call(call: ValidCall, context: ToolContext[Any], out: Sink[ToolEvent]) -> Value | Failure:
    """Run a call to its end and give its result. out: gets an Intermediate for each event of the tool, nothing else.

    Raises what a send downstream raised, and the cancellation that comes from outside.
    """
    tool, call_id = call.tool, call.call.call_id
    seconds = (tool.timeout_seconds, tool.idle_timeout_seconds)
    limits = None if seconds == (None, None) else Limits(*seconds)
    course = _Course(call_id, tool, limits)
    sink = ToolSink(out, course)
    result: Value | Failure
    use_sink(sink)
    if limits is not None:
        rest_while_people_decide(limits)
    with Meter() as meter:
        try:
            work = _run_tool(tool, context, sink, call.arguments)
            value = await (work if limits is None else limits.run(work))
            value, text, images = written_value(value)
            result = Value(call_id, tool.name, value, text, meter.total, images)
        except BaseException as raised:
            if course.downstream is None:
                kind, message = _explain(course.reducer_failed or raised, tool)
                _log(tool, kind, raised)
                partial = course.salvage()
                result = Failure(call_id, tool.name, kind, message, partial, meter.total).caused_by(raised)
                # Else the error holds this frame, the frame the failure, and the failure the error.
                raised.__traceback__ = raised.__traceback__ and raised.__traceback__.tb_next
        finally:
            course.ended = True
    await drop_own_cancellation()
    if course.downstream is not None:  # also where the tool swallowed it
        raise_as_it_is(course.downstream)
    return result


async def _run_tool(tool: Tool[..., Any], context: ToolContext[Any], sink: ToolSink, arguments: dict[str, Any]) -> Any:
    """What the tool returned, or what its reducer made of its events. What came back decides how it is run."""
    sink.course.start_reducer()
    if tool.in_thread:
        returned = await run_in_thread(partial(tool.start, context, sink, arguments), name=tool.name)
    else:
        returned = tool.start(context, sink, arguments)
    while isinstance(returned, Awaitable) and not isinstance(returned, Flow):
        returned = await returned
    reduces = isinstance(tool, StreamingTool)
    if isinstance(returned, Flow):
        returned = await sink.forward(returned)
    elif isinstance(returned, AsyncIterable | Iterator):
        if not reduces:
            raise _WrongTool(f"{tool.name} gives events, but has no reducer: use @streaming_tool(finalize=…)")
        if isinstance(returned, AsyncIterable):
            await drive(aiter(returned), sink.put)
        else:
            await iterate_in_thread(returned, sink.send, name=tool.name)
    elif reduces and not tool.takes_sink:
        raise _WrongTool(f"{tool.name} gave a {type(returned).__name__}, which has no events to reduce")
    return sink.course.value() if reduces else returned


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

    def take(self, event: Any) -> None:
        """The event has been shown."""
        if self.limits is not None:
            self.limits.note_event()
        if self.reducer is not None:
            try:
                self.state = self.reducer.step(self.state, event)
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

    def salvage(self) -> Any:
        """What the reducer makes of the events of a call that failed, if it is one that does; None if not."""
        if self.reducer is None or not self.reducer.salvages or self.reducer_failed is not None:
            return None
        try:
            return written_value(self.reducer.finish(self.state))[0]
        except Exception:
            logger.warning("the reducer of %s could not save what came before it failed", self.tool, exc_info=True)
            return None

    def fail(self, error: Exception) -> NoReturn:
        self.reducer_failed = _ReducerFailed()
        raise self.reducer_failed from error


class ToolSink(SinkBefore[Any], SinkAtOnce[Any]):
    """The sink of one tool call: each event goes to the consumer as an Intermediate, then to the reducer."""

    __slots__ = ("_closed", "course")

    def __init__(self, to: Sink[ToolEvent], course: _Course, closed: bool = False) -> None:
        super().__init__(to)
        self._closed = closed
        self.course = course

    def put(self, event: Any) -> Awaitable[None] | None:
        course = self.course
        if course.ended or self._closed:  # refused here: what _to raises is no fault of the tool
            refuse(event)
        if type(event) in _RUN_EVENTS:
            shown = Intermediate(course.call_id, course.tool, None, event)
        else:
            shown = Intermediate(course.call_id, course.tool, event)
        try:
            left = self._to.put(shown)
        except Exception as error:
            course.downstream = error
            raise
        if left is not None:
            return self._wait(left, event)
        course.take(event)
        return None

    async def _wait(self, left: Awaitable[None], event: Any) -> None:
        course = self.course
        try:
            await (left if course.limits is None else course.limits.rest_while(left))
        except Exception as error:
            course.downstream = error
            raise
        course.take(event)

    @property
    def watched(self) -> bool:
        return self._to.watched or self.course.reducer is not None

    def branch(self) -> ToolSink:
        return ToolSink(self._to.branch(), self.course, self._closed)

    def close(self) -> None:
        self._closed = True
        super().close()


class _WrongTool(TypeError):
    """What the tool gave does not go with how it was made."""


class _ReducerFailed(StreamkitError):
    """The reducer raised, or had nothing to give."""


def given_value(call: ValidCall, value: Any) -> Value | Failure:
    """The result of a call that did not run, since somebody has given its value."""
    call_id, name = call.call.call_id, call.name
    try:
        value, text, images = written_value(value)
    except NotSerialisable as error:
        return Failure(call_id, name, "not_serialisable", f"The call of {name} was answered with a value: it {error}.")
    return Value(call_id, name, value, text, images=images)


def _explain(raised: BaseException, tool: Tool[..., Any]) -> tuple[FailureKind, str]:
    """The kind of the failure and a safe sentence for the model; raises what must not become a result."""
    if must_leave(raised):
        raise raised
    error = without_cancellations(raised)
    kind: FailureKind = "failed"
    match error:
        case None:
            kind, message = "cancelled", f"{tool.name} cancelled itself."
        case ToolError():
            message = words_of(error) or f"{tool.name} failed."
        case TimedOut():
            still = "; it may still be running" if tool.in_thread else ""
            kind, message = error.kind, f"{tool.name} {error}{still}."
        case _ReducerFailed(__cause__=ReducerError() as cause):
            kind, message = "reducer_failed", f"{tool.name} gave no result: {cause}."
        case _ReducerFailed():
            kind, message = "reducer_failed", f"{tool.name} ran, but its result could not be made."
        case NotSerialisable():
            kind, message = "not_serialisable", f"{tool.name} {error}."
        case _:
            message = f"{tool.name} failed with an internal error."
    return kind, message


def _log(tool: Tool[..., Any], kind: FailureKind, raised: BaseException) -> None:
    """Tell the author of a bug. The message of an error may hold what the arguments held, so that belongs to DEBUG."""
    if kind in ("failed", "reducer_failed", "not_serialisable") and not isinstance(raised, ToolError):
        details = raised if logger.isEnabledFor(logging.DEBUG) else None
        error = (isinstance(raised, _ReducerFailed) and raised.__cause__) or raised
        if isinstance(error, _WrongTool | NotSerialisable):  # which say nothing but what kind of value it was
            said = str(error)
        else:
            said = type(error).__name__ + _place(tool, error)
        logger.warning("a call of %s %s: %s", tool.name, kind, said, exc_info=details)


def _place(tool: Tool[..., Any], error: BaseException) -> str:
    """The line at which the error left the file of the tool; if it was never there, the last one not of ours."""
    lines = [(frame.f_code.co_filename, line) for frame, line in traceback.walk_tb(error.__traceback__)]
    file = getattr(definition(tool.function), "__code__", None)
    own = [each for each in lines if file is not None and each[0] == file.co_filename]
    found = own or [each for each in lines if not each[0].startswith(_PACKAGE)]
    return f", {found[-1][0]}:{found[-1][1]}" if found else ""
