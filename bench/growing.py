"""The cost of much of one thing: ten times as much of it takes ten times as long, not more."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import cycle, islice

import anyio

from streamkit import count, reduce_stream
from streamkit.codec.sse import SseDecoder
from streamkit.parts import Finished, InputDelta
from streamkit.turn_builder import TurnBuilder

from .channel import consume
from .execution import execute, work
from .measure import Figure, Goal, growth
from .reducing import generate

LINEAR = Goal(1.3)


def figures() -> Iterator[Figure]:
    yield growth("growing.argument_deltas", write_arguments, size=1_000_000, goal=LINEAR)
    yield growth("growing.one_event_in_pieces", feed_one_event, size=300_000, goal=LINEAR)
    yield growth("growing.events_of_a_tool", run_tool, size=100_000, goal=LINEAR)
    yield growth("growing.events_reduced", reduce, size=1_000_000, goal=LINEAR)


def write_arguments(deltas: int) -> None:
    """A call whose arguments come one character at a time."""
    builder = TurnBuilder("turn_1", "a-model", ["write_file"])
    builder.add(InputDelta('{"text": "', 0, "call_1", "write_file"))
    for character in islice(cycle("some text, then a } and more"), deltas):
        builder.add(InputDelta(character, 0))
    builder.add(InputDelta('"}', 0))
    builder.add(Finished("tool_calls"))
    builder.end()
    builder.turn()


def feed_one_event(pieces: int) -> None:
    """One event that comes in pieces of ten bytes."""
    decoder = SseDecoder()
    decoder.feed(b"data: ")
    for _ in range(pieces):
        decoder.feed(b"0123456789")
    decoder.feed(b"\n\n")


def run_tool(events: int) -> None:
    anyio.run(consume, execute(work, [{"steps": events}]))


def reduce(events: int) -> None:
    anyio.run(reduce_stream, generate(events), count())
