"""Kills runs again and again until they end, and checks what is left.

`python -m tests.run_crashes FOLDER SEED DEATHS` takes new runs until so many lives were cut off. Each life is a child
of this process: it dies at the n-th point of some kind, or whenever the clock says so. Mostly there is a follower as
well, which sometimes dies with it and comes back with the number of its last event. Or the file of the journal cannot
grow any more, or stays locked: then the life ends with an error that says so. Fails where something does not hold;
else says how many died how. (Forks start faster than programs do.)
"""

import gc
import itertools
import json
import os
import random
import re
import resource
import signal
import sqlite3
import sys
import time
import traceback
from collections import Counter
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import NamedTuple

import anyio
import msgspec

from streamkit import RunEvent
from streamkit.errors import JournalError
from streamkit.journal.journals import Journal
from streamkit.journal.sqlite import SqliteStore, sqlite_journal

from .crash_checks import Followed, check_run
from .crash_points import Points
from .crash_run import RUN, live

BACKENDS = ("asyncio", "trio")
POINTS = ("step", "statement", "instruction", "deed", "event")
KINDS = (*POINTS, "clock", "full", "locked")
MOST_DEATHS = 6
FAILED_AS_IT_MUST = 3
LOCK_TIMEOUT_SECONDS = 0.05


class Whole(NamedTuple):
    """What a life is like that nothing cuts off: how many points it passes, and how long it takes."""

    counts: dict[str, int]
    seconds: float


async def live_in(folder: Path, points: Points, lock_timeout_seconds: float = 5) -> None:
    store = SqliteStore(folder / "runs.db", lock_timeout_seconds=lock_timeout_seconds)
    await live(Journal(store), folder / "deeds", points)
    await store.aclose()


def fill_the_disk(folder: Path) -> None:
    """No file of this process gets any larger than the journal is now."""
    size = max(path.stat().st_size for path in folder.iterdir())
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, size))


def lock_the_file(folder: Path) -> None:
    """As a process does that stops in the middle of a transaction."""
    other = sqlite3.Connection(folder / "runs.db", isolation_level=None, check_same_thread=False)
    other.execute("BEGIN IMMEDIATE")
    LOCKS.append(other)


LOCKS: list[sqlite3.Connection] = []


