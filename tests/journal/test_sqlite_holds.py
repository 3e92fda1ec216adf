"""One driver a run: among tasks, stores, threads, processes and forks of them."""

import os
import re
import signal
import socket
import subprocess
import sys
import threading
from pathlib import Path

import anyio
import pytest

from streamkit.errors import RunIsHeld
from streamkit.journal.entry import RunTaken
from streamkit.journal.sqlite import SqliteStore
from streamkit.journal.store import JournalStore

from .child_stores import child_store

ROOT = Path(__file__).parents[2]
GUARD_SECONDS = 60


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "runs.db"


async def may_hold(store: SqliteStore, run_id: str = "r") -> bool:
    try:
        async with store.hold(run_id):
            return True
    except RunIsHeld:
        return False


async def test_who_is_refused_is_told_who_holds_the_run_and_since_when(path: Path) -> None:
    store = SqliteStore(path)
    async with child_store(path) as child, child.hold("r"):
        with pytest.raises(RunIsHeld) as refused:
            async with store.hold("r"):
                pass
        told = rf"run r is driven by process {child.process.pid} on {re.escape(socket.gethostname())} since 20\S+"
        assert re.fullmatch(told, str(refused.value))
    async with store.hold("r"):
        with pytest.raises(RunIsHeld, match=f"process {os.getpid()} "):
            async with store.hold("r"):
                pass


async def test_whoever_asks_who_drives_a_run_stands_in_nobodys_way(path: Path) -> None:
    store = SqliteStore(path)
    async with child_store(path) as child, anyio.create_task_group() as tasks:

        async def ask(asked: JournalStore) -> None:
            for _ in range(20):
                assert not await asked.is_held("r")

        for asked in (store, child, store, child):
            tasks.start_soon(ask, asked)
        for _ in range(20):
            assert await may_hold(store, "s")
            async with store.hold("s"):
                assert await child.is_held("s")
                assert await store.is_held("s")


async def test_a_run_is_free_as_soon_as_its_driver_is_killed(path: Path) -> None:
    store = SqliteStore(path)
    async with child_store(path) as child:
        await child.ask("hold", run_id="r")
        assert not await may_hold(store)
        child.process.kill()
        await child.process.wait()
        assert await may_hold(store)


async def test_a_run_that_another_process_lets_go_is_free(path: Path) -> None:
    store = SqliteStore(path)
    async with child_store(path) as child:
        async with child.hold("r"), child.hold("s"), store.hold("t"):
            assert not await may_hold(store)
        assert await may_hold(store)
        async with store.hold("r"), store.hold("s"):
            with pytest.raises(RunIsHeld):
                async with child.hold("s"):
                    pass
        async with child.hold("s"):
            pass


def test_threads_exclude_each_other(path: Path) -> None:
    stores = [SqliteStore(path)] * 2 + [SqliteStore(path)] * 2
    inside, most = [0], [0]
    lock = threading.Lock()

    async def contend(store: SqliteStore) -> None:
        for _ in range(20):
            try:
                async with store.hold("r"):
                    with lock:
                        inside[0] += 1
                        most[0] = max(most[0], inside[0])
                    await anyio.lowlevel.checkpoint()
                    with lock:
                        inside[0] -= 1
            except RunIsHeld:
                pass

    threads = [threading.Thread(target=anyio.run, args=(contend, store)) for store in stores]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(GUARD_SECONDS)
    assert most == [1]


async def test_who_writes_is_not_held_up_by_who_holds(path: Path) -> None:
    store, other = SqliteStore(path), SqliteStore(path)
    async with store.hold("r"), other.hold("s"):
        for writer in (store, other):
            for run_id in ("r", "s", "t"):
                await writer.append(run_id, [RunTaken("")], durable=True)


async def test_a_thousand_runs_are_held_with_one_open_file(path: Path) -> None:
    store = SqliteStore(path)
    await store.append("r", [RunTaken("")], durable=False)
    held = anyio.Event()
    left = [1000]

    async def hold(number: int) -> None:
        async with store.hold(f"{number}"):
            left[0] -= 1
            if not left[0]:
                held.set()
            await anyio.sleep_forever()

    before = descriptors()
    async with anyio.create_task_group() as tasks:
        for number in range(1000):
            tasks.start_soon(hold, number)
        await held.wait()
        assert descriptors() <= before + 1
        assert not await may_hold(store, "999")
        tasks.cancel_scope.cancel()
    assert descriptors() <= before
    assert await may_hold(store, "999")


def descriptors() -> int:
    return len(os.listdir("/dev/fd"))


@pytest.mark.skipif(not hasattr(os, "fork"), reason="nothing forks here")
def test_a_process_may_fork_while_it_writes_and_holds(path: Path) -> None:
    command = [sys.executable, "-W", "error::ResourceWarning", "-m", "tests.journal.sqlite_fork", str(path)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, cwd=ROOT) as process:
        assert process.stdout is not None
        assert process.stdin is not None
        assert process.stdout.readline() == b"%d\n" % process.pid
        assert process.stdout.readline() == b"child\n"
        assert process.wait(GUARD_SECONDS) == -signal.SIGKILL
        assert anyio.run(may_hold, SqliteStore(path), "orphaned"), "a forked child holds what its parent held"
        process.stdin.close()
