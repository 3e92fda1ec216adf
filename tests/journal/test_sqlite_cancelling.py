"""Tasks that leave while something is written or read, or while a run is taken."""

import itertools
import sqlite3
from collections.abc import Coroutine, Generator
from functools import partial
from pathlib import Path
from typing import Any, Generic, TypeVar

import anyio
import pytest

from streamkit.journal.entry import Entry, RunTaken
from streamkit.journal.sqlite import SqliteStore
from streamkit.journal.sqlite_writer import Take

from .writers import GUARD_SECONDS, SlowAppend, counting_writer

T = TypeVar("T")

BATCH: list[Entry] = [RunTaken("a"), RunTaken("b"), RunTaken("c")]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "runs.db"


class CancelledAt(Generic[T]):
    """Awaits a coroutine, and cancels a scope when that waits for the n-th time."""

    def __init__(self, coroutine: Coroutine[Any, Any, T], number: int, scope: anyio.CancelScope) -> None:
        self.coroutine = coroutine
        self.number = number
        self.scope = scope
        self.struck = False

    def __await__(self) -> Generator[Any, Any, T]:
        step, given = self.coroutine.send, None
        for number in itertools.count():
            try:
                wanted = step(given)
            except StopIteration as stop:
                value: T = stop.value
                return value
            if number == self.number:
                self.struck = True
                self.scope.cancel()
            try:
                step, given = self.coroutine.send, (yield wanted)
            except BaseException as error:
                step, given = self.coroutine.throw, error
        raise AssertionError


@pytest.mark.parametrize("durable", [True, False])
async def test_an_append_that_is_cancelled_is_there_as_a_whole_or_not_at_all(path: Path, durable: bool) -> None:
    store = SqliteStore(path)
    last = 0
    for number in itertools.count():
        with anyio.CancelScope() as scope:
            attack = CancelledAt(store.append("r", BATCH, durable=durable), number, scope)
            assert await attack == last + 3
        found = await store.last("r")
        assert found in (last, last + 3) if scope.cancelled_caught else found == last + 3
        last = found
        if not attack.struck:
            break
    assert number > 0
    assert [each.entry for each in await store.read("r")] == BATCH * (last // 3)
    await store.aclose()


async def test_a_run_is_free_after_a_cancellation_at_any_moment(path: Path) -> None:
    store = SqliteStore(path)

    async def drive() -> None:
        async with store.hold("r"):
            await store.append("r", BATCH, durable=False)

    for number in itertools.count():
        with anyio.CancelScope() as scope:
            attack = CancelledAt(drive(), number, scope)
            await attack
        async with store.hold("r"):
            pass
        if not attack.struck:
            break
    assert number > 1
    await store.aclose()


@pytest.mark.parametrize("do", ["read", "last", "wait"])
async def test_a_reader_may_leave_at_any_moment(path: Path, do: str) -> None:
    store = SqliteStore(path)
    await store.append("r", BATCH, durable=False)
    for number in itertools.count():
        read: Coroutine[Any, Any, object] = store.wait("r", 0) if do == "wait" else getattr(store, do)("r")
        with anyio.CancelScope() as scope:
            attack = CancelledAt(read, number, scope)
            await attack
        assert await store.last("r") == 3
        if not attack.struck:
            break
    await store.aclose()


async def test_who_leaves_before_the_write_takes_it_back_at_once(path: Path) -> None:
    store = SqliteStore(path, lock_timeout_seconds=GUARD_SECONDS)
    await store.append("r", BATCH, durable=False)
    other = sqlite3.connect(path, isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(partial(store.append, durable=True), "r", BATCH)
        tasks.start_soon(hold, store)
        await anyio.wait_all_tasks_blocked()
        tasks.cancel_scope.cancel()
    other.execute("COMMIT")
    other.close()
    assert await store.append("r", BATCH, durable=True) == 6
    async with store.hold("r"):
        pass
    await store.aclose()


async def hold(store: SqliteStore) -> None:
    async with store.hold("r"):
        await anyio.sleep_forever()


async def test_who_leaves_during_the_write_leaves_when_it_is_done(path: Path) -> None:
    left: list[int] = []

    async def append(slow: SlowAppend) -> None:
        try:
            await writer.do(slow)
        finally:
            left.append(last_in(path))

    async with counting_writer(path) as (writer, _), anyio.create_task_group() as tasks:
        tasks.start_soon(append, slow := SlowAppend("r", ["{}"]))
        await slow.writing.wait()
        tasks.cancel_scope.cancel()
        with anyio.CancelScope(shield=True):
            await anyio.wait_all_tasks_blocked()
        assert not left
        slow.may_end.set()
    assert left == [1]


def last_in(path: Path) -> int:
    connection = sqlite3.connect(path)
    (last,) = connection.execute("SELECT MAX(number) FROM entries").fetchone()
    connection.close()
    return int(last)


async def test_a_run_that_is_taken_for_somebody_who_has_left_is_free(path: Path) -> None:
    async with counting_writer(path) as (writer, _):
        take = Take(str(path), "r")
        take.give_up()
        assert "has left" in await writer.do(take)
        take = Take(str(path), "r")
        assert await writer.do(take) is None
        take.give_up()
        assert await writer.do(Take(str(path), "r")) is None
