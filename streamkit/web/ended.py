"""Runs that are over, for whoever speaks on, or decides later: kept for a while, within a bound of memory."""

from __future__ import annotations

import logging
from collections import OrderedDict

import anyio
import msgspec

from ..conversation import Conversation
from ..errors import VerdictRefused
from ..execution.approval import Allow, Deny, Verdict
from ..wire.encoding import json_of

logger = logging.getLogger("streamkit")


class Ended(msgspec.Struct, frozen=True):
    """A run that this process does not drive.

    how: what its conversation `ended` with, or "stopped", "failed", "interrupted"; None where another process drives
    it. conversation: with all that was whole by then. verdicts: on calls that wait in it, given since then.
    """

    how: str | None
    conversation: Conversation
    verdicts: dict[str, Verdict] = {}

    def decided(self, execution_id: str, verdict: Allow | Deny) -> Ended:
        """Raises VerdictRefused for a call that does not wait, or was decided about before."""
        if execution_id not in self.conversation.undecided:
            raise VerdictRefused(f"no call waits for a verdict as {execution_id}")
        if execution_id in self.verdicts:
            raise VerdictRefused(f"{execution_id} is answered already")
        return msgspec.structs.replace(self, verdicts={**self.verdicts, execution_id: verdict})


class EndedRuns:
    """The runs that have ended last. They are kept as JSON, so that it is known how much they take.

    limit_bytes, limit_count: of all; the oldest go first. limit_seconds: how long each is kept.
    """

    def __init__(self, *, limit_bytes: int, limit_count: int, limit_seconds: float) -> None:
        self._limit_bytes = limit_bytes
        self._limit_count = limit_count
        self._limit_seconds = limit_seconds
        self._kept: OrderedDict[str, tuple[bytes, float]] = OrderedDict()  # oldest first, each with its time
        self._bytes = 0

    def put(self, run_id: str, ended: Ended) -> None:
        self.forget(run_id)
        try:
            written = json_of(ended)
        except (TypeError, ValueError, RecursionError):
            logger.warning("run %s cannot be continued: it holds what JSON does not know", run_id, exc_info=True)
            return
        self._kept[run_id] = (written, anyio.current_time())
        self._bytes += len(written)
        self._forget_old()

    def get(self, run_id: str) -> Ended | None:
        self._forget_old()
        kept = self._kept.get(run_id)
        return None if kept is None else msgspec.json.decode(kept[0], type=Ended)

    def forget(self, run_id: str) -> None:
        written, _ = self._kept.pop(run_id, (b"", 0.0))
        self._bytes -= len(written)

    def _forget_old(self) -> None:
        while self._kept:
            oldest, (_, since) = next(iter(self._kept.items()))
            is_young = anyio.current_time() - since < self._limit_seconds
            if is_young and self._bytes <= self._limit_bytes and len(self._kept) <= self._limit_count:
                return
            self.forget(oldest)
