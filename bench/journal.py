"""A journal in a file: calls that survive a crash, events by the thousand, many runs at once.

The floor of a call is two commits of the same database, an fsync each: made in place, so without an event loop, and in
a thread, so that the event loop goes on. Here the clock of the wall counts, since the time goes into the disk; on a
machine that is busy with something else it says little. The quicker the disk, the more weighs the way to the thread.
"""

from __future__ import annotations

import itertools
import sqlite3
import tempfile
import tracemalloc
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from time import perf_counter

import anyio
import anyio.to_thread

from streamkit import Intermediate, ToolCall, Toolkit, Value, execute_all
from streamkit.journal.entry import CallFinished, CallStarted, encode
from streamkit.journal.log import RunLog
from streamkit.journal.sqlite import SqliteStore, sqlite_journal

from .execution import double
from .measure import BACKENDS, ROUNDS, Backend, Figure, Goal, figure

CALLS = 50
EVENTS = 10_000
TASKS = 100
MOST_MILLISECONDS = 0.2
"""For an event among ten thousand."""

ARGUMENTS = {"path": "reports/2026/summary.md", "text": "a few words " * 20}
CALL = ToolCall("call_1", "write_file", "{}", "turn_1", 0)
RESULT = Value("call_1", "write_file", {"written": 240}, '{"written":240}')
EVENT = Intermediate("call_1", "write_file", {"done": 17, "total": 240})

KIT = Toolkit(double)
TURNS = itertools.count()  # so that no call is one that has its result

WRITTEN = (
    encode(CallStarted("turn_1.0", "call_1", "write_file", ARGUMENTS, "x" * 64, 1, "once")).decode(),
    encode(CallFinished("turn_1.0", RESULT, 0.5)).decode(),
)
INSERT = (
    "INSERT INTO entries SELECT 'by hand', COALESCE(MAX(number), 0) + 1, FALSE, ? FROM entries WHERE run_id = 'by hand'"
)


def figures() -> Iterator[Figure]:
    for backend in BACKENDS:
        yield anyio.run(calls, backend, "", commit_by_hand, backend=backend)
        yield anyio.run(calls, backend, "_to_threaded_commits", commit_in_threads, backend=backend)
        yield anyio.run(group_commit, backend, backend=backend)
        for side_by_side in (1, 8):
            yield anyio.run(executed_calls, backend, side_by_side, backend=backend)
        yield anyio.run(events, backend, backend=backend)
    yield memory()


async def calls(backend: Backend, name: str, commit: Callable[[Path, int], Awaitable[None]]) -> Figure:
    """One call after another, each written as started and as finished."""
    async with driven_run() as (run, path):

        async def ours() -> None:
            for number in range(CALLS):
                await journal_call(run, f"turn_1.{number}")

        times = await race_on_the_wall(ours, lambda: commit(path, 2 * CALLS))
    return figure(f"journal.call{name}.{backend}", times, count=CALLS, goal=Goal(1.2))


async def group_commit(backend: Backend) -> Figure:
    """Many calls at once, which share their commits."""
    async with driven_run() as (run, path):

        async def ours() -> None:
            async with anyio.create_task_group() as tasks:
                for number in range(TASKS):
                    tasks.start_soon(journal_call, run, f"turn_1.{number}")

        times = await race_on_the_wall(ours, lambda: commit_by_hand(path, 2 * TASKS))
    return figure(f"journal.{TASKS}_calls_at_once.{backend}", times, count=TASKS, goal=None)


async def executed_calls(backend: Backend, side_by_side: int) -> Figure:
    """Calls as `execute_all` runs them, against the same without a journal and two commits of each in a thread."""
    calls = CALLS // side_by_side * side_by_side
    async with driven_run() as (run, path):

        async def ours() -> None:
            await execute_turns(calls, side_by_side, run)

        async def floor() -> None:
            await execute_turns(calls, side_by_side, None)
            await commit_in_threads(path, 2 * calls)

        times = await race_on_the_wall(ours, floor)
    return figure(f"journal.executed_{side_by_side}_at_once.{backend}", times, count=calls, goal=Goal(1.2))


async def events(backend: Backend) -> Figure:
    """Intermediates as they are shown, written in batches; until all of them are written."""
    times = []
    async with driven_run() as (run, _):
        for _ in range(ROUNDS):
            began = perf_counter()
            await show(run, EVENTS)
            await run.flush()
            times.append((perf_counter() - began, EVENTS * MOST_MILLISECONDS / 1000))
    return figure(f"journal.event.{backend}", times, count=EVENTS, goal=Goal(1))


def memory() -> Figure:
    """The most that a run holds whose events are written, beside what a tenth of them would."""
    peak_of(EVENTS // 10)  # what is made once is made now
    small, large = peak_of(EVENTS), peak_of(10 * EVENTS)
    ratio = round(large / small, 2)  # a batch may be under way while the next one comes
    note = f"peak of memory: {large:,} bytes for {10 * EVENTS:,} events, {small:,} for a tenth of them"
    return Figure("journal.memory", ratio, 2, ratio <= 2, must=True, note=note)


def peak_of(events: int) -> int:
    async def run() -> None:
        async with driven_run() as (log, _):
            await show(log, events)

    tracemalloc.start()
    try:
        anyio.run(run)
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


# What is raced


@asynccontextmanager
async def driven_run() -> AsyncIterator[tuple[RunLog, Path]]:
    with tempfile.TemporaryDirectory(dir=".") as folder:  # on a disk, where the folder for such things may be memory
        path = Path(folder) / "runs.db"
        journal = sqlite_journal(path)
        async with journal.drive("r") as run:
            yield run, path
        assert isinstance(journal.store, SqliteStore)
        await journal.store.aclose()


async def journal_call(run: RunLog, execution_id: str) -> None:
    await run.start_call(CALL, execution_id, ARGUMENTS, attempt=1, effects="once")
    await run.finish_call(execution_id, RESULT, 0.5)


async def execute_turns(calls: int, side_by_side: int, run: RunLog | None) -> None:
    for _ in range(calls // side_by_side):
        turn_id = f"turn_{next(TURNS)}"
        turn = [ToolCall(f"call_{place}", "double", '{"number":1}', turn_id, place) for place in range(side_by_side)]
        await execute_all(KIT, turn, journal=run)


async def show(run: RunLog, events: int) -> None:
    for _ in range(events):
        if (left := run.show(EVENT)) is not None:
            await left


async def commit_by_hand(path: Path, commits: int) -> None:
    connection = sqlite3.connect(path, isolation_level=None)
    connection.execute("PRAGMA synchronous = FULL")
    for number in range(commits):
        connection.execute(INSERT, (WRITTEN[number % 2],))
    connection.close()


async def commit_in_threads(path: Path, commits: int) -> None:
    connection = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
    connection.execute("PRAGMA synchronous = FULL")
    for number in range(commits):
        await anyio.to_thread.run_sync(connection.execute, INSERT, (WRITTEN[number % 2],))
    connection.close()


async def race_on_the_wall(
    ours: Callable[[], Awaitable[None]], floor: Callable[[], Awaitable[None]]
) -> list[tuple[float, float]]:
    await ours()
    await floor()
    times = []
    for _ in range(ROUNDS):
        began = perf_counter()
        await ours()
        ended = perf_counter()
        await floor()
        times.append((ended - began, perf_counter() - ended))
    return times
