"""A toolkit as a server of MCP: `await serve(toolkit)` over stdio, `server_of(toolkit)` over whatever the SDK offers.

Each call runs in an `execute_all` of its own, so all that holds for a call holds here, too. What is shared by the calls
of a turn there is shared by all calls of all clients here: the places, and the keys of `serial=`.
"""

from __future__ import annotations

import contextlib
import logging
import sys
from collections.abc import Iterator
from contextlib import AbstractAsyncContextManager, contextmanager, redirect_stdout
from typing import Any
from uuid import uuid4

import anyio
import msgspec

from ..codec.surrogates import whole
from ..execution.approval import Authorize
from ..execution.execute import execute_all
from ..items import ToolCall
from ..tool_events import Intermediate
from ..tools.tool import Tool
from ..tools.toolkit import Toolkit
from .answers import ProgressTeller, answer
from .sdk import Server, ServerRequestContext, stdio_server, types
from .stdin import lines_of_stdin

logger = logging.getLogger("streamkit")


async def serve(
    toolkit: Toolkit,
    *,
    name: str = "streamkit",
    version: str = "",
    instructions: str | None = None,
    authorize: Authorize | None = None,
    context: Any = None,
    max_concurrency: int = 8,
) -> None:
    """Serve the tools on this process's stdin and stdout until the client closes them; see `server_of`.

    What tools print goes to stderr. Calls that still run at the end are cancelled and cleaned up.
    """
    server = server_of(
        toolkit,
        name=name,
        version=version,
        instructions=instructions,
        authorize=authorize,
        context=context,
        max_concurrency=max_concurrency,
    )
    with lines_of_stdin() as lines:
        try:
            # It only iterates over what it takes for a file.
            async with stdio_server(lines) as (read, write):  # type: ignore[arg-type]
                with _prints_elsewhere():
                    await server.run(read, write, server.create_initialization_options())
        except* BrokenPipeError:  # of stdout, which a client that is killed closes together with stdin
            logger.debug("the client was gone before all was said", exc_info=True)


def server_of(
    toolkit: Toolkit,
    *,
    name: str = "streamkit",
    version: str = "",
    instructions: str | None = None,
    authorize: Authorize | None = None,
    context: Any = None,
    max_concurrency: int = 8,
) -> Server[Any]:
    """The server of the SDK that offers these tools; `.streamable_http_app()` of it is an ASGI application.

    Tools without a body are not offered. A client that asks for progress gets the events of a call: with their numbers
    if they have `done` and `total` or the like; as text, or else as JSON, cut to some thousand characters. A failure is
    an error result with the sentence that a model would read.

    authorize, context, max_concurrency: as for `execute_all`, the last one for all clients together. If authorize
    leaves a call undecided, or is missing for a tool with `approval=True`, the client is told that the call was not
    allowed.
    """
    serving = _Serving(toolkit, authorize, context, max_concurrency)
    return Server(
        name, version=version, instructions=instructions, on_list_tools=serving.list_tools, on_call_tool=serving.call
    )


@contextmanager
def _prints_elsewhere() -> Iterator[None]:
    """The SDK leads the descriptor of stdout to stderr meanwhile, but what is in a buffer at the end would come late,
    behind the last message.
    """
    stdout = sys.stdout
    with redirect_stdout(sys.stderr):
        try:
            yield
        finally:
            stdout.flush()  # some may have kept it


class _Serving:
    def __init__(self, toolkit: Toolkit, authorize: Authorize | None, context: Any, max_concurrency: int) -> None:
        self._toolkit = toolkit.only(*(tool.name for tool in toolkit if tool.has_body))
        self._authorize = authorize
        self._context = context
        self._places = anyio.Semaphore(max_concurrency)
        self._lanes: dict[str, anyio.Lock] = {}

    async def list_tools(
        self, context: ServerRequestContext[Any], params: types.PaginatedRequestParams | None
    ) -> types.ListToolsResult:
        return types.ListToolsResult(tools=[_described(self._toolkit[spec.name]) for spec in self._toolkit.specs])

    async def call(
        self, context: ServerRequestContext[Any], params: types.CallToolRequestParams
    ) -> types.CallToolResult:
        arguments = msgspec.json.encode(whole(params.arguments or {})).decode()
        call = ToolCall(f"call_{uuid4().hex}", params.name, arguments, turn_id=f"mcp_{uuid4().hex}")
        teller = ProgressTeller(context.session.report_progress)
        async with self._lane(params.name), self._places:
            execution = execute_all(self._toolkit, [call], authorize=self._authorize, context=self._context)
            async with execution.open() as events:
                async for event in events:
                    if isinstance(event, Intermediate):
                        await teller.tell(event)
        return answer(events.value[0])

    def _lane(self, name: str) -> AbstractAsyncContextManager[object]:
        serial = self._toolkit[name].serial if name in self._toolkit else None
        return contextlib.nullcontext() if serial is None else self._lanes.setdefault(serial, anyio.Lock())


def _described(tool: Tool[..., Any]) -> types.Tool:
    hints = types.ToolAnnotations(read_only_hint=tool.effects == "none", idempotent_hint=tool.effects != "once")
    return types.Tool(
        name=tool.name,
        description=tool.description,
        input_schema=tool.spec.parameters,
        annotations=None if tool.effects == "once" else hints,
    )
