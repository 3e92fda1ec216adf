"""A provider without a model: `python -m bench.server` answers chat completions on loopback with answers made before.

It prints its port, and ends when its standard input does, so with whoever started it. It does as little as a server
can: no parsing of requests, each answer in one write. Each event is a chunk of its body, as with servers that send what
a model says when it says it.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import subprocess
import sys
from collections.abc import Iterable, Iterator

from .decoding import DONE, event_of

TEXT_EVENTS = 200
MOST_TURNS = 200
RESULT_MARK = b'"role":"tool"'
"""In a request, once for each result of a call."""


class Provider(asyncio.Protocol):
    """`/text/…` is answered with a text, `/20/…` with a call until it is the 20th turn, which is a text."""

    def __init__(self) -> None:
        self._received = bytearray()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        self._received += data
        head, _, body = self._received.partition(b"\r\n\r\n")
        _, found, rest = head.lower().partition(b"content-length:")
        if found and len(body) >= int(rest.split(b"\r\n", 1)[0]):
            self._received.clear()
            self._transport.write(self._answer(head, body))

    def _answer(self, head: bytearray, body: bytearray) -> bytes:
        asked = head.split(b"/", 2)[1]
        turn = body.count(RESULT_MARK) + 1
        return CALL_ANSWERS[turn] if asked.isdigit() and turn < int(asked) else TEXT


def text_events() -> Iterator[bytes]:
    yield event_of({"role": "assistant", "content": ""})
    for number in range(TEXT_EVENTS):
        yield event_of({"content": f" word{number}"})
    yield event_of({}, "stop")
    yield DONE


def call_events(number: int) -> Iterator[bytes]:
    function = {"name": "double", "arguments": ""}
    call = {"index": 0, "id": f"call_{number}", "type": "function", "function": function}
    yield event_of({"role": "assistant", "content": None, "tool_calls": [call]})
    for piece in ('{"', "number", '":', f" {number}", "}"):
        yield event_of({"tool_calls": [{"index": 0, "function": {"arguments": piece}}]})
    yield event_of({}, "tool_calls")
    yield DONE


def answer_of(chunks: Iterable[bytes]) -> bytes:
    head = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n"
    return b"".join([head, *(b"%x\r\n%b\r\n" % (len(chunk), chunk) for chunk in chunks), b"0\r\n\r\n"])


TEXT = answer_of(text_events())
CALL_ANSWERS = [answer_of(call_events(number)) for number in range(MOST_TURNS)]


@contextlib.contextmanager
def running_server() -> Iterator[str]:
    """Its address, for as long as the block is open."""
    command = [sys.executable, "-m", "bench.server"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        try:
            yield f"http://127.0.0.1:{int(process.stdout.readline())}"
        finally:
            process.stdin.close()


async def serve() -> None:
    loop = asyncio.get_running_loop()
    server = await loop.create_server(Provider, "127.0.0.1", 0)
    print(server.sockets[0].getsockname()[1], flush=True)
    ended = asyncio.Event()
    loop.add_reader(sys.stdin, lambda: ended.set() if not os.read(0, 1) else None)
    await ended.wait()


if __name__ == "__main__":
    asyncio.run(serve())
