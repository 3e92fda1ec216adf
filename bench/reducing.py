"""Reducers over an async iterable, against the `async for` that does the same by hand."""

from __future__ import annotations

import tracemalloc
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from functools import partial
from typing import Any

import anyio

from streamkit import Reducer, TextDelta, collect, count, fold, join_text, last, reduce_stream

from .measure import Figure, Goal, race_async

EVENTS = 1_000_000
"""Of a run; a round of a race is a part of it, since the ratio is the same."""
ROUND_EVENTS = 50_000

EVENT = TextDelta("a few words ")


def figures() -> Iterator[Figure]:
    for name, reducer, by_hand in REDUCTIONS:
        ours = partial(reduce, reducer, ROUND_EVENTS)
        floor = partial(run_by_hand, by_hand, ROUND_EVENTS)
        goal = Goal(3.5, must=True)
        yield race_async(f"reducing.{name}", ours, floor, count=ROUND_EVENTS, backend="asyncio", goal=goal)
    for name, reducer, _ in REDUCTIONS:
        if name in FLAT:
            yield memory(name, reducer)


def memory(name: str, reducer: Reducer[Any, Any, Any]) -> Figure:
    """The most that a reduction holds, beside what a tenth of its events would."""
    peak_of(reducer, EVENTS // 100)  # what is made once is made now
    small, large = peak_of(reducer, EVENTS // 10), peak_of(reducer, EVENTS)
    ratio = round(large / small, 2)
    note = f"peak of memory: {large:,} bytes for {EVENTS:,} events, {small:,} for a tenth of them"
    return Figure(f"reducing.{name}_memory", ratio, 1.2, ratio <= 1.2, must=True, note=note)


def peak_of(reducer: Reducer[Any, Any, Any], events: int) -> int:
    tracemalloc.start()
    try:
        anyio.run(reduce, reducer, events)
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


async def reduce(reducer: Reducer[Any, Any, Any], events: int) -> None:
    await reduce_stream(generate(events), reducer)


async def run_by_hand(reduce: Callable[[AsyncIterator[TextDelta]], Awaitable[object]], events: int) -> None:
    await reduce(generate(events))


async def generate(events: int) -> AsyncIterator[TextDelta]:
    for _ in range(events):
        yield EVENT


# By hand


async def collect_by_hand(events: AsyncIterator[TextDelta]) -> list[TextDelta]:
    items = []
    async for event in events:
        items.append(event)
    return items


async def count_by_hand(events: AsyncIterator[TextDelta]) -> int:
    number = 0
    async for _ in events:
        number += 1
    return number


async def last_by_hand(events: AsyncIterator[object]) -> TextDelta | None:
    found = None
    async for event in events:
        if isinstance(event, TextDelta):
            found = event
    return found


async def join_by_hand(events: AsyncIterator[object]) -> str:
    pieces = []
    async for event in events:
        if isinstance(event, TextDelta):
            pieces.append(event.text)
    return "".join(pieces)


async def fold_by_hand(events: AsyncIterator[TextDelta]) -> int:
    characters = 0
    async for event in events:
        characters += len(event.text)
    return characters


def add_length(characters: int, event: TextDelta) -> int:
    return characters + len(event.text)


REDUCTIONS: tuple[tuple[str, Reducer[Any, Any, Any], Callable[[AsyncIterator[Any]], Awaitable[object]]], ...] = (
    ("collect", collect(), collect_by_hand),
    ("count", count(), count_by_hand),
    ("last", last(TextDelta), last_by_hand),
    ("join_text", join_text(), join_by_hand),
    ("fold", fold(add_length, 0), fold_by_hand),
)
FLAT = ("count", "last", "fold")
"""Those of which the memory must not grow with the events."""
