"""A journal in memory: for tests, and for runs that are watched again, but need not outlive their process."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

import anyio
import anyio.lowlevel

from ..errors import RunIsHeld, UnknownRun
from ..redaction import Redact
from .entry import Entry, Numbered, Shown, decode, encode
from .journals import Journal
from .store import PAGE

LIMIT_BYTES = 256 * 1024 * 1024


def memory_journal(*, events: bool = True, redact: Redact | None = None, limit_bytes: int = LIMIT_BYTES) -> Journal:
    """A journal in memory: what is written is gone with it. events, redact: see Journal.

    limit_bytes: when more is written, runs that nobody drives are forgotten, beginning with those quiet for longest.
    """
    return Journal(MemoryStore(limit_bytes=limit_bytes), events=events, redact=redact)


class MemoryStore:
    """Entries as they would be written to a disk, so that a run reads the same here as it would there."""

    def __init__(self, *, limit_bytes: int = LIMIT_BYTES) -> None:
        self._limit_bytes = limit_bytes
        self._bytes = 0
        self._runs: dict[str, list[tuple[bytes, bool]]] = {}  # an entry, and whether it is a Shown; quiet ones first
        self._held: set[str] = set()
        self._changed: dict[str, anyio.Event] = {}

    async def append(self, run_id: str, entries: Sequence[Entry], *, durable: bool) -> int:
        await anyio.lowlevel.checkpoint_if_cancelled()
        written = [(encode(entry), type(entry) is Shown) for entry in entries]
        kept = self._runs[run_id] = self._runs.pop(run_id, [])  # at the end now: not quiet
        kept += written
        self._bytes += _size(written)
        self._wake(run_id)
        if self._bytes > self._limit_bytes:
            self._forget_quiet(run_id)
        return len(kept)

    def _forget_quiet(self, last: str) -> None:
        for run_id in [each for each in self._runs if each not in self._held and each != last]:
            self._bytes -= _size(self._runs.pop(run_id))
            self._wake(run_id)
            if self._bytes <= self._limit_bytes:
                return

    async def read(self, run_id: str, after: int = 0, *, limit: int = PAGE, shown: bool = True) -> Sequence[Numbered]:
        await anyio.lowlevel.checkpoint()
        found: list[Numbered] = []
        kept = self._entries(run_id, after)
        for number in range(max(after, 0), len(kept)):
            written, is_shown = kept[number]
            if shown or not is_shown:
                found.append(Numbered(number + 1, decode(written)))
                if len(found) == limit:
                    break
        return found

    async def last(self, run_id: str) -> int:
        await anyio.lowlevel.checkpoint()
        return len(self._runs.get(run_id, []))

    async def wait(self, run_id: str, after: int) -> None:
        while len(self._entries(run_id, after)) <= after:
            if run_id not in self._changed:
                self._changed[run_id] = anyio.Event()  # one for all who wait: to make one costs more than to wait
            await self._changed[run_id].wait()

    def _wake(self, run_id: str) -> None:
        if (changed := self._changed.pop(run_id, None)) is not None:
            changed.set()

    def _entries(self, run_id: str, after: int) -> list[tuple[bytes, bool]]:
        """Raises UnknownRun for a run that somebody knows something of, and that was forgotten."""
        if after > 0 and run_id not in self._runs:
            raise UnknownRun(f"what was written down of run {run_id} was forgotten to make room")
        return self._runs.get(run_id, [])

    @asynccontextmanager
    async def hold(self, run_id: str) -> AsyncIterator[None]:
        if run_id in self._held:
            raise RunIsHeld(f"run {run_id} is driven by another task of this process")
        self._held.add(run_id)
        try:
            yield
        finally:
            self._held.discard(run_id)

    async def is_held(self, run_id: str) -> bool:
        await anyio.lowlevel.checkpoint()
        return run_id in self._held


def _size(entries: Sequence[tuple[bytes, bool]]) -> int:
    return sum(len(written) for written, _ in entries)
