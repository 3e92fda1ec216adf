"""A server on loopback that says chosen bytes, and remembers what it was asked."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from typing import Any

import anyio
from anyio.abc import SocketAttribute, SocketStream

from streamkit.flows.groups import LoneErrorGroup

Say = Callable[[SocketStream], Awaitable[None]]


@dataclass
class Asked:
    """One request."""

    target: str
    headers: dict[str, str]
    body: Any


@dataclass
class Loopback:
    """url: of the server. asked: the requests until now. left: set when a connection has ended."""

    url: str
    asked: list[Asked] = field(default_factory=list)
    connections: int = 0
    left: anyio.Event = field(default_factory=anyio.Event)


@asynccontextmanager
async def serve(*answers: bytes | Say) -> AsyncIterator[Loopback]:
    """A server that gives one answer to each request, in order.

    An answer is bytes, after which the connection stays open, or a function that says it, after which it is closed.
    """
    waiting = list(answers)
    listener = await anyio.create_tcp_listener(local_host="127.0.0.1")
    port = listener.listeners[0].extra(SocketAttribute.local_port)
    server = Loopback(f"http://127.0.0.1:{port}/v1")

    async def handle(stream: SocketStream) -> None:
        server.connections += 1
        async with stream:
            while (asked := await _read_request(stream)) is not None:
                server.asked.append(asked)
                answer = waiting.pop(0)
                if not isinstance(answer, bytes):
                    await answer(stream)
                    break
                await stream.send(answer)
            server.left.set()

    async with listener, LoneErrorGroup() as tasks:
        tasks.start_soon(listener.serve, handle)
        yield server
        tasks.cancel_scope.cancel()


async def _read_request(stream: SocketStream) -> Asked | None:
    data = b""
    try:
        while b"\r\n\r\n" not in data:
            data += await stream.receive()
        head, _, body = data.partition(b"\r\n\r\n")
        request, *lines = head.decode().split("\r\n")
        headers = {name.lower(): value for name, _, value in (line.partition(": ") for line in lines)}
        while len(body) < int(headers.get("content-length", 0)):
            body += await stream.receive()
    except anyio.EndOfStream:
        return None
    return Asked(request.split(" ")[1], headers, json.loads(body or b"null"))


async def hold(stream: SocketStream) -> None:
    """Say nothing until the client closes the connection."""
    with suppress(anyio.EndOfStream, anyio.BrokenResourceError):
        await stream.receive()


def answer(body: bytes, *headers: str, status: str = "200 OK", kind: str = "text/event-stream") -> bytes:
    """A whole answer; its connection can be used again."""
    return head(*headers, f"content-length: {len(body)}", status=status, kind=kind) + body


def head(*headers: str, status: str = "200 OK", kind: str = "text/event-stream") -> bytes:
    """The beginning of an answer."""
    lines = [f"HTTP/1.1 {status}", f"content-type: {kind}", *headers, "", ""]
    return "\r\n".join(lines).encode()


def chunk(data: bytes) -> bytes:
    """A piece of a body with `transfer-encoding: chunked`; an empty one is its end."""
    return f"{len(data):x}\r\n".encode() + data + b"\r\n"


CHUNKED = "transfer-encoding: chunked"
