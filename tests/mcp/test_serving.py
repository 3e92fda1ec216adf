"""Tools of ours, called by the SDK's own client."""

import contextlib
import json
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import anyio
import mcp_types as types
import pytest
from anyio.abc import TaskGroup
from mcp import Client
from mcp.shared.exceptions import MCPError

from streamkit.errors import ToolError
from streamkit.execution.approval import Allow, Question, Verdict
from streamkit.flows.flow import Sink
from streamkit.mcp import Connection, server_of
from streamkit.testing.leftovers import nothing_left
from streamkit.tools.decorators import streaming_tool, tool
from streamkit.tools.reducers import last
from streamkit.tools.tool import Tool, ToolContext
from streamkit.tools.toolkit import Toolkit

from ..calling import GUARD_SECONDS
from .servers import MODES, ROOT, Mode, child


class Heard:
    """What a client hears of one call."""

    def __init__(self, at: str | None = None) -> None:
        self.reports: list[tuple[float, str | None]] = []
        self.at = at
        self.reached = anyio.Event()

    async def __call__(self, progress: float, total: float | None, message: str | None) -> None:
        self.reports.append((progress, message))
        if message == self.at:
            self.reached.set()


def said(result: types.CallToolResult) -> str:
    return "\n".join(block.text for block in result.content if isinstance(block, types.TextContent))


@streaming_tool(reduce=last(int))
async def count(to: int) -> AsyncIterator[int]:
    """Counts."""
    for number in range(to):
        yield number + 1


@pytest.mark.parametrize("mode", MODES)
async def test_tools_are_listed_with_their_schemas_and_hints(mode: Mode) -> None:
    @tool(effects="none")
    async def read() -> None:
        """Reads."""

    @tool(effects="idempotent")
    async def put() -> None:
        """Puts."""

    bodyless: Tool[..., Any] = Tool(name="ask", description="Asks.", input={"type": "object"})
    served = server_of(Toolkit(count, read, put, bodyless).disabled("put", "broken"), name="ours", version="7")
    async with Client(served, mode=mode) as client:
        listed = (await client.list_tools()).tools
        info = client.server_info
    assert info is not None
    assert (info.name, info.version) == ("ours", "7")
    assert [each.name for each in listed] == ["count", "read"]
    assert listed[0].input_schema == count.spec.parameters
    assert listed[0].annotations is None
    assert listed[1].annotations == types.ToolAnnotations(read_only_hint=True, idempotent_hint=True)


@pytest.mark.parametrize("mode", MODES)
async def test_events_are_progress_and_the_value_is_the_result(mode: Mode) -> None:
    async with Client(server_of(Toolkit(count)), mode=mode) as client:
        heard = Heard()
        result = await client.call_tool("count", {"to": 3}, progress_callback=heard)
        unasked = await client.call_tool("count", {"to": "2"})
    assert heard.reports == [(1, "1"), (2, "2"), (3, "3")]
    assert (said(result), said(unasked)) == ("3", "2")


async def test_what_does_not_run_is_an_error_result_that_says_why() -> None:
    @tool
    async def breaks() -> None:
        """Breaks."""
        raise ValueError("a secret")

    @tool
    async def refuses() -> None:
        """Refuses."""
        raise ToolError("No such row.")

    bodyless: Tool[..., Any] = Tool(name="ask", description="Asks.", input={"type": "object"})
    toolkit = Toolkit(count, breaks, refuses, bodyless)
    async with Client(server_of(toolkit)) as client:
        for name, told in [
            ("count", "The call of count did not run"),
            ("breaks", "breaks failed with an internal error."),
            ("refuses", "No such row."),
            ("ask", "There is no tool ask. The tools are: count, breaks, refuses."),
        ]:
            result = await client.call_tool(name)
            assert result.is_error
            assert told in said(result)


@pytest.mark.parametrize("mode", MODES)
async def test_a_cancelled_call_is_cancelled_and_cleaned_up(mode: Mode) -> None:
    cleaned = anyio.Event()

    @tool
    async def hangs(out: Sink[str]) -> None:
        """Hangs."""
        await out.send("begun")
        try:
            await anyio.sleep_forever()
        finally:
            with anyio.CancelScope(shield=True):
                await anyio.lowlevel.checkpoint()
            cleaned.set()

    async with nothing_left():
        with anyio.fail_after(GUARD_SECONDS):
            async with Client(server_of(Toolkit(hangs, count)), mode=mode) as client:
                heard = Heard("begun")
                async with anyio.create_task_group() as tasks:
                    tasks.start_soon(lambda: client.call_tool("hangs", {}, progress_callback=heard))
                    await heard.reached.wait()
                    tasks.cancel_scope.cancel()
                await cleaned.wait()
                assert said(await client.call_tool("count", {"to": 1})) == "1"


