"""An app with tools and a scripted model, and requests to it, without a server."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AbstractAsyncContextManager
from typing import Any

import anyio

from streamkit.conversation import Conversation
from streamkit.conversing import converse
from streamkit.flows.flow import Flow
from streamkit.testing.scripted import ScriptedModel, ScriptTurn
from streamkit.tool_events import RunEvent
from streamkit.tools.decorators import streaming_tool, tool
from streamkit.tools.tool import Tool
from streamkit.tools.toolkit import Toolkit
from streamkit.web import RunRequest, WebApp

from .asgi import Exchange, ask, asking


class Agent:
    """`start` for an app: a scripted model, the same for each run, and tools. asked: the requests until now."""

    def __init__(self, *turns: ScriptTurn, tools: tuple[Tool[..., Any], ...] = ()) -> None:
        self.turns = turns
        self.toolkit = Toolkit(*tools)
        self.asked: list[RunRequest] = []
        self.models: list[ScriptedModel] = []

    def __call__(self, run: RunRequest) -> Flow[RunEvent, Conversation]:
        self.asked.append(run)
        self.models.append(ScriptedModel(*self.turns))
        return converse(
            self.models[-1],
            self.toolkit,
            run.conversation,
            authorize=run.authorize,
            running=run.running,
            journal=run.journal,
            context=run.user,
        )


class Hold:
    """A tool that waits to be let go on. ended: set when it was cleaned up."""

    def __init__(self) -> None:
        self.began = anyio.Event()
        self.go_on = anyio.Event()
        self.ended = anyio.Event()

        @streaming_tool(finalize=lambda events: events[-1])
        async def hold(name: str = "") -> AsyncIterator[str]:
            """Wait."""
            self.began.set()
            try:
                yield f"begun {name}"
                await self.go_on.wait()
                yield f"done {name}"
            finally:
                self.ended.set()

        self.tool = hold


class Deletes:
    """A tool that has to be approved. deleted: what it was called with."""

    def __init__(self) -> None:
        self.deleted: list[str] = []

        @tool(approval=True)
        async def delete(path: str) -> str:
            """Delete a file."""
            self.deleted.append(path)
            return f"deleted {path}"

        self.tool = delete


def json_request(body: Any) -> Exchange:
    return Exchange(json.dumps(body).encode())


JSON = {"content-type": "application/json"}


def posting(
    app: WebApp, target: str, body: Any, headers: Mapping[str, str] | None = None
) -> AbstractAsyncContextManager[Exchange]:
    """A POST while it goes on."""
    return asking(app, "POST", target, headers={**JSON, **(headers or {})}, exchange=json_request(body))


async def post(app: WebApp, target: str, body: Any, headers: Mapping[str, str] | None = None) -> Exchange:
    """A POST and its whole answer."""
    return await ask(app, "POST", target, headers={**JSON, **(headers or {})}, exchange=json_request(body))


async def get(app: WebApp, target: str, headers: Mapping[str, str] | None = None) -> Exchange:
    """A GET and its whole answer."""
    return await ask(app, "GET", target, headers=headers)


async def run_id_of(asked: Exchange) -> str:
    """Of a run that is being answered with."""
    await asked.until("messageId")
    return asked.headers["x-run-id"]


def types(asked: Exchange) -> list[str]:
    """The kinds of the frames."""
    return [frame["type"] for frame in asked.frames]


def text_of(asked: Exchange) -> str:
    """What the model said."""
    return "".join(frame["delta"] for frame in asked.frames if frame["type"] == "text-delta")


def find(asked: Exchange, kind: str) -> dict[str, Any]:
    """The first frame of a kind."""
    return next(frame for frame in asked.frames if frame["type"] == kind)


def of_header(name: str) -> Callable[[Any], str | None]:
    """Authenticates by what a header says."""
    return lambda request: request.headers.get(name)
