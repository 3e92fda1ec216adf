"""Whose bill a model turn is on: the turns that run inside a tool call are charged to that call.

A context variable, since the model deep inside a tool knows nothing of the call around it, and may be awaited instead
of forwarded.
"""

from __future__ import annotations

from contextvars import ContextVar

from .items import Usage

NOTHING = Usage()


class Meter:
    """`with Meter() as meter`: adds up what is charged inside; at its end the block around it is charged, too."""

    __slots__ = ("_outside", "total")

    def __init__(self) -> None:
        self.total = NOTHING

    def __enter__(self) -> Meter:
        self._outside = _innermost.get()
        _innermost.set(self)
        return self

    def __exit__(self, *_: object) -> None:
        _innermost.set(self._outside)
        if self.total is not NOTHING:
            charge(self.total)


_innermost: ContextVar[Meter | None] = ContextVar("streamkit_meter", default=None)


def charge(usage: Usage) -> None:
    """Called by whoever runs a model turn, once, when it has ended."""
    meter = _innermost.get()
    if meter is not None:
        meter.total += usage
