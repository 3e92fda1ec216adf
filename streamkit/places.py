"""The calls of one execution in their lanes: which of them may run now."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from typing import Any

import anyio
import msgspec

from .conversation import Paused
from .items import ToolCall
from .tool_events import ToolResult
from .toolkit import ValidCall


class Place(msgspec.Struct, eq=False):
    """One call on its way.

    lane: the calls that run one after another, in call order; most have a lane of their own. valid: once it may run.
    ready: first in its lane. attempt: the number of this one. may_have_happened: in an attempt before. cancelled: why,
    once somebody has cancelled it. paused: where it stood when it ran before, and its inner runs had to wait. allowed:
    the arguments that somebody gave it instead of its own. scope: of the task that asks about it, or runs it, where
    somebody may cancel it.
    """

    call: ToolCall
    execution_id: str
    lane: deque[Place] = msgspec.field(default_factory=deque)
    valid: ValidCall | None = None
    ready: bool = False
    started: bool = False
    attempt: int = 1
    may_have_happened: bool = False
    cancelled: str | None = None
    paused: Paused | None = None
    allowed: dict[str, Any] | None = None
    scope: anyio.CancelScope | None = None
    result: ToolResult | None = None

    @property
    def waits_for_its_turn(self) -> bool:
        """Whether it may run, and does not yet."""
        return self.valid is not None and not self.started


class Lanes:
    """Lets calls run in the order of their lanes, and not too many at once. free: how many more may run."""

    def __init__(self, free: int) -> None:
        self._free = free
        self._ready: deque[Place] = deque()  # first in their lanes
        self._shared: dict[str, deque[Place]] = {}

    def enter(self, place: Place, serial: str | None) -> None:
        """Put a call into the lane of its key, or one of its own."""
        if serial is not None:
            place.lane = self._shared.setdefault(serial, place.lane)
        place.lane.append(place)

    def advance(self, lane: deque[Place]) -> Iterable[Place]:
        """The calls that start now, after something has changed in this lane, or a call has ended."""
        while lane and lane[0].result is not None:
            lane.popleft()
        if lane and lane[0].valid is not None and not lane[0].ready:
            lane[0].ready = True
            self._ready.append(lane[0])
        while self._ready and self._free:
            place = self._ready.popleft()
            if place.result is None:
                self._free -= 1
                place.started = True
                yield place

    def release(self) -> None:
        """A call has ended that had started."""
        self._free += 1
