"""Files that are damaged, foreign, of other versions, full, locked, read-only or gone: a clear error, nothing lost."""

import os
import sqlite3
import tempfile
from collections.abc import Iterator
from pathlib import Path

import anyio
import pytest

from streamkit.errors import JournalError
from streamkit.journal.entry import RunTaken, Shown
from streamkit.journal.sqlite import SqliteStore
from streamkit.journal.sqlite_database import STEPS, open_file
from streamkit.turns import TextDelta

from .child_stores import child_store

ONE = [RunTaken("one")]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "runs.db"


async def write(path: Path, count: int = 1) -> None:
    store = SqliteStore(path)
    for _ in range(count):
        await store.append("r", [RunTaken("x" * 1000)], durable=False)
    await store.aclose()


def change(path: Path, statement: str) -> None:
    connection = sqlite3.connect(path)
    with connection:
        connection.execute(statement)
    connection.close()


async def fails(store: SqliteStore, message: str) -> None:
    """Everything says what is wrong, and with which file."""
    for attempt in (
        lambda: store.append("r", ONE, durable=True),
        lambda: store.read("r"),
        lambda: store.last("r"),
        lambda: store.wait("r", 10**6),
        lambda: store.hold("r").__aenter__(),
    ):
        with pytest.raises(JournalError, match=message) as raised:
            await attempt()
        assert str(store.path) in str(raised.value)


def read_bytes(path: Path) -> bytes:
    return path.read_bytes()


def write_bytes(path: Path, content: bytes) -> None:
    path.write_bytes(content)


# What is not a journal, or not one of this version


async def test_a_file_that_is_no_database_is_refused(path: Path) -> None:
    write_bytes(path, b"Dear diary, " * 1000)
    await fails(SqliteStore(path), "is not a journal")
    assert read_bytes(path) == b"Dear diary, " * 1000


async def test_a_database_of_something_else_is_refused_and_left_as_it_is(path: Path) -> None:
    change(path, "CREATE TABLE customers (name)")
    before = read_bytes(path)
    await fails(SqliteStore(path), "is a database of something else")
    assert read_bytes(path) == before


async def test_a_journal_of_a_later_version_is_refused(path: Path) -> None:
    await write(path)
    change(path, f"PRAGMA user_version = {len(STEPS) + 1}")
    await fails(SqliteStore(path), f"has version {len(STEPS) + 1}; this streamkit knows {len(STEPS)} at most")


async def test_a_journal_of_an_earlier_version_is_brought_up_to_date(path: Path) -> None:
    await write(path)
    later = [*STEPS, ["ALTER TABLE entries ADD COLUMN note", "UPDATE entries SET note = 'old'"]]
    for _ in range(2):
        connection = open_file(str(path), 5, later)
        assert connection.execute("PRAGMA user_version").fetchone() == (len(STEPS) + 1,)
        assert connection.execute("SELECT number, note FROM entries").fetchall() == [(1, b"old")]
        connection.close()
    await fails(SqliteStore(path), "has version")


async def test_a_step_that_fails_leaves_the_version_before(path: Path) -> None:
    await write(path)
    with pytest.raises(sqlite3.OperationalError):
        open_file(str(path), 5, [*STEPS, ["DROP INDEX unshown", "nonsense"]])
    store = SqliteStore(path)
    assert await store.append("r", ONE, durable=True) == 2
    assert len(await store.read("r", shown=False)) == 2
    await store.aclose()


async def test_several_processes_may_make_a_new_file_at_once(path: Path) -> None:
    stores = [SqliteStore(path) for _ in range(8)]
    numbers: list[int] = []

    async def write(store: SqliteStore) -> None:
        numbers.append(await store.append("r", ONE, durable=True))

    async with anyio.create_task_group() as tasks:
        for store in stores:
            tasks.start_soon(write, store)
    assert sorted(numbers) == list(range(1, 9))


# Damage


