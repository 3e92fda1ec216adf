"""Requests of httpx2 to an ASGI app in the same event loop: streamed, slow to read, and lost when a test says so."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import anyio
import httpx2
from anyio.abc import TaskGroup

from ..web.asgi import scope_of


class AppTransport(httpx2.AsyncBaseTransport):
    """asked: the requests until now, as method, path and the frame that is known. lose(): all connections break.

    loses_after: so many bytes of the body of each answer come before its connection breaks.
    """

    def __init__(self, app: Any, tasks: TaskGroup, *, loses_after: int | None = None) -> None:
        self.asked: list[tuple[str, str, str | None]] = []
        self._app = app
        self._tasks = tasks
        self._loses_after = loses_after
        self._open: list[_Connection] = []

    def lose(self) -> None:
        for connection in self._open:
            connection.lose()

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        self.asked.append((request.method, request.url.path, request.headers.get("last-event-id")))
        connection = _Connection(await request.aread(), self._loses_after)
        self._open.append(connection)
        scope = scope_of(request.method, request.url.raw_path.decode(), dict(request.headers))
        self._tasks.start_soon(self._app, scope, connection.receive, connection.send)
        start = await connection.start()
        return httpx2.Response(start["status"], headers=start["headers"], stream=connection)


class _Connection(httpx2.AsyncByteStream):
    def __init__(self, body: bytes, loses_after: int | None) -> None:
        self._requests = [{"type": "http.request", "body": body, "more_body": False}]
        self._left = anyio.Event()
        self._lost = False
        self._rest = loses_after
        self._to_client, self._sent = anyio.create_memory_object_stream[dict[str, Any]](0)

    # The app's side

    async def receive(self) -> Any:
        if self._requests:
            return self._requests.pop()
        await self._left.wait()
        return {"type": "http.disconnect"}

    async def send(self, message: Any) -> None:
        if self._left.is_set():
            return
        try:
            await self._to_client.send(message)
        except (anyio.BrokenResourceError, anyio.ClosedResourceError):
            return
        if message["type"] == "http.response.body" and not message.get("more_body", False):
            self._to_client.close()

    # The client's

    async def start(self) -> dict[str, Any]:
        return await self._sent.receive()

    def lose(self) -> None:
        self._lost = True
        self._left.set()
        self._to_client.close()

    async def __aiter__(self) -> AsyncIterator[bytes]:
        async for message in self._sent:
            piece = message["body"]
            if self._rest is not None:
                piece, self._rest = piece[: self._rest], self._rest - len(piece)
            yield piece
            if self._rest is not None and self._rest <= 0:
                self.lose()
                break
        if self._lost:
            raise httpx2.ReadError("the connection is gone")

    async def aclose(self) -> None:
        self._left.set()
        self._to_client.close()
        self._sent.close()
