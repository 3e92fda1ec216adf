"""`check_journal_store`: what must hold of any store of a journal, for stores of your own."""

from __future__ import annotations

import math
from collections.abc import Awaitable, Callable, Sequence

import anyio

from ..conversation import Conversation
from ..errors import RunIsHeld
from ..items import Usage, user
from ..journal.entry import (
    CallFinished,
    CallStarted,
    Decided,
    Entry,
    Numbered,
    RunEnded,
    RunTaken,
    Shown,
    StateSaved,
    TurnTaken,
)
from ..journal.store import JournalStore
from ..tool_events import Failure, Intermediate, Value
from ..turns import TextDelta, ToolInputAbandoned, Turn

SOON_SECONDS = 10
"""What must happen soon has happened by then, also on a busy machine."""

ENTRIES: tuple[Entry, ...] = (
    RunTaken("process 1"),
    StateSaved(0, Conversation((user("Göteborg \U0001f600 \0"),), usage=Usage(1, 2))),
    TurnTaken(Turn("turn_1", "m")),
    Decided("turn_1.0", False, reason="no"),
    CallStarted("turn_1.0", "a", "f", {"big": 2**62, "list": [None, 1.5]}, "digest", 1, "once"),
    Shown(Intermediate("a", "f", event=TextDelta("x" * 10_000))),
    Shown(ToolInputAbandoned("a", "discarded")),
    CallFinished("turn_1.0", Value("a", "f", {"x": 1}, '{"x":1}'), 0.5),
    CallFinished("turn_1.1", Failure("b", "f", "denied", "no", partial=[1])),
    RunEnded("ValueError: no"),
)


async def check_journal_store(store: JournalStore, other: Callable[[], Awaitable[JournalStore]] | None = None) -> None:
    """Play with a store, which must be empty, and raise AssertionError where it breaks a rule.

    other: gives a second store that shares what the first one keeps, where there is such a thing: one of another
    process, or one that was opened later.
    """
    await _keeps_what_it_is_given(store)
    await _keeps_runs_apart_and_reads_in_pages(store)
    await _keeps_order_when_many_write(store)
    await _wakes_whoever_waits(store, store)
    await _is_held_by_one(store, store)
    if other is not None:
        second = await other()
        found = _entries(await second.read("kept", limit=len(ENTRIES)))
        assert found == list(ENTRIES), "another store does not read what the first wrote"
        await _wakes_whoever_waits(second, store)
        await _is_held_by_one(second, store)


async def _keeps_what_it_is_given(store: JournalStore) -> None:
    assert await store.last("kept") == 0, "a run that is not known has entries"
    assert list(await store.read("kept")) == []
    numbers = [await store.append("kept", [entry], durable=number % 2 == 0) for number, entry in enumerate(ENTRIES)]
    assert numbers == list(range(1, len(ENTRIES) + 1)), f"entries are numbered {numbers}, not from 1"
    found = await store.read("kept")
    assert [numbered.number for numbered in found] == numbers
    for numbered, entry in zip(found, ENTRIES, strict=True):
        assert numbered.entry == entry, f"{entry} was read as {numbered.entry}"
    assert await store.last("kept") == len(ENTRIES)


async def _keeps_runs_apart_and_reads_in_pages(store: JournalStore) -> None:
    assert await store.append("odd ' \" / \\ é", list(ENTRIES), durable=False) == len(ENTRIES)
    assert await store.append("other", [ENTRIES[0]], durable=True) == 1
    assert _entries(await store.read("odd ' \" / \\ é")) == list(ENTRIES)
    assert _entries(await store.read("kept", 7)) == list(ENTRIES[7:]), "read(after=7) gives other entries than those"
    assert _entries(await store.read("kept", 2, limit=3)) == list(ENTRIES[2:5]), "limit=3 does not give three entries"
    assert list(await store.read("kept", len(ENTRIES))) == []
    assert list(await store.read("kept", 10**6)) == []
    without = await store.read("kept", shown=False)
    assert _entries(without) == [entry for entry in ENTRIES if type(entry) is not Shown], "shown=False gives others"
    assert len(await store.read("kept", shown=False, limit=6)) == 6


async def _keeps_order_when_many_write(store: JournalStore) -> None:
    async def write(writer: int) -> None:
        for number in range(20):
            batch = [CallFinished(f"{writer}", Failure("a", "f", "failed", f"{number}.{part}")) for part in range(3)]
            await store.append("crowd", batch, durable=number % 5 == 0)

    async with anyio.create_task_group() as tasks:
        for writer in range(5):
            tasks.start_soon(write, writer)
    found = await store.read("crowd")
    assert [numbered.number for numbered in found] == list(range(1, 301)), "numbers are missing, or come twice"
    entries = [numbered.entry for numbered in found]
    said = [
        (entry.execution_id, entry.result.message)
        for entry in entries
        if isinstance(entry, CallFinished) and isinstance(entry.result, Failure)
    ]
    for writer in range(5):
        order = [message for by, message in said if by == f"{writer}"]
        assert order == [f"{number}.{part}" for number in range(20) for part in range(3)], "a writer's order is lost"
    batches = [{by for by, _ in said[at : at + 3]} for at in range(0, 300, 3)]
    assert all(len(writers) == 1 for writers in batches), "a batch was torn apart"


async def _wakes_whoever_waits(store: JournalStore, writer: JournalStore) -> None:
    last = await store.last("kept")
    with anyio.fail_after(SOON_SECONDS):
        await store.wait("kept", last - 1)  # at once
    woken: list[int] = []

    async def wait() -> None:
        await store.wait("kept", last)
        woken.append(await store.last("kept"))

    with anyio.fail_after(SOON_SECONDS):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(wait)
            tasks.start_soon(wait)
            await anyio.wait_all_tasks_blocked()
            assert not woken, "wait() returned before there was anything"
            await writer.append("kept", [RunEnded()], durable=False)
    assert woken == [last + 1, last + 1]


async def _is_held_by_one(store: JournalStore, other: JournalStore) -> None:
    assert not await other.is_held("held"), "a run is held that nobody holds"
    async with store.hold("held"), store.hold("another"):
        told = ""
        for asked in (store, other):
            assert await asked.is_held("held"), "a run that is held is not told to be"
        try:
            async with other.hold("held"):
                raise AssertionError("two hold one run")
        except RunIsHeld as refused:
            told = str(refused)
        assert "held" in told, f"RunIsHeld does not name the run: {told}"
    assert not await store.is_held("held"), "a run is held that was let go"
    async with other.hold("held"):
        pass
    with anyio.move_on_after(math.inf) as scope:
        async with store.hold("held"):
            scope.cancel()
            await anyio.sleep_forever()
    async with other.hold("held"):
        pass


def _entries(found: Sequence[Numbered]) -> list[Entry]:
    return [numbered.entry for numbered in found]
