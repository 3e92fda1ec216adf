"""A process that uses an SqliteStore and forks: `python sqlite_fork.py PATH`. Fails where parent and child disturb each
other; ends by killing itself while it holds run `orphaned`, and its child lives on, until its input ends."""

import os
import signal
import sys
import threading
from collections.abc import Awaitable, Callable

import anyio
import anyio.lowlevel
import pytest

from streamkit.errors import RunIsHeld
from streamkit.journal.entry import RunTaken
from streamkit.journal.sqlite import SqliteStore


def in_child(function: Callable[[], Awaitable[None]]) -> Callable[[], int]:
    """Run a function in a fork of this process; what is given waits for its end and tells its status."""
    child = os.fork()
    if child == 0:
        status = [1]

        def run() -> None:
            anyio.run(function)
            status[0] = 0

        thread = threading.Thread(target=run)  # this one has an event loop, a copy of the parent's
        thread.start()
        thread.join()
        os._exit(status[0])
    return lambda: os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


async def main(path: str) -> None:
    store = SqliteStore(path)
    await store.append("r", [RunTaken("parent")], durable=True)

    async def use_both() -> None:
        for used in (store, SqliteStore(path)):
            with pytest.raises(RunIsHeld, match=f"process {os.getppid()} on"):
                async with used.hold("held"):
                    pass
            async with used.hold("free"):
                await used.append("r", [RunTaken("child")], durable=True)

    async with store.hold("held"), anyio.create_task_group() as tasks:
        tasks.start_soon(write, store)
        for number in range(3):
            await anyio.lowlevel.checkpoint()
            assert in_child(use_both)() == 0
            async with store.hold("free"):
                last = await store.append("r", [RunTaken("parent")], durable=True)
            found = await store.read("r", limit=last)
            assert [numbered.number for numbered in found] == list(range(1, last + 1))
            assert sum(numbered.entry == RunTaken("child") for numbered in found) == 2 * (number + 1)
        tasks.cancel_scope.cancel()
    assert in_child(lambda: hold(store, "held"))() == 0, "the parent does not hold it any more"
    async with store.hold("orphaned"):
        os.write(1, b"%d\n" % os.getpid())
        in_child(wait_for_end_of_input)
        os.kill(os.getpid(), signal.SIGKILL)


async def write(store: SqliteStore) -> None:
    while True:
        await store.append("r", [RunTaken("beside")], durable=False)


async def hold(store: SqliteStore, run_id: str) -> None:
    async with store.hold(run_id):
        pass


async def wait_for_end_of_input() -> None:
    os.write(1, b"child\n")
    os.read(0, 1)


if __name__ == "__main__":
    anyio.run(main, sys.argv[1])
