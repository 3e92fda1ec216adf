"""Verdicts on calls that wait in runs that have ended, in the store of a journal: so they are there after a restart,
and for all processes that share it.
"""

from __future__ import annotations

from msgspec import UNSET

from ..errors import VerdictRefused
from ..execution.approval import Allow, Deny, Verdict
from ..journal.entry import Decided
from ..journal.journals import Journal
from .ended import Ended


class LateVerdicts:
    """Those on each run stand under a name of their own, which is the id of no run of anybody."""

    def __init__(self, journal: Journal) -> None:
        self._store = journal.store
        self._hides = journal.hides

    def takes(self, verdict: Allow | Deny) -> bool:
        """Whether it may be written down: not what somebody gives for a call, where secrets are kept out of there."""
        is_plain = isinstance(verdict, Deny) or (verdict.arguments is None and verdict.value is UNSET)
        return is_plain or not self._hides

    async def known(self, run_id: str) -> dict[str, Verdict]:
        """By execution id. Of several that came at once the first counts."""
        verdicts: dict[str, Verdict] = {}
        for _, entry in await self._decided(run_id):
            verdicts.setdefault(entry.execution_id, _verdict(entry))
        return verdicts

    async def add(self, run_id: str, ended: Ended, execution_id: str, verdict: Allow | Deny) -> None:
        """Raises VerdictRefused where the call does not wait, or was decided about before."""
        ended.decided(execution_id, verdict)  # and nothing is written, however often somebody tries
        number = await self._store.append(_name(run_id), [_entry(execution_id, verdict)], durable=True)
        for first, entry in await self._decided(run_id):
            if entry.execution_id == execution_id and first < number:
                raise VerdictRefused(f"{execution_id} is answered already")

    async def _decided(self, run_id: str) -> list[tuple[int, Decided]]:
        decided: list[tuple[int, Decided]] = []
        after = 0
        while page := await self._store.read(_name(run_id), after):
            decided += [(each.number, each.entry) for each in page if isinstance(each.entry, Decided)]
            after = page[-1].number
        return decided


def _name(run_id: str) -> str:
    return f"verdicts-{run_id}"


def _entry(execution_id: str, verdict: Allow | Deny) -> Decided:
    if isinstance(verdict, Deny):
        return Decided(execution_id, False, reason=verdict.reason)
    return Decided(execution_id, True, verdict.arguments, value=verdict.value)


def _verdict(entry: Decided) -> Verdict:
    return Allow(entry.arguments, entry.value) if entry.allowed else Deny(entry.reason)
