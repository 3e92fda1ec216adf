"""Running calls: many calls at once, generators as tools, arguments that are decoded.

The floors run the same functions: in a bare task group, in a bare `async for`, in bare tasks before a bare queue.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from functools import partial
from typing import Any

import anyio
import msgspec

from streamkit import Flow, Tool, ToolCall, Toolkit, count, execute_all, streaming_tool, tool

from .channel import LEAST_EVENTS, bare_queue, consume
from .measure import BACKENDS, Backend, Figure, Goal, race, race_async

CALLS = 1_000
STEPS = 10_000
ARGUMENT_SIZES = (100, 10_000, 1_000_000)


class Progress(msgspec.Struct, frozen=True):
    done: int
    total: int


async def generate(steps: int) -> AsyncIterator[Progress]:
    for step in range(steps):
        yield Progress(step, steps)


async def put_generated(put: Callable[[object], None], steps: int) -> None:
    async for event in generate(steps):
        put(event)


@tool
async def double(number: int) -> int:
    """Double a number."""
    return 2 * number


@streaming_tool(reduce=count())
async def work(steps: int) -> AsyncIterator[Progress]:
    """Work step by step."""
    for step in range(steps):
        yield Progress(step, steps)


class Row(msgspec.Struct, frozen=True):
    name: str
    price: float
    tags: list[str]


@tool
async def store(shelf: str, rows: list[Row], replace: bool = False) -> int:
    """Store rows on a shelf."""
    return len(rows)


def figures() -> Iterator[Figure]:
    for backend in BACKENDS:
        yield from fan_out(backend)
        yield from generators(backend)
    yield from decoding()


def fan_out(backend: Backend) -> Iterator[Figure]:
    """A thousand calls of a coroutine that does next to nothing, and the same coroutine in a bare task group."""
    run = execute(double, [{"number": number} for number in range(CALLS)])

    async def awaited() -> None:
        await run

    async def bare() -> None:
        async with anyio.create_task_group() as tasks:
            for number in range(CALLS):
                tasks.start_soon(double.function, number)

    goal = Goal(1.5)
    yield race_async("execution.fan_out", awaited, bare, count=CALLS, backend=backend, goal=goal)
    yield race_async("execution.fan_out_streamed", partial(consume, run), bare, count=CALLS, backend=backend)


def generators(backend: Backend) -> Iterator[Figure]:
    """Generators as tools; several of them against bare tasks that put what they generate into a bare queue."""

    async def bare() -> None:
        async for _ in generate(STEPS):
            pass

    ours = partial(consume, execute(work, [{"steps": STEPS}]))
    goal = Goal(8, must=True)
    yield race_async("execution.1_generator", ours, bare, count=STEPS, backend=backend, goal=goal)
    for producers in (10, 100, 1_000):
        each = max(STEPS // producers, LEAST_EVENTS)
        ours = partial(consume, execute(work, [{"steps": each}] * producers, max_concurrency=producers))
        floor = partial(bare_queue(backend), producers, each, put_generated)
        name = f"execution.{producers}_generators"
        yield race_async(name, ours, floor, count=producers * each, backend=backend)


def decoding() -> Iterator[Figure]:
    """Arguments as a model wrote them, to what the function takes."""
    decode = msgspec.json.Decoder(store.input).decode
    for size in ARGUMENT_SIZES:
        text = arguments_of(size)
        repeats = max(1, 200_000 // size)

        def ours(text: str = text, repeats: int = repeats) -> None:
            for _ in range(repeats):
                store.decode(text)

        def floor(text: str = text, repeats: int = repeats) -> None:
            for _ in range(repeats):
                decode(text)

        yield race(f"execution.decode_{size}_characters", ours, floor, count=repeats, goal=Goal(1.5))


def execute(
    tool: Tool[..., Any], arguments: Sequence[dict[str, Any]], *, max_concurrency: int = 8
) -> Flow[object, object]:
    calls = [
        ToolCall(f"call_{place}", tool.name, msgspec.json.encode(each).decode(), "turn_1", place)
        for place, each in enumerate(arguments)
    ]
    return execute_all(Toolkit(tool), calls, max_concurrency=max_concurrency)


def arguments_of(size: int) -> str:
    """The arguments of a call of `store`, some size characters long."""
    row = {"name": "a thing of some use", "price": 12.5, "tags": ["small", "blue"]}
    width = len(msgspec.json.encode(row)) + 1
    return msgspec.json.encode({"shelf": "top", "rows": [row] * max(1, size // width)}).decode()
