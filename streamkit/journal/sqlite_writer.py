"""The thread that writes into a journal.

What several tasks write while a commit is under way goes into the next one together, so a hundred tasks wait for two
commits, and not for a hundred.
"""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from typing import Any

from ..errors import JournalError
from .journals import driver
from .sqlite_database import Database
from .sqlite_holds import HOLDS
from .sqlite_reader import last_number
from .sqlite_thread import Job, Worker, copy_of

Row = tuple[bool, str]
"""Whether an entry is a `Shown`, and the entry."""


class Writing(Job[Any]):
    """What is written in one piece, together with others of its kind in one transaction."""

    kept_to_the_end = True  # whoever leaves may let go of the run, and nothing may be written into it afterwards
    durable = False

    def write(self, connection: sqlite3.Connection) -> Any:
        """Do it; what the task gets. Called again where the transaction of others failed."""
        raise NotImplementedError

    def undo(self) -> None:
        """Undo what the end of the transaction leaves as it is."""


class Append(Writing):
    """Entries of one run; gives the number of the last one."""

    def __init__(self, run_id: str, rows: Sequence[Row], *, durable: bool) -> None:
        super().__init__()
        self.run_id = run_id
        self.durable = durable
        self._rows = rows

    def write(self, connection: sqlite3.Connection) -> int:
        last = last_number(connection, self.run_id)
        numbered = [(self.run_id, number, *row) for number, row in enumerate(self._rows, last + 1)]
        connection.executemany("INSERT INTO entries (run_id, number, shown, entry) VALUES (?, ?, ?, ?)", numbered)
        return last + len(numbered)


class Take(Writing):
    """A run to be held; gives None when it is, else who holds it.

    The holder is written down in the transaction in which the run is taken, so nobody ever reads of a wrong one.
    """

    def __init__(self, path: str, run_id: str) -> None:
        super().__init__()
        self._path = path
        self._run_id = run_id
        self._lock = threading.Lock()
        self._taken = False
        self._given_up = False

    def write(self, connection: sqlite3.Connection) -> str | None:
        with self._lock:
            if self._given_up:
                return "nobody: its task has left"
            try:
                self._taken = HOLDS.take(self._path, self._run_id)
            except OSError as error:
                raise JournalError(f"runs of the journal {self._path} cannot be held: {error}") from error
            if not self._taken:
                return _holder(connection, self._run_id)
        now = datetime.now(UTC).isoformat(timespec="seconds")
        connection.execute("REPLACE INTO holders VALUES (?, ?, ?)", (self._run_id, driver(), now))
        return None

    def undo(self) -> None:
        with self._lock:
            if self._taken:
                HOLDS.release(self._path, self._run_id)
                self._taken = False

    def give_up(self) -> None:
        """Hold the run no more, also where it is to be taken only now."""
        self._given_up = True
        self.undo()


class Writer(Worker[Writing]):
    """Writes for a store. told: hears of each run to what number it has come."""

    def __init__(self, open_database: Callable[[], Database], told: Callable[[str, int], None]) -> None:
        super().__init__("streamkit-journal-writer", open_database)
        self._told = told

    async def do(self, job: Writing) -> Any:
        self.put(job)
        return await job.outcome()

    def serve(self, database: Database, jobs: Sequence[Writing]) -> None:
        group: list[Writing] = []
        try:
            with database as connection:
                database.make_durable(any(job.durable for job in jobs))
                connection.execute("BEGIN IMMEDIATE")
                group += (job for job in jobs if job.begin())
                results = [job.write(connection) for job in group]
                connection.execute("COMMIT")
        except Exception as error:
            self._go_on_after(error, database, jobs, group)
        else:
            for job, result in zip(group, results, strict=True):
                if isinstance(job, Append):
                    self._told(job.run_id, result)
                job.succeed(result)

    def _go_on_after(
        self, error: Exception, database: Database, jobs: Sequence[Writing], group: Sequence[Writing]
    ) -> None:
        for job in group:
            job.undo()
        if len(group) > 1:  # one of them is to blame: a page too much for the disk; the others need not suffer
            for job in group:
                self.serve(database, [job])
        else:
            for job in jobs:
                job.fail(copy_of(error))


def _holder(connection: sqlite3.Connection, run_id: str) -> str:
    found = connection.execute("SELECT driver, since FROM holders WHERE run_id = ?", (run_id,)).fetchone()
    driver, since = (text.decode() for text in found)
    return f"{driver} since {since}"
