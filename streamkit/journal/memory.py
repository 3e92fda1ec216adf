"""A journal in memory: for tests, and for runs that are watched again, but need not outlive their process."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

import anyio
import anyio.lowlevel

from ..errors import RunIsHeld
from ..redaction import Redact
from .entry import Entry, Numbered, Shown, decode, encode
from .journals import Journal
from .store import PAGE


def memory_journal(*, events: bool = True, redact: Redact | None = None) -> Journal:
    """A journal whose entries are gone with it. events, redact: see Journal."""
    return Journal(MemoryStore(), events=events, redact=redact)


class MemoryStore:
    """Entries as they would be written to a disk, so that a run reads the same here as it would there."""

    def __init__(self) -> None:
        self._runs: dict[str, list[tuple[bytes, bool]]] = {}  # an entry, and whether it is a Shown
        self._held: set[str] = set()
        self._changed: dict[str, anyio.Event] = {}

    async def append(self, run_id: str, entries: Sequence[Entry], *, durable: bool) -> int:
        await anyio.lowlevel.checkpoint_if_cancelled()
        written = [(encode(entry), type(entry) is Shown) for entry in entries]
        kept = self._runs.setdefault(run_id, [])
        kept += written
        self._changed.pop(run_id, anyio.Event()).set()
        return len(kept)

    async def read(self, run_id: str, after: int = 0, *, limit: int = PAGE, shown: bool = True) -> Sequence[Numbered]:
        await anyio.lowlevel.checkpoint()
        found: list[Numbered] = []
        kept = self._runs.get(run_id, [])
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
        while len(self._runs.get(run_id, [])) <= after:
            await self._changed.setdefault(run_id, anyio.Event()).wait()

    @asynccontextmanager
    async def hold(self, run_id: str) -> AsyncIterator[None]:
        if run_id in self._held:
            raise RunIsHeld(f"run {run_id} is driven by another task of this process")
        self._held.add(run_id)
        try:
            yield
        finally:
            self._held.discard(run_id)
