"""Books in which is written what was claimed, each name by one at a time: in memory, or in the store of a journal."""

from __future__ import annotations

import secrets
from collections import OrderedDict
from contextlib import suppress
from typing import Protocol

import anyio

from ..errors import JournalError
from ..journal.entry import Decided
from ..journal.store import JournalStore

MAX_CLAIMS = 100_000
CLAIM_SECONDS = 7 * 24 * 3600.0
"""What is remembered in memory: the last claims, for as long as a page may lie open before somebody sends it again."""


class ClaimBook(Protocol):
    """All methods raise JournalError where a store fails."""

    async def take(self, name: str) -> str | None:
        """Claim a name: a receipt for `give_back`; None where it is taken."""
        ...

    async def give_back(self, name: str, receipt: str) -> None:
        """Let others have the name. A receipt that does not hold it changes nothing."""
        ...

    async def is_taken(self, name: str) -> bool: ...


class RememberedClaims:
    """Claims of this process. The oldest are forgotten when they are too old, or too many."""

    def __init__(self, *, limit_count: int = MAX_CLAIMS, limit_seconds: float = CLAIM_SECONDS) -> None:
        self._limit_count = limit_count
        self._limit_seconds = limit_seconds
        self._taken: OrderedDict[str, tuple[str, float]] = OrderedDict()  # receipts with their times, oldest first

    async def take(self, name: str) -> str | None:
        self._forget_old()
        if name in self._taken:
            return None
        receipt = new_receipt()
        self._taken[name] = receipt, anyio.current_time()
        self._forget_old()
        return receipt

    async def give_back(self, name: str, receipt: str) -> None:
        if self._taken.get(name, ("", 0.0))[0] == receipt:
            del self._taken[name]

    async def is_taken(self, name: str) -> bool:
        self._forget_old()
        return name in self._taken

    def _forget_old(self) -> None:
        while self._taken:
            oldest, (_, since) = next(iter(self._taken.items()))
            if anyio.current_time() - since < self._limit_seconds and len(self._taken) <= self._limit_count:
                return
            del self._taken[oldest]


class StoredClaims:
    """Claims of all processes that share a store, and of those that are gone: each name is a run of its own there.

    Its entries, from the first on, tell who has it: a claim counts where nobody had it then, and until it is given back
    by the same. The store puts them in an order, so two that come at once cannot both have it.
    """

    def __init__(self, store: JournalStore) -> None:
        self._store = store

    async def take(self, name: str) -> str | None:
        if await self.is_taken(name):
            return None  # and nothing is written, however often somebody tries
        receipt = new_receipt()
        try:
            await self._store.append(name, [Decided(name, True, reason=receipt)], durable=True)
            return receipt if await self._holder(name) == receipt else None
        except JournalError:
            with suppress(JournalError):
                await self.give_back(name, receipt)
            raise

    async def give_back(self, name: str, receipt: str) -> None:
        await self._store.append(name, [Decided(name, False, reason=receipt)], durable=False)

    async def is_taken(self, name: str) -> bool:
        return await self._holder(name) is not None

    async def _holder(self, name: str) -> str | None:
        holder: str | None = None
        after = 0
        while page := await self._store.read(name, after):
            for entry in (numbered.entry for numbered in page):
                if isinstance(entry, Decided) and entry.allowed:
                    holder = holder or entry.reason
                elif isinstance(entry, Decided) and entry.reason == holder:
                    holder = None
            after = page[-1].number
        return holder


def new_receipt() -> str:
    return secrets.token_hex(8)
