"""Where entries are kept: the protocol of a journal's store."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractAsyncContextManager
from typing import Protocol

from .entry import Entry, Numbered

PAGE = 1000
"""How many entries are read at once."""


class JournalStore(Protocol):
    """Keeps the entries of many runs. Used from one event loop at a time; several processes may share what is kept.

    All methods raise JournalError where the store fails; then nothing of the call was kept.
    """

    async def append(self, run_id: str, entries: Sequence[Entry], *, durable: bool) -> int:
        """Keep entries, all or none, in this order; the number of the last one.

        durable: when this returns they survive a crash of the machine. Else they survive one of the process, and come
        before whatever is appended later.
        """
        ...

    async def read(self, run_id: str, after: int = 0, *, limit: int = PAGE, shown: bool = True) -> Sequence[Numbered]:
        """The entries behind number `after`, oldest first, at most `limit`. shown: False leaves `Shown` out.

        None of a run that is not known.
        """
        ...

    async def last(self, run_id: str) -> int:
        """The number of the last entry; 0 where there is none."""
        ...

    async def wait(self, run_id: str, after: int) -> None:
        """Return when there is an entry behind number `after`, whichever process wrote it."""
        ...

    def hold(self, run_id: str) -> AbstractAsyncContextManager[None]:
        """Be the only one who drives a run, for as long as the block is open.

        Raises RunIsHeld, which says by whom, while another holds it; one whose process is gone holds nothing.
        """
        ...

    async def is_held(self, run_id: str) -> bool:
        """Whether somebody drives a run. To ask keeps nobody from it."""
        ...
