"""Verdicts that let a call run, each taken once: a request that comes a second time runs nothing a second time.

A client whose answer was lost on the network sends its request again, with what was approved in it, and so does a page
that was open twice. So before a run starts, it claims the calls that it may run; who comes second is refused. With a
journal claims outlive the process, and hold for all that share its store.

A claim is given back where the call cannot have started: the run was refused before it began, or it ended, whoever
ended it, before it asked for the verdict. Then the same request may come again. Else it stays, even if the call was cut
off before it did anything: it may have happened, and the model is told so when the person speaks on. The claims of a
process that died stay, too. Whoever denies such a call, or passes the question over, goes on without running it, and
the model reads that it may have happened.

Messages are not claimed, nor what a client gives as the output of a tool of its own: no call runs for them, and a model
that failed behind them is asked again by sending them once more.
"""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Awaitable, Iterable, Mapping
from typing import Any

import anyio
from msgspec import UNSET
from starlette.exceptions import HTTPException
from starlette.responses import Response

from ..conversation import Conversation
from ..errors import JournalError, RunStopped
from ..execution.approval import Allow, Authorize, Deny, Question, Verdict
from ..flows.flow import Flow, Sink
from ..journal.journals import Journal
from ..tool_events import RunEvent, ToolStarted
from .afterwards import Afterwards
from .claim_books import ClaimBook, RememberedClaims, StoredClaims
from .owners import name_of
from .requests import RunRequest
from .runs import Start

TOO_LATE = "it had been allowed before, so it may have happened"

logger = logging.getLogger("streamkit")


OURS = ""
"""The thread of execution ids that we made: no two calls have the same, whoever brings them back."""


class Claims:
    """What was claimed until now. outlives_response: whether a run may go on when nobody reads it any more."""

    def __init__(self, journal: Journal | None, *, outlives_response: bool) -> None:
        self._book: ClaimBook = RememberedClaims() if journal is None else StoredClaims(journal.store)
        self._outlives_response = outlives_response

    async def take(
        self,
        user: Any,
        thread_id: str,
        verdicts: Mapping[str, Verdict],
        authorize: Authorize,
        *,
        waiting: Iterable[str] = (),
    ) -> Claim:
        """Claim the calls that a request lets run. thread_id: whose execution ids these are, among those of the user.

        authorize: decides as the request says. waiting: the calls that wait in the conversation; those that the request
        says nothing of are claimed when somebody lets them run. Raises HTTPException(409) where one of them was let run
        before.
        """
        open_names = {each: _name(user, thread_id, each) for each in waiting if each not in verdicts}
        claim = Claim(self._book, authorize, open_names, outlives_response=self._outlives_response)
        try:
            for execution_id in sorted(verdicts):  # in one order, so that of two that share some one gets all
                name, verdict = _name(user, thread_id, execution_id), verdicts[execution_id]
                if not await claim.take(execution_id, name, verdict):
                    raise HTTPException(409, f"{execution_id} was decided already: the call runs, or has run")
        except BaseException:
            await claim.give_back()
            raise
        return claim


class Claim:
    """The claim of one request, and the authoriser of its run: what was decided when it is asked is given back no more.

    It sees the run, too (`watching`), for the sake of those who ask somebody else first. open_names: what the claims of
    the calls are named that nobody has decided about yet.
    """

    def __init__(
        self, book: ClaimBook, authorize: Authorize, open_names: dict[str, str], *, outlives_response: bool
    ) -> None:
        self._book = book
        self._authorize = authorize
        self._open_names = open_names
        self._outlives_response = outlives_response
        self._unused: dict[str, tuple[str, str]] = {}  # the names with their receipts, by execution id
        self._too_late: set[str] = set()  # the calls that were denied when they had been let run before
        self._has_begun = self._is_over = False

    async def take(self, execution_id: str, name: str, verdict: Verdict) -> bool:
        """Whether this may be decided about a call. One that runs then is claimed."""
        if isinstance(verdict, Allow) and verdict.value is UNSET:
            with anyio.CancelScope(shield=True):  # who is cancelled in between does not know whether the claim stands
                receipt = await self._book.take(name)
            if receipt is not None:
                self._unused[execution_id] = name, receipt
            return receipt is not None
        if not await self._book.is_taken(name):
            return True
        self._too_late.add(execution_id)
        return not isinstance(verdict, Allow)

    async def give_back(self) -> None:
        """What cannot have started. No run begins with this claim any more."""
        unused, self._unused, self._is_over = self._unused, {}, True
        with anyio.CancelScope(shield=True):
            for name, receipt in unused.values():
                try:
                    await self._book.give_back(name, receipt)
                except JournalError:
                    logger.warning("a call that did not run cannot be approved any more", exc_info=True)

    async def __call__(self, question: Question) -> Verdict:
        verdict, execution_id = await self._authorize(question), question.execution_id
        if isinstance(verdict, Allow):
            self._unused.pop(execution_id, None)
            if verdict.value is UNSET and (name := self._open_names.pop(execution_id, None)) is not None:
                return verdict if await self._book.take(name) is not None else Deny(TOO_LATE)
        return Deny(TOO_LATE) if execution_id in self._too_late else verdict

    def watch(self, flow: Flow[RunEvent, Conversation]) -> Flow[RunEvent, Conversation]:
        """The same run, at the end of which is given back what it did not use."""
        seen = flow.tap(self._note)
        return Flow(lambda out: self._run(out, seen)) if self._unused else flow

    def _note(self, event: RunEvent) -> None:
        if type(event) is ToolStarted:
            self._unused.pop(event.execution_id, None)

    async def _run(self, out: Sink[RunEvent], flow: Flow[RunEvent, Conversation]) -> Conversation:
        if self._is_over:
            raise RunStopped("the run had ended before it began")
        self._has_begun = True
        try:
            return await out.forward(flow)
        finally:
            await self.give_back()

    async def held_by(self, answering: Awaitable[Response]) -> Response:
        """The response with the run. What is raised instead of it refuses the run."""
        try:
            response = await answering
        except BaseException:
            await self.give_back()
            raise
        return response if self._outlives_response or not self._unused else Afterwards(response, self.end)

    async def end(self) -> None:
        """The response is over; and so is the run, if it never began."""
        if not self._has_begun:
            await self.give_back()


def watching(start: Start) -> Start:
    """The same `start`, whose runs are seen by their claims."""

    def begin(run: RunRequest) -> Flow[RunEvent, Conversation]:
        flow = start(run)
        return run.authorize.watch(flow) if isinstance(run.authorize, Claim) and isinstance(flow, Flow) else flow

    return begin


def _name(user: Any, thread_id: str, execution_id: str) -> str:
    """The name of a claim, which tells nothing of them; and it is the id of no run of anybody."""
    told = hashlib.sha256()
    for part in (name_of(user), thread_id.encode(errors="surrogatepass"), execution_id.encode(errors="surrogatepass")):
        told.update(b"%d:" % len(part) + part)
    return f"claim-{told.hexdigest()}"
