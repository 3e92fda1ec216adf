"""A run on its way out: pipes of aiostream leave out what is nobody's business, mask the rest, and make bytes of it.

The pipes stand at the consumer's side of an open flow, and nowhere else: see the README.
"""

from __future__ import annotations

from collections.abc import AsyncIterable, AsyncIterator, Awaitable, Callable
from typing import Literal

import msgspec
from aiostream import pipe, stream
from aiostream.core import Stream
from msgspec import Struct

from streamkit import (
    Conversation,
    Flow,
    Intermediate,
    Model,
    Output,
    ReasoningDelta,
    RunEvent,
    Toolkit,
    TurnEnded,
    Value,
    collect,
    converse,
    streaming_tool,
    user,
    walk,
)
from streamkit.wire.encoding import frame, json_of

LINES_IN_A_PIECE = 8

Write = Callable[[bytes], Awaitable[None]]


class Asked(Struct, frozen=True):
    """What the database was asked: for whoever looks after it."""

    sql: str


class Order(Struct, frozen=True):
    number: int
    city: str
    card: str


ORDERS = (
    Order(1, "Oslo", "4929 1234 5678 9012"),
    Order(2, "Rome", "4716 8765 4321 0987"),
    Order(3, "Oslo", "4532 5555 0000 1111"),
)


def in_short(events: list[Asked | Order]) -> str:
    numbers = [str(event.number) for event in events if isinstance(event, Order)]
    return f"{len(numbers)} orders: {', '.join(numbers)}"


@streaming_tool(reduce=collect(in_short), effects="none")
async def find_orders(city: Literal["Oslo", "Rome"]) -> AsyncIterator[Asked | Order]:
    """Find the orders from a city."""
    yield Asked(f"select * from orders where city = '{city}'")
    for order in ORDERS:
        if order.city == city:
            yield order


TOOLS = Toolkit(find_orders)


def answer(model: Model, question: str) -> Flow[RunEvent, Conversation]:
    return converse(model, TOOLS, (user(question),))


# What leaves


def may_leave(event: RunEvent) -> bool:
    """No thoughts, no notes of a tool to itself, and no turn in one piece: the pieces of it have left by then."""
    match walk(event)[1]:
        case ReasoningDelta() | TurnEnded() | Intermediate(data=Asked()):
            return False
    return True


def masked(event: RunEvent) -> RunEvent:
    """The same without numbers of cards; and of a result only what the model reads."""
    match event:
        case Intermediate(event=inner) if inner is not None:
            return msgspec.structs.replace(event, event=masked(inner))
        case Intermediate(data=Order() as order):
            return msgspec.structs.replace(event, data=msgspec.structs.replace(order, card=f"… {order.card[-4:]}"))
        case Output(result=Value() as result):
            return msgspec.structs.replace(event, result=msgspec.structs.replace(result, value=None))
    return event


def leaving(events: AsyncIterable[RunEvent]) -> Stream[RunEvent]:
    return stream.iterate(events) | pipe.filter(may_leave) | pipe.map(masked)  # type: ignore[arg-type]  # see below


# Bytes


# aiostream types the function of `map` for several sources at once; there is one here.


async def write_sse(run: Flow[RunEvent, Conversation], write: Write) -> Conversation:
    """Write a run as server-sent events, each as soon as it is there: the events with a number, then how it ended."""
    async with run.open() as events:
        frames = leaving(events) | pipe.enumerate(1) | pipe.map(numbered_frame)  # type: ignore[arg-type]
        async with frames.stream() as pieces:
            async for piece in pieces:
                await write(piece)
    await write(frame({"type": "ended", "ended": events.value.ended}))
    return events.value


async def write_json_lines(run: Flow[RunEvent, Conversation], write: Write) -> Conversation:
    """Write a run as lines of JSON, several at once: for a file, where few writes count and nobody watches."""
    async with run.open() as events:
        lines = leaving(events) | pipe.map(json_line) | pipe.chunks(LINES_IN_A_PIECE)  # type: ignore[arg-type]
        async with lines.stream() as pieces:
            async for piece in pieces:
                await write(b"".join(piece))
    await write(json_line({"type": "ended", "ended": events.value.ended}))
    return events.value


def numbered_frame(numbered: tuple[int, RunEvent]) -> bytes:
    number, event = numbered
    return frame(event, number)


def json_line(event: object) -> bytes:
    return json_of(event) + b"\n"


WRITERS = {"sse": write_sse, "jsonl": write_json_lines}
