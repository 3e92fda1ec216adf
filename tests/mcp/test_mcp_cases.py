"""The cases about servers of MCP, played through `execute_all`."""

import dataclasses
from contextlib import AsyncExitStack
from typing import Any

import anyio
import mcp_types as types
import pytest
from mcp import Client

from streamkit.execution.execute import execute_all
from streamkit.mcp import Connection, Progress
from streamkit.testing import check_grammar
from streamkit.testing.leftovers import nothing_left
from streamkit.tool_events import Failure, Intermediate, Output, ToolEvent, ToolResult, Value
from streamkit.tools.decorators import tool
from streamkit.tools.toolkit import Toolkit

from ..attacks import ticking
from ..calling import GUARD_SECONDS, call, collect
from .servers import MODES, Context, Mode, Send, calls, child, client, server, text, written_out


@tool
async def healthy() -> str:
    """Is well."""
    return "well"


async def test_a_server_that_dies_takes_its_call_along_and_nothing_else() -> None:
    with anyio.fail_after(GUARD_SECONDS):
        async with Connection(child("dying")) as connection:
            toolkit = await connection.toolkit() | Toolkit(healthy)
            events, (dead, alive) = await collect(execute_all(toolkit, calls("die", "healthy")))
            _, (again,) = await collect(execute_all(toolkit, calls("hang")))
    check_grammar(events)
    assert isinstance(alive, Value)
    for result in (dead, again):
        assert isinstance(result, Failure)
        assert result.message == "The connection to the server dying was lost."


async def three_steps(context: Context, arguments: dict[str, Any]) -> str:
    await context.session.report_progress(1, None, "one")
    await context.session.report_progress(1.5, 3)
    await context.session.report_progress(3, 3, "three")
    return "done"


STEPS = [Progress(1, None, "one"), Progress(1.5, 3, None), Progress(3, 3, "three")]


def of_call(events: list[ToolEvent], call_id: str) -> list[Any]:
    """What was seen of one call, after its start, in order."""
    seen = [event for event in events if isinstance(event, Intermediate | Output) and event.call_id == call_id]
    return [event.data if isinstance(event, Intermediate) else event.result for event in seen]


@pytest.mark.parametrize("mode", MODES)
async def test_progress_is_shown_as_events_of_its_call(mode: Mode) -> None:
    async with Connection(client(server(steps=three_steps), mode)) as connection:
        toolkit = await connection.toolkit()
        for count in (1, 2):
            wanted = calls(*["steps"] * count)
            events, results = await collect(execute_all(toolkit, wanted))
            check_grammar(events)
            for each, result in zip(wanted, results, strict=True):
                assert of_call(events, each.call_id) == [*STEPS, result]
                assert isinstance(result, Value)
                assert result.text == "done"


@ticking
async def test_progress_is_a_sign_of_life_and_does_not_move_the_absolute_limit() -> None:
    async def ticks(context: Context, arguments: dict[str, Any]) -> str:
        for number in range(arguments["count"]):
            await anyio.sleep(1000)
            await context.session.report_progress(number + 1)
        return "done"

    async def silent(context: Context, arguments: dict[str, Any]) -> str:
        await anyio.sleep_forever()
        raise AssertionError

    served = server(ticks=ticks, silent=silent)
    async with Connection(served, idle_timeout_seconds=8000, timeout_seconds=500_000) as connection:
        toolkit = await connection.toolkit()
        hasty = dataclasses.replace(toolkit["ticks"], name="hasty", timeout_seconds=12_500)
        toolkit |= Toolkit(hasty)
        wanted = [call("ticks", {"count": 12}), call("hasty", {"count": 10_000}), call("silent")]
        _, (alive, too_long, too_silent) = await collect(execute_all(toolkit, wanted))
    assert isinstance(alive, Value)
    assert told(too_long) == ("timeout", "hasty did not finish within 12500 seconds.")
    assert told(too_silent) == ("idle_timeout", "silent gave no sign of life for 8000 seconds.")


def told(result: ToolResult) -> tuple[str, str]:
    assert isinstance(result, Failure)
    return result.kind, result.message


async def test_progress_that_nobody_waits_for_is_ignored() -> None:
    tokens: list[Any] = ["invented", 4711, None, True, 1.5, {}]

    async def answer(message: dict[str, Any], send: Send) -> dict[str, Any] | None:
        if message["method"] == "tools/list":
            return {"tools": [{"name": "odd", "inputSchema": {"type": "object"}}]}
        if message["method"] == "tools/call":
            for token in tokens:
                await send(progress(token))
            result = {"content": [{"type": "text", "text": "well"}]}
            await send({"id": message["id"], "result": result})
            tokens.append(message["params"]["_meta"]["progressToken"])
            await send(progress(tokens[-1], LATE))
        return None

    async with Connection(Client(written_out(answer), mode="legacy")) as connection:
        toolkit = await connection.toolkit()
        for _ in range(2):
            events, (result,) = await collect(execute_all(toolkit, calls("odd")))
            assert isinstance(result, Value)
            assert result.text == "well"
            check_grammar(events)
            # On trio what came right behind the result may be heard just before it; that of others never is.
            assert {event.data for event in events if isinstance(event, Intermediate)} <= {Progress(LATE)}


LATE = 2.0


def progress(token: Any, number: float = 1.0) -> dict[str, Any]:
    return {"method": "notifications/progress", "params": {"progressToken": token, "progress": number}}


@pytest.mark.parametrize("mode", MODES)
async def test_a_result_marked_as_error_is_a_failure_with_its_text(mode: Mode) -> None:
    async def find(context: Context, arguments: dict[str, Any]) -> types.CallToolResult:
        return text("no such row", is_error=True)

    async with Connection(client(server(find=find), mode)) as connection:
        toolkit = await connection.toolkit() | Toolkit(healthy)
        _, (failed, alive) = await collect(execute_all(toolkit, calls("find", "healthy")))
    assert told(failed) == ("failed", "no such row")
    assert isinstance(alive, Value)


@pytest.mark.parametrize("mode", MODES)
async def test_any_task_may_close_a_connection_while_calls_are_under_way(mode: Mode) -> None:
    async with nothing_left():
        for _ in range(20):
            with anyio.fail_after(GUARD_SECONDS):
                await open_call_and_close(mode)


async def open_call_and_close(mode: Mode) -> None:
    """Each in a task of its own, of which the first has ended long before the last begins."""
    called, ended = anyio.Event(), anyio.Event()
    results: list[ToolResult] = []

    async def hang(context: Context, arguments: dict[str, Any]) -> str:
        called.set()
        try:
            await anyio.sleep_forever()
        finally:
            ended.set()
        raise AssertionError

    held = AsyncExitStack()
    connections: list[Connection] = []

    async def open_it() -> None:
        connections.append(await held.enter_async_context(Connection(client(server(hang=hang), mode))))

    async def call_it() -> None:
        results.extend(await execute_all(await connections[0].toolkit(), calls("hang")))

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(open_it)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(call_it)
        await called.wait()
        tasks.start_soon(held.aclose)
    assert told(results[0]) == ("failed", "The connection to the server demo was closed.")
    await ended.wait()
