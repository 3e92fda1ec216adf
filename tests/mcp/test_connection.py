"""A connection: its life, its tools, and what calls on it hear."""

import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import anyio
import mcp_types as types
import pytest
from mcp import Client, StdioServerParameters
from mcp.server import Server
from mcp.server.subscriptions import InMemorySubscriptionBus, ListenHandler
from mcp.shared.subscriptions import ToolsListChanged

from streamkit.errors import DefinitionError, FlowError, McpServerError
from streamkit.execution.execute import execute_all
from streamkit.execution.running import Running
from streamkit.mcp import Connection, Progress
from streamkit.testing.leftovers import nothing_left
from streamkit.tool_events import Failure, ToolStarted, Value

from ..attacks import ticking
from ..calling import GUARD_SECONDS, collect, intermediates
from .servers import MODES, Context, Mode, Send, calls, child, client, is_running, listed, server, written_out


async def hang(context: Context, arguments: dict[str, Any]) -> str:
    await anyio.sleep_forever()
    raise AssertionError


# Its life


async def test_the_process_of_a_server_ends_with_the_connection() -> None:
    async with Connection(child("dying")) as connection:
        await connection.toolkit()
        _, (result,) = await collect(execute_all(await connection.toolkit(), calls("pid")))
        assert isinstance(result, Value)
        pid = int(result.value)
        assert is_running(pid)
    assert not is_running(pid)


async def test_the_process_of_a_server_has_ended_when_a_cancelled_block_is_left() -> None:
    with anyio.fail_after(GUARD_SECONDS), anyio.CancelScope() as scope:
        async with Connection(child("dying")) as connection:
            pid = int(_only_text(await connection.call("pid", {})))
            scope.cancel()
            await anyio.lowlevel.checkpoint()
    assert scope.cancelled_caught
    assert not is_running(pid)


@pytest.mark.parametrize("backend", ["asyncio", "trio"])
def test_a_connection_that_nobody_closes_ends_with_the_event_loop(backend: str) -> None:
    pids: list[int] = []

    async def main() -> None:
        connection = await Connection(child("dying")).__aenter__()
        pids.append(int(_only_text(await connection.call("pid", {}))))

    anyio.run(main, backend=backend)
    assert not is_running(pids[0])


def _only_text(result: types.CallToolResult) -> str:
    (block,) = result.content
    assert isinstance(block, types.TextContent)
    return block.text


async def test_who_gives_up_opening_leaves_nothing_behind() -> None:
    asked = anyio.Event()
    async with nothing_left():
        with anyio.fail_after(GUARD_SECONDS), anyio.CancelScope() as scope:
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(Connection(Client(mute(asked))).__aenter__)
                await asked.wait()
                scope.cancel()
        assert scope.cancelled_caught


async def test_what_another_task_closes_while_it_is_opened_is_not_reached() -> None:
    asked = anyio.Event()
    connection = Connection(Client(mute(asked)))

    async def close() -> None:
        await asked.wait()
        await connection.close()

    async with nothing_left():
        with anyio.fail_after(GUARD_SECONDS):
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(close)
                with pytest.raises(McpServerError, match=r"^The server MCP was not reached\.$"):
                    await connection.__aenter__()


@asynccontextmanager
async def mute(asked: anyio.Event) -> AsyncIterator[Any]:
    """A server that never answers. asked: set when it could have."""
    to_client, read = anyio.create_memory_object_stream[Any](0)
    write, from_client = anyio.create_memory_object_stream[Any](0)
    async with anyio.create_task_group() as tasks, to_client, read, write, from_client:
        tasks.start_soon(from_client.receive)
        asked.set()
        yield read, write


async def test_a_server_that_is_not_there_is_told_with_its_cause() -> None:
    missing = StdioServerParameters(command="no-such-program-anywhere")
    with pytest.raises(McpServerError, match=r"^The server files was not reached: .*no-such-program") as told:
        async with Connection(missing, name="files"):
            raise AssertionError
    assert isinstance(told.value.__cause__, FileNotFoundError)
    with pytest.raises(McpServerError, match=r"^The server 127.0.0.1:9 was not reached: .*connect"):
        async with Connection("http://me:secret@127.0.0.1:9/mcp"):
            raise AssertionError


