"""`ApprovalDesk`: where people decide about calls while the run waits.

Whoever reads `ApprovalRequested` answers it at the desk, beside the loop and not in it:

    desk = ApprovalDesk()
    execute_all(toolkit, turn.calls, authorize=desk.authorize)
    ...
    desk.allow(event.execution_id)  # from another task, a handler of a web request, a key press

A server that keeps nothing between two requests cannot wait: see `verdicts`.
"""

from __future__ import annotations

import copy
import logging
import math
from collections.abc import Mapping
from threading import get_ident
from typing import Any, cast

import anyio
import msgspec
from msgspec import UNSET

from ..durations import in_seconds
from ..errors import FlowError, VerdictRefused
from ..tools.tool import Tool
from .approval import (
    Allow,
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


class _Open(msgspec.Struct, eq=False):
    """A question that waits for its verdict."""

    question: Question
    decided: anyio.Event = msgspec.field(default_factory=anyio.Event)
    verdict: Verdict | None = None
    thread: int = msgspec.field(default_factory=get_ident)

    def check_thread(self) -> None:
        """Raise FlowError in another thread than that of the run: its event loop would not hear of a verdict there."""
        if get_ident() != self.thread:
            raise FlowError("a verdict is given in the thread of the run: anyio.from_thread.run_sync(desk.allow, …)")


class ApprovalDesk:
    """Decides about the calls of one run, including its inner runs, by asking people. Used from one event loop; called
    in another thread, it raises a FlowError that says how.

    needs: whether to ask about a call; if it raises, the person is asked. timeout_seconds: a question that nobody
    answers in this time is denied; None waits for ever.

    A verdict names its call by execution id. One that cannot be taken raises VerdictRefused to its sender and changes
    nothing: there is no such question (unless `early=True` keeps the verdict for one to come), it was answered before,
    its call was cancelled, the arguments do not fit the tool, or the desk is closed.
    """

    def __init__(self, *, needs: Needs = asks_for_marked, timeout_seconds: float | None = None) -> None:
        if timeout_seconds is not None and not timeout_seconds > 0:
            raise ValueError(f"timeout_seconds must be more than 0, but is {timeout_seconds}")
        self._needs = plain_rule(needs)
        self._timeout_seconds = math.inf if timeout_seconds is None else timeout_seconds
        self._open: dict[str, _Open] = {}
        self._early: dict[str, Verdict] = {}
        self._over: dict[str, str] = {}  # what became of the questions that are answered
        self._always: list[Tool[..., Any]] = []
        self._allowed_along: set[str] = set()  # with another call: whoever sees the question later may allow it, too
        self._closed = False

    @property
    def questions(self) -> tuple[Question, ...]:
        """Those that wait for a verdict, oldest first."""
        open_ones = [waiting.question for waiting in self._open.values() if not waiting.decided.is_set()]
        return tuple(question for question in open_ones if not question.is_cancelled())

    async def authorize(self, question: Question) -> Verdict:
        """For `execute_all(authorize=desk.authorize)`: waits until somebody has decided."""
        call, early = question.call, self._early.pop(question.execution_id, None)
        if early is None:
            if not must_ask(self._needs, call) or self._is_allowed_always(call.tool):
                return Allow()
        elif (problem := problem_of(question, early)) is None:
            self._over[question.execution_id] = "is answered already"
            return early
        else:
            logger.warning("the verdict that came early cannot be taken: %r", problem)  # whose words a client chose
        if self._closed:
            await question.announce(card_of(call))
            return Undecided()
        return await self._wait(question)

    async def _wait(self, question: Question) -> Verdict:
        waiting = self._open[question.execution_id] = _Open(question)
        became = "was cancelled"
        try:
            await question.announce(card_of(question.call))
            with anyio.move_on_after(self._timeout_seconds):
                if not waiting.decided.is_set():  # else a cancellation would be heard here, and the verdict be lost
                    await waiting.decided.wait()
            if not waiting.decided.is_set():
                waiting.verdict = Deny(f"nobody decided within {in_seconds(self._timeout_seconds)}")
            became = "is answered already" if waiting.decided.is_set() else "was not answered in time"
            return waiting.verdict or Undecided()
        finally:
            del self._open[question.execution_id]
            self._over[question.execution_id] = became

    def allow(
        self,
        execution_id: str,
        arguments: Mapping[str, Any] | None = None,
        *,
        value: Any = UNSET,
        always: bool = False,
        early: bool = False,
    ) -> None:
        """The call may run. arguments: what it runs with instead of its own. value: its result, without running.

        always: all calls of this tool may run from now on. Those that wait already are allowed along with this one, and
        may be allowed once more. early: keep the verdict for a question that is still to come; if it does not fit then,
        the question is asked anyway. Raises VerdictRefused.
        """
        if not isinstance(given := cast(object, arguments), Mapping | None):
            raise TypeError(f"arguments are all those of the call by name, such as {{'to': 'Bob'}}, not {given!r:.100}")
        # A copy, since what is checked here and what runs have to be the same, whatever the caller does with it.
        verdict = Allow(None if arguments is None else copy.deepcopy(dict(arguments)), value)
        if execution_id in self._allowed_along and verdict == Allow():
            return
        waiting = self._question(execution_id, early=early)
        if waiting is None and always:
            raise VerdictRefused(f"nobody asks about {execution_id} yet, so it is not known which tool to allow always")
        if waiting is not None and (problem := problem_of(waiting.question, verdict)) is not None:
            raise VerdictRefused(problem)
        if waiting is not None and always and not waiting.question.call.tool.has_body:
            name = waiting.question.call.name
            raise VerdictRefused(f"{name} does nothing by itself: each of its calls needs a value of its own")
        self._decide(execution_id, verdict)
        if waiting is not None and always:
            self._allow_always(waiting.question.call.tool)

    def deny(self, execution_id: str, reason: str = "the person said no", *, early: bool = False) -> None:
        """The call does not run. reason: what the model reads. Raises VerdictRefused."""
        self._question(execution_id, early=early)
        self._decide(execution_id, Deny(reason))

    def close(self) -> None:
        """Nobody is there any more: calls that wait, now or later, stay Pending."""
        for waiting in self._open.values():
            waiting.check_thread()
        self._closed = True
        for execution_id in tuple(self._open):
            self._decide(execution_id, Undecided())
        for execution_id in self._early:
            logger.warning("the verdict on %s was never asked for", execution_id)

    def _allow_always(self, tool: Tool[..., Any]) -> None:
        """Also what waits already."""
        self._always.append(tool)
        for execution_id, other in tuple(self._open.items()):
            if self._is_allowed_always(other.question.call.tool) and not other.decided.is_set():
                self._allowed_along.add(execution_id)
                self._decide(execution_id, Allow())

    def _is_allowed_always(self, tool: Tool[..., Any]) -> bool:
        """Tools of one origin are known by their names; of all others, inner runs may have some with equal names."""
        return any(
            tool.name == allowed.name
            and tool.origin == allowed.origin
            and (tool.origin is not None or tool.function is allowed.function)
            for allowed in self._always
        )

    def _question(self, execution_id: str, *, early: bool) -> _Open | None:
        """The question that waits for a verdict; None for one to come."""
        waiting = self._open.get(execution_id)
        if waiting is not None:
            waiting.check_thread()
        if waiting is not None and waiting.question.is_cancelled():
            raise VerdictRefused(f"{execution_id} was cancelled")
        if waiting is not None and waiting.decided.is_set():
            raise VerdictRefused(f"{execution_id} is answered already")
        if waiting is not None:
            return waiting
        if execution_id in self._over:
            raise VerdictRefused(f"{execution_id} {self._over[execution_id]}")
        if self._closed:
            raise VerdictRefused(f"the desk is closed: {execution_id} stays as it is")
        if execution_id in self._early:
            raise VerdictRefused(f"{execution_id} is answered already")
        if not early:
            asked = {each: waiting.question.call.call for each, waiting in self._open.items()}
            raise VerdictRefused(f"nobody asks about {execution_id}{meant_instead(execution_id, asked)}")
        return None

    def _decide(self, execution_id: str, verdict: Verdict) -> None:
        waiting = self._open.get(execution_id)
        if waiting is None:
            self._early[execution_id] = verdict
        elif not waiting.decided.is_set():
            waiting.verdict = verdict
            waiting.decided.set()
