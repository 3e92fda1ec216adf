"""Where a process can die: points that are counted, and what strikes it at one of them.

`step` is behind each step of a task, `statement` before each statement of SQL, `instruction` before each instruction
of SQLite's machine, so inside of statements too. Others are counted by whoever calls `Points.pass_by`.
"""

import asyncio
import itertools
import os
import signal
import sqlite3
from collections import defaultdict
from collections.abc import Callable, Coroutine, Iterator
from functools import partial
from typing import Any

import anyio
import trio


def die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


class Points:
    """kind, number: the point at which it strikes; None counts them only. May be passed in any thread."""

    def __init__(self, kind: str | None = None, number: int = 0, strike: Callable[[], object] = die) -> None:
        self._kind = kind
        self._number = number
        self._strike = strike
        self._counters: defaultdict[str, Iterator[int]] = defaultdict(lambda: itertools.count(1))

    def pass_by(self, kind: str) -> None:
        if next(self._counters[kind]) == self._number and kind == self._kind:
            self._strike()

    def counts(self) -> dict[str, int]:
        """How many points of each kind were passed. To be asked once, at the end."""
        return {kind: next(counter) - 1 for kind, counter in self._counters.items()}

    def run(self, backend: str, main: Callable[[], Coroutine[Any, Any, None]]) -> None:
        """Run main, and pass by at each step of its tasks, and at what its connections to SQLite do."""
        sqlite3.connect = partial(_connect, self)  # type: ignore[assignment]  # the edge: not ours
        options: dict[str, Any] = {"instruments": [_Steps(self)]}
        if backend == "asyncio":
            options = {"loop_factory": lambda: _StepLoop(self)}
        anyio.run(main, backend=backend, backend_options=options)


def _connect(points: Points, *args: Any, **options: Any) -> sqlite3.Connection:
    connection = sqlite3.Connection(*args, **options)
    connection.set_trace_callback(lambda _: points.pass_by("statement"))
    connection.set_progress_handler(lambda: points.pass_by("instruction"), 1)
    return connection


class _StepLoop(asyncio.SelectorEventLoop):
    def __init__(self, points: Points) -> None:
        super().__init__()
        self._points = points

    def call_soon(  # type: ignore[override]  # any arguments, whatever the callback takes
        self, callback: Callable[..., Any], *args: Any, context: Any = None
    ) -> asyncio.Handle:
        def counted(*args: Any) -> None:
            callback(*args)
            self._points.pass_by("step")

        return super().call_soon(counted, *args, context=context)


class _Steps(trio.abc.Instrument):
    def __init__(self, points: Points) -> None:
        self._points = points

    def after_task_step(self, task: trio.lowlevel.Task) -> None:
        self._points.pass_by("step")
