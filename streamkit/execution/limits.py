"""Time limits of a tool call, or of a whole run. Only the time in which we wait for the other side counts."""

from __future__ import annotations

import math
from collections.abc import Awaitable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TypeVar

import anyio
import anyio.lowlevel

from ..durations import in_seconds
from ..errors import StreamkitError
from ..flows.sinks import Sink, SinkBefore
from ..tool_events import FailureKind

E = TypeVar("E")
R = TypeVar("R")


class Limits:
    """Two limits of one piece of work: for all of it, and until its next event. They rest while an event waits."""

    def __init__(self, total_seconds: float | None, idle_seconds: float | None) -> None:
        self._total = math.inf if total_seconds is None else total_seconds
        self._idle = math.inf if idle_seconds is None else idle_seconds
        self._resting = 1  # how many waits for others are under way; the first one is that for the run
        self._loop = anyio.lowlevel.current_token()

    async def run(self, work: Awaitable[R]) -> R:
        """The value of the work. Raises TimedOut when it was cut off; a value that came all the same counts."""
        self._left = self._total
        with anyio.CancelScope() as self._scope:
            self.resume()
            try:
                return await work
            except Exception as error:
                if not self._scope.cancel_called:
                    raise
                raise self._timed_out() from error
        raise self._timed_out()

    async def rest_while(self, waiting: Awaitable[None]) -> None:
        """Wait for something that is not the tool."""
        self.pause()
        try:
            await waiting
        finally:
            self.resume()

    def note_event(self) -> None:
        """A sign of life: the idle time begins anew."""
        if self._idle < math.inf and not self._resting:
            self.pause()
            self.resume()

    @property
    def is_of_this_event_loop(self) -> bool:
        """Also a tool in a thread has our context variables, and may have an event loop with a clock of its own."""
        return self._loop.native_token is anyio.lowlevel.current_token().native_token

    def resume(self) -> None:
        """The waiting for others is over."""
        self._resting -= 1
        if self._resting:
            return
        self._since = anyio.current_time()
        self._idles_first = self._idle < self._left
        self._scope.deadline = self._since + min(self._left, self._idle)

    def pause(self) -> None:
        """Others are waited for, until `resume`."""
        self._resting += 1
        if self._resting > 1:  # another task of the tool waits for the same
            return
        self._left -= anyio.current_time() - self._since
        self._scope.deadline = math.inf

    def _timed_out(self) -> TimedOut:
        if self._idles_first:
            return TimedOut("idle_timeout", f"gave no sign of life for {in_seconds(self._idle)}")
        return TimedOut("timeout", f"did not finish within {in_seconds(self._total)}")


_around: ContextVar[tuple[Limits, ...]] = ContextVar("streamkit_limits", default=())


def rest_while_people_decide(limits: Limits) -> None:
    """From here on, in this task: the limits rest while somebody decides about a call of an inner run.

    For whoever gives a call a task of its own.
    """
    _around.set((*_around.get(), limits))


@contextmanager
def people_decide() -> Iterator[None]:
    """Somebody decides about a call: the limits of the calls around it rest."""
    around = [limits for limits in _around.get() if limits.is_of_this_event_loop]
    for limits in around:
        limits.pause()
    try:
        yield
    finally:
        for limits in around:
            limits.resume()


class LimitedSink(SinkBefore[E]):
    """A sink whose events are signs of life, and whose waiting for others does not count."""

    __slots__ = ("_limits",)

    def __init__(self, to: Sink[E], limits: Limits) -> None:
        super().__init__(to)
        self._limits = limits

    async def send(self, event: E) -> None:
        left = self._to.put(event)
        if left is not None:
            await self._limits.rest_while(left)
        self._limits.note_event()

    def branch(self) -> LimitedSink[E]:
        return LimitedSink(self._to.branch(), self._limits)


class TimedOut(StreamkitError):
    """A time limit cut the work off."""

    def __init__(self, kind: FailureKind, what: str) -> None:
        super().__init__(what)
        self.kind = kind
