"""A run that is paused by not taking its events, and one that is stopped between two steps and goes on another day.

Neither needs a word of the library. Events that nobody takes hold up whoever sends them, as far as the tool; and the
state of a loop is a record, so a step that returns `Stop` early leaves one that goes on later.
"""

from __future__ import annotations

import math
import os
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import anyio
import msgspec
from msgspec import Meta

from streamkit import (
    Conversation,
    Flow,
    Model,
    Next,
    RunEvent,
    Sink,
    Stop,
    ToolContext,
    Toolkit,
    TurnRequest,
    collect,
    execute_all,
    loop,
    streaming_tool,
    user,
)

QUESTION = "How many prime numbers are there below 1000?"


@dataclass
class Made:
    """What the tool has made, whether anybody has seen it or not."""

    primes: int = 0
    seconds_each: float = 0.02


def summary(primes: list[int]) -> str:
    return f"{len(primes)} primes" + (f", the largest is {primes[-1]}" if primes else "")


@streaming_tool(reduce=collect(summary), effects="none")
async def find_primes(
    context: ToolContext[Made], below: Annotated[int, Meta(ge=2, le=10_000, description="The limit")]
) -> AsyncIterator[int]:
    """Find all prime numbers below a limit."""
    for number in range(2, below):
        if all(number % divisor for divisor in range(2, math.isqrt(number) + 1)):
            await anyio.sleep(context.context.seconds_each)
            context.context.primes += 1
            yield number  # goes on when there is room for it


TOOLS = Toolkit(find_primes)


def work(
    model: Model, start: Conversation, made: Made, *, must_stop: Callable[[], bool]
) -> Flow[RunEvent, Conversation]:
    """The run from here to its end, or to the end of the step in which it must stop: then `ended` is None."""

    async def step(out: Sink[RunEvent], state: Conversation) -> Next[Conversation] | Stop[Conversation]:
        turn = await out.forward(TOOLS.listen(model.stream_turn(TurnRequest(state.history, TOOLS.specs))))
        if not turn.wants_more:
            return Stop(state.add(turn))
        state = state.add(turn, await out.forward(execute_all(TOOLS, turn.calls, context=made)))
        return Stop(state) if must_stop() else Next(state)

    return loop(step, start)


class Valve:
    """Between a run and whoever watches it; another task turns it. told: hears whether it is paused now."""

    def __init__(self, told: Callable[[bool], None] = lambda is_paused: None) -> None:
        self._told = told
        self.must_stop = False
        self._seen = 0
        self._marks: dict[int, anyio.Event] = {}
        self._open = anyio.Event()
        self._open.set()

    @property
    def is_paused(self) -> bool:
        return not self._open.is_set()

    def pause(self) -> None:
        if not self.is_paused:
            self._open = anyio.Event()
            self._told(True)

    def resume(self) -> None:
        if self.is_paused:
            self._open.set()
            self._told(False)

    def stop(self) -> None:
        """The step under way is the last one; it is not cut off."""
        self.must_stop = True
        self.resume()

    async def passes(self) -> None:
        """Returns when an event may be shown."""
        await self._open.wait()
        self._seen += 1
        self._marks.setdefault(self._seen, anyio.Event()).set()

    async def has_passed(self, events: int) -> None:
        """Returns when so many events were shown."""
        await self._marks.setdefault(events, anyio.Event()).wait()


async def watch(run: Flow[RunEvent, Conversation], valve: Valve, show: Callable[[RunEvent], None]) -> Conversation:
    """Take the events of a run, one after the other, whenever the valve is open."""
    async with run.open() as events:
        async for event in events:
            await valve.passes()  # meanwhile no other event is taken
            show(event)
    return events.value


def stored(file: Path) -> Conversation:
    """The conversation in a file, or a new one."""
    if file.exists():
        return msgspec.json.decode(file.read_bytes(), type=Conversation)
    return Conversation((user(QUESTION),))


def store(state: Conversation, file: Path) -> None:
    """Write it whole, or not at all."""
    new = file.with_name(f"{file.name}.new")
    new.write_bytes(msgspec.json.format(msgspec.json.encode(state)))
    os.replace(new, file)
