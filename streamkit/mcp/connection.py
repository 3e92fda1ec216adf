"""`Connection`: a server of MCP, whose tools a model may call.

The client of the SDK lives in a task of its own (`system_tasks`), and every request runs there (`exchange`). So any
task may open, use and close the connection, and a server that breaks takes nobody along but the calls on it.
"""

from __future__ import annotations

import dataclasses
import logging
import re
from collections.abc import Awaitable, Callable
from types import TracebackType
from typing import Any, TypeVar, Unpack

import anyio
from anyio.abc import TaskGroup

from ..codec.surrogates import whole
from ..errors import DefinitionError, FlowError, McpServerError
from ..flows.flow import Flow, Sink
from ..flows.groups import LoneErrorGroup, without_cancellations
from ..tools.tool import Tool
from ..tools.toolkit import Toolkit
from .child import spawned
from .exchange import Exchange, Progress, lost
from .listing import forgive_in_lists, list_tools
from .remote_tools import RemoteToolOptions, tools_of
from .sdk import MODERN_PROTOCOL_VERSIONS, Client, ProgressFnT, StdioServerParameters, types
from .system_tasks import start_system_task
from .web import reached

R = TypeVar("R")

logger = logging.getLogger("streamkit")

_REASON_CHARS = 300
_NAME_CHARS = 100


