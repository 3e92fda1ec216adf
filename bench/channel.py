"""The edge channel: many producers, one consumer.

The floor is a bare unbounded queue: producers that never wait, no back-pressure, no cancellation, no value at the end.
On trio it is the unbounded memory channel, whose receiving is a checkpoint each time.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Awaitable, Callable, Coroutine, Iterator
from functools import partial
from typing import Any

import anyio
import anyio.lowlevel
import trio

from streamkit import Flow, Sink, TextDelta

from .measure import BACKENDS, Backend, Figure, Goal, race_async

EVENTS: dict[Backend, int] = {"asyncio": 16_000, "trio": 4_000}
LEAST_EVENTS = 32
"""Of one producer, or the starting of tasks would be what is measured."""
EVENT = TextDelta("a few words ")
GOALS = {1: 1.5, 10: 1.3, 100: 1.3, 1_000: 2.5}
"""By the number of producers, against asyncio's queue."""
LEVELS = 50

Send = Callable[[Sink[TextDelta], int], Coroutine[Any, Any, None]]
"""Sends so many events."""
Produce = Callable[[Callable[[object], None], int], Coroutine[Any, Any, None]]
"""Puts so many events by the function it is given."""


def figures() -> Iterator[Figure]:
    for backend in BACKENDS:
        yield from ready(backend)
        yield from suspending(backend)
        yield from transforms(backend)


def ready(backend: Backend) -> Iterator[Figure]:
    """Producers that never suspend by themselves."""
    for producers, ratio in GOALS.items():
        events = max(EVENTS[backend] // producers, LEAST_EVENTS)
        goal = Goal(ratio, must=True) if backend == "asyncio" else None
        ours = partial(consume, many(producers, events, send_ready))
        floor = partial(bare_queue(backend), producers, events, put_ready)
        name = f"channel.{producers}_ready"
        yield race_async(name, ours, floor, count=producers * events, backend=backend, goal=goal)


def suspending(backend: Backend) -> Iterator[Figure]:
    """One producer that lets others run at each event."""
    events = EVENTS[backend] // 8
    one = many(1, events, send_suspending)
    floor = partial(bare_queue(backend), 1, events, put_suspending)
    yield race_async("channel.1_suspending", partial(consume, one), floor, count=events, backend=backend)
    name, ours = f"flow.{LEVELS}_levels_suspending", partial(consume, nested(one, LEVELS))
    yield race_async(name, ours, partial(consume, one), count=events, backend=backend)


def transforms(backend: Backend) -> Iterator[Figure]:
    """What stands between a producer and the edge; here the floor is the same flow without it."""
    events = EVENTS[backend] // 2
    one = many(1, events, send_ready)
    flows = {
        "map": one.map(lambda event: event),
        "filter": one.filter(lambda event: True),
        "tap": one.tap(lambda event: None),
        f"{LEVELS}_levels": nested(one, LEVELS),
    }
    for name, flow in flows.items():
        yield race_async(f"flow.{name}", partial(consume, flow), partial(consume, one), count=events, backend=backend)


async def consume(flow: Flow[object, object]) -> None:
    async with flow.open() as events:
        async for _ in events:
            pass


def many(producers: int, events: int, send: Send) -> Flow[TextDelta, None]:
    """Producers side by side, each with a branch of its own."""

    async def work(out: Sink[TextDelta]) -> None:
        if producers == 1:
            await send(out, events)
            return
        async with anyio.create_task_group() as tasks:
            for _ in range(producers):
                tasks.start_soon(send, out.branch(), events)

    return Flow(work)


async def send_ready(out: Sink[TextDelta], events: int) -> None:
    for _ in range(events):
        await out.send(EVENT)


async def send_suspending(out: Sink[TextDelta], events: int) -> None:
    for _ in range(events):
        await out.send(EVENT)
        await anyio.lowlevel.checkpoint()


def nested(flow: Flow[TextDelta, None], levels: int) -> Flow[TextDelta, None]:
    async def work(out: Sink[TextDelta]) -> None:
        await out.forward(flow)

    return nested(Flow(work), levels - 1) if levels else flow


def bare_queue(backend: Backend) -> Callable[[int, int, Produce], Awaitable[None]]:
    """What runs producers of so many events each, and takes the events out of a queue until there were so many."""
    return asyncio_queue if backend == "asyncio" else trio_channel


async def asyncio_queue(producers: int, events: int, produce: Produce) -> None:
    queue: asyncio.Queue[object] = asyncio.Queue()
    async with asyncio.TaskGroup() as tasks:
        for _ in range(producers):
            tasks.create_task(produce(queue.put_nowait, events))
        for _ in range(producers * events):
            await queue.get()


async def trio_channel(producers: int, events: int, produce: Produce) -> None:
    send, receive = trio.open_memory_channel[object](math.inf)
    async with trio.open_nursery() as nursery:
        for _ in range(producers):
            nursery.start_soon(produce, send.send_nowait, events)
        for _ in range(producers * events):
            await receive.receive()


async def put_ready(put: Callable[[object], None], events: int) -> None:
    for _ in range(events):
        put(EVENT)


async def put_suspending(put: Callable[[object], None], events: int) -> None:
    for _ in range(events):
        put(EVENT)
        await anyio.lowlevel.checkpoint()
