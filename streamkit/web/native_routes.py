"""The routes of our own protocol: runs are started, watched, decided about, and cancelled."""

from __future__ import annotations

from typing import Any

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from ..codec.strict_json import strict_json
from ..conversation import Conversation
from ..errors import NotRunning, RunIsHeld, VerdictRefused
from ..execution.approval import card_of
from ..execution.desk import ApprovalDesk
from ..wire.encoding import Values, json_of
from ..wire.native import NativeEncoder
from .claims import OURS
from .ended import Ended
from .hosting import RUN_ID
from .owners import new_run_id, owns
from .replay import Replaying, has_more
from .requests import CancelBody, RunBody, VerdictBody, conversation_of
from .runs import Run
from .served import NOT_STORED, Served


class NativeRoutes:
    """fields: as of `NativeEncoder`."""

    def __init__(self, served: Served, *, fields: bool) -> None:
        self._host, self._guards, self._redact, self._claims, _ = served
        self._fields = fields
        self._values = Values()
        self.routes = [
            Route("/runs", self._start, methods=["POST"]),
            Route("/runs/{run_id}", self._tell, methods=["GET"]),
            Route("/runs/{run_id}/stream", self._watch, methods=["GET"]),
            Route("/runs/{run_id}/verdicts", self._decide, methods=["POST"]),
            Route("/runs/{run_id}/cancel", self._cancel, methods=["POST"]),
        ]

    async def _find(self, user: Any, run_id: str) -> Run | Ended:
        """A run of the user. One of another is told from none by nothing."""
        found = await self._host.find(run_id) if owns(user, run_id) else None
        if found is None:
            raise HTTPException(404, "no such run is known")
        return found

    # Starting

    async def _start(self, request: Request) -> Response:
        user, body = await self._guards.user_and_body(request, RunBody)
        if body.resume is not None:
            return await self._resume(request, user, body, body.resume)
        before = Ended(None, Conversation())
        if body.after is not None:
            found = await self._find(user, body.after)
            if isinstance(found, Run) or found.how is None:
                raise HTTPException(409, "the run is still active: continue it when it has ended")
            before = found
        conversation = conversation_of(body, before.conversation)
        verdicts = {known: verdict for known, verdict in before.verdicts.items() if known in conversation.undecided}
        run = self._host.new_run(new_run_id(user), conversation, user=user, data=body.data)
        for execution_id, verdict in verdicts.items():
            run.decide(execution_id, verdict, early=True)
        waiting = conversation.waiting
        run.authorize = claim = await self._claims.take(user, OURS, verdicts, run.authorize, waiting=waiting)
        return await claim.held_by(self._answer(run))

    async def _resume(self, request: Request, user: Any, body: RunBody, run_id: str) -> Response:
        found = await self._find(user, run_id)
        if self._host.journal is None:
            raise HTTPException(409, "the run is not written down: continue the conversation with `after`")
        if isinstance(found, Run) or found.how != "interrupted":
            raise HTTPException(409, "only a run that was cut off can be resumed: `after` continues one that has ended")
        run = self._host.new_run(run_id, None, user=user, data=body.data)
        return await self._answer(run, after=_last_seen(request))

    async def _answer(self, run: Run, *, after: int = 0) -> Response:
        try:
            return await self._host.answer(run, self._encoder(run.run_id), headers={RUN_ID: run.run_id}, after=after)
        except RunIsHeld as error:
            raise HTTPException(409, "another process drives the run") from error

    def _encoder(self, run_id: str) -> NativeEncoder:
        return NativeEncoder(run_id=run_id, redact=self._redact, fields=self._fields)

    # Watching

    async def _watch(self, request: Request) -> Response:
        run_id = request.path_params["run_id"]
        found = await self._find(await self._guards.user(request), run_id)
        journal, after = self._host.journal, _last_seen(request)
        if journal is None:
            raise HTTPException(409, "the run is not written down, so it cannot be watched again")
        goes_on = isinstance(found, Run) or found.how is None
        if after and not goes_on and not await has_more(journal, run_id, Replaying(self._encoder(run_id), after=after)):
            return Response(status_code=204, headers=NOT_STORED)  # which tells an EventSource not to come back
        return self._host.watch(run_id, self._encoder(run_id), headers={RUN_ID: run_id}, after=after)

    async def _tell(self, request: Request) -> Response:
        run_id = request.path_params["run_id"]
        found = await self._find(await self._guards.user(request), run_id)
        if isinstance(found, Run):
            ended, waiting = None, self._questions(found.desk)
        else:
            ended, waiting = found.how, self._waiting(found)
        return _json({"runId": run_id, "running": ended is None, "ended": ended, "waiting": waiting})

    def _questions(self, desk: ApprovalDesk) -> list[dict[str, Any]]:
        return [
            self._question(each.execution_id, each.call.name, each.call.plain_arguments, card=card_of(each.call))
            for each in desk.questions
        ]

    def _waiting(self, ended: Ended) -> list[dict[str, Any]]:
        return [
            self._question(execution_id, call.name, _read(call.arguments))
            for execution_id, call in ended.conversation.undecided.items()
            if ended.how == "pending" and execution_id not in ended.verdicts
        ]

    def _question(self, execution_id: str, tool: str, arguments: Any, **more: Any) -> dict[str, Any]:
        seen = arguments if self._redact is None else self._redact(tool, arguments)
        return {"executionId": execution_id, "toolName": tool, "args": self._values.of(seen), **more}

    # Steering

    async def _decide(self, request: Request) -> Response:
        user, body = await self._guards.user_and_body(request, VerdictBody)
        run_id = request.path_params["run_id"]
        found = await self._find(user, run_id)
        try:
            if isinstance(found, Run):
                found.decide(body.execution_id, body.verdict, always=body.always)
            elif found.how is None:
                raise HTTPException(409, "another process drives the run: verdicts have to be sent to it")
            elif found.how == "interrupted":
                raise HTTPException(409, "the run was cut off: it asks again when somebody resumes it")
            else:
                await self._host.decide(run_id, found, body.execution_id, body.verdict)
        except VerdictRefused as refused:
            raise HTTPException(409, str(refused)) from refused
        return _json({})

    async def _cancel(self, request: Request) -> Response:
        user, body = await self._guards.user_and_body(request, CancelBody)
        found = await self._find(user, request.path_params["run_id"])
        if not isinstance(found, Run):
            raise HTTPException(409, "another process drives the run" if found.how is None else "the run has ended")
        reason = body.reason or "the person stopped it"
        if body.execution_id is None:
            found.stop(reason)
            return _json({})
        try:
            found.running.cancel(body.execution_id, reason)
        except NotRunning as error:
            raise HTTPException(409, str(error)) from error
        return _json({})


def _last_seen(request: Request) -> int:
    """The number of the last frame that the client has."""
    said = request.headers.get("last-event-id") or request.query_params.get("after") or "0"
    if not (said.isascii() and said.isdecimal() and len(said) < 18):
        raise HTTPException(400, "Last-Event-ID is the number of a frame")
    return int(said)


def _read(arguments: str) -> Any:
    try:
        return strict_json(arguments)
    except (ValueError, RecursionError):
        return arguments


def _json(value: Any) -> Response:
    return Response(json_of(value), headers=NOT_STORED, media_type="application/json")
