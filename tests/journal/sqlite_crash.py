"""Writes a journal, and is killed while it does, again and again: `python sqlite_crash.py PATH SEED KILLS`.

A child of this process writes, and says what was reported to it as written; it is killed after some of that, at a
random moment. Then the file must open, with all that was reported in it, batches whole and numbers without a gap. Fails
where it is not so. (Forks start faster than programs do.)
"""

import os
import random
import signal
import sqlite3
import sys
import time

import anyio

from streamkit.journal.entry import CallFinished, Entry, RunTaken, Shown
from streamkit.journal.sqlite import SqliteStore
from streamkit.tool_events import Value
from streamkit.turns import TextDelta

RUNS = ("one", "two", "three")
BATCH = 4


def batch(life: int, number: int) -> list[Entry]:
    """Says what it belongs to, in entries that are no page long, and in some that are several."""
    name = f"{life}.{number}"
    size = (10, 300, 9000)[number % 3]
    return [
        RunTaken(name),
        Shown(TextDelta(name + " " * size)),
        CallFinished(name, Value(name, "f", "x" * size, "")),
        RunTaken(name),
    ]


async def write(path: str, life: int) -> None:
    """Write for ever, in several runs at once, and report each batch of which the store said that it is written."""
    store = SqliteStore(path)

    async def drive(run_id: str) -> None:
        async with store.hold(run_id):
            number = 0
            while True:
                last = await store.append(run_id, batch(life, number), durable=number % 2 == 0)
                os.write(1, f"{run_id} {last}\n".encode())
                number += 1

    async with anyio.create_task_group() as tasks:
        for run_id in RUNS:
            tasks.start_soon(drive, run_id)


def kill_a_writer(path: str, life: int, chance: random.Random) -> dict[str, int]:
    """What was reported of each run before the writer was killed."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        os.dup2(writing, 1)
        os.close(reading)
        os.close(writing)
        anyio.run(write, path, life, backend=("asyncio", "trio")[life % 2])
        os._exit(1)
    os.close(writing)
    reported = dict.fromkeys(RUNS, 0)
    with os.fdopen(reading) as reports:
        for _ in range(chance.randrange(1, 25)):
            run_id, last = reports.readline().split()
            reported[run_id] = int(last)
        time.sleep(chance.random() * 0.01)  # somewhere between two of them
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        for report in reports:
            if report.endswith("\n"):
                run_id, last = report.split()
                reported[run_id] = int(last)
    return reported


async def check(path: str, reported: dict[str, int]) -> None:
    """The file as the next process finds it."""
    store = SqliteStore(path)
    for run_id in RUNS:
        async with store.hold(run_id):  # at once, whoever was killed
            found = await store.read(run_id, limit=10**6)
            assert len(found) >= reported[run_id], f"{run_id}: {reported[run_id]} reported, {len(found)} found"
            assert [each.number for each in found] == list(range(1, len(found) + 1)), f"{run_id} has a gap"
            entries = [each.entry for each in found]
            assert len(entries) % BATCH == 0, f"half a batch in {run_id}"
            for at in range(0, len(entries), BATCH):
                first = entries[at]
                assert isinstance(first, RunTaken)
                life, number = first.driver.split(".")
                assert entries[at : at + BATCH] == batch(int(life), int(number)), f"a batch of {run_id} is torn apart"
    await store.aclose()


def main(path: str, seed: int, kills: int) -> None:
    chance = random.Random(seed)
    for life in range(kills):
        reported = kill_a_writer(path, life, chance)
        anyio.run(check, path, reported)
    connection = sqlite3.connect(path)
    assert connection.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
    connection.close()


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]))
