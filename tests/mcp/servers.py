"""Servers of MCP for the tests: the SDK's own in this process, one that is written out message by message, child
processes.
"""

import subprocess
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Literal

import anyio
import mcp_types as types
from mcp import Client, StdioServerParameters
from mcp.server import Server, ServerRequestContext
from mcp.shared.message import SessionMessage

from streamkit.items import ToolCall

from ..calling import call

ROOT = Path(__file__).parents[2]

Context = ServerRequestContext[Any]
Body = Callable[[Context, dict[str, Any]], Awaitable[str | types.CallToolResult]]
Mode = Literal["auto", "legacy"]
MODES: tuple[Mode, ...] = ("auto", "legacy")
"""How the SDK speaks with a server in this process: by calling it, or with messages that go through streams."""


def listed(name: str, schema: dict[str, Any] | None = None, **fields: Any) -> types.Tool:
    return types.Tool(name=name, input_schema=schema or {"type": "object"}, **fields)


def server(name: str = "demo", tools: list[types.Tool] | None = None, **bodies: Body) -> Server[Any]:
    """A server with these tools; they take anything unless `tools` says otherwise."""

    async def list_tools(context: Context, params: types.PaginatedRequestParams | None) -> types.ListToolsResult:
        return types.ListToolsResult(tools=[listed(each) for each in bodies] if tools is None else tools)

    async def call_tool(context: Context, params: types.CallToolRequestParams) -> types.CallToolResult:
        given = await bodies[params.name](context, params.arguments or {})
        return text(given) if isinstance(given, str) else given

    return Server(name, on_list_tools=list_tools, on_call_tool=call_tool)


def client(server: Server[Any], mode: Mode = "auto") -> Client:
    return Client(server, mode=mode)


def text(said: str, **fields: Any) -> types.CallToolResult:
    return types.CallToolResult(content=[types.TextContent(text=said)], **fields)


Send = Callable[[dict[str, Any]], Awaitable[None]]


@asynccontextmanager
async def written_out(
    answer: Callable[[dict[str, Any], Send], Awaitable[dict[str, Any] | None]], *, ahead: int = 100
) -> AsyncIterator[Any]:
    """A transport to a server that says what `answer(message, send)` sends, and its result of each request.

    It shakes hands by itself. None: the request is not answered. ahead: how many messages the client may be ahead.
    """
    to_client, read = anyio.create_memory_object_stream[Any](100)
    write, from_client = anyio.create_memory_object_stream[SessionMessage](ahead)

    async def send(message: dict[str, Any]) -> None:
        whole = types.jsonrpc_message_adapter.validate_python({"jsonrpc": "2.0", **message})
        await to_client.send(SessionMessage(whole))

    async def converse() -> None:
        async for sent in from_client:
            message = sent.message.model_dump(by_alias=True, exclude_unset=True)
            result = HANDSHAKE if message["method"] == "initialize" else await answer(message, send)
            if "id" in message and result is not None:
                await send({"id": message["id"], "result": result})

    async with anyio.create_task_group() as tasks, to_client, read, write, from_client:
        tasks.start_soon(converse)
        yield read, write
        tasks.cancel_scope.cancel()


HANDSHAKE = {
    "protocolVersion": "2025-11-25",
    "capabilities": {"tools": {"listChanged": True}},
    "serverInfo": {"name": "written out", "version": "1"},
}


def child(module: str, *args: str) -> StdioServerParameters:
    """A module of the tests that speaks MCP on its stdin and stdout."""
    return StdioServerParameters(command=sys.executable, args=["-m", f"tests.mcp.{module}", *args], cwd=ROOT)


def is_running(pid: int) -> bool:
    return subprocess.run(["kill", "-0", str(pid)], capture_output=True, check=False).returncode == 0


def calls(*names: str, **arguments: Any) -> list[ToolCall]:
    return [call(name, arguments) for name in names]
