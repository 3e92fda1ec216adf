"""Whose bill a model turn is on: the turns that run inside a tool call are charged to that call.

A context variable, since the model deep inside a tool knows nothing of the call around it, and may be awaited instead
of forwarded.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

from .items import Usage


class Meter:
    """Adds up the usage of the turns that end while it is the innermost meter, and of the metered blocks inside."""

    __slots__ = ("total",)

    def __init__(self) -> None:
        self.total = Usage()

    def add(self, usage: Usage) -> None:
        self.total += usage


_innermost: ContextVar[Meter | None] = ContextVar("streamkit_meter", default=None)


def charge(usage: Usage) -> None:
    """Called by whoever runs a model turn, once, when it has ended."""
    meter = _innermost.get()
    if meter is not None:
        meter.add(usage)


@contextmanager
def metered() -> Iterator[Meter]:
    """What is charged inside the block; when it ends, the block around it is charged with the same."""
    meter = Meter()
    outside = _innermost.set(meter)
    try:
        yield meter
    finally:
        _innermost.reset(outside)
        charge(meter.total)
