"""The journal in memory."""

import anyio
import pytest
from anyio.lowlevel import checkpoint

from streamkit import TextDelta
from streamkit.errors import UnknownRun
from streamkit.journal.entry import Shown
from streamkit.journal.memory import MemoryStore, memory_journal
from streamkit.testing import check_journal_store

LONG = [Shown(TextDelta("x" * 1000))]


async def test_it_keeps_the_rules_of_a_store() -> None:
    await check_journal_store(MemoryStore())


async def test_it_forgets_the_runs_that_were_quiet_longest() -> None:
    store = MemoryStore(limit_bytes=3500)
    for run_id in ("a", "b", "a", "c", "d"):
        await store.append(run_id, LONG, durable=True)
    assert [bool(await store.last(run_id)) for run_id in "abcd"] == [False, False, True, True]


async def test_a_run_that_somebody_drives_is_kept_however_long_it_is() -> None:
    store = MemoryStore(limit_bytes=3500)
    async with store.hold("a"):
        for run_id in ("a", "b", "b", "b", "b"):
            await store.append(run_id, LONG, durable=True)
    assert [await store.last(run_id) for run_id in "ab"] == [1, 4]


async def test_who_follows_a_run_that_is_forgotten_hears_of_it() -> None:
    journal = memory_journal(limit_bytes=2500)
    await journal.store.append("a", LONG, durable=True)
    async with journal.follow("a").open() as events:
        await anext(events)
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(fill, journal.store)
            with pytest.raises(UnknownRun, match="forgotten to make room"):
                await anext(events)


async def fill(store: object) -> None:
    assert isinstance(store, MemoryStore)
    await checkpoint()
    for run_id in ("b", "c"):
        await store.append(run_id, LONG, durable=True)


async def test_all_who_wait_for_a_run_share_one_event(monkeypatch: pytest.MonkeyPatch) -> None:
    store, made, event = MemoryStore(), 0, anyio.Event

    def counted() -> anyio.Event:
        nonlocal made
        made += 1
        return event()

    async with anyio.create_task_group() as tasks:
        with monkeypatch.context() as patched:
            patched.setattr(anyio, "Event", counted)
            for _ in range(20):
                tasks.start_soon(store.wait, "a", 0)
            await anyio.wait_all_tasks_blocked()
            await store.append("a", LONG, durable=True)
    assert made == 1
