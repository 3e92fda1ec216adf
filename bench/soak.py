"""Calls by the hundred thousand in one process: what it holds does not grow, and nothing is left.

Turn after turn runs one call of each kind: a coroutine, a generator, a function on a thread, an inner execution, one
that fails, one that is denied, one that was written badly, one that never ends by itself. The turns are awaited,
consumed, and left early. With a journal every RUN_TURNS of them are a run.
"""

from __future__ import annotations

import gc
import os
import sys
import tempfile
import threading
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import anyio
import anyio.lowlevel
import msgspec

from streamkit import (
    Allow,
    Deny,
    Flow,
    Question,
    Running,
    ToolCall,
    ToolError,
    Toolkit,
    ToolStarted,
    Verdict,
    count,
    execute_all,
    streaming_tool,
    tool,
)
from streamkit.journal.journals import Journal
from streamkit.journal.log import RunLog
from streamkit.journal.sqlite import SqliteStore

from .measure import BACKENDS, Backend, Figure

CALLS = 100_000
RUN_TURNS = 25
PATIENCE_SECONDS = 60
MOST_BLOCKS = 0.01
"""Of memory, that a call may leave; one that leaves anything leaves at least one."""


class Held(msgspec.Struct, frozen=True):
    """What the process holds.

    blocks: of memory, all that Python allocated; suspended: coroutines and generators; threads: ours.
    """

    blocks: int
    suspended: int
    threads: int
    resident_bytes: int


def figures() -> Iterator[Figure]:
    for backend in BACKENDS:
        yield growth(backend, "soak.call", written=False)
        yield growth(backend, "soak.written_call", written=True)


def growth(backend: Backend, name: str, *, written: bool) -> Figure:
    """How many blocks a call leaves, from the end of the first third to that of the last."""
    first, _, last = anyio.run(soak, CALLS, written, backend=backend)
    left = round((last.blocks - first.blocks) / (CALLS * 2 / 3), 4)
    note = (
        f"blocks of memory that each of {CALLS:,} calls leaves; resident memory goes"
        f" from {first.resident_bytes:,} to {last.resident_bytes:,} bytes"
    )
    return Figure(f"{name}.{backend}", left, MOST_BLOCKS, left <= MOST_BLOCKS, must=True, note=note)


async def soak(calls: int, written: bool) -> list[Held]:
    """What is held after each third of the calls. written: in a journal in a file."""
    held = []
    with tempfile.TemporaryDirectory(dir=".") as folder:
        store = SqliteStore(Path(folder) / "runs.db")
        for third in range(3):
            await run_a_third(calls // 3, third, Journal(store) if written else None)
            await store.aclose()
            held.append(await look())
    return held


async def run_a_third(calls: int, third: int, journal: Journal | None) -> None:
    turns = calls // len(KINDS)
    for first in range(0, turns, RUN_TURNS):
        numbers = range(first, min(first + RUN_TURNS, turns))
        if journal is None:
            await run_turns(numbers, None)
        else:
            async with journal.drive(f"run-{third}-{first}") as run:
                await run_turns(numbers, run)


async def look() -> Held:
    await anyio.lowlevel.checkpoint()
    gc.collect()
    ours = [thread for thread in threading.enumerate() if thread.name.startswith("streamkit")]
    for thread in ours:
        thread.join(PATIENCE_SECONDS)  # it has ended, but for its last steps
    suspended = sum(type(thing).__name__ in ("async_generator", "coroutine") for thing in gc.get_objects())
    return Held(sys.getallocatedblocks(), suspended, sum(map(threading.Thread.is_alive, ours)), resident_bytes())


def resident_bytes() -> int:
    """0 where the system does not say."""
    try:
        return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except OSError:
        return 0


# The turns


@tool(effects="none")
async def read(path: str) -> str:
    """Read."""
    await anyio.lowlevel.checkpoint()
    return f"content of {path}"


@streaming_tool(reduce=count())
async def tally(upto: int) -> AsyncIterator[int]:
    """Count."""
    for number in range(upto):
        await anyio.lowlevel.checkpoint()
        yield number


@tool
def plain(path: str) -> list[str]:
    """Work on a thread."""
    return [path]


@tool
async def fail() -> None:
    """Fail."""
    raise ToolError("on purpose")


@tool(approval=True)
async def send(to: str) -> str:
    """Must be allowed."""
    return to


@tool
def delegate(path: str) -> Flow[Any, Any]:
    """Let somebody else read."""
    return execute_all(Toolkit(read), [ToolCall("inner", "read", f'{{"path":"{path}"}}', "inner_turn", 0)])


@tool
async def hang() -> None:
    """Never end."""
    await anyio.sleep_forever()


KIT = Toolkit(read, tally, plain, fail, send, delegate, hang)
KINDS = (
    ("read", '{"path":"a"}'),
    ("tally", '{"upto":5}'),
    ("plain", '{"path":"a"}'),
    ("delegate", '{"path":"a"}'),
    ("fail", "{}"),
    ("send", '{"to":"Ann"}'),
    ("send", '{"to":"Bob"}'),
    ("read", '{"path":5'),
    ("hang", "{}"),
)


async def authorize(question: Question) -> Verdict:
    return Deny("not Bob") if question.call.arguments.get("to") == "Bob" else Allow()


async def run_turns(numbers: range, run: RunLog | None) -> None:
    for number in numbers:
        await run_turn(number, run)


async def run_turn(number: int, run: RunLog | None) -> None:
    turn_id = f"turn_{number}"
    calls = [ToolCall(f"call_{place}", *kind, turn_id, place) for place, kind in enumerate(KINDS)]
    running = Running()
    flow = execute_all(KIT, calls, authorize=authorize, journal=run, running=running)
    if number % 3 == 0:
        await flow.tap(lambda event: stop(event, running))
        return
    async with flow.open() as events:
        async for event in events:
            if isinstance(event, ToolStarted) and event.tool == "hang" and number % 3 == 1:
                return
            stop(event, running)


def stop(event: object, running: Running) -> None:
    if isinstance(event, ToolStarted) and event.tool == "hang":
        running.cancel(event.execution_id)
