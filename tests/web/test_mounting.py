"""In applications of others: in a route, behind middleware, mounted."""

import anyio
import pytest
from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.middleware.base import BaseHTTPMiddleware, RequestResponseEndpoint
from starlette.middleware.gzip import GZipMiddleware
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Mount, Route

from streamkit.conversing import converse
from streamkit.items import user
from streamkit.testing.leftovers import nothing_left
from streamkit.testing.scripted import ScriptedModel, call
from streamkit.tools.toolkit import Toolkit
from streamkit.web import FlowResponse, app

from .asgi import Exchange, ask, asking, scope_of
from .serving import JSON, Agent, Hold, json_request, text_of


async def pass_on(request: Request, call_next: RequestResponseEndpoint) -> Response:
    return await call_next(request)


MIDDLEWARE = [Middleware(BaseHTTPMiddleware, dispatch=pass_on), Middleware(GZipMiddleware, minimum_size=1)]


def route(hold: Hold) -> Starlette:
    async def chat(request: Request) -> FlowResponse:
        said = (await request.json())["message"]
        model = ScriptedModel(["One ", call("hold")], ["two."])
        return FlowResponse(converse(model, Toolkit(hold.tool), (user(said),)))

    return Starlette(routes=[Route("/chat", chat, methods=["POST"])], middleware=MIDDLEWARE)


async def test_a_route_answers_with_a_run_as_it_goes_on() -> None:
    hold = Hold()
    async with nothing_left(), asking(route(hold), "POST", "/chat", exchange=json_request({"message": "Hi"})) as asked:
        await asked.until("tool-progress")
        hold.go_on.set()
    assert text_of(asked) == "One two."
    assert "content-encoding" not in asked.headers


async def test_a_client_that_leaves_is_heard_through_middleware() -> None:
    hold = Hold()
    async with nothing_left(), asking(route(hold), "POST", "/chat", exchange=json_request({"message": "Hi"})) as asked:
        await hold.began.wait()
        asked.leave()
    assert hold.ended.is_set()


async def test_a_mounted_app_serves_its_routes_below_its_path() -> None:
    host = Starlette(routes=[Mount("/agent", app=app(Agent(["Ho"])))], middleware=MIDDLEWARE)
    asked = await ask(host, "POST", "/agent/runs", headers=JSON, exchange=json_request({"message": "Hi"}))
    assert text_of(asked) == "Ho"
    status = await ask(host, "GET", f"/agent/runs/{asked.headers['x-run-id']}")
    assert status.json["ended"] == "answer"
    assert (await ask(host, "GET", "/runs")).status == 404


async def test_an_app_begins_and_ends_with_its_server() -> None:
    served = app(Agent(["Ho"]))
    told: list[str] = []
    ends = anyio.Event()
    begun = anyio.Event()

    async def receive() -> dict[str, object]:
        if not told:
            return {"type": "lifespan.startup"}
        await ends.wait()
        return {"type": "lifespan.shutdown"}

    async def send(message: object) -> None:
        assert isinstance(message, dict)
        told.append(message["type"])
        begun.set()

    async with anyio.create_task_group() as tasks:

        async def serve() -> None:
            await served({"type": "lifespan", "asgi": {"version": "3.0"}, "state": {}}, receive, send)

        tasks.start_soon(serve)
        await begun.wait()
        ends.set()
    assert told == ["lifespan.startup.complete", "lifespan.shutdown.complete"]


async def test_a_websocket_is_turned_away() -> None:
    exchange = Exchange()
    sent: list[str] = []

    async def send(message: object) -> None:
        assert isinstance(message, dict)
        sent.append(message["type"])

    scope = {**scope_of("GET", "/runs", {}), "type": "websocket", "subprotocols": []}
    await app(Agent())(scope, exchange.receive, send)
    assert sent == ["websocket.close"]


async def later() -> None: ...


def test_what_no_run_can_be_made_of_is_refused_where_it_is_given() -> None:
    with pytest.raises(TypeError, match="start and authenticate= are functions"):
        app(None)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="start and authenticate= are functions"):
        app(Agent(), authenticate="ann")  # type: ignore[arg-type]
    with pytest.raises(TypeError, match=r"journal= is a Journal, such as sqlite_journal\('runs.db'\), not str"):
        app(Agent(), journal="runs.db")  # type: ignore[arg-type]
    with pytest.raises(TypeError, match=r"FlowResponse takes a flow, such as converse\(…\), not function"):
        FlowResponse(later)  # type: ignore[arg-type]