async def test_gated_tools_run_only_where_somebody_decides() -> None:
    @tool(approval=True)
    async def delete(context: ToolContext[str], path: str) -> str:
        """Deletes."""
        return f"{context.context} deleted {path}"

    async def allow(question: Question) -> Verdict:
        return Allow({"path": f"{question.context}/{question.call.arguments['path']}"})

    async with Client(server_of(Toolkit(delete, count))) as client:
        refused = await client.call_tool("delete", {"path": "a"})
        assert said(await client.call_tool("count", {"to": 1})) == "1"
    async with Client(server_of(Toolkit(delete), authorize=allow, context="ann")) as client:
        allowed = await client.call_tool("delete", {"path": "a"})
    assert refused.is_error
    assert said(refused) == "The call of delete was not allowed: a person has to allow it, and none was asked here."
    assert said(allowed) == "ann deleted ann/a"


async def test_half_a_character_in_the_arguments_is_replaced() -> None:
    @tool
    async def echo(word: str) -> str:
        """Says it."""
        return word

    async with Client(server_of(Toolkit(echo))) as client:
        assert said(await client.call_tool("echo", {"word": "half \ud83d"})) == "half \N{REPLACEMENT CHARACTER}"


async def test_calls_of_several_requests_keep_to_their_places_and_serial_keys() -> None:
    at_once: dict[str, int] = {"serial": 0, "any": 0}
    most: dict[str, int] = {"serial": 0, "any": 0}

    def watched(kind: str) -> Callable[..., Any]:
        async def work() -> str:
            """Works."""
            at_once[kind] += 1
            most[kind] = max(most[kind], at_once[kind])
            for _ in range(20):
                await anyio.lowlevel.checkpoint()
            at_once[kind] -= 1
            return "done"

        return work

    one_by_one = tool(watched("serial"), name="one_by_one", serial="files")
    any_time = tool(watched("any"), name="any_time")
    served = server_of(Toolkit(one_by_one, any_time), max_concurrency=3)
    async with Client(served) as client, anyio.create_task_group() as tasks:
        for _ in range(6):
            tasks.start_soon(client.call_tool, "one_by_one")
            tasks.start_soon(client.call_tool, "any_time")
    assert most["serial"] == 1
    assert 1 < most["any"] <= 3


async def test_each_call_has_an_execution_id_of_its_own() -> None:
    @tool
    async def which(context: ToolContext[None]) -> str:
        """Tells its ids."""
        return f"{context.execution_id} {context.call_id}"

    async with Client(server_of(Toolkit(which))) as client:
        ids = [part for _ in range(3) for part in said(await client.call_tool("which")).split()]
    assert len(set(ids)) == 6


@pytest.mark.parametrize("backend", ["asyncio", "trio"])
async def test_over_stdio_it_is_a_process_that_speaks_and_ends_with_its_client(
    backend: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("mcp.client.stdio.PROCESS_TERMINATION_TIMEOUT", GUARD_SECONDS)  # it ends by itself, or fails
    log = tmp_path / "log"
    with anyio.fail_after(GUARD_SECONDS):
        client = Client(child("serving_child", backend, str(log)))
        async with anyio.create_task_group() as tasks, client:
            heard = Heard()
            counted = await client.call_tool("count", {"to": 3}, progress_callback=heard)
            shouted = await client.call_tool("shouts", {"word": "hm"}, progress_callback=heard)
            failed = await client.call_tool("fails")
            async with anyio.create_task_group() as cancelled:
                await start_to_hang(client, cancelled)
                cancelled.cancel_scope.cancel()
            waited = await client.call_tool("waits")
            await start_to_hang(client, tasks)
    assert heard.reports == [(1, "1"), (2, "2"), (3, "3"), (1, "shouting")]
    assert (said(counted), shouted.structured_content, said(failed)) == ("3", {"said": "HM"}, "No such row.")
    assert failed.is_error
    assert said(waited) == "cleaned up"
    assert log.read_text("utf-8") == "cleaned up\ncleaned up\n"


@pytest.mark.skipif(sys.platform == "win32", reason="a signal of POSIX")
@pytest.mark.parametrize("backend", ["asyncio", "trio"])
def test_ctrl_c_ends_a_server_whose_client_says_nothing(backend: str, tmp_path: Path) -> None:
    command = [sys.executable, "-m", "tests.mcp.serving_child", backend, str(tmp_path / "log")]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, cwd=ROOT, stdin=pipe, stdout=pipe, stderr=pipe) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(json.dumps({"jsonrpc": "2.0", "id": 1, "method": "ping"}).encode() + b"\n")
        process.stdin.flush()
        assert json.loads(process.stdout.readline())["id"] == 1
        process.send_signal(signal.SIGINT)
        assert process.wait(GUARD_SECONDS) != 0
        assert process.stderr is not None
        assert b"KeyboardInterrupt" in process.stderr.read()


