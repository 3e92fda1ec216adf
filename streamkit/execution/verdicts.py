"""`from_verdicts`: people decide between two requests, for a server that keeps nothing meanwhile.

A call without a verdict stays `Pending`, and the run ends with a `Conversation` to be stored; it goes on with the
verdicts.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping

from ..conversation import Conversation
from ..errors import VerdictRefused
from .approval import (
    Allow,
    Authorize,
    Deny,
    Needs,
    Question,
    Undecided,
    Verdict,
    asks_for_marked,
    card_of,
    meant_instead,
    must_ask,
    plain_rule,
    problem_of,
)

logger = logging.getLogger("streamkit")


def from_verdicts(
    verdicts: Mapping[str, Verdict], state: Conversation | None = None, *, needs: Needs = asks_for_marked
) -> Authorize:
    """An `authorize=` that knows its verdicts, by execution id, from the start: a call without one stays Pending.

    state: the conversation that waits for them; a verdict on a call that is not `undecided` in it raises
    VerdictRefused. A call that is allowed with arguments that do not fit, or without the value that it needs, stays
    pending, and is asked about again. In a run that is written down, the first verdict on a call counts, unless it
    allowed the call and this one denies it before it starts, or starts again after a crash.
    needs: as for `ApprovalDesk`.
    """
    for execution_id, verdict in verdicts.items():
        given: object = verdict
        if not isinstance(given, Allow | Deny | Undecided):
            raise TypeError(f"the verdict on {execution_id} is Allow(), Deny('…') or Undecided(), not {given!r}")
    if state is not None and (strange := sorted(verdicts.keys() - state.undecided.keys())):
        instead = meant_instead(strange[0], state.undecided)
        raise VerdictRefused(f"no call waits for a verdict as {', '.join(strange)}{instead}")
    return _Given(verdicts, plain_rule(needs))


def denied_from_the_start(authorize: Authorize, execution_id: str) -> bool:
    """Whether this knows its verdicts from the start, and denies the call."""
    return isinstance(authorize, _Given) and isinstance(authorize.verdicts.get(execution_id), Deny)


class _Given:
    """What `from_verdicts` gives."""

    def __init__(self, verdicts: Mapping[str, Verdict], needs: Needs) -> None:
        self.verdicts = verdicts
        self._needs = needs

    async def __call__(self, question: Question) -> Verdict:
        verdict = self.verdicts.get(question.execution_id)
        if verdict is None and not must_ask(self._needs, question.call):
            return Allow()
        if verdict is not None and (problem := problem_of(question, verdict)) is not None:
            # A client may have chosen the id and the words.
            logger.warning("a verdict on %r cannot be taken: %r", question.execution_id, problem)
        elif verdict is not None and not isinstance(verdict, Undecided):
            return verdict
        await question.announce(card_of(question.call))
        return Undecided()
