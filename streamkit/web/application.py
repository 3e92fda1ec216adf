"""`app`: runs behind HTTP, as an ASGI app to be served by itself or mounted in another."""

from __future__ import annotations

from collections.abc import AsyncIterator, Collection, Mapping, Sequence
from contextlib import asynccontextmanager

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.middleware.cors import CORSMiddleware
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.routing import BaseRoute
from starlette.types import Receive, Scope, Send

from ..journal.journals import Journal
from ..redaction import Redact
from ..wire.encoding import json_of
from ..wire.seals import Seal
from .ag_ui_routes import AgUiRoutes
from .ai_sdk_routes import AiSdkRoutes
from .body import KEEPALIVE_SECONDS, STALL_SECONDS
from .claims import Claims, watching
from .ended import EndedRuns
from .guards import Authenticate, Guards
from .hosting import RUN_ID, Host, Times
from .native_routes import NativeRoutes
from .runs import LiveRuns, Start
from .served import NOT_STORED, Served


class WebApp:
    """An ASGI app; made by `app`."""

    def __init__(self, routes: Sequence[BaseRoute], host: Host, allowed_origins: Collection[str]) -> None:
        self._host = host
        self._served = Starlette(
            routes=routes,
            middleware=_cross_origin(allowed_origins),
            exception_handlers={HTTPException: _refuse, ClientDisconnect: _say_nothing, Exception: _fail},
            lifespan=lambda served: host.running(),
        )
        self._served.router.redirect_slashes = False

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await self._served(scope, receive, send)

    @asynccontextmanager
    async def lifespan(self, host: object = None) -> AsyncIterator[None]:
        """For the application in which this one is mounted: `Starlette(…, lifespan=app.lifespan)`, and so for FastAPI.

        Not needed if this app is served by itself. Leaving the block ends the active runs, in the background and in
        their responses, and waits for their cleanup.
        """
        async with self._host.running():
            yield


def app(
    start: Start,
    *,
    authenticate: Authenticate | None = None,
    journal: Journal | None = None,
    resumable: bool = False,
    allowed_origins: Collection[str] = (),
    redact: Redact | None = None,
    fields: bool = False,
    secret: bytes | None = None,
    keepalive_seconds: float = KEEPALIVE_SECONDS,
    stall_seconds: float = STALL_SECONDS,
    decision_seconds: float | None = 3600,
    max_body_bytes: int = 1024 * 1024,
    max_runs: int = 1000,
    max_user_runs: int | None = None,
    max_ended: int = 1000,
    max_ended_bytes: int = 64 * 1024 * 1024,
    max_ended_seconds: float = 3600,
) -> WebApp:
    """Runs behind HTTP: `app(lambda run: converse(model, toolkit, run.conversation, authorize=run.authorize,
    running=run.running, journal=run.journal))`.

    start: makes the run of a request. What it raises instead, such as HTTPException(429), is the answer.
    authenticate: a plain or async function that returns the user behind a request. None, False and anything empty mean
    nobody, and are answered with 401. Its value names the user: text, a number or a record of these, the same each
    time. A run belongs to the user who started it, and is unknown to others. Without `authenticate`, whoever has the id
    of a run may watch and steer it; ids cannot be guessed.

    journal: where runs are written down. Then a run can be watched by several clients, and again, and be resumed after
    its process died. A verdict on a run that ended with "pending" is kept there, too, for `{"after": id}`: it survives
    a restart, and all who share the journal see it. Arguments or a value that come with a verdict are kept only in
    memory if the journal has `redact=`. resumable: a run goes on when its client leaves; otherwise it is cancelled
    within a second.
    allowed_origins: origins of other pages that may use the app, such as "https://example.org"; "*" allows all, without
    cookies.
    redact: redact(tool, value) returns what is sent in place of arguments and values. fields: the native protocol also
    sends the fields of arguments, as `NativeEncoder` does.
    secret: signs what clients that hold the conversation (AI SDK, AG-UI) are asked to approve, so that they can approve
    nothing else: at least 16 bytes, the same in all processes. None makes one; then what was asked before a restart can
    no longer be approved. What they approve runs once: a request that comes a second time is refused with 409, with a
    journal by all processes that share it. It may come again if the call cannot have started; otherwise the person
    sends a message, or denies the call, and the model reads that it may have happened.

    keepalive_seconds, stall_seconds: as in `FlowResponse`. decision_seconds: a question that nobody answers in this
    time is denied; None waits for ever. max_body_bytes: of a request. max_runs: how many run at once; more are refused
    with 503. max_user_runs: the same for each user, with 429, so that no user locks the others out.
    max_ended, max_ended_bytes, max_ended_seconds: how many ended runs are kept, to be continued; a journal keeps them
    anyway.
    """
    if not callable(start) or not (authenticate is None or callable(authenticate)):
        raise TypeError("start and authenticate= are functions, of a RunRequest and of a Request")
    if not isinstance(journal, Journal | None):
        raise TypeError(f"journal= is a Journal, such as sqlite_journal('runs.db'), not {type(journal).__name__}")
    if resumable and journal is None:
        raise ValueError("a run that is resumable is written down: give journal=, such as memory_journal()")
    ended = EndedRuns(limit_bytes=max_ended_bytes, limit_count=max_ended, limit_seconds=max_ended_seconds)
    claims = Claims(journal, outlives_response=resumable)
    host = Host(
        watching(start),
        LiveRuns(max_runs=max_runs, max_user_runs=max_user_runs, ended=ended),
        journal,
        resumable=resumable,
        decision_seconds=decision_seconds,
        times=Times(keepalive_seconds=keepalive_seconds, stall_seconds=stall_seconds),
    )
    guards = Guards(authenticate=authenticate, allowed_origins=allowed_origins, max_body_bytes=max_body_bytes)
    served = Served(host, guards, redact, claims, Seal(secret))
    routes = [*NativeRoutes(served, fields=fields).routes, *AiSdkRoutes(served).routes, *AgUiRoutes(served).routes]
    return WebApp(routes, host, allowed_origins)


def _cross_origin(allowed: Collection[str]) -> list[Middleware]:
    if not allowed:
        return []
    return [
        Middleware(
            CORSMiddleware,
            allow_origins=allowed,
            allow_credentials="*" not in allowed,
            allow_methods=("GET", "POST"),
            allow_headers=("*",),
            expose_headers=(RUN_ID,),
        )
    ]


async def _refuse(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    return _problem(error.status_code, error.detail, error.headers)


async def _say_nothing(request: Request, error: Exception) -> Response:
    return _problem(400, "the client left before its request was whole")


async def _fail(request: Request, error: Exception) -> Response:
    return _problem(500, "the server failed")


def _problem(status: int, sentence: str, headers: Mapping[str, str] | None = None) -> Response:
    return Response(json_of({"error": sentence}), status, {**NOT_STORED, **(headers or {})}, "application/json")
