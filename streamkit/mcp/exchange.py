"""One request to a server: what is heard of it until it ends, and what its end means.

It runs in the task of its connection, so that closing the connection ends it, and whoever waits for it may leave at any
moment.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Awaitable, Callable
from typing import Generic, TypeVar

import anyio
import anyio.lowlevel
import msgspec

from ..errors import McpServerError, StreamkitError
from ..execution.limits import TimedOut
from .sdk import Client, MCPError, ProgressFnT, types

R = TypeVar("R")

_KEPT = 1024
"""How many reports of progress wait for a consumer who is slow. A server cannot be slowed down, and a later report says
more, so the oldest one makes room."""

_LEAVING_SECONDS = 0.5
"""How long one who leaves waits until the server is told. One that reads nothing must not hold us up."""


class Progress(msgspec.Struct, frozen=True):
    """How far a call has come, as its server says. total: None where nobody knows."""

    progress: float
    total: float | None = None
    message: str | None = None


class Exchange(Generic[R]):
    """A request under way: an async iterator of its progress, and after it the value.

    One consumer. The reports come in order, all of them before the end.
    """

    def __init__(self, request: Callable[[Client, ProgressFnT], Awaitable[R]]) -> None:
        self._request = request
        self._scope = anyio.CancelScope()
        self._heard: deque[Progress] = deque(maxlen=_KEPT)
        self._news = anyio.Event()
        self._ended = anyio.Event()
        self._error: Exception | None = None
        self._values: list[R] = []

    async def run(self, client: Client) -> None:
        """In a task of the connection, to the end; raises nothing but cancellation."""
        try:
            with self._scope:
                value = await self._request(client, self._hear)
                # The SDK gives each report a task. Those that began before the result came have their first step in
                # this round of the event loop, on trio in any order.
                await anyio.lowlevel.checkpoint()
                self._values.append(value)
        except Exception as error:
            self._error = error
        finally:
            self._ended.set()
            self._news.set()

    async def _hear(self, progress: float, total: float | None, message: str | None) -> None:
        if not self._ended.is_set():
            self._heard.append(Progress(float(progress), None if total is None else float(total), message))
            self._news.set()
            if len(self._heard) > _KEPT // 2:  # a server in this process waits for us here: let the consumer run
                await anyio.lowlevel.checkpoint()

    def __aiter__(self) -> Exchange[R]:
        return self

    async def __anext__(self) -> Progress:
        while not self._heard:
            if self._ended.is_set():
                raise StopAsyncIteration
            self._news = anyio.Event()
            await self._news.wait()
        return self._heard.popleft()

    async def leave(self) -> None:
        """Cancel it, unless it has ended: the server is told."""
        if not self._ended.is_set():
            self._scope.cancel()
            with anyio.move_on_after(_LEAVING_SECONDS, shield=True):
                await self._ended.wait()

    def value(self, server: str, *, closing: bool) -> R:
        """The answer. Raises McpServerError, or TimedOut where the client has a limit of its own.

        closing: whether it is us who ended the connection.
        """
        if self._values:
            return self._values[0]
        raise _told(self._error, server, closing=closing) from self._error


_LOST = ("Connection closed", "SSE stream")
"""So the SDK begins what it says with the code of a lost connection; to servers the code means any error of theirs."""


def lost(server: str, *, closing: bool) -> McpServerError:
    return McpServerError(f"The connection to the server {server} was {'closed' if closing else 'lost'}.")


def _told(error: Exception | None, server: str, *, closing: bool) -> StreamkitError:
    match error:
        case None:
            return lost(server, closing=closing)
        case MCPError(code=types.CONNECTION_CLOSED, message=message) if message.startswith(_LOST):
            return lost(server, closing=closing)
        case MCPError(code=types.REQUEST_TIMEOUT):
            return TimedOut("timeout", "got no answer in time")
        case MCPError(code=code, message=message) if code != types.PARSE_ERROR:
            return McpServerError(f"The server {server} refused: {message}")
        case _:
            return McpServerError(f"The server {server} gave no answer that can be used.")
