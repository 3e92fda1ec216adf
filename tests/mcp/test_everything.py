"""The server that the makers of MCP test clients with, over both of its transports."""

import os
import socket
import subprocess
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager, suppress

import anyio
import pytest
from anyio.abc import Process
from mcp import StdioServerParameters

from streamkit.execution.execute import execute_all
from streamkit.execution.running import Running
from streamkit.items import Image
from streamkit.mcp import Connection, Progress
from streamkit.testing import check_grammar
from streamkit.tool_events import Failure, Intermediate, ToolStarted, Value
from streamkit.tools.decorators import tool
from streamkit.tools.toolkit import Toolkit

from ..calling import call, collect, intermediates
from ..interop.parts import MODULES, NODE, needs_node

GUARD_SECONDS = 60
SERVER = MODULES / "@modelcontextprotocol" / "server-everything" / "dist" / "index.js"
SLOW = "trigger-long-running-operation"

# Of an answer over HTTP the SDK leaves generators unclosed, and trio tells of that.
pytestmark = [needs_node, pytest.mark.filterwarnings("ignore:Async generator 'http:ResourceWarning")]


@asynccontextmanager
async def over_stdio() -> AsyncIterator[Connection]:
    async with Connection(StdioServerParameters(command=str(NODE), args=[str(SERVER), "stdio"])) as connection:
        yield connection


@asynccontextmanager
async def http_server() -> AsyncIterator[tuple[str, Process]]:
    """Its address and its process."""
    with socket.create_server(("127.0.0.1", 0)) as found:
        port = found.getsockname()[1]
    environment = {**os.environ, "PORT": str(port)}
    command = [str(NODE), str(SERVER), "streamableHttp"]
    async with await anyio.open_process(command, env=environment, stdout=subprocess.DEVNULL) as process:
        assert process.stderr is not None
        said = b""
        while b"listening on port" not in said:
            said += await process.stderr.receive()
        yield f"http://127.0.0.1:{port}/mcp", process
        with suppress(ProcessLookupError):  # the test has killed it
            process.kill()


@asynccontextmanager
async def over_http() -> AsyncIterator[Connection]:
    async with http_server() as (url, _), Connection(url, name="everything") as connection:
        yield connection


@pytest.mark.parametrize("connected", [over_stdio, over_http])
async def test_its_tools_are_called_as_ours(connected: Callable[[], AbstractAsyncContextManager[Connection]]) -> None:
    with anyio.fail_after(GUARD_SECONDS):
        async with connected() as connection:
            await play(await connection.toolkit())


async def play(toolkit: Toolkit) -> None:
    assert {"echo", "get-sum", "get-tiny-image", "get-structured-content", SLOW} <= set(toolkit.names)
    wanted = [
        call("echo", {"message": "hi"}),
        call("get-sum", {"a": "2", "b": 3}),
        call("get-sum", {"a": 2}),
        call("get-tiny-image"),
        call("get-structured-content", {"location": "New York"}),
        call("get-resource-links", {"count": 1}),
        call(SLOW, {"duration": 0.4, "steps": 4}),
    ]
    events, (echo, total, wrong, picture, weather, links, slow) = await collect(execute_all(toolkit, wanted))
    check_grammar(events)
    assert isinstance(echo, Value)
    assert echo.value == "Echo: hi"
    assert isinstance(total, Value)
    assert total.value == "The sum of 2 and 3 is 5."
    assert isinstance(wrong, Failure)
    assert wrong.kind == "invalid_input"
    assert isinstance(picture, Value)
    assert [each.media_type for each in picture.images if isinstance(each, Image)] == ["image/png"]
    assert isinstance(weather, Value)
    assert isinstance(weather.value["temperature"], int)
    assert isinstance(links, Value)
    assert "demo://resource/" in links.text
    assert isinstance(slow, Value)
    assert intermediates(events, SLOW) == [Progress(step, 4) for step in (1, 2, 3, 4)]
    await cancel_in_mid_call(toolkit)


async def cancel_in_mid_call(toolkit: Toolkit) -> None:
    running, execution_id = Running(), ""
    execution = execute_all(toolkit, [call(SLOW, {"duration": 600, "steps": 6000})], running=running)
    async with execution.open() as events:
        async for event in events:
            if isinstance(event, ToolStarted):
                execution_id = event.execution_id
            elif isinstance(event, Intermediate) and event.data.progress == 2:
                running.cancel(execution_id, "seen enough")
    (cancelled,) = events.value
    assert isinstance(cancelled, Failure)
    assert cancelled.kind == "cancelled"
    (echo,) = await execute_all(toolkit, [call("echo", {"message": "still there"})])
    assert isinstance(echo, Value)


async def test_a_server_that_is_killed_takes_its_calls_along_and_nothing_else() -> None:
    @tool
    async def healthy() -> str:
        """Is well."""
        return "well"

    with anyio.fail_after(GUARD_SECONDS):
        async with http_server() as (url, process), Connection(url, name="everything") as connection:
            toolkit = await connection.toolkit() | Toolkit(healthy)
            execution = execute_all(toolkit, [call(SLOW, {"duration": 600, "steps": 6000}), call(healthy)])
            async with execution.open() as events:
                async for event in events:
                    if isinstance(event, Intermediate) and event.data.progress == 2:
                        process.kill()
            lost, well = events.value
            assert isinstance(well, Value)
            for _ in range(3):
                assert isinstance(lost, Failure)
                assert lost.message == "The connection to the server everything was lost."
                (lost,) = await execute_all(toolkit, [call("echo", {"message": "gone"})])
