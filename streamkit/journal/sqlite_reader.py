"""The thread that reads a journal, and looks out for what is written.

What this process writes is told at once. What others write is seen by looking, and only while somebody waits for it.
"""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Callable, Sequence
from typing import Any, TypeVar, cast

from .sqlite_database import Database
from .sqlite_thread import Job, Worker, copy_of

R = TypeVar("R")
T = TypeVar("T")

LOOK_SECONDS = 0.02
"""How often it looks; less often where a look takes more than a tenth of that."""


class Reading(Job[Any]):
    """What is read at once: what `convert` makes of what `fetch` gives."""

    def __init__(self, fetch: Callable[[sqlite3.Connection], Any], convert: Callable[[Any], Any]) -> None:
        super().__init__()
        self.fetch = fetch
        self.convert = convert


class Waiting(Job[None]):
    """A run that shall have an entry behind number `after`."""

    def __init__(self, run_id: str, after: int) -> None:
        super().__init__()
        self.run_id = run_id
        self.after = after

    def hear(self, last: int) -> None:
        """The run has come to number `last`. In any thread."""
        if last > self.after and self.begin():
            self.succeed(None)


class Reader(Worker[Reading | Waiting]):
    """Reads for a store."""

    def __init__(self, open_database: Callable[[], Database]) -> None:
        super().__init__("streamkit-journal-reader", open_database)
        self._waiting: set[Waiting] = set()  # changed and copied in single steps, so without a lock
        self._look_at = 0.0
        self._seen: object = None  # the state of the file when we looked last

    async def do(self, fetch: Callable[[sqlite3.Connection], T], convert: Callable[[T], R]) -> R:
        """What `convert` makes of what `fetch` gives; both run in the thread."""
        job = Reading(fetch, convert)
        self.put(job)
        return cast(R, await job.outcome())

    async def wait(self, run_id: str, after: int) -> None:
        job = Waiting(run_id, after)
        self._waiting.add(job)
        try:
            self.put(job)
            await job.outcome()
        finally:
            self._waiting.discard(job)

    def tell(self, run_id: str, last: int) -> None:
        """Wake those who wait for a run, which has come to number `last`. In any thread."""
        if self._waiting:
            for job in list(self._waiting):
                if job.run_id == run_id:
                    job.hear(last)

    def after_fork_in_child(self) -> None:
        super().after_fork_in_child()
        self._waiting = set()

    # in the thread

    def serve(self, database: Database, jobs: Sequence[Reading | Waiting]) -> float | None:
        try:
            for job in jobs:
                if isinstance(job, Reading):
                    _read(database, job)
                else:
                    self._compare(database, [job])
            return self._look(database) if self._waiting else None
        except Exception as error:  # of the file, so it is told to those who wait, too
            for job in {*jobs, *self._waiting}:
                job.fail(copy_of(error))
            return None

    def _look(self, database: Database) -> float:
        """See if anything was written since the last time, if that is long ago. In how many seconds to look again."""
        began = time.monotonic()
        if began >= self._look_at:
            with database as connection:
                changed = self._has_changed(connection)
            if changed:
                self._compare(database, list(self._waiting))
            ended = time.monotonic()
            self._look_at = ended + max(LOOK_SECONDS, 10 * (ended - began))
        return max(0.0, self._look_at - time.monotonic())

    def _compare(self, database: Database, waiting: Sequence[Waiting]) -> None:
        with database as connection:
            lasts = {run_id: last_number(connection, run_id) for run_id in {job.run_id for job in waiting}}
        for job in waiting:
            job.hear(lasts[job.run_id])

    def _has_changed(self, connection: sqlite3.Connection) -> bool:
        (version,) = connection.execute("PRAGMA data_version").fetchone()
        seen, self._seen = self._seen, (connection, version)  # each connection counts for itself
        return seen != self._seen


def last_number(connection: sqlite3.Connection, run_id: str) -> int:
    """Of the last entry of a run; 0 where there is none."""
    (last,) = connection.execute("SELECT COALESCE(MAX(number), 0) FROM entries WHERE run_id = ?", (run_id,)).fetchone()
    return int(last)


def _read(database: Database, job: Reading) -> None:
    if not job.begin():
        return
    with database as connection:
        fetched = job.fetch(connection)
    try:
        job.succeed(job.convert(fetched))
    except Exception as error:  # of what was read, so it is told only to whoever reads it
        job.fail(error)
