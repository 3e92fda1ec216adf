"""The journal in a file: its rules, and what several tasks, stores, event loops and processes do with it."""

import gc
import os
import sqlite3
import subprocess
import sys
import threading
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import anyio
import pytest

from streamkit.conversation import Conversation
from streamkit.errors import JournalError
from streamkit.items import user
from streamkit.journal.entry import Entry, RunTaken, Shown
from streamkit.journal.sqlite import SqliteStore, sqlite_journal
from streamkit.journal.sqlite_writer import Append, Writer
from streamkit.testing import check_journal_store
from streamkit.testing.leftovers import nothing_left
from streamkit.turns import TextDelta

from .child_stores import child_store
from .writers import SlowAppend, counting_writer

ROOT = Path(__file__).parents[2]
GUARD_SECONDS = 60


def entries(*drivers: object) -> list[Entry]:
    return [RunTaken(str(each)) for each in drivers]


async def drivers(store: Any, run_id: str = "r") -> list[str]:
    found: list[str] = [numbered.entry.driver for numbered in await store.read(run_id)]
    return found


@pytest.fixture
def path(tmp_path: Path) -> Iterator[Path]:
    yield tmp_path / "runs.db"
    gc.collect()
    join_threads()


def join_threads() -> None:
    """Wait for the threads of stores that nobody has any more."""
    for thread in threading.enumerate():
        if thread.name.startswith("streamkit-journal"):
            thread.join(GUARD_SECONDS)
            assert not thread.is_alive()


# The rules of a store


async def test_it_keeps_the_rules_of_a_store(path: Path) -> None:
    async def another() -> SqliteStore:
        return SqliteStore(path)

    await check_journal_store(SqliteStore(path), another)


async def test_it_keeps_them_with_a_store_in_another_process(path: Path) -> None:
    async with child_store(path) as child:

        async def another() -> Any:
            return child

        await check_journal_store(SqliteStore(path), another)


async def test_a_run_goes_on_from_a_file_that_another_journal_wrote(path: Path) -> None:
    state = Conversation((user("Hello"),))
    async with sqlite_journal(path).drive("r") as run:
        await run.save(state)
    async with sqlite_journal(path).resume("r") as run:
        assert run.conversation == state


def test_a_store_serves_several_event_loops_one_after_another(path: Path) -> None:
    store = SqliteStore(path)
    for number, backend in enumerate(["asyncio", "trio", "asyncio"], 1):
        assert anyio.run(partial(store.append, durable=True), "r", entries(backend), backend=backend) == number
    assert anyio.run(drivers, store) == ["asyncio", "trio", "asyncio"]


async def test_a_closed_store_opens_again(path: Path) -> None:
    store = SqliteStore(path)
    for number in (1, 2):
        assert await store.append("r", entries(number), durable=False) == number
        assert await drivers(store) == ["1", "2"][:number]
        await store.aclose()
        assert sorted(os.listdir(path.parent)) == ["runs.db"], "SQLite has left its log"
    await store.aclose()


async def test_a_store_that_is_dropped_leaves_nothing_open(path: Path) -> None:
    async def use() -> None:
        store = SqliteStore(path)
        async with store.hold("r"):
            await store.append("r", entries(1), durable=True)
            await store.last("r")

    async with nothing_left():
        await use()
        gc.collect()
        await anyio.to_thread.run_sync(join_threads)
    if sys.platform == "linux":
        opened = [os.readlink(f"/proc/self/fd/{name}") for name in os.listdir("/proc/self/fd") if exists(name)]
        assert not [name for name in opened if name.startswith(str(path))]


def exists(descriptor: str) -> bool:
    return os.path.lexists(f"/proc/self/fd/{descriptor}")


