"""Entries of one run on their way to the store, in the order in which they came."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import nullcontext

import anyio
import anyio.lowlevel

from ..errors import JournalError
from .entry import CallFinished, Entry
from .store import JournalStore

BATCH = 256
"""How many events are kept back before they are written, unless something durable takes them along earlier."""


class Backlog:
    """Keeps entries back until something durable takes them along, or `flush` is called.

    on_failure: called where the store fails, so that nobody knows what stands there. numbers: of the results that are
    written, by execution id, those of settled turns too.
    """

    def __init__(self, store: JournalStore, run_id: str, on_failure: Callable[[], None]) -> None:
        self.numbers: dict[str, int] = {}
        self._store = store
        self._run_id = run_id
        self._on_failure = on_failure
        self._entries: list[Entry] = []
        self._held: int | None = None  # the place among them of the end of a turn that nobody has taken yet
        self._is_closed = False
        self._is_quiet = True  # nothing was kept back since `until_kept` was called last
        self._something_kept = anyio.Event()

    @property
    def is_full(self) -> bool:
        """Whether so many entries are kept back that they are to be written."""
        return len(self._entries) >= BATCH

    def keep(self, entry: Entry) -> None:
        """Keep an entry back."""
        self._entries.append(entry)
        if self._is_quiet:
            self._is_quiet = False
            self._something_kept.set()

    def hold_the_next(self) -> None:
        """The next entry is the end of a turn. It waits for what becomes of that, and is written in one piece with it.

        After a crash in between the model is asked again, and those who follow would see two turns where the run has
        one.
        """
        self._held = len(self._entries)

    def let_go(self) -> None:
        """What was held waits no more."""
        self._held = None

    def drop_held(self) -> None:
        """Nothing becomes of the end of the turn: the model will be asked again."""
        if self._held is not None:
            del self._entries[self._held]

    async def until_kept(self) -> None:
        """Return when something is kept back, or was since this was called last."""
        await self._something_kept.wait()
        self._is_quiet, self._something_kept = True, anyio.Event()

    async def flush(self) -> None:
        """Write what is kept back, and not held."""
        entries, self._entries = self._entries[: self._held], [] if self._held is None else self._entries[self._held :]
        self._held = None if self._held is None else 0
        if entries:
            await self._append(entries, durable=False, carries=True)

    async def write(self, *entries: Entry, durable: bool) -> None:
        """Write entries now, behind all that is kept back."""
        kept, self._entries, self._held = self._entries, [], None
        await self._append([*kept, *entries], durable=durable, carries=bool(kept))

    async def _append(self, entries: Sequence[Entry], *, durable: bool, carries: bool) -> None:
        """carries: what was kept back is among them, and must not be lost where its task is cancelled."""
        self.check_open()
        try:
            with anyio.CancelScope(shield=True) if carries else nullcontext():
                last = await self._store.append(self._run_id, entries, durable=durable)
        except Exception:
            self._on_failure()
            raise
        for number, entry in enumerate(entries, last - len(entries) + 1):
            if type(entry) is CallFinished:
                self.numbers[entry.execution_id] = number
        if carries:
            await anyio.lowlevel.checkpoint_if_cancelled()

    async def read_finished(self, execution_id: str) -> CallFinished | None:
        """The result of a call of any turn, as it is written; None where there is none."""
        number = self.numbers.get(execution_id)
        if number is None:
            return None
        (numbered,) = await self._store.read(self._run_id, number - 1, limit=1)
        return numbered.entry if isinstance(numbered.entry, CallFinished) else None

    def close(self) -> None:
        """Nothing is written any more: by now somebody else may drive the run."""
        self._is_closed = True

    def check_open(self) -> None:
        """Raise JournalError where nothing is written any more."""
        if self._is_closed:
            raise JournalError(f"run {self._run_id} is no longer driven: the block of journal.drive was left")
