"""A server behind a URL that refuses."""

import json
from typing import Any

import pytest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from streamkit.errors import McpServerError
from streamkit.mcp import Connection

from .servers import HANDSHAKE
from .test_serving_http import served

pytestmark = pytest.mark.filterwarnings("ignore:Async generator 'http:ResourceWarning")


def answering(called: Response | None) -> Starlette:
    """A server that answers a call so, and goes on; None: nobody is let in."""

    async def endpoint(request: Request) -> Response:
        asked: dict[str, Any] = json.loads(await request.body()) if request.method == "POST" else {}
        match asked.get("method"):
            case "initialize" if called is not None:
                return JSONResponse({"jsonrpc": "2.0", "id": asked["id"], "result": HANDSHAKE})
            case "server/discover" if called is not None:
                problem = {"code": -32601, "message": "unknown method"}
                return JSONResponse({"jsonrpc": "2.0", "id": asked["id"], "error": problem}, 404)
            case "tools/call" if called is not None:
                return called
            case "notifications/initialized":
                return Response(status_code=202)
            case _:
                return Response(status_code=401)

    return Starlette(routes=[Route("/mcp", endpoint, methods=["GET", "POST", "DELETE"])])


async def test_who_is_not_let_in_is_told_the_status() -> None:
    with served(lambda: answering(None)) as url, pytest.raises(McpServerError, match="not reached: HTTP 401 Unauth"):
        async with Connection(f"{url}/mcp"):
            raise AssertionError


@pytest.mark.parametrize(
    ("called", "told"),
    [
        (Response("no", 429), "HTTP 429 Too Many Requests"),
        (JSONResponse({"error": "expired"}, 403), "HTTP 403 Forbidden"),
        (Response("no", 599), "HTTP 599"),
        (JSONResponse({"jsonrpc": "2.0", "id": None, "error": {"code": -1, "message": "busy"}}, 503), "busy"),
    ],
)
async def test_a_call_that_is_refused_tells_the_status_unless_the_server_says_more(called: Response, told: str) -> None:
    with served(lambda: answering(called)) as url:
        async with Connection(f"{url}/mcp", name="far") as connection:
            for _ in range(2):
                with pytest.raises(McpServerError, match=f"^The server far refused: {told}$"):
                    await connection.call("any", {})
