"""The runs that go on, and the hands on them: verdicts, cancels, and the end."""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from types import MappingProxyType
from typing import Any

import anyio
from starlette.exceptions import HTTPException

from ..conversation import Conversation
from ..errors import RunStopped
from ..execution.approval import Allow, Authorize, Deny, Verdict
from ..execution.desk import ApprovalDesk
from ..execution.running import Running
from ..flows.flow import Flow, Sink
from ..flows.groups import concerns_all
from ..journal.log import RunLog
from ..tool_events import RunEvent
from ..transcript import Transcript
from .ended import Ended, EndedRuns
from .owners import name_of
from .requests import UNFINISHED, RunRequest

LATER = {"retry-after": "5"}

Start = Callable[[RunRequest], Flow[RunEvent, Conversation]]
"""What makes a run of a request: the one function that an app has to be given."""


class Run:
    """A run, from the request for it to its end.

    conversation: that goes on; None where the journal knows it. user: whose it is. authorize: who decides; None is the
    desk. about: what else stands in its `RunRequest`.
    ended: None until it is over. over: set when nobody drives it any more.
    """

    def __init__(
        self,
        run_id: str,
        conversation: Conversation | None,
        *,
        desk: ApprovalDesk,
        user: Any = None,
        authorize: Authorize | None = None,
        **about: Any,
    ) -> None:
        self.run_id = run_id
        self.owner = name_of(user)
        self.desk = desk
        self.running = Running()
        self.ended: Ended | None = None
        self.over = anyio.Event()
        self._conversation = conversation
        self.authorize = authorize or desk.authorize
        self._about = {"user": user, **about}
        self._scope: anyio.CancelScope | None = None
        self._why_stopped: str | None = None

    def begin(self, start: Start, journal: RunLog | None = None) -> Flow[RunEvent, Conversation]:
        """The run as a flow. What `start` raises is raised here, before anything is sent."""
        conversation = self._conversation or (journal and journal.conversation)
        if not conversation:
            raise HTTPException(409, "nothing is written down of this run that could be continued")
        flow: object = start(
            RunRequest(self.run_id, conversation, self.authorize, self.running, journal, **self._about)
        )
        if inspect.iscoroutine(flow):
            flow.close()  # or else a warning about it follows the error
        if not isinstance(flow, Flow):
            raise TypeError(
                f"start is a plain function that returns a Flow, such as converse(…), not {type(flow).__name__}"
            )
        transcript = Transcript(conversation)
        shown = flow.tap(transcript.feed)
        return Flow(lambda out: self._run(out, shown, transcript))

    async def _run(
        self, out: Sink[RunEvent], flow: Flow[RunEvent, Conversation], transcript: Transcript
    ) -> Conversation:
        how, state = "unknown", None
        try:
            with anyio.CancelScope() as self._scope:
                if self._why_stopped is None:
                    state = await out.forward(flow)
                    return state
            raise RunStopped(self._why_stopped or "the run was stopped")
        except RunStopped:
            how = "stopped"
            raise
        except BaseException as error:
            how = "interrupted" if concerns_all(error) else "failed"
            raise
        finally:
            if isinstance(state, Conversation):
                self.ended = Ended(state.ended or "unknown", state)
            else:
                self.ended = Ended(how, Conversation(transcript.history(UNFINISHED)))

    def decide(self, execution_id: str, verdict: Verdict, *, always: bool = False, early: bool = False) -> None:
        """Raises VerdictRefused. always, early: see `ApprovalDesk`."""
        match verdict:
            case Allow(arguments=arguments, value=value):
                self.desk.allow(execution_id, arguments, value=value, always=always, early=early)
            case Deny(reason=reason):
                self.desk.deny(execution_id, reason, early=early)

    def stop(self, reason: str) -> None:
        """End it, wherever it is; its stream says so last. Nothing happens to one that is over."""
        self._why_stopped = self._why_stopped or reason
        if self._scope is not None:
            self._scope.cancel()


class LiveRuns:
    """The runs that this process drives now, and those that have ended, by their ids."""

    def __init__(self, *, max_runs: int, max_user_runs: int | None, ended: EndedRuns) -> None:
        self.ended = ended
        self._max_runs = max_runs
        self._max_user_runs = math.inf if max_user_runs is None else max_user_runs
        self._runs: dict[str, Run] = {}
        self._entered: set[Run] = set()  # those, and those that are found no more but not over
        self._count_of: dict[bytes, int] = {}  # by owner; those who have none are not in it

    @property
    def by_id(self) -> Mapping[str, Run]:
        return MappingProxyType(self._runs)

    async def stop_all(self, reason: str) -> None:
        """Stop the runs, and wait until they are over."""
        runs = [*self._entered]
        for run in runs:
            run.stop(reason)
        for run in runs:
            await run.over.wait()

    @contextmanager
    def entered(self, run: Run) -> Iterator[None]:
        """Let a run be found while the block is open. Raises HTTPException where there are too many."""
        if run.run_id in self._runs:
            raise HTTPException(409, "the run is active already")
        if len(self._runs) >= self._max_runs:
            raise HTTPException(503, "too many runs are active at the moment", LATER)
        before = self._count_of.get(run.owner, 0)
        if before >= self._max_user_runs:
            raise HTTPException(429, "too many runs of yours are active at the moment", LATER)
        self._runs[run.run_id] = run
        self._entered.add(run)
        self._count_of[run.owner] = before + 1
        self.ended.forget(run.run_id)
        try:
            yield
        finally:
            self.leave(run)
            self._entered.remove(run)
            run.over.set()

    def leave(self, run: Run) -> None:
        """It is found, and counted, no more: whoever reads of its end may speak on. Nothing happens the second time."""
        if self._runs.get(run.run_id) is not run:
            return
        del self._runs[run.run_id]
        if (left := self._count_of.pop(run.owner) - 1) > 0:
            self._count_of[run.owner] = left
        if run.ended is not None:
            self.ended.put(run.run_id, run.ended)