async def test_a_truncated_file_is_refused(path: Path) -> None:
    await write(path, 100)
    whole = read_bytes(path)
    write_bytes(path, whole[: len(whole) // 2])
    store = SqliteStore(path)
    await fails(store, "is damaged")
    write_bytes(path, whole)
    assert await store.append("r", ONE, durable=True) == 101
    await store.aclose()


async def test_a_damaged_page_is_told(path: Path) -> None:
    await write(path, 100)
    whole = read_bytes(path)
    write_bytes(path, whole[:4096] + b"\xff" * (len(whole) - 4096))
    await fails(SqliteStore(path), "is damaged")


@pytest.mark.parametrize("written", ['\'{"type": "nonsense"}\'', "'{'", "x'ff'", "1", "''"])
async def test_an_entry_that_cannot_be_read_is_named(path: Path, written: str) -> None:
    await write(path, 3)
    change(path, f"UPDATE entries SET entry = {written} WHERE number = 2")
    store = SqliteStore(path)
    assert len(await store.read("r", limit=1)) == 1
    with pytest.raises(JournalError, match=r"runs\.db is damaged: entry 2 of run r"):
        await store.read("r")
    assert len(await store.read("r", 2)) == 1
    await store.aclose()


# What passes


async def test_a_file_that_is_locked_for_too_long_is_told(path: Path) -> None:
    store = SqliteStore(path, lock_timeout_seconds=0.05)
    assert await store.append("r", ONE, durable=True) == 1
    other = sqlite3.connect(path, isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    for _ in range(2):
        with pytest.raises(JournalError, match=r"runs\.db was locked by another process for too long"):
            await store.append("r", ONE, durable=True)
        with pytest.raises(JournalError, match="was locked"):
            async with store.hold("r"):
                pass
    assert await store.last("r") == 1
    other.execute("COMMIT")
    other.close()
    assert await store.append("r", ONE, durable=True) == 2
    async with store.hold("r"):
        pass
    await store.aclose()


async def test_a_file_that_cannot_grow_is_told_and_keeps_what_it_has(path: Path) -> None:
    async with child_store(path) as child:
        big, last = [Shown(TextDelta("x" * 20_000))], 0
        await child.ask("limit_file_size", limit=100_000)
        with pytest.raises(JournalError, match=r"runs\.db cannot (grow|be read or written)"):
            while True:
                last = await child.append("r", big, durable=True)
        assert last > 1
        assert await child.append("r", ONE, durable=True) in (last + 1, last + 2)
        assert await child.last("r") == last + 1
        await child.ask("limit_file_size", limit=10_000_000)
        assert await child.append("r", big, durable=True) == last + 2
        assert [each.number for each in await child.read("r")] == list(range(1, last + 3))


@pytest.fixture
def open_folder() -> Iterator[Path]:
    """A folder that everybody may look into."""
    with tempfile.TemporaryDirectory() as name:
        os.chmod(name, 0o777)
        yield Path(name)
        os.chmod(name, 0o777)


def allow_all(folder: Path) -> None:
    folder.chmod(0o777)
    for path in folder.iterdir():
        path.chmod(0o666)


async def test_a_read_only_folder_is_told(open_folder: Path) -> None:
    path = open_folder / "runs.db"
    async with child_store(path) as child:
        await child.ask("become_nobody")
        os.chmod(open_folder, 0o555)
        with pytest.raises(JournalError, match=r"runs\.db cannot be opened"):
            await child.append("r", ONE, durable=True)
        with pytest.raises(JournalError, match=r"runs\.db cannot be opened"):
            await child.last("r")
        allow_all(open_folder)
        assert await child.append("r", ONE, durable=True) == 1


async def test_a_read_only_file_is_told(open_folder: Path) -> None:
    path = open_folder / "runs.db"
    await write(path)
    os.chmod(path, 0o444)
    async with child_store(path) as child:
        await child.ask("become_nobody")
        with pytest.raises(JournalError, match=r"runs\.db cannot be (written|opened)"):
            await child.append("r", ONE, durable=True)
        with pytest.raises(JournalError, match=r"runs\.db cannot be (written|opened)"):
            await child.ask("hold", run_id="r")
        allow_all(open_folder)
        assert await child.append("r", ONE, durable=True) == 2


async def test_a_folder_that_is_not_there_is_told(tmp_path: Path) -> None:
    await fails(SqliteStore(tmp_path / "nowhere" / "runs.db"), "cannot be opened")
    await fails(SqliteStore(tmp_path), "cannot be opened")


async def test_a_file_that_is_deleted_while_it_is_open_is_told(path: Path) -> None:
    store = SqliteStore(path)
    await store.append("r", ONE, durable=True)
    os.unlink(path)
    with pytest.raises(JournalError, match=r"runs\.db was moved or deleted while it was open"):
        while True:  # it looks only so often
            await store.append("r", ONE, durable=True)
    assert await store.append("r", ONE, durable=True) == 1
    await store.aclose()


async def test_who_waits_hears_of_a_failure(path: Path) -> None:
    store = SqliteStore(path)
    await store.append("r", ONE, durable=True)
    await store.last("r")  # the one that reads has opened the file, too
    failed: list[str] = []

    async def wait() -> None:
        try:
            await store.wait("r", 1)
        except JournalError as error:
            failed.append(str(error))

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(wait)
        tasks.start_soon(wait)
        await anyio.wait_all_tasks_blocked()
        os.unlink(path)
    assert failed == [f"the journal {path} was moved or deleted while it was open"] * 2
    await store.aclose()


def test_a_journal_in_memory_is_another_one() -> None:
    with pytest.raises(ValueError, match=r"memory_journal\(\)"):
        SqliteStore(":memory:")