def test_a_store_that_is_not_closed_does_not_keep_its_process(path: Path) -> None:
    for backend in ("asyncio", "trio"):
        program = (
            "import anyio\n"
            "from streamkit.journal.sqlite import SqliteStore\n"
            f"store = SqliteStore({str(path)!r})\n"
            "async def main():\n"
            "    async with store.hold('r'):\n"
            "        await store.append('r', [], durable=True)\n"
            "        with anyio.move_on_after(0.01):\n"
            "            await store.wait('r', 0)\n"
            f"anyio.run(main, backend={backend!r})\n"
        )
        command = [sys.executable, "-X", "dev", "-W", "error", "-c", program]
        ended = subprocess.run(command, check=True, timeout=GUARD_SECONDS, capture_output=True, cwd=ROOT)
        assert ended.stderr == b""


async def test_what_goes_on_with_a_run_reads_none_of_what_was_shown(path: Path) -> None:
    store = SqliteStore(path)
    await store.append("r", [Shown(TextDelta("x"))] * 10, durable=False)
    with sqlite3.connect(path) as connection:
        connection.execute("UPDATE entries SET entry = 'unreadable'")
    connection.close()
    await store.append("r", entries("a"), durable=False)
    assert [numbered.number for numbered in await store.read("r", shown=False)] == [11]


# Several writers


async def test_numbers_have_no_gap_when_several_processes_write(path: Path) -> None:
    stores = [SqliteStore(path), SqliteStore(path)]
    numbers: list[int] = []

    async def write(store: Any, writer: int) -> None:
        for number in range(15):
            numbers.append(await store.append("r", entries(f"{writer}.{number}", ""), durable=number % 5 == 0))

    async with child_store(path) as one, child_store(path) as two, anyio.create_task_group() as tasks:
        for writer, store in enumerate([one, two, *stores]):
            tasks.start_soon(write, store, writer)
    assert sorted(numbers) == list(range(2, 122, 2))
    found = await drivers(stores[0])
    assert found[1::2] == [""] * 60
    for writer in range(4):
        assert [each for each in found if each.startswith(f"{writer}.")] == [f"{writer}.{each}" for each in range(15)]


async def test_whoever_waits_sees_what_another_process_writes(path: Path) -> None:
    store = SqliteStore(path)
    async with child_store(path) as child:
        for number in range(1, 4):
            async with anyio.create_task_group() as tasks:
                for _ in range(3):
                    tasks.start_soon(store.wait, "r", number - 1)
                await anyio.wait_all_tasks_blocked()
                assert await child.append("r", entries(number), durable=False) == number


async def test_what_comes_while_a_commit_is_under_way_is_committed_together(path: Path) -> None:
    async with counting_writer(path) as (writer, transactions):
        numbers = await append_behind_a_slow_one(writer, [("{}", str(number)) for number in range(50)])
        assert sorted(number for number in numbers if isinstance(number, int)) == list(range(3, 103, 2))
        assert len(transactions) == 2


async def test_one_that_cannot_be_written_takes_no_other_along(path: Path) -> None:
    async with counting_writer(path) as (writer, _):
        numbers = await append_behind_a_slow_one(writer, [("{}", None if number == 2 else "{}") for number in range(5)])
        assert sorted(number for number in numbers if isinstance(number, int)) == [3, 5, 7, 9]
        (failed,) = [error for error in numbers if isinstance(error, JournalError)]
        assert "NOT NULL" in str(failed)


async def append_behind_a_slow_one(writer: Writer, batches: Sequence[Sequence[Any]]) -> list[int | JournalError]:
    """What several tasks get that all append while another commit is under way."""
    told: list[int | JournalError] = []

    async def append(place: int) -> None:
        rows = [(False, entry) for entry in batches[place]]
        try:
            told.append(await writer.do(Append("r", rows, durable=place % 2 == 0)))
        except JournalError as error:
            told.append(error)

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(writer.do, slow := SlowAppend("r", ["{}"]))
        await slow.writing.wait()
        for place in range(len(batches)):
            tasks.start_soon(append, place)
        await anyio.wait_all_tasks_blocked()
        slow.may_end.set()
    return told
