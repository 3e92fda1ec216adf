"""Getting the verdict on one call: from what is written down, or from whoever decides."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from typing import Any

import anyio
from msgspec import UNSET

from ..errors import InvalidCall
from ..flows.flow import Sink
from ..flows.groups import drop_own_cancellation, must_leave, raise_as_it_is
from ..journal.entry import Decided
from ..journal.log import RunLog
from ..tool_events import ApprovalRequested, ToolEvent
from ..tools.toolkit import Toolkit, ValidCall
from .approval import Allow, Authorize, Deny, Question, Undecided, Verdict
from .limits import people_decide
from .verdicts import denied_from_the_start

logger = logging.getLogger("streamkit")


class Asking:
    """Asks about the calls of one execution. context: for the question. journal: where verdicts are written down.

    A verdict that is written down is not asked for again.
    """

    def __init__(self, toolkit: Toolkit, authorize: Authorize, context: Any, journal: RunLog | None) -> None:
        self._toolkit = toolkit
        self._authorize = authorize
        self._context = context
        self._journal = journal

    async def verdict(
        self, valid: ValidCall, execution_id: str, out: Sink[ToolEvent], *, is_cancelled: Callable[[], bool]
    ) -> Verdict:
        """The verdict on a call. An authoriser that raises, or answers anything else, denies it.

        Raises what a consumer downstream raised when it was told of the question.
        """
        known = None if self._journal is None else self._journal.verdict(execution_id)
        if known is not None and not known.allowed:
            return Deny(known.reason)
        if known is not None and not denied_from_the_start(self._authorize, execution_id):  # by a second thought
            return Allow(known.arguments)
        announced = _Announced(valid, execution_id, out)
        problem_with = partial(self._problem_with, valid)
        question = Question(valid, execution_id, self._context, announced.announce, problem_with, is_cancelled)
        try:
            with people_decide():
                asked = self._authorize(question)
                if not isinstance(asked, Awaitable):
                    raise TypeError(f"authorize= is an async function (async def), but returned {type(asked).__name__}")
                verdict = await asked
            await drop_own_cancellation()
            _check(verdict)
        except BaseException as raised:
            if announced.downstream is not None or must_leave(raised):
                raise_as_it_is(announced.downstream or raised)
            logger.warning("authorize raised for a call of %s", valid.name, exc_info=raised)
            return Deny("it could not be decided whether this call may run")
        if self._journal is not None and (announced.done or self._journal.is_left_pending(execution_id)):
            with anyio.CancelScope(shield=True):  # whoever decided was told that it counts
                await self._write(self._journal, valid, execution_id, verdict)
        return verdict

    async def _write(self, journal: RunLog, valid: ValidCall, execution_id: str, verdict: Verdict) -> None:
        """Only what a person was asked about, now or when the run ended: what the program decides by itself, it can
        decide again.

        A value that is given is the result, and written down as that.
        """
        match verdict:
            case Allow(arguments=arguments, value=value) if value is UNSET and valid.tool.has_body:
                original = valid.arguments if arguments is not None else None
                await journal.decide(valid.call, Decided(execution_id, True, arguments, original))
            case Deny(reason=reason):
                await journal.decide(valid.call, Decided(execution_id, False, reason=reason))

    def _problem_with(self, valid: ValidCall, arguments: Mapping[str, Any]) -> str | None:
        try:
            self._toolkit.revalidate(valid, arguments)
        except InvalidCall as invalid:
            return invalid.failure.message.removeprefix(f"The call of {valid.name} did not run: ")
        return None


class _Announced:
    """Tells the consumer, once, that somebody has to decide; and keeps what the consumer raised."""

    def __init__(self, valid: ValidCall, execution_id: str, out: Sink[ToolEvent]) -> None:
        self._valid = valid
        self._execution_id = execution_id
        self._out = out
        self.done = False
        self.downstream: Exception | None = None

    async def announce(self, card: Any = None) -> None:
        if self.done:
            return
        self.done = True
        valid = self._valid
        request = ApprovalRequested(self._execution_id, valid.call.call_id, valid.name, valid.arguments, card)
        try:
            await self._out.send(request)
        except Exception as error:
            self.downstream = error
            raise


def _check(verdict: object) -> None:
    if not isinstance(verdict, Allow | Deny | Undecided):
        raise TypeError(f"authorize returned a {type(verdict).__name__}, not Allow, Deny or Undecided")
    if isinstance(verdict, Allow) and not isinstance(verdict.arguments, Mapping | None):
        raise TypeError(f"authorize allowed a {type(verdict.arguments).__name__} as arguments, not a mapping")
