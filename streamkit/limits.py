"""Time limits of a tool call, which count our waiting for the tool alone."""

from __future__ import annotations

import math
from collections.abc import Awaitable
from typing import Any, TypeVar

import anyio

from .errors import StreamkitError
from .tool_events import FailureKind
from .tools import Tool

R = TypeVar("R")


class Limits:
    """The time limits of one call: they count our waiting for the tool, and rest while an event waits for others."""

    def __init__(self, tool: Tool[..., Any]) -> None:
        self._total = tool.timeout_seconds
        self._idle = tool.idle_timeout_seconds
        self._resting = 1  # how many waits for others are under way; the first one is that for the run

    async def run(self, work: Awaitable[R]) -> R:
        """The value of the work. Raises TimedOut when it was cut off; a value that came all the same counts."""
        self._left = math.inf if self._total is None else self._total
        with anyio.CancelScope() as self._scope:
            self._resume()
            try:
                return await work
            except Exception as error:
                if not self._scope.cancel_called:
                    raise
                raise self._timed_out() from error
        raise self._timed_out()

    async def rest_while(self, waiting: Awaitable[None]) -> None:
        """Wait for something that is not the tool."""
        self._pause()
        try:
            await waiting
        finally:
            self._resume()

    def note_event(self) -> None:
        """A sign of life: the idle time begins anew."""
        if self._idle is not None and not self._resting:
            self._pause()
            self._resume()

    def _resume(self) -> None:
        self._resting -= 1
        if self._resting:
            return
        self._since = anyio.current_time()
        idle = math.inf if self._idle is None else self._idle
        self._idles_first = idle < self._left
        self._scope.deadline = self._since + min(self._left, idle)

    def _pause(self) -> None:
        self._resting += 1
        if self._resting > 1:  # another task of the tool waits for the same
            return
        self._left -= anyio.current_time() - self._since
        self._scope.deadline = math.inf

    def _timed_out(self) -> TimedOut:
        if self._idles_first:
            return TimedOut("idle_timeout", f"gave no sign of life for {self._idle:g} seconds")
        return TimedOut("timeout", f"did not finish within {self._total:g} seconds")


class TimedOut(StreamkitError):
    """A time limit cut the tool off."""

    def __init__(self, kind: FailureKind, what: str) -> None:
        super().__init__(what)
        self.kind = kind
