"""A writer of a journal whose transactions can be held up and counted."""

import sqlite3
import threading
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

import anyio
import anyio.from_thread
import anyio.lowlevel

from streamkit.journal.sqlite_database import Database
from streamkit.journal.sqlite_writer import Append, Writer

GUARD_SECONDS = 60


class SlowAppend(Append):
    """Entries whose transaction does not end before `may_end`. writing: it has come so far."""

    def __init__(self, run_id: str, entries: Sequence[str]) -> None:
        super().__init__(run_id, [(False, entry) for entry in entries], durable=True)
        self.writing = anyio.Event()
        self.may_end = threading.Event()
        self._token = anyio.lowlevel.current_token()

    def write(self, connection: sqlite3.Connection) -> int:
        last = super().write(connection)
        anyio.from_thread.run_sync(self.writing.set, token=self._token)
        assert self.may_end.wait(GUARD_SECONDS)
        return last


class CountingDatabase(Database):
    """Appends to `uses` for each use: a writer uses it once for a transaction."""

    def __init__(self, path: Path, uses: list[None]) -> None:
        super().__init__(str(path), 5)
        self._uses = uses

    def __enter__(self) -> sqlite3.Connection:
        self._uses.append(None)
        return super().__enter__()


@asynccontextmanager
async def counting_writer(path: Path) -> AsyncIterator[tuple[Writer, list[None]]]:
    uses: list[None] = []
    writer = Writer(lambda: CountingDatabase(path, uses), lambda run_id, last: None)
    yield writer, uses
    await writer.aclose()