@pytest.mark.parametrize("backend", ["asyncio", "trio"])
def test_what_tools_print_never_stands_between_or_behind_the_messages(backend: str, tmp_path: Path) -> None:
    command = [sys.executable, "-m", "tests.mcp.serving_child", backend, str(tmp_path / "log")]
    client = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "raw", "version": "1"}}
    asked = [("initialize", client), ("tools/call", {"name": "shouts", "arguments": {"word": "hm"}})]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, cwd=ROOT, stdin=pipe, stdout=pipe, stderr=pipe) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        for number, (method, params) in enumerate(asked):
            message = {"jsonrpc": "2.0", "id": number, "method": method, "params": params}
            process.stdin.write(json.dumps(message).encode() + b"\n")
            process.stdin.flush()
            assert json.loads(process.stdout.readline())["id"] == number
        behind, printed = process.communicate(timeout=GUARD_SECONDS)
    assert behind == b""
    assert printed.decode().splitlines() == ["printed by a tool", "and by who has kept stdout"]


@pytest.mark.parametrize("backend", ["asyncio", "trio"])
def test_a_client_that_is_gone_ends_a_server_that_still_has_to_say_something(backend: str, tmp_path: Path) -> None:
    log = tmp_path / "log"
    command = [sys.executable, "-m", "tests.mcp.serving_child", backend, str(log)]
    client = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "raw", "version": "1"}}
    called = {"name": "hangs", "arguments": {}, "_meta": {"progressToken": "a"}}
    pipe = subprocess.PIPE
    with subprocess.Popen(command, cwd=ROOT, stdin=pipe, stdout=pipe, stderr=pipe) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        for number, (method, params) in enumerate([("initialize", client), ("tools/call", called)]):
            message = {"jsonrpc": "2.0", "id": number, "method": method, "params": params}
            process.stdin.write(json.dumps(message).encode() + b"\n")
            process.stdin.flush()
            process.stdout.readline()
        process.stdout.close()
        process.stdin.write(json.dumps({"jsonrpc": "2.0", "id": 9, "method": "ping"}).encode() + b"\n")
        process.stdin.flush()
        assert process.wait(GUARD_SECONDS) == 0
        assert process.stderr is not None
        assert process.stderr.read() == b""
    assert log.read_text("utf-8") == "cleaned up\n"


async def start_to_hang(client: Client, tasks: TaskGroup) -> None:
    heard = Heard("begun")

    async def call() -> None:
        with contextlib.suppress(MCPError):  # where the connection is closed
            await client.call_tool("hangs", progress_callback=heard)

    tasks.start_soon(call)
    await heard.reached.wait()


@pytest.mark.parametrize("mode", MODES)
async def test_a_tool_of_ours_may_come_back_as_one_of_ours(mode: Mode) -> None:
    async with Connection(Client(server_of(Toolkit(count), name="ours"), mode=mode)) as connection:
        again = server_of(await connection.toolkit())
        async with Client(again, mode=mode) as client:
            heard = Heard()
            result = await client.call_tool("count", {"to": 3}, progress_callback=heard)
    assert said(result) == "3"
    assert heard.reports == [(1, "1"), (2, "2"), (3, "3")]


def test_the_sdk_is_imported_by_who_speaks_mcp_alone() -> None:
    code = "import sys, streamkit, streamkit.cli; sys.exit('mcp' in sys.modules or 'mcp_types' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
