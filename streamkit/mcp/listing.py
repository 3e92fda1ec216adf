"""The tools that a server lists, also where one of them does not keep to the protocol.

The SDK refuses a list in which it does not understand one tool, and all tools of the server would be gone. Servers made
by hand leave out the schema of a tool without arguments, or its type.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from typing import Any

import pydantic

from .sdk import Client, MCPError, methods, types

_MOST_PAGES = 1000
"""A listing that never ends must not hang us."""

_METHOD = "tools/list"

logger = logging.getLogger("streamkit")


async def list_tools(client: Client) -> list[types.Tool]:
    """All pages of them; none of a server that promises no tools, and knows of none when it is asked all the same."""
    try:
        return await _all_pages(client)
    except MCPError as error:
        if error.code == types.METHOD_NOT_FOUND and client.server_capabilities.tools is None:
            return []
        raise


async def _all_pages(client: Client) -> list[types.Tool]:
    tools: list[types.Tool] = []
    cursor: str | None = None
    seen: set[str] = set()
    while True:
        page = await client.list_tools(cursor=cursor, cache_mode="refresh")
        tools += page.tools
        cursor = page.next_cursor
        if cursor is None or cursor in seen or len(seen) == _MOST_PAGES:
            return tools
        seen.add(cursor)


def forgive_in_lists(client: Client, server: str) -> None:
    """Let the client, which is open, take from every list the tools that it understands."""
    dispatcher: Any = client.session._dispatcher  # below where it is checked there is no place for us
    send: Callable[..., Awaitable[dict[str, Any]]] = dispatcher.send_raw_request

    async def forgiving(method: str, *args: Any, **options: Any) -> dict[str, Any]:
        answer = await send(method, *args, **options)
        return _understood(answer, client.protocol_version, server) if method == _METHOD else answer

    dispatcher.send_raw_request = forgiving


def _understood(answer: dict[str, Any], version: str, server: str) -> dict[str, Any]:
    if _problem(answer, version) is None or not isinstance(answer.get("tools"), list):
        return answer
    kept: list[Any] = []
    for tool in map(_with_schema, answer["tools"]):
        problem = _problem({**answer, "tools": [tool]}, version)
        if problem is None:
            kept.append(tool)
        else:
            name = tool.get("name") if isinstance(tool, dict) else tool
            logger.warning("a tool of the server %s is left out: %.100r: %s", server, name, problem)
    return {**answer, "tools": kept}


def _with_schema(tool: Any) -> Any:
    if not isinstance(tool, dict):
        return tool
    schema = {} if tool.get("inputSchema") is None else tool["inputSchema"]
    return {**tool, "inputSchema": {"type": "object", **schema}} if isinstance(schema, dict) else tool


def _problem(answer: dict[str, Any], version: str) -> str | None:
    """What is wrong with a list of tools, by the protocol; of its first tool, where in it."""
    try:
        methods.validate_server_result(_METHOD, version, answer)
    except pydantic.ValidationError as error:
        first = error.errors(include_url=False)[0]
        return f"{'.'.join(map(str, first['loc'][2:]))}: {first['msg']}"
    return None
