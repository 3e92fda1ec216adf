"""What other tests here stand on: the server is real, and a script that fails says so."""

import subprocess

import pytest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse
from starlette.routing import Route

from .parts import needs_node
from .serving import run_node, serve


async def _hello(request: Request) -> PlainTextResponse:
    return PlainTextResponse("hello ✓")


APP = Starlette(routes=[Route("/", _hello)])


@needs_node
def test_a_script_speaks_with_the_app() -> None:
    with serve(APP) as url:
        assert run_node("echo.mjs", url) == {"status": 200, "text": "hello ✓"}


@needs_node
def test_a_script_that_fails_fails_the_test_with_what_it_said() -> None:
    with pytest.raises(AssertionError, match=r"ended with 1:[^$]*TypeError"):
        run_node("echo.mjs", "no address")


@needs_node
def test_a_script_that_takes_too_long_is_ended() -> None:
    with pytest.raises(subprocess.TimeoutExpired):
        run_node("echo.mjs", "http://127.0.0.1:9", timeout_seconds=0.001)