async def test_mistakes_are_told_with_their_fix() -> None:
    connection = Connection(server())
    await connection.close()  # never opened, so there is nothing to close
    with pytest.raises(FlowError, match="open the connection first"):
        await connection.toolkit()
    async with connection:
        with pytest.raises(FlowError, match="opened once"):
            await connection.__aenter__()
    with pytest.raises(McpServerError, match=r"^The connection to the server demo was closed\.$"):
        await connection.call("any", {})
    with pytest.raises(DefinitionError, match="prefix"):
        Connection(server(), prefix="git hub_")
    with pytest.raises(DefinitionError, match="timeout_seconds is -1"):
        Connection(server(), timeout_seconds=-1)
    with pytest.raises(DefinitionError, match=r"for a command, give StdioServerParameters"):
        Connection("npx server-everything stdio")
    async with client(server()) as entered:
        with pytest.raises(DefinitionError, match="before"):
            Connection(entered)


# Calls


@pytest.mark.parametrize("mode", MODES)
async def test_the_server_is_told_of_a_cancelled_call_and_the_others_go_on(mode: Mode) -> None:
    began, stopped = anyio.Event(), anyio.Event()

    async def slow(context: Context, arguments: dict[str, Any]) -> str:
        began.set()
        try:
            await anyio.sleep_forever()
        finally:
            stopped.set()
        raise AssertionError

    async def patient(context: Context, arguments: dict[str, Any]) -> str:
        await stopped.wait()
        return "seen"

    running = Running()
    with anyio.fail_after(GUARD_SECONDS):
        async with Connection(client(server(slow=slow, patient=patient), mode)) as connection:
            execution = execute_all(await connection.toolkit(), calls("slow", "patient"), running=running)
            async with execution.open() as events:
                async for event in events:
                    if isinstance(event, ToolStarted) and event.tool == "slow":
                        await began.wait()
                        running.cancel(event.execution_id, "seen enough")
    cancelled, other = events.value
    assert isinstance(cancelled, Failure)
    assert cancelled.kind == "cancelled"
    assert isinstance(other, Value)


async def test_a_server_that_reads_nothing_does_not_hold_up_who_leaves() -> None:
    log: list[str] = []
    may_read = anyio.Event()

    async def answer(message: dict[str, Any], send: Send) -> dict[str, Any] | None:
        log.append(message["method"])
        if message["method"] == "tools/list":
            return {"tools": [{"name": "stuck", "inputSchema": {"type": "object"}}]}
        if message["method"] == "tools/call":
            await may_read.wait()
        return None

    transport = written_out(answer, ahead=0)
    async with Connection(Client(transport, mode="legacy"), idle_timeout_seconds=0.05) as connection:
        _, (result,) = await collect(execute_all(await connection.toolkit(), calls("stuck")))
        assert isinstance(result, Failure)
        assert result.kind == "idle_timeout"
        assert "notifications/cancelled" not in log
        may_read.set()
        with anyio.fail_after(GUARD_SECONDS):
            while "notifications/cancelled" not in log:
                await anyio.lowlevel.checkpoint()


async def test_half_a_character_harms_nobody_on_either_way() -> None:
    with anyio.fail_after(GUARD_SECONDS):
        async with Connection(child("dying")) as connection:
            assert _only_text(await connection.call("bytes", {})) == "half of caf\N{REPLACEMENT CHARACTER}"
            assert _only_text(await connection.call("halved", {})) == "half of a smile \N{REPLACEMENT CHARACTER}"
            assert _only_text(await connection.call("pid", {"x": ["\ud83d"]})).isdigit()
            assert _only_text(await connection.call("pid", {})).isdigit()


@pytest.mark.parametrize("unreadable", ["garbled", "deep"])
async def test_nobody_waits_for_an_answer_that_cannot_be_read(unreadable: str) -> None:
    with anyio.fail_after(GUARD_SECONDS):
        async with Connection(child("dying"), name="db") as connection:
            _, (result, other) = await collect(execute_all(await connection.toolkit(), calls(unreadable, "pid")))
    assert isinstance(result, Failure)
    assert result.message == "The server db gave no answer that can be used."
    assert isinstance(other, Value)


@pytest.mark.parametrize("mode", MODES)
async def test_every_report_comes_in_order_and_before_the_result(mode: Mode) -> None:
    async def counts(context: Context, arguments: dict[str, Any]) -> str:
        for number in range(2000):  # more than are kept for a consumer who is slow
            await context.session.report_progress(number)
        return "done"

    async with Connection(client(server(counts=counts), mode)) as connection:
        toolkit = await connection.toolkit()
        for _ in range(2):
            events, _ = await collect(execute_all(toolkit, calls("counts")))
            assert intermediates(events, "counts") == [Progress(number) for number in range(2000)]


