"""A thousand runs at once in one process: what each of them holds while all are open, and what is left behind.

A run is a model that says something and calls a tool, ten events, and stops where its consumer waits for all others.
The floor is as many bare tasks that wait in an async generator.
"""

from __future__ import annotations

import gc
import tempfile
import tracemalloc
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterator
from contextlib import aclosing
from pathlib import Path

import anyio
import anyio.lowlevel
import msgspec

from streamkit import Toolkit, converse, user
from streamkit.journal.journals import Journal
from streamkit.journal.log import RunLog
from streamkit.journal.sqlite import SqliteStore
from streamkit.testing import ScriptedModel, call

from .measure import BACKENDS, Backend, Figure
from .soak import Held, look, read

RUNS = 1_000
EVENTS = 10
HALFWAY = 6
"""The event at which a run stops: its tool has started."""
SCRIPT = ([call("read", {"path": "a"})], ["b"])


class Together(msgspec.Struct, frozen=True):
    """Bytes of each run while all are open; what the process held before and after; the events of each run."""

    bytes_per_run: float
    before: Held
    after: Held
    events: list[int]


def figures() -> Iterator[Figure]:
    for backend in BACKENDS:
        floor = anyio.run(measure, bare_task, RUNS, backend=backend).bytes_per_run
        yield memory(f"many_runs.memory.{backend}", backend, floor, written=False)
        yield memory(f"many_runs.written_memory.{backend}", backend, floor, written=True)


def memory(name: str, backend: Backend, floor: float, *, written: bool) -> Figure:
    ours = anyio.run(run_together, written, backend=backend).bytes_per_run
    note = f"memory of each of {RUNS:,} open runs: {ours:,.0f} bytes; of a bare task {floor:,.0f}"
    return Figure(name, round(ours / floor, 1), None, None, note=note)


async def run_together(written: bool, runs: int = RUNS, *, traced: bool = True) -> Together:
    """written: in a journal in a file. traced: False leaves the bytes out, and takes a third of the time."""
    if not written:
        return await measure(lambda number, gathering: consume(gathering, None), runs, traced=traced)
    with tempfile.TemporaryDirectory(dir=".") as folder:
        store = SqliteStore(Path(folder) / "runs.db")
        journal = Journal(store)

        async def drive(number: int, gathering: Gathering) -> int:
            async with journal.drive(f"run-{number}") as log:
                return await consume(gathering, log)

        return await measure(drive, runs, traced=traced, close=store.aclose)


class Gathering:
    """Where all runs stop until somebody has looked at them."""

    def __init__(self, expected: int) -> None:
        self._missing = expected
        self.all_are_here = anyio.Event()
        self.go_on = anyio.Event()

    async def arrive(self) -> None:
        self._missing -= 1
        if not self._missing:
            self.all_are_here.set()
        await self.go_on.wait()


Work = Callable[[int, Gathering], Awaitable[int]]


async def measure(
    work: Work,
    runs: int,
    *,
    traced: bool = True,
    close: Callable[[], Awaitable[None]] = anyio.lowlevel.checkpoint,
) -> Together:
    """The work so many times at once: first to warm up, then measured. close: lets go of what they share."""
    await gather(work, range(runs))
    await close()
    before = await look()
    if traced:
        tracemalloc.start()
    try:
        empty = traced_bytes()
        full, events = await gather(work, range(runs, 2 * runs))
    finally:
        tracemalloc.stop()
    await close()
    return Together((full - empty) / runs, before, await look(), events)


async def gather(work: Work, numbers: range) -> tuple[int, list[int]]:
    """The bytes that are held when all of them have come halfway, and the events that each of them had."""
    gathering = Gathering(len(numbers))
    events: list[int] = []

    async def one(number: int) -> None:
        events.append(await work(number, gathering))

    async with anyio.create_task_group() as tasks:
        for number in numbers:
            tasks.start_soon(one, number)
        await gathering.all_are_here.wait()
        held = traced_bytes()
        gathering.go_on.set()
    return held, events


def traced_bytes() -> int:
    gc.collect()
    return tracemalloc.get_traced_memory()[0]


async def consume(gathering: Gathering, log: RunLog | None) -> int:
    """One run; how many events it had."""
    seen = 0
    flow = converse(ScriptedModel(*SCRIPT), Toolkit(read), (user("go"),), journal=log)
    async with flow.open() as events:
        async for _ in events:
            seen += 1
            if seen == HALFWAY:
                await gathering.arrive()
    return seen


async def bare_task(number: int, gathering: Gathering) -> int:
    seen = 0
    async with aclosing(count_up()) as events:
        async for _ in events:
            seen += 1
            if seen == HALFWAY:
                await gathering.arrive()
    return seen


async def count_up() -> AsyncGenerator[int, None]:
    for number in range(EVENTS):
        await anyio.lowlevel.checkpoint()
        yield number