class Connection:
    """`async with Connection(target, name="github") as github: toolkit = await github.toolkit()`

    target: a URL, a StdioServerParameters, a transport or server of the SDK, or its Client, not entered yet, for
    callbacks, HTTP headers and time limits of its own.
    name: whose tools they are, for the person who is asked; by default, what the server calls itself. prefix: put
    before the names of the tools, so that those of two servers differ. trust_hints: believe the server that a tool is
    read-only (effects "none", and no approval) or idempotent. options: apply to each tool; see Tool.

    It is opened once, and belongs to the event loop that opened it. Any task may close it, even while calls run: they
    fail. Opening waits as long as the server takes to answer (bound it with anyio.fail_after), and raises
    McpServerError if the server is not reached. Raises DefinitionError for what cannot work.
    """

    def __init__(
        self,
        target: Any,
        *,
        name: str | None = None,
        prefix: str = "",
        trust_hints: bool = False,
        **options: Unpack[RemoteToolOptions],
    ) -> None:
        if not re.fullmatch(r"[a-zA-Z0-9_-]{0,32}", prefix):
            raise DefinitionError(f"prefix {prefix!r}: at most 32 letters, digits, _ and -")
        if isinstance(target, str) and not target.lower().startswith(("http://", "https://")):
            raise DefinitionError(
                f"{target!r} is not the URL of a server: for a command, give StdioServerParameters(command=…, args=[…])"
            )
        client = target if isinstance(target, Client) else Client(_transport_to(target))
        if client._entered:
            raise DefinitionError(
                "the client is open already: give it before it is opened, because whoever opens it has to close it"
            )
        Tool(name="any", description="any", input={"type": "object"}, **options)  # or else each tool would be left out
        self._client = dataclasses.replace(client, message_handler=self._hearing_changes(client.message_handler))
        self._name = name
        self._host = _host_of(target) if isinstance(target, str) else ""
        self._prefix = prefix
        self._trust_hints = trust_hints
        self._options = options
        self._begun = False
        self._tasks: TaskGroup | None = None  # while it is open
        self._ready, self._closing, self._ended = anyio.Event(), anyio.Event(), anyio.Event()
        self._failure: Exception | None = None
        self.tells_of_changes = False
        """Whether the server has promised to tell of changes of its tools."""
        self._changes = 0
        self._listed: Toolkit | None = None

    # Opening and closing

    async def __aenter__(self) -> Connection:
        if self._begun:
            raise FlowError("a connection is opened once: make another Connection")
        self._begun = True
        self._scope = anyio.CancelScope()
        start_system_task(self._live, f"MCP {self._name or 'connection'}")
        await self._wait_for(self._ready)
        if self._tasks is None:
            why = f": {str(self._failure)[:_REASON_CHARS]}" if self._failure is not None else "."
            raise McpServerError(f"The server {self.name} was not reached{why}") from self._failure
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """End it, from any task; calls under way fail. Returns when all has ended, the server's process too."""
        if self._begun:
            self._closing.set()
            if not self._ready.is_set():  # the server may never answer whoever opens
                self._scope.cancel()
            await self._wait_for(self._ended)

    async def _wait_for(self, event: anyio.Event) -> None:
        """Who is cancelled meanwhile waits all the same until nothing is left, but for no more courtesies."""
        try:
            await event.wait()
        except BaseException:
            self._scope.cancel()
            with anyio.CancelScope(shield=True):  # the SDK bounds how long a server may take to end
                await self._ended.wait()
            raise

    async def _live(self) -> None:
        """The life of the connection, in the one task that enters and leaves the client."""
        try:
            with self._scope:
                async with self._client as client, LoneErrorGroup() as tasks:
                    if self._name is None and client.server_info is not None:
                        self._name = _on_one_line(client.server_info.name)
                    forgive_in_lists(client, self.name)
                    self._watch_changes(client, tasks)
                    self._tasks = tasks
                    self._ready.set()
                    try:
                        await self._closing.wait()
                    finally:
                        self._tasks = None
                        tasks.cancel_scope.cancel()
        except BaseException as raised:
            failure = without_cancellations(raised)
            if not isinstance(failure, Exception):
                raise  # the event loop ends
            self._failure = failure
            logger.debug("the connection to the server %s broke", self.name, exc_info=failure)
        finally:
            self._ended.set()
            self._ready.set()

    # What it is good for

    @property
    def name(self) -> str:
        """Given, or the server's own word; where there is neither, the host of its URL, or "MCP"."""
        return self._name or self._host or "MCP"

    @property
    def client(self) -> Client:
        """The client of the SDK, for what is not about tools: resources, prompts, instructions."""
        return self._client

    async def toolkit(self) -> Toolkit:
        """The tools that the server has now. A toolkit never changes, so ask again between turns.

        The server is asked each time, unless it announces changes and has announced none. Raises McpServerError.
        """
        if self._listed is not None and self.tells_of_changes:
            return self._listed
        changes = self._changes
        listed = await self._ask(lambda client, hear: list_tools(client))
        toolkit = Toolkit(
            *tools_of(
                listed,
                self.call,
                origin=self.name,
                prefix=self._prefix,
                trust_hints=self._trust_hints,
                options=self._options,
            )
        )
        if changes == self._changes:
            self._listed = toolkit
        return toolkit

    def call(self, tool: str, arguments: dict[str, Any]) -> Flow[Progress, types.CallToolResult]:
        """Call a tool by its name on the server; the value is its result as it came, which may be an error.

        Cancellation tells the server, and does not wait for it. Raises McpServerError where no result comes.
        """

        async def request(client: Client, hear: ProgressFnT) -> types.CallToolResult:
            # Half a character would end the task of the SDK that writes, and all calls with it.
            return await client.call_tool(tool, whole(arguments), progress_callback=hear)

        return Flow(lambda out: self._ask(request, out))

    async def _ask(
        self, request: Callable[[Client, ProgressFnT], Awaitable[R]], out: Sink[Progress] | None = None
    ) -> R:
        if not self._begun:
            raise FlowError("open the connection first: async with Connection(…) as connection")
        if self._tasks is None:
            raise lost(self.name, closing=self._closing.is_set())
        exchange = Exchange(request)
        self._tasks.start_soon(exchange.run, self._client)
        try:
            async for progress in exchange:
                if out is not None:
                    await out.send(progress)
        finally:
            await exchange.leave()
        return exchange.value(self.name, closing=self._closing.is_set())

    # Changes of the list

    def _note_change(self) -> None:
        self._changes += 1
        self._listed = None

    def _hearing_changes(self, theirs: Any) -> Any:
        """The handler of messages: until 2025-11-25 a server tells of changes by itself."""

        async def handle(message: Any) -> None:
            if isinstance(message, types.ToolListChangedNotification):
                self._note_change()
            if theirs is not None:
                await theirs(message)

        return handle

    def _watch_changes(self, client: Client, tasks: TaskGroup) -> None:
        told = client.server_capabilities.tools
        if told is not None and told.list_changed:
            if client.protocol_version in MODERN_PROTOCOL_VERSIONS:
                tasks.start_soon(self._listen, client)
            else:
                self.tells_of_changes = True

    async def _listen(self, client: Client) -> None:
        """Since 2026-07-28 one has to ask for it. Once that breaks off, the server is asked for its tools each time."""
        try:
            async with client.listen(tools_list_changed=True) as changes:
                self.tells_of_changes = bool(changes.honored.tools_list_changed)
                self._note_change()  # what came before was not told
                async for _ in changes:
                    self._note_change()
        except Exception as error:
            logger.debug("the server %s does not tell of changes any more", self.name, exc_info=error)
        finally:
            self.tells_of_changes = False


def _transport_to(target: Any) -> Any:
    match target:
        case StdioServerParameters():
            return spawned(target)
        case str():
            return reached(target)
        case _:
            return target


def _host_of(url: str) -> str:
    """And its port; not a secret that stands before them."""
    return re.split("[/?#]", url.partition("://")[2])[0].rpartition("@")[2]


def _on_one_line(name: str) -> str:
    """What a server calls itself is shown to people, and stands in logs: no ends of lines, no codes for terminals."""
    return " ".join("".join(each if each.isprintable() else " " for each in name).split())[:_NAME_CHARS]
