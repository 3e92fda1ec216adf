"""A journal in a file: calls that survive a crash, events by the thousand, many runs at once.

The floor of a call is two commits of rows as long as its own into the same table, an fsync each: made in place, so that
the event loop stands still, and in a thread, so that it goes on. Here the clock of the wall counts, since the time goes
into the disk; so rounds are short and many, and what else the disk does meanwhile falls on both sides. The quicker the
disk, the more weighs the way to the thread and back.
"""

from __future__ import annotations

import itertools
import sqlite3
import tempfile
import tracemalloc
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, closing
from functools import partial
from pathlib import Path
from time import perf_counter

import anyio
import anyio.to_thread

from streamkit import (
    Conversation,
    Intermediate,
    Next,
    RunEvent,
    Sink,
    Stop,
    ToolCall,
    Toolkit,
    Turn,
    Value,
    execute_all,
    loop,
    user,
)
from streamkit.journal.entry import CallFinished, CallStarted, encode
from streamkit.journal.log import RunLog
from streamkit.journal.sqlite import LOCK_TIMEOUT_SECONDS, SqliteStore, sqlite_journal
from streamkit.journal.sqlite_database import open_file

from .execution import double
from .measure import BACKENDS, ROUNDS, ROUNDS_TO_REPORT, Backend, Figure, Goal, figure

CALLS = 8
"""In one round."""
ROUNDS_ON_DISK = 60
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
Commit = Callable[[sqlite3.Connection, int], Awaitable[None]]
"""Makes so many commits."""

INSERT = (
    "INSERT INTO entries SELECT 'by hand', COALESCE(MAX(number), 0) + 1, FALSE, ? FROM entries WHERE run_id = 'by hand'"
)


def figures() -> Iterator[Figure]:
    for backend in BACKENDS:
        yield anyio.run(calls, backend, "", commit_in_place, backend=backend)
        yield anyio.run(calls, backend, "_to_threaded_commits", commit_in_threads, backend=backend)
        yield anyio.run(group_commit, backend, backend=backend)
        yield anyio.run(turns, backend, backend=backend)
        for side_by_side in (1, 8):
            yield anyio.run(executed_calls, backend, side_by_side, backend=backend)
        yield anyio.run(events, backend, backend=backend)
    yield memory()


async def calls(backend: Backend, name: str, commit: Commit) -> Figure:
    """One call after another, each written as started and as finished."""
    async with driven_run() as (run, connection):

        async def ours() -> None:
            for number in range(CALLS):
                await journal_call(run, f"turn_1.{number}")

        times = await race_on_the_wall(ours, partial(commit, connection, 2 * CALLS))
    return figure(f"journal.call{name}.{backend}", times, count=CALLS, goal=Goal(1.2))


async def group_commit(backend: Backend) -> Figure:
    """Many calls at once, which share their commits."""
    async with driven_run() as (run, connection):

        async def ours() -> None:
            async with anyio.create_task_group() as tasks:
                for number in range(TASKS):
                    tasks.start_soon(journal_call, run, f"turn_1.{number}")

        floor = partial(commit_in_place, connection, 2 * TASKS)
        times = await race_on_the_wall(ours, floor, rounds=ROUNDS_TO_REPORT)
    return figure(f"journal.{TASKS}_calls_at_once.{backend}", times, count=TASKS, goal=None)


async def turns(backend: Backend) -> Figure:
    """Turns of one call in a loop, against the same without a journal and two commits of each call.

    One commit more is for the state before the first turn.
    """
    async with driven_run() as (run, connection):

        async def floor() -> None:
            await loop_turns(None)
            await commit_in_place(connection, 2 * CALLS + 1)

        times = await race_on_the_wall(partial(loop_turns, run), floor)
    return figure(f"journal.turn.{backend}", times, count=CALLS, goal=Goal(1.2))


async def executed_calls(backend: Backend, side_by_side: int) -> Figure:
    """Calls as `execute_all` runs them, against the same without a journal and two commits of each."""
    async with driven_run() as (run, connection):

        async def floor() -> None:
            await execute_turns(side_by_side, None)
            await commit_in_place(connection, 2 * CALLS)

        times = await race_on_the_wall(partial(execute_turns, side_by_side, run), floor)
    return figure(f"journal.executed_{side_by_side}_at_once.{backend}", times, count=CALLS, goal=Goal(1.2))


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
async def driven_run() -> AsyncIterator[tuple[RunLog, sqlite3.Connection]]:
    """A run, and a connection of our own to its file, which syncs each commit as well."""
    with tempfile.TemporaryDirectory(dir=".") as folder:  # on a disk, where the folder for such things may be memory
        path = Path(folder) / "runs.db"
        journal = sqlite_journal(path)
        async with journal.drive("r") as run:
            with closing(open_file(str(path), LOCK_TIMEOUT_SECONDS)) as connection:
                connection.execute("PRAGMA synchronous = FULL")
                yield run, connection
        assert isinstance(journal.store, SqliteStore)
        await journal.store.aclose()


async def journal_call(run: RunLog, execution_id: str) -> None:
    await run.start_call(CALL, execution_id, ARGUMENTS, attempt=1, effects="once")
    await run.finish_call(execution_id, RESULT, 0.5)


async def execute_turns(side_by_side: int, run: RunLog | None) -> None:
    for _ in range(CALLS // side_by_side):
        await execute_all(KIT, new_turn(side_by_side).calls, journal=run)


async def loop_turns(run: RunLog | None) -> None:
    async def step(out: Sink[RunEvent], state: Conversation) -> Next[Conversation] | Stop[Conversation]:
        if state.turns == CALLS:
            return Stop(state)
        turn = new_turn(1)
        if run is not None:
            await run.take(turn)
        return Next(state.add(turn, await out.forward(execute_all(KIT, turn.calls, journal=run))))

    await loop(step, Conversation((user("Go on"),)), journal=run)


def new_turn(calls: int) -> Turn:
    turn_id = f"turn_{next(TURNS)}"
    items = tuple(ToolCall(f"call_{place}", "double", '{"number":1}', turn_id, place) for place in range(calls))
    return Turn(turn_id, "a-model", items, "tool_calls")


async def show(run: RunLog, events: int) -> None:
    for _ in range(events):
        if (left := run.show(EVENT)) is not None:
            await left


async def commit_in_place(connection: sqlite3.Connection, commits: int) -> None:
    for number in range(commits):
        connection.execute(INSERT, (WRITTEN[number % 2],))


async def commit_in_threads(connection: sqlite3.Connection, commits: int) -> None:
    for number in range(commits):
        await anyio.to_thread.run_sync(connection.execute, INSERT, (WRITTEN[number % 2],))


async def race_on_the_wall(
    ours: Callable[[], Awaitable[None]], floor: Callable[[], Awaitable[None]], *, rounds: int = ROUNDS_ON_DISK
) -> list[tuple[float, float]]:
    await ours()
    await floor()
    times = []
    for _ in range(rounds):
        began = perf_counter()
        await ours()
        ended = perf_counter()
        await floor()
        times.append((ended - began, perf_counter() - ended))
    return times
