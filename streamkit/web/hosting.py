"""Where runs live: in the request that asked for them, or, where they are written down, in the group of the app."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any, TypedDict

from anyio.abc import TaskGroup, TaskStatus
from msgspec.structs import replace
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from ..conversation import Conversation
from ..errors import FlowError, RunStopped
from ..execution.approval import Allow, Deny
from ..execution.desk import ApprovalDesk
from ..flows.groups import LoneErrorGroup, concerns_all
from ..journal.journals import Journal
from ..journal.log import RunLog
from ..wire.encoding import Encoder
from .afterwards import Afterwards
from .body import Body
from .ended import Ended
from .late_verdicts import LateVerdicts
from .replay import Replaying, replayed, standing_of
from .response import SHUTDOWN, FlowResponse, others_send
from .runs import LiveRuns, Run, Start

RUN_ID = "x-run-id"
"""The header of a response that says which run it is."""

LEFT = "its client has left"

logger = logging.getLogger("streamkit")


class Times(TypedDict):
    """As of `FlowResponse`."""

    keepalive_seconds: float
    stall_seconds: float


class Host:
    """Starts runs, and makes the responses in which they are watched."""

    def __init__(
        self,
        start: Start,
        live: LiveRuns,
        journal: Journal | None,
        *,
        resumable: bool,
        decision_seconds: float | None,
        times: Times,
    ) -> None:
        self.live = live
        self.journal = journal
        self._start = start
        self._resumable = resumable
        self._decision_seconds = decision_seconds
        self._times = times
        self._late = None if journal is None else LateVerdicts(journal)
        self._tasks: TaskGroup | None = None

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """The group of the app, in which runs that are written down go on until the block is left.

        No run is left behind: servers end their process when this is over, however much is still to be cleaned up.
        """
        try:
            async with LoneErrorGroup() as tasks:
                self._tasks = tasks
                try:
                    yield
                finally:
                    self._tasks = None
                    tasks.cancel_scope.cancel()
        finally:
            await self.live.stop_all(SHUTDOWN)

    def new_run(self, run_id: str, conversation: Conversation | None, **about: Any) -> Run:
        """A run that has not begun. about: as of `Run`."""
        desk = ApprovalDesk(timeout_seconds=self._decision_seconds)
        return Run(run_id, conversation, desk=desk, **about)

    async def find(self, run_id: str) -> Run | Ended | None:
        """The run, as it goes on here or as it stands."""
        if (run := self.live.by_id.get(run_id)) is not None:
            return run
        kept = self.live.ended.get(run_id)
        if self.journal is None:
            return kept
        standing = await standing_of(self.journal, run_id)
        if standing is None:
            return kept
        if kept is None or kept.how != standing.how:  # another process may have gone on with it
            kept = Ended(standing.how, standing.conversation)
        if self._late is None or kept.how != "pending":
            return kept
        return replace(kept, verdicts={**await self._late.known(run_id), **kept.verdicts})

    async def decide(self, run_id: str, ended: Ended, execution_id: str, verdict: Allow | Deny) -> None:
        """Keep a verdict on a call of a run that has ended. Raises VerdictRefused where it cannot be taken."""
        if self._late is not None and self._late.takes(verdict):
            await self._late.add(run_id, ended, execution_id, verdict)
        else:
            now = self.live.ended.get(run_id) or ended  # others may have decided meanwhile
            self.live.ended.put(run_id, now.decided(execution_id, verdict))

    async def answer(self, run: Run, encoder: Encoder, *, headers: Mapping[str, str], after: int = 0) -> Response:
        """Begin a run, and answer with it. after: the last frame that the client has of one that goes on."""
        if self.journal is None:
            return _OwnRun(run, self.live, run.begin(self._start), encoder, headers=headers, **self._times)
        if self._tasks is None:
            raise FlowError(
                "runs that are written down go on in the background, in the lifespan of the app: give `lifespan=app."
                "lifespan` to the application that it is mounted in, or open `async with app.lifespan()`"
            )
        await self._tasks.start(self._drive, self.journal, run, name="run")
        response = self.watch(run.run_id, encoder, headers=headers, after=after)
        if self._resumable:
            return response

        async def leave() -> None:
            run.stop(LEFT)

        return Afterwards(response, leave)

    def watch(self, run_id: str, encoder: Encoder, *, headers: Mapping[str, str], after: int = 0) -> Response:
        """Answer with a run that is written down."""
        assert self.journal is not None
        run = self.live.by_id.get(run_id)
        flow = replayed(self.journal, run_id, None if run is None else run.over)
        return FlowResponse(flow, Replaying(encoder, after=after), headers=headers, **self._times)

    async def _drive(self, journal: Journal, run: Run, *, task_status: TaskStatus[None]) -> None:
        """A run in the background. What goes wrong before it has begun is raised to whoever asked for it."""
        has_begun = False
        try:
            with self.live.entered(run):
                async with journal.drive(run.run_id) as log:
                    flow = run.begin(self._start, log)
                    has_begun = True
                    task_status.started()
                    async with flow.open() as events:
                        while await events.take():
                            _check_written(log)
                            await log.flush()  # so that those who watch see it at once
                            await others_send()
        except RunStopped:
            if not has_begun:
                raise
        except BaseException as error:  # out of the group of the app it would take all other runs along, now and later
            if not has_begun or concerns_all(error):
                raise
            logger.error("run %s failed", run.run_id, exc_info=error)


def _check_written(log: RunLog) -> None:
    if log.conversation is None:
        raise FlowError("the run is not written down: hand the journal on, as in converse(…, journal=run.journal)")


class _OwnRun(FlowResponse):
    """A run that lives as long as its response."""

    def __init__(self, run: Run, live: LiveRuns, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self._run = run
        self._live = live

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        with self._live.entered(self._run):
            await super().__call__(scope, receive, send)

    async def _drain(self, body: Body) -> bytes:
        last = await super()._drain(body)
        self._live.leave(self._run)
        return last
