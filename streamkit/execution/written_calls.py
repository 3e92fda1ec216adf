"""What is written down of a call on its way, and how one that is written down already is answered."""

from __future__ import annotations

from typing import Any

import anyio

from ..conversation import Paused
from ..journal.entry import CallFinished, CallStarted
from ..journal.log import RunLog
from ..tool_events import Effects, Failure, Value
from .places import Place


class WrittenCalls:
    """The calls of one execution in its journal. Without a journal nothing is written, and nothing is known.

    What has happened is written down before a cancellation goes on.
    """

    def __init__(self, journal: RunLog | None) -> None:
        self._journal = journal

    def started(self, place: Place) -> CallStarted | None:
        """The last attempt to run a call."""
        return None if self._journal is None else self._journal.started(place.execution_id)

    async def recall(self, place: Place) -> CallFinished | Failure | None:
        """How a call is answered without being run; None where it runs, with the attempt that its place is given.

        Raises JournalMismatch for a call that is written down as another one.
        """
        if self._journal is None:
            return None
        started = self.started(place)
        finished = await self._journal.finished(place.call, place.execution_id)
        if finished is not None or started is None:
            return finished
        if place.paused is not None and self._journal.is_paused(place.execution_id):
            place.attempt = started.attempt + 1
            return None
        if started.effects == "once" or place.call.problem is not None:
            return place.interrupted(", so it did not run again.")
        place.attempt = started.attempt + 1
        place.may_have_happened = started.effects != "none"
        return None

    async def start(self, place: Place, arguments: dict[str, Any], effects: Effects) -> None:
        """A call is about to run."""
        if self._journal is not None:
            await self._journal.start_call(
                place.call, place.execution_id, arguments, attempt=place.attempt, effects=effects
            )

    async def pause(self, place: Place, paused: Paused) -> None:
        """A call has to wait for calls of its inner runs."""
        if self._journal is not None:
            with anyio.CancelScope(shield=True):
                await self._journal.pause_call(place.call, place.execution_id, paused)

    async def finish(self, place: Place, result: Value | Failure, seconds: float) -> None:
        """A call has its result."""
        if self._journal is not None:
            with anyio.CancelScope(shield=True):
                await self._journal.finish_call(place.execution_id, result, seconds)
