"""A journal in a file: an SQLite database, which several processes may share.

An entry is a row, as JSON, under its run and number. What has to survive a crash of the machine is synced to the disk
before `append` returns; all else survives one of the process. A fork closes the file, and parent and child open it
again. The file cannot be shared by several machines: SQLite's write-ahead log needs shared memory.
"""

from __future__ import annotations

import os
import sqlite3
import weakref
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from functools import partial

import anyio.lowlevel
import msgspec

from ..errors import JournalError, RunIsHeld
from ..redaction import Redact
from .entry import Entry, Numbered, Shown, decode, encode
from .journals import Journal
from .sqlite_database import Database
from .sqlite_holds import HOLDS
from .sqlite_reader import Reader, last_number
from .sqlite_writer import Append, Take, Writer
from .store import PAGE

LOCK_TIMEOUT_SECONDS = 5.0

READ = "SELECT number, entry FROM entries WHERE run_id = ? AND number > ? ORDER BY number LIMIT ?"
READ_UNSHOWN = "SELECT number, entry FROM entries WHERE run_id = ? AND number > ? AND NOT shown ORDER BY number LIMIT ?"


def sqlite_journal(path: str | os.PathLike[str], *, events: bool = True, redact: Redact | None = None) -> Journal:
    """A journal in the file at this path, which is created if it does not exist. events, redact: see Journal.

    The file, and the one beside it that ends in `-holds`, may be shared by processes of one machine, on a local disk.
    A call costs two commits that are synced to the disk; calls that run at the same time share theirs, and a turn adds
    none. If the file is full, locked or damaged, the run ends with one JournalError. Driving a run needs the file locks
    of POSIX; on Windows it raises JournalError.
    """
    return Journal(SqliteStore(path), events=events, redact=redact)


class SqliteStore:
    """Entries in an SQLite database.

    The file is opened when it is needed, and closed when nobody holds the store any more; `aclose` need not be called.
    lock_timeout_seconds: how long to wait while other processes write, before JournalError is raised.
    """

    def __init__(self, path: str | os.PathLike[str], *, lock_timeout_seconds: float = LOCK_TIMEOUT_SECONDS) -> None:
        if path == ":memory:":
            raise ValueError("':memory:' is not a file: memory_journal() keeps a journal in memory")
        self.path = os.path.realpath(path)  # one name for one file: what lies beside it is named after it
        open_database = partial(Database, self.path, lock_timeout_seconds)
        self._reader = Reader(open_database)
        self._writer = Writer(open_database, self._reader.tell)
        for thread in (self._reader, self._writer):
            weakref.finalize(self, thread.abandon)

    async def append(self, run_id: str, entries: Sequence[Entry], *, durable: bool) -> int:
        await anyio.lowlevel.checkpoint_if_cancelled()
        rows = [(type(entry) is Shown, encode(entry).decode()) for entry in entries]
        last: int = await self._writer.do(Append(run_id, rows, durable=durable))
        return last

    async def read(self, run_id: str, after: int = 0, *, limit: int = PAGE, shown: bool = True) -> Sequence[Numbered]:
        await anyio.lowlevel.checkpoint_if_cancelled()

        def fetch(connection: sqlite3.Connection) -> list[tuple[int, bytes]]:
            return connection.execute(READ if shown else READ_UNSHOWN, (run_id, after, limit)).fetchall()

        def decode_all(rows: list[tuple[int, bytes]]) -> list[Numbered]:
            return [Numbered(number, self._decoded(written, run_id, number)) for number, written in rows]

        return await self._reader.do(fetch, decode_all)

    def _decoded(self, written: bytes, run_id: str, number: int) -> Entry:
        try:
            return decode(written)
        except (msgspec.DecodeError, RecursionError) as error:
            raise JournalError(
                f"the journal {self.path} is damaged: entry {number} of run {run_id}: {error}"
            ) from error

    async def last(self, run_id: str) -> int:
        await anyio.lowlevel.checkpoint_if_cancelled()
        return await self._reader.do(partial(last_number, run_id=run_id), int)

    async def wait(self, run_id: str, after: int) -> None:
        await anyio.lowlevel.checkpoint_if_cancelled()
        await self._reader.wait(run_id, after)

    @asynccontextmanager
    async def hold(self, run_id: str) -> AsyncIterator[None]:
        await anyio.lowlevel.checkpoint_if_cancelled()
        take = Take(self.path, run_id)
        try:
            if (holder := await self._writer.do(take)) is not None:
                raise RunIsHeld(f"run {run_id} is driven by {holder}")
            yield
        finally:
            take.give_up()

    async def is_held(self, run_id: str) -> bool:
        await anyio.lowlevel.checkpoint_if_cancelled()

        def ask(connection: sqlite3.Connection) -> bool:
            try:
                return HOLDS.has(self.path, run_id)
            except OSError as error:
                raise JournalError(f"it is not known who holds a run of the journal {self.path}: {error}") from error

        return await self._reader.do(ask, bool)

    async def aclose(self) -> None:
        """Close the file. It is opened again if the store is used again."""
        await self._writer.aclose()
        await self._reader.aclose()
