"""`Journal`: runs that are written down, so that they can go on after a crash, and be watched from elsewhere."""

from __future__ import annotations

import logging
import os
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import anyio
import msgspec

from ..errors import JournalError, UnknownRun
from ..flows.flow import Flow, Sink
from ..flows.groups import LoneErrorGroup, raise_if_all_are
from ..redaction import Redact, Redaction
from ..tool_events import RunEvent
from .entry import RunEnded, RunTaken, Shown
from .log import RunLog
from .store import JournalStore

FLUSH_SECONDS = 0.05
"""Events are written at latest so long after they were shown."""

logger = logging.getLogger("streamkit")


class Followed(msgspec.Struct, frozen=True):
    """An event of a run, and its number, to continue from there: `follow(run_id, after=number)`."""

    number: int
    event: RunEvent


class Journal:
    """Runs that are written down: `drive` runs one, `follow` watches one.

    store: where they are kept. events: whether the events that the consumer is shown are written down, too; without
    them a run writes less, but nobody can follow it. redact: redact(tool, value) returns what is written in place of
    arguments and values. A run that continues after a crash reads what was written, and so does its model.
    """

    def __init__(self, store: JournalStore, *, events: bool = True, redact: Redact | None = None) -> None:
        self.store = store
        self.hides = redact is not None
        self._events = events
        self._redact = redact

    @asynccontextmanager
    async def drive(self, run_id: str) -> AsyncIterator[RunLog]:
        """The run with this id, to be driven inside the block: a new one, or one that continues.

        Raises RunIsHeld if somebody else drives it, and JournalError if the store fails.
        """
        if not isinstance(run_id, str):
            raise TypeError(f"the id of a run is a str, not {run_id!r}")
        redaction = None if self._redact is None else Redaction(self._redact)
        log = RunLog(self.store, run_id, events=self._events, redaction=redaction)
        async with self.store.hold(run_id):
            try:
                async with LoneErrorGroup() as tasks:
                    await log.load()
                    await self.store.append(run_id, [RunTaken(driver())], durable=False)
                    tasks.start_soon(_flush, log)
                    try:
                        yield log
                    except BaseException as error:
                        with anyio.CancelScope(shield=True):
                            await _end(log, error)
                        raise
                    await log.end(None)
                    tasks.cancel_scope.cancel()
            except BaseExceptionGroup as group:
                raise_if_all_are(JournalError, group)  # of the run, and of what writes down its events
                raise

    @asynccontextmanager
    async def resume(self, run_id: str) -> AsyncIterator[RunLog]:
        """Like `drive`, but raises UnknownRun if nothing is written down of the run."""
        await self._last(run_id)
        async with self.drive(run_id) as log:
            yield log

    def follow(self, run_id: str, *, after: int = 0) -> Flow[Followed, None]:
        """The events of a run after a number, then those to come until it ends; each of them once.

        A run whose process is gone has not ended: its followers wait until somebody continues it, and never see the end
        of a turn that the run has lost. Raises UnknownRun if nothing is written down of the run, or up to the number.
        """
        return Flow(lambda out: self._follow(out, run_id, after))

    async def _follow(self, out: Sink[Followed], run_id: str, after: int) -> None:
        last = await self._last(run_id)
        if not 0 <= after <= last:
            raise UnknownRun(f"run {run_id} has no event {after}: the last is {last}")
        ended = after == last and type((await self.store.read(run_id, after - 1, limit=1))[0].entry) is RunEnded
        while True:
            page = await self.store.read(run_id, after)
            for numbered in page:
                after = numbered.number
                if type(numbered.entry) is Shown:
                    await out.send(Followed(after, numbered.entry.event))
                ended = type(numbered.entry) is RunEnded
            if not ended:
                await self.store.wait(run_id, after)  # also behind a page: to look and find nothing costs a read
            elif not page:
                return

    async def _last(self, run_id: str) -> int:
        last = await self.store.last(run_id)
        if not last:
            raise UnknownRun(f"nothing is written down of a run {run_id}")
        return last


def driver() -> str:
    """Who this process is, for people."""
    return f"process {os.getpid()} on {socket.gethostname()}"


async def _flush(log: RunLog) -> None:
    while True:
        await log.until_kept()  # a thousand runs that wait for their models cost nothing meanwhile
        await anyio.sleep(FLUSH_SECONDS)
        await log.flush()


async def _end(log: RunLog, error: BaseException) -> None:
    try:
        await log.end(error)
    except JournalError:  # why the run failed weighs more
        logger.warning("the end of run %s could not be written down", log.run_id, exc_info=True)
