"""A client without a server: it speaks ASGI with an app, reads as slowly as a test says, and leaves when it says."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any

import anyio
import anyio.lowlevel
from starlette.types import ASGIApp, Message

from streamkit.flows.groups import LoneErrorGroup


class Exchange:
    """One request, and what has come of its response.

    status: 0 before it has come. pieces: of the body, one for each message. is_whole: the server has said that nothing
    follows. pause(), go_on(): whether the client takes what is sent. leave(): it closes the connection.
    ends: whether the body of the request does. says_oserror: what `send` raises then, with servers of ASGI 2.4.
    """

    def __init__(self, body: bytes | Sequence[bytes] = b"", *, ends: bool = True, says_oserror: bool = False) -> None:
        self.status = 0
        self.headers: dict[str, str] = {}
        self.pieces: list[bytes] = []
        self.is_whole = False
        self._says_oserror = says_oserror
        parts = [body] if isinstance(body, bytes) else list(body)
        self._requests: list[Message] = [
            {"type": "http.request", "body": part, "more_body": not ends or place < len(parts) - 1}
            for place, part in enumerate(parts)
        ]
        self._left = anyio.Event()
        self._changed = anyio.Event()
        self._reads = anyio.Event()
        self._reads.set()

    @property
    def unread(self) -> int:
        """The pieces of the request that the app has not read."""
        return len(self._requests)

    @property
    def body(self) -> bytes:
        return b"".join(self.pieces)

    @property
    def text(self) -> str:
        return self.body.decode()

    @property
    def json(self) -> Any:
        return json.loads(self.body)

    @property
    def frames(self) -> list[dict[str, Any]]:
        """The server-sent events, with their ids as `#`."""
        return [_frame(each) for each in self.text.split("\n\n") if "data: " in each]

    def pause(self) -> None:
        self._reads = anyio.Event()

    def go_on(self) -> None:
        self._reads.set()

    def leave(self) -> None:
        self._left.set()

    async def until(self, part: bytes | str) -> None:
        """Wait until this is in the body."""
        wanted = part.encode() if isinstance(part, str) else part
        while wanted not in self.body:
            assert not self.is_whole, f"{wanted!r} did not come, but {self.body!r}"
            await self._changed.wait()

    async def receive(self) -> Message:
        if self._requests:
            return self._requests.pop(0)
        await self._left.wait()
        return {"type": "http.disconnect"}

    async def send(self, message: Message) -> None:
        await self._reads.wait()
        await anyio.lowlevel.checkpoint()
        if self._left.is_set():
            if self._says_oserror:
                raise OSError("the connection is gone")
            return
        assert not self.is_whole, "a message after the last one"
        if message["type"] == "http.response.start":
            assert not self.status, "a response has one start"
            self.status = message["status"]
            self.headers = {name.decode(): value.decode() for name, value in message["headers"]}
        else:
            assert self.status, "a response begins with its start"
            self.pieces.append(message["body"])
            self.is_whole = not message.get("more_body", False)
        self._changed.set()
        self._changed = anyio.Event()


def scope_of(method: str, target: str, headers: Mapping[str, str]) -> dict[str, Any]:
    path, _, query = target.partition("?")
    return {
        "type": "http",
        "asgi": {"version": "3.0", "spec_version": "2.3"},
        "http_version": "1.1",
        "method": method,
        "scheme": "http",
        "path": path,
        "raw_path": path.encode(),
        "query_string": query.encode(),
        "root_path": "",
        "headers": [(name.lower().encode(), value.encode()) for name, value in headers.items()],
        "server": ("testserver", 80),
        "client": ("testclient", 1),
    }


@asynccontextmanager
async def asking(
    app: ASGIApp,
    method: str = "GET",
    target: str = "/",
    *,
    headers: Mapping[str, str] | None = None,
    exchange: Exchange | None = None,
) -> AsyncIterator[Exchange]:
    """A request while it goes on; it has to come to its end by the end of the block."""
    asked = exchange or Exchange()
    scope = scope_of(method, target, {"host": "testserver", **(headers or {})})

    async def answer() -> None:
        await app(scope, asked.receive, asked.send)

    async with LoneErrorGroup() as tasks:
        tasks.start_soon(answer)
        yield asked


async def ask(
    app: ASGIApp,
    method: str = "GET",
    target: str = "/",
    *,
    headers: Mapping[str, str] | None = None,
    exchange: Exchange | None = None,
) -> Exchange:
    """A request and its whole response."""
    async with asking(app, method, target, headers=headers, exchange=exchange) as asked:
        pass
    return asked


def _frame(text: str) -> dict[str, Any]:
    lines = dict(line.split(": ", 1) for line in text.split("\n") if not line.startswith(":"))
    return {"#": int(lines["id"]), **json.loads(lines["data"])} if "id" in lines else json.loads(lines["data"])
