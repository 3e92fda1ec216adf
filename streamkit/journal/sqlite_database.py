"""The file of a journal: opening it, bringing it up to date, and saying what is wrong with it."""

from __future__ import annotations

import os
import sqlite3
import time
from collections.abc import Sequence
from contextlib import suppress

from ..errors import JournalError
from .sqlite_forks import Guarded

APPLICATION_ID = 0x736B6A6C
"""Tells the file from the databases of others."""

STEPS: Sequence[Sequence[str]] = (
    (
        """CREATE TABLE entries (
            run_id TEXT NOT NULL,
            number INTEGER NOT NULL,
            shown INTEGER NOT NULL,
            entry TEXT NOT NULL,
            PRIMARY KEY (run_id, number)
        )""",
        # For whoever goes on with a run: it may have shown a thousand times as much as it needs to go on.
        "CREATE INDEX unshown ON entries (run_id, number) WHERE NOT shown",
        "CREATE TABLE holders (run_id TEXT PRIMARY KEY, driver TEXT NOT NULL, since TEXT NOT NULL)",
    ),
)
"""What brings a file from one version to the next; the first one makes a new file. Steps are added, never changed."""

RETRY_SECONDS = 0.01

CHECK_SECONDS = 0.1
"""How often to see whether the file is still there; each time would take a tenth of a commit that is not synced."""

REASONS = {
    sqlite3.SQLITE_FULL: "cannot grow",
    sqlite3.SQLITE_BUSY: "was locked by another process for too long",
    sqlite3.SQLITE_READONLY: "cannot be written",
    sqlite3.SQLITE_PERM: "cannot be written",
    sqlite3.SQLITE_CANTOPEN: "cannot be opened",
    sqlite3.SQLITE_NOTADB: "is not a journal",
    sqlite3.SQLITE_CORRUPT: "is damaged",
    sqlite3.SQLITE_IOERR: "cannot be read or written",
}


class Database(Guarded):
    """`with database as connection`: a connection to a file, for one thread at a time.

    It is opened when it is needed, and anew after a failure and after a fork. What the block leaves open when it fails
    is rolled back. Raises JournalError for what SQLite raises. lock_timeout_seconds: how long to wait while another
    process writes.
    """

    order = 0

    def __init__(self, path: str, lock_timeout_seconds: float) -> None:
        super().__init__()
        self.path = path
        self._lock_timeout_seconds = lock_timeout_seconds
        self._connection: sqlite3.Connection | None = None
        self._durable: bool | None = None
        self._file: os.stat_result | None = None
        self._check_at = 0.0

    def __enter__(self) -> sqlite3.Connection:
        self.lock.acquire()
        try:
            if self._connection is None:
                self._connection = open_file(self.path, self._lock_timeout_seconds)
                self._file = os.stat(self.path)
            if time.monotonic() >= self._check_at:
                self._check_it_is_still_there()
            return self._connection
        except BaseException as error:
            self._close()
            self.lock.release()
            if isinstance(error, sqlite3.Error | OSError):
                raise failure(self.path, error) from error
            raise

    def __exit__(self, kind: object, error: BaseException | None, traceback: object) -> None:
        if error is not None:
            self._close()
        self.lock.release()
        if isinstance(error, sqlite3.Error):
            raise failure(self.path, error) from error

    def make_durable(self, durable: bool) -> None:
        """Whether the transactions to come are synced to the disk before they are done. Not inside one."""
        if self._connection is not None and durable != self._durable:
            self._connection.execute(f"PRAGMA synchronous = {'FULL' if durable else 'NORMAL'}")
            self._durable = durable

    def _check_it_is_still_there(self) -> None:
        """SQLite would go on with a file that was deleted, until all is gone with the process."""
        assert self._file is not None
        try:
            same = os.path.samestat(os.stat(self.path), self._file)
        except OSError:
            same = False
        if not same:
            raise JournalError(f"the journal {self.path} was moved or deleted while it was open")
        self._check_at = time.monotonic() + CHECK_SECONDS

    def close(self) -> None:
        with self.lock:
            self._close()

    def before_fork(self) -> None:
        self._close()

    def _close(self) -> None:
        connection, self._connection, self._durable = self._connection, None, None
        if connection is not None:
            with suppress(sqlite3.Error):
                connection.close()


def open_file(path: str, lock_timeout_seconds: float, steps: Sequence[Sequence[str]] = STEPS) -> sqlite3.Connection:
    """A connection to the file, in autocommit, which gives text as bytes. A file that is not there, or empty, is made.

    Raises JournalError for a file of something else, or of a later version, and sqlite3.Error.
    """
    connection = sqlite3.connect(path, lock_timeout_seconds, isolation_level=None, check_same_thread=False)
    try:
        connection.text_factory = bytes
        connection.execute("PRAGMA fullfsync = 1")  # where an fsync alone leaves the data in the disk's cache: macOS
        version = _version(connection, path)
        if version > len(steps):
            raise JournalError(f"the journal {path} has version {version}; this streamkit knows {len(steps)} at most")
        _write_ahead(connection, path, time.monotonic() + lock_timeout_seconds)
        if version < len(steps):
            _bring_up_to_date(connection, path, steps)
    except BaseException:
        connection.close()
        raise
    return connection


def failure(path: str, error: sqlite3.Error | OSError) -> JournalError:
    """What SQLite says, in our words."""
    code = getattr(error, "sqlite_errorcode", sqlite3.SQLITE_ERROR) & 0xFF  # without what is in the upper bits
    return JournalError(f"the journal {path} {REASONS.get(code, 'fails')}: {error}")


def _version(connection: sqlite3.Connection, path: str) -> int:
    """The version of the file, 0 for an empty one. One statement, or another process may make the file in between."""
    application_id, version, tables = connection.execute(
        "SELECT application_id, user_version, (SELECT COUNT(*) FROM sqlite_master)"
        " FROM pragma_application_id, pragma_user_version"
    ).fetchone()
    if application_id != APPLICATION_ID and (application_id or tables):
        raise JournalError(f"the journal {path} is not a journal: it is a database of something else")
    return int(version)


def _write_ahead(connection: sqlite3.Connection, path: str, deadline: float) -> None:
    """Use a write-ahead log. SQLite does not wait by itself for those who do the same to a new file just now."""
    mode = None
    while mode is None:
        try:
            (mode,) = connection.execute("PRAGMA journal_mode = WAL").fetchone()
        except sqlite3.OperationalError as error:
            if error.sqlite_errorcode & 0xFF != sqlite3.SQLITE_BUSY or time.monotonic() > deadline:
                raise
            time.sleep(RETRY_SECONDS)
    if mode != b"wal":
        raise JournalError(f"the journal {path} cannot be kept there: its file system allows no shared memory")


def _bring_up_to_date(connection: sqlite3.Connection, path: str, steps: Sequence[Sequence[str]]) -> None:
    connection.execute("BEGIN IMMEDIATE")
    version = _version(connection, path)  # another process may have been here first
    for step in steps[version:]:
        for statement in step:
            connection.execute(statement)
    if version < len(steps):
        connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
        connection.execute(f"PRAGMA user_version = {len(steps)}")
    connection.execute("COMMIT")