async def test_what_the_server_refuses_or_garbles_is_a_failure_that_says_so() -> None:
    async def answer(message: dict[str, Any], send: Send) -> dict[str, Any] | None:
        if message["method"] == "tools/list":
            promise = {"type": "object", "properties": {"sum": {"type": "integer"}}, "required": ["sum"]}
            garbling = {"name": "garbling", "inputSchema": {"type": "object"}, "outputSchema": promise}
            return {"tools": [garbling, {"name": "refusing", "inputSchema": {"type": "object"}}]}
        if message["method"] == "tools/call" and message["params"]["name"] == "refusing":
            await send({"id": message["id"], "error": {"code": -32602, "message": "no such table"}})
            return None
        return {"content": [], "structuredContent": {"sum": "secret"}}

    async with Connection(Client(written_out(answer), mode="legacy"), name="db") as connection:
        toolkit = await connection.toolkit()
        _, results = await collect(execute_all(toolkit, calls("garbling", "refusing")))
    assert [result.message for result in results if isinstance(result, Failure)] == [
        "The server db gave no answer that can be used.",
        "The server db refused: no such table",
    ]


@pytest.mark.parametrize("message", ["out of paper", ""])
async def test_an_error_with_the_code_of_a_lost_connection_is_one_of_the_server(message: str) -> None:
    """-32000 is where the numbers begin that servers may give to errors of their own."""

    async def answer(asked: dict[str, Any], send: Send) -> dict[str, Any] | None:
        if asked["method"] == "tools/list":
            return {"tools": [{"name": "prints", "inputSchema": {"type": "object"}}]}
        if asked["method"] == "tools/call":
            await send({"id": asked["id"], "error": {"code": -32000, "message": message}})
        return None

    async with Connection(Client(written_out(answer), mode="legacy"), name="printer") as connection:
        _, (result,) = await collect(execute_all(await connection.toolkit(), calls("prints")))
    assert isinstance(result, Failure)
    assert result.message.startswith(f"The server printer refused: {message}".strip())


async def test_what_a_server_calls_itself_stays_on_one_line() -> None:
    async with Connection(server("good\n\x1b[31mERROR bad" + "!" * 500)) as connection:
        assert connection.name == ("good [31mERROR bad" + "!" * 500)[:100]


@ticking
async def test_a_time_limit_of_the_client_is_a_timeout() -> None:
    limited = Client(server(hang=hang), read_timeout_seconds=1000)
    async with Connection(limited) as connection:
        _, (result,) = await collect(execute_all(await connection.toolkit(), calls("hang")))
    assert isinstance(result, Failure)
    assert (result.kind, result.message) == ("timeout", "hang got no answer in time.")


# Its tools


class Listing:
    """A server whose tools change, and which counts how often it is asked for them."""

    def __init__(self, *, tells: bool) -> None:
        self.names = ["one"]
        self.asked = 0
        self.bus = InMemorySubscriptionBus()
        self.server: Server[Any] = Server(
            "listing",
            on_list_tools=self.list_tools,
            on_call_tool=self.call_tool,
            on_subscriptions_listen=ListenHandler(self.bus) if tells else None,
        )

    async def list_tools(self, context: Context, params: Any) -> types.ListToolsResult:
        self.asked += 1
        return types.ListToolsResult(tools=[listed(name) for name in self.names])

    async def call_tool(self, context: Context, params: types.CallToolRequestParams) -> types.CallToolResult:
        self.names.append(params.name + "+")
        await context.session.send_tool_list_changed()
        return types.CallToolResult(content=[])


async def test_a_server_that_tells_of_changes_is_asked_when_something_has_changed() -> None:
    listing = Listing(tells=True)
    with anyio.fail_after(GUARD_SECONDS):
        async with Connection(listing.server) as connection:
            while not connection.tells_of_changes:
                await anyio.lowlevel.checkpoint()
            toolkit = await connection.toolkit()
            asked = listing.asked
            assert await connection.toolkit() is toolkit
            assert listing.asked == asked
            listing.names.append("two")
            await listing.bus.publish(ToolsListChanged())
            while (changed := await connection.toolkit()) is toolkit:
                await anyio.lowlevel.checkpoint()
    assert (toolkit.names, changed.names) == (("one",), ("one", "two"))


