"""From a tool to a socket: a run behind HTTP, against a generator that yields the same bytes to Starlette.

The server is in this process, with its sockets; the client is not. The floor does what a program without streamkit
does by hand: a `StreamingResponse` over an async generator, whose frames are made with msgspec.
"""

from __future__ import annotations

import asyncio
import gc
import socket
import sys
import time
import tracemalloc
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager
from typing import Any

import msgspec
import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.routing import Route

from streamkit import Flow, RunEvent, Sink, TextDelta, ToolCall, Toolkit, count, execute_all, streaming_tool
from streamkit.web.response import FlowResponse

from .measure import Figure, Goal, figure, timed_async

EVENTS = 10_000
EVENTS_FOR_LATENCY = 300
PAUSE_SECONDS = 0.002
CONNECTIONS = 500
ROUNDS = 7

encode = msgspec.json.Encoder().encode


class Progress(msgspec.Struct, frozen=True):
    done: int
    total: int


class Frame(msgspec.Struct, frozen=True, tag_field="type", tag="tool-progress"):
    id: str
    data: Any


class Delta(msgspec.Struct, frozen=True, tag_field="type", tag="text-delta"):
    id: str
    delta: str


class Late(msgspec.Struct, frozen=True):
    at: float


Events = Callable[[], AsyncIterator[Any]]


async def ready() -> AsyncIterator[Progress]:
    for number in range(EVENTS):
        yield Progress(number, EVENTS)


async def suspending() -> AsyncIterator[Progress]:
    for number in range(EVENTS):
        await asyncio.sleep(0)
        yield Progress(number, EVENTS)


async def slow() -> AsyncIterator[Late]:
    for _ in range(EVENTS_FOR_LATENCY):
        await asyncio.sleep(PAUSE_SECONDS)
        yield Late(time.monotonic())


async def idle() -> AsyncIterator[Progress]:
    yield Progress(0, 1)
    await asyncio.sleep(3600)


SOURCES: dict[str, Events] = {"ready": ready, "suspending": suspending, "slow": slow, "idle": idle}


def tool_that_sends(source: Events) -> Flow[RunEvent, object]:
    @streaming_tool(reduce=count())
    async def work() -> AsyncIterator[Any]:
        """Work."""
        async for event in source():
            yield event

    return execute_all(Toolkit(work), [ToolCall("call", "work", "{}")])


async def send_text(out: Sink[RunEvent]) -> None:
    for number in range(EVENTS):
        await asyncio.sleep(0)
        await out.send(TextDelta(f" word{number}"))


async def ours(request: Request) -> Response:
    name = request.path_params["name"]
    return FlowResponse(Flow(send_text) if name == "text" else tool_that_sends(SOURCES[name]))


async def floor(request: Request) -> Response:
    name = request.path_params["name"]
    frames = text_frames() if name == "text" else tool_frames(SOURCES[name])
    return StreamingResponse(frames, media_type="text/event-stream")


async def tool_frames(source: Events) -> AsyncIterator[bytes]:
    number = 0
    async for event in source():
        number += 1
        yield b"id: %d\ndata: %b\n\n" % (number, encode(Frame("call", event)))


async def text_frames() -> AsyncIterator[bytes]:
    for number in range(EVENTS):
        await asyncio.sleep(0)
        yield b"id: %d\ndata: %b\n\n" % (number, encode(Delta("text-1", f" word{number}")))


Tell = Callable[[str], Awaitable[float]]


@asynccontextmanager
async def served() -> AsyncIterator[Tell]:
    """What tells the client a command, and gives its answer."""
    app = Starlette(routes=[Route("/ours/{name}", ours), Route("/floor/{name}", floor)])
    with socket.create_server(("127.0.0.1", 0)) as listening:
        listening.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)  # as on those that uvicorn makes
        server = uvicorn.Server(uvicorn.Config(app, http="h11", ws="none", lifespan="off", log_level="critical"))
        serving = asyncio.create_task(server.serve(sockets=[listening]))
        client = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "bench.web_client", str(listening.getsockname()[1])),
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
        )

        async def tell(command: str) -> float:
            assert client.stdin is not None
            assert client.stdout is not None
            client.stdin.write(f"{command}\n".encode())
            return float(await client.stdout.readline())

        try:
            yield tell
        finally:
            assert client.stdin is not None
            client.stdin.close()
            await client.wait()
            server.should_exit = True
            await serving


async def throughput(tell: Tell, name: str) -> Figure:
    async def sample(which: str) -> float:
        return await timed_async(lambda: tell(f"read /{which}/{name}"))

    await sample("ours")
    await sample("floor")
    times = [(await sample("ours"), await sample("floor")) for _ in range(ROUNDS)]
    return figure(f"web.{name}", times, count=EVENTS, goal=Goal(2.0))


async def memory(tell: Tell) -> Figure:
    async def bytes_of_one(which: str) -> float:
        gc.collect()
        tracemalloc.start()
        await tell(f"hold {CONNECTIONS} /{which}/idle")
        taken, _ = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        await tell("drop")
        await tell(f"read /{which}/ready")  # by then the server has heard that they are gone
        return taken / CONNECTIONS

    await bytes_of_one("ours")
    await bytes_of_one("floor")
    taken = [(await bytes_of_one("ours"), await bytes_of_one("floor"))]
    found = figure("web.memory", taken, count=1_000_000, goal=None)
    return msgspec.structs.replace(found, note="bytes of one idle connection, in Python")


async def latency(tell: Tell) -> Figure:
    times = [(await tell("late /ours/slow"), await tell("late /floor/slow")) for _ in range(3)]
    found = figure("web.latency", times, count=1_000_000, goal=None)
    return msgspec.structs.replace(found, note="microseconds from the event to the client, by the clock")


def figures() -> Iterator[Figure]:
    async def measure() -> list[Figure]:
        async with served() as tell:
            return [
                await throughput(tell, "ready"),
                await throughput(tell, "suspending"),
                await throughput(tell, "text"),
                await latency(tell),
                await memory(tell),
            ]

    yield from asyncio.run(measure())