async def follow(folder: Path, after: int) -> None:
    journal = sqlite_journal(folder / "runs.db")
    await journal.store.wait(RUN, 0)
    seen = os.open(folder / "seen", os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    async with journal.follow(RUN, after=after).open() as events:
        async for followed in events:
            os.write(seen, msgspec.json.encode([followed.number, followed.event]) + b"\n")


def fork(work: Callable[[], object], may_fail_with: str | None = None) -> int:
    """The id of a child that does the work, and no more. may_fail_with: what the message of a JournalError says."""
    child = os.fork()
    if child:
        return child
    code = 1
    try:
        work()
        code = 0
    except JournalError as error:
        if may_fail_with is not None and re.search(may_fail_with, str(error)):
            code = FAILED_AS_IT_MUST
        else:
            traceback.print_exc()
    except BaseException:
        traceback.print_exc()
    finally:
        os._exit(code)  # without the cleanup of the parent


def ended_well(child: int) -> bool:
    """Wait for a child; False where it was cut off. Raises AssertionError where it failed in another way."""
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    assert code in (0, -signal.SIGKILL, FAILED_AS_IT_MUST), f"a child failed with {code}"
    return code == 0


def live_whole(folder: Path, backend: str) -> Whole:
    """In this process, so that all that comes later finds what is made once."""
    points = Points()
    began = time.perf_counter()
    points.run(backend, partial(live_in, folder, points))
    return Whole(points.counts(), time.perf_counter() - began)


def read_seen(folder: Path) -> list[Followed]:
    path = folder / "seen"
    lines = path.read_bytes().splitlines(keepends=True) if path.exists() else []
    whole = [line for line in lines if line.endswith(b"\n")]
    path.write_bytes(b"".join(whole))
    return [Followed(*msgspec.json.decode(line, type=tuple[int, RunEvent])) for line in whole]


class Killer:
    """Drives one run to its end, over its own dead bodies."""

    def __init__(self, folder: Path, chance: random.Random, whole: dict[str, Whole]) -> None:
        folder.mkdir()
        self.deaths: Counter[str] = Counter()
        self._folder = folder
        self._chance = chance
        self._whole = whole
        self._follower: int | None = None

    def kill_until_it_ends(self) -> None:
        try:
            self._kill_until_it_ends()
        except BaseException:
            if self._follower is not None:
                os.kill(self._follower, signal.SIGKILL)
            raise

    def _kill_until_it_ends(self) -> None:
        if self._chance.random() < 0.7:
            self._start_follower()
        while not self._live_once():
            if self._follower is not None and self._chance.random() < 0.3:
                os.kill(self._follower, signal.SIGKILL)
                ended_well(self._follower)
                self._start_follower()
        if self._follower is not None:
            assert ended_well(self._follower)
        self._start_follower()  # the first one, or one more behind a life that ended with an error
        assert self._follower is not None
        assert ended_well(self._follower)
        check_run(self._folder / "runs.db", self._folder / "deeds", read_seen(self._folder))

    def _start_follower(self) -> None:
        seen = read_seen(self._folder)
        after = seen[-1].number if seen else 0
        self._follower = fork(lambda: anyio.run(follow, self._folder, after, backend=self._chance.choice(BACKENDS)))

    def _live_once(self) -> bool:
        """Whether it came to its end."""
        backend = self._chance.choice(BACKENDS)
        whole = self._whole[backend]
        kind = self._chance.choice(KINDS) if self.deaths.total() < MOST_DEATHS else "none"
        points, message, patience = self._plan(kind, whole)
        child = fork(lambda: points.run(backend, partial(live_in, self._folder, points, patience)), message)
        if kind == "clock":
            time.sleep(self._chance.random() * whole.seconds)
            os.kill(child, signal.SIGKILL)
        if ended_well(child):
            return True
        self.deaths[kind] += 1
        return False

    def _plan(self, kind: str, whole: Whole) -> tuple[Points, str | None, float]:
        """When it strikes, what an error then says, and for how long to wait for a lock."""
        at = "step" if kind in ("full", "locked") else kind
        # mostly early: what is left of a run has fewer points than all of it
        number = self._chance.randint(1, self._chance.randint(1, whole.counts.get(at, 1)))
        if kind == "full":
            message = "runs.db cannot (grow|be read or written)"
            return Points(at, number, partial(fill_the_disk, self._folder)), message, 5
        if kind == "locked":
            message = "runs.db was locked by another process for too long"
            return Points(at, number, partial(lock_the_file, self._folder)), message, LOCK_TIMEOUT_SECONDS
        return Points(kind if kind in POINTS else None, number), None, 5


def main(folder: Path, seed: int, least_deaths: int) -> dict[str, int]:
    chance = random.Random(seed)
    whole: dict[str, Whole] = {}
    for backend in (*BACKENDS, *BACKENDS):  # the second time is the one that counts
        place = folder / f"whole-{len(list(folder.iterdir()))}"
        place.mkdir()
        lived = live_whole(place, backend)
        before = whole.get(backend, lived)
        whole[backend] = Whole(lived.counts, min(lived.seconds, before.seconds))  # the machine may have stood still
        ended_well(fork(lambda place=place: anyio.run(follow, place, 0)))  # type: ignore[misc]
        check_run(place / "runs.db", place / "deeds", read_seen(place))
    gc.collect()
    gc.freeze()
    deaths: Counter[str] = Counter()
    for number in itertools.count():
        killer = Killer(folder / f"run-{number}", chance, whole)
        killer.kill_until_it_ends()
        deaths += killer.deaths
        if deaths.total() >= least_deaths:
            break
    return dict(deaths)


if __name__ == "__main__":
    sys.stdout.write(json.dumps(main(Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]))))