async def test_a_server_of_an_earlier_protocol_tells_of_changes_by_itself() -> None:
    heard: list[str] = []
    tools = [{"name": "one", "inputSchema": {"type": "object"}}]
    asked = 0

    async def answer(message: dict[str, Any], send: Send) -> dict[str, Any] | None:
        nonlocal asked
        if message["method"] == "tools/list":
            asked += 1
            return {"tools": list(tools)}
        if message["method"] == "tools/call":
            tools.append({"name": "two", "inputSchema": {"type": "object"}})
            await send({"method": "notifications/tools/list_changed"})
            return {"content": []}
        return None

    async def hear(message: Any) -> None:
        heard.append(message.method)

    with anyio.fail_after(GUARD_SECONDS):
        async with Connection(Client(written_out(answer), mode="legacy", message_handler=hear)) as connection:
            toolkit = await connection.toolkit()
            assert await connection.toolkit() is toolkit
            assert asked == 1
            await connection.call("one", {})
            while (changed := await connection.toolkit()) is toolkit:
                await anyio.lowlevel.checkpoint()
    assert changed.names == ("one", "two")
    assert heard == ["notifications/tools/list_changed"]


async def test_a_server_that_promises_nothing_is_asked_each_time() -> None:
    listing = Listing(tells=False)
    async with Connection(listing.server) as connection:
        assert (await connection.toolkit()).names == ("one",)
        listing.names.append("two")
        assert (await connection.toolkit()).names == ("one", "two")


async def test_a_listing_of_several_pages_is_read_to_its_end_even_if_it_has_none() -> None:
    async def answer(message: dict[str, Any], send: Send) -> dict[str, Any] | None:
        if message["method"] == "tools/list":
            page = int(message.get("params", {}).get("cursor", 0))
            following = str((page + 1) % 4)  # from the last one it goes on with the first
            return {"tools": [{"name": f"t{page}", "inputSchema": {"type": "object"}}], "nextCursor": following}
        return None

    async with Connection(Client(written_out(answer), mode="legacy")) as connection:
        assert (await connection.toolkit()).names == ("t0", "t1", "t2", "t3")


@pytest.mark.parametrize("mode", MODES)
async def test_a_server_that_has_no_tools_has_an_empty_toolkit(mode: Mode) -> None:
    async with Connection(client(Server("prompts"), mode)) as connection:
        assert (await connection.toolkit()).names == ()


OBJECT = {"type": "object"}


@pytest.mark.parametrize(
    ("strange", "is_used"),
    [
        ({"name": "strange"}, True),
        ({"name": "strange", "inputSchema": None}, True),
        ({"name": "strange", "inputSchema": {"properties": {"a": {"type": "string"}}}}, True),
        ({"name": "strange", "inputSchema": {"type": "array"}}, False),
        ({"name": "strange", "inputSchema": True}, False),
        ({"name": "strange", "inputSchema": OBJECT, "outputSchema": 5}, False),
        ({"name": 5, "inputSchema": OBJECT}, False),
        ({"inputSchema": OBJECT}, False),
        ("strange", False),
    ],
)
async def test_a_tool_that_the_sdk_does_not_take_costs_no_other(
    strange: Any, is_used: bool, caplog: pytest.LogCaptureFixture
) -> None:
    async def answer(asked: dict[str, Any], send: Send) -> dict[str, Any] | None:
        if asked["method"] == "tools/list":
            return {"tools": [{"name": "one", "inputSchema": OBJECT}, strange, {"name": "two", "inputSchema": OBJECT}]}
        said = [{"type": "text", "text": "well"}]
        return {"content": said} if asked["method"] == "tools/call" else None

    async with Connection(Client(written_out(answer), mode="legacy"), name="hand-made") as connection:
        names = (await connection.toolkit()).names
        assert _only_text(await connection.call("two", {})) == "well"
    assert names == (("one", "strange", "two") if is_used else ("one", "two"))
    assert ("hand-made" in caplog.text) is not is_used


async def test_a_tool_that_cannot_be_used_is_left_out_and_named_in_the_log(caplog: pytest.LogCaptureFixture) -> None:
    broken = listed("broken", {"type": "object", "properties": {"a": {"$ref": "https://example.org/a.json"}}})
    async with Connection(server(tools=[broken, listed("whole")]), name="mixed") as connection:
        with caplog.at_level(logging.WARNING, "streamkit"):
            assert (await connection.toolkit()).names == ("whole",)
    assert "mixed" in caplog.text
    assert "'broken'" in caplog.text
