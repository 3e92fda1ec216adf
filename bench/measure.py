"""Races: two ways to do the same, in one process, in turn, and how much longer ours takes.

A ratio holds on any machine, a time on one only. Ours and the floor run by turns, so that what slows the machine down
slows both; a round gives one ratio, and the figure is the median of the rounds. Time is that of the CPU, so neighbours
on the machine hardly count.
"""

from __future__ import annotations

import gc
from collections.abc import Awaitable, Callable, Sequence
from contextlib import AbstractAsyncContextManager, nullcontext
from functools import partial
from statistics import median
from time import process_time
from typing import Literal

import anyio
import msgspec

Backend = Literal["asyncio", "trio"]
BACKENDS: tuple[Backend, ...] = ("asyncio", "trio")

ROUNDS = 9
ROUNDS_TO_REPORT = 5
"""Where there is no goal, and for what takes long."""


class Figure(msgspec.Struct, frozen=True, omit_defaults=True):
    """One line of the report.

    ratio: ours to the floor, the median of all rounds; lowest and highest: of one round, so how much is noise.
    goal: what the ratio should be at most, None where it is only reported. must: a run in which it is more fails.
    ours_us, floor_us: microseconds for one of what the figure counts, medians. note: what the ratio is of, where it is
    not ours to a floor.
    """

    name: str
    ratio: float
    goal: float | None
    holds: bool | None
    must: bool = False
    lowest: float | None = None
    highest: float | None = None
    ours_us: float | None = None
    floor_us: float | None = None
    note: str | None = None


class Skipped(msgspec.Struct, frozen=True):
    """A line for what cannot be measured here."""

    name: str
    skipped: str


class Goal(msgspec.Struct, frozen=True):
    """What a ratio should be at most; with must, has to be."""

    ratio: float
    must: bool = False


Sample = Callable[[], object]
AsyncSample = Callable[[], Awaitable[object]]


def race(
    name: str,
    ours: Sample,
    floor: Sample,
    *,
    count: int,
    goal: Goal | None = None,
) -> Figure:
    """The figure of two plain functions. count: how many there are of what the figure counts, in either of them."""
    ours()  # what is made once is made now
    floor()
    times = [(timed(ours), timed(floor)) for _ in range(ROUNDS if goal else ROUNDS_TO_REPORT)]
    return figure(name, times, count=count, goal=goal)


def race_async(
    name: str,
    ours: AsyncSample,
    floor: AsyncSample,
    *,
    count: int,
    backend: Backend,
    goal: Goal | None = None,
    rounds: int | None = None,
    around: AbstractAsyncContextManager[object] | None = None,
) -> Figure:
    """The figure of two coroutine functions, all rounds in one event loop. around: open as long as they run."""
    rounds = rounds or (ROUNDS if goal else ROUNDS_TO_REPORT)

    async def run() -> list[tuple[float, float]]:
        async with around or nullcontext():
            await ours()
            await floor()
            return [(await timed_async(ours), await timed_async(floor)) for _ in range(rounds)]

    return figure(f"{name}.{backend}", anyio.run(run, backend=backend), count=count, goal=goal)


def growth(name: str, run: Callable[[int], object], *, size: int, goal: Goal) -> Figure:
    """How much longer one of size takes than one of a tenth of it; 1 where the cost grows with the size."""
    small, large = partial(run, size // 10), partial(run, size)
    small()
    times = [(timed(large) / 10, timed(small)) for _ in range(ROUNDS_TO_REPORT)]
    note = f"time for one of {size:,} to one of {size // 10:,}"
    return msgspec.structs.replace(figure(name, times, count=size // 10, goal=goal), note=note)


def figure(name: str, times: Sequence[tuple[float, float]], *, count: int, goal: Goal | None) -> Figure:
    """The line for the times of ours and of the floor in each round."""
    ratios = [ours / floor for ours, floor in times]
    ratio = median(ratios)
    ours_seconds, floor_seconds = (median(column) for column in zip(*times, strict=True))
    return Figure(
        name,
        _shortened(ratio),
        goal.ratio if goal else None,
        ratio <= goal.ratio if goal else None,
        goal.must if goal else False,
        _shortened(min(ratios)),
        _shortened(max(ratios)),
        _shortened(ours_seconds / count * 1e6),
        _shortened(floor_seconds / count * 1e6),
    )


def timed(sample: Sample) -> float:
    """Seconds of CPU that one run takes."""
    gc.collect()  # the garbage of others is not its fault; its own is
    began = process_time()
    sample()
    return process_time() - began


async def timed_async(sample: AsyncSample) -> float:
    gc.collect()
    began = process_time()
    await sample()
    return process_time() - began


def _shortened(number: float) -> float:
    return float(f"{number:.3g}")
