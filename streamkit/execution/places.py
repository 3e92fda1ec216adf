"""The calls of one execution in their lanes: which of them may run now, and what became of each."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from typing import Any

import anyio
import msgspec

from ..codec.json_object import same_object
from ..conversation import Paused
from ..items import ToolCall
from ..tool_events import Failure, FailureKind, ToolResult
from ..tools.toolkit import ValidCall


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

    def result_for(self, call: ToolCall) -> ToolResult:
        """The result for a call with this id: a second one shares it, if it asks for the same."""
        assert self.result is not None
        if call is self.call or (call.name == self.call.name and same_object(call.arguments, self.call.arguments)):
            return self.result
        message = f"Two calls of one turn have the id {call.call_id}, with different arguments; this one did not run."
        return Failure(call.call_id, call.name or "unnamed", "duplicate_call", message)

    def failure(self, kind: FailureKind, what: str) -> Failure:
        """The call as one that failed. what: of it, such as "was denied."."""
        name = self.call.name or "unnamed"
        return Failure(self.call.call_id, name, kind, f"The call of {name} {what}")

    def interrupted(self, what: str) -> Failure:
        """The call as one that began before, and nobody knows how far it came. what: came of it now."""
        return self.failure("interrupted", f"was interrupted while it ran: it may have happened{what}")

    def as_cancelled(self) -> Failure:
        """The call as one that somebody has cancelled."""
        still = "; it may still be running" if self.valid is not None and self.valid.tool.in_thread else ""
        return self.failure("cancelled", f"was cancelled: {self.cancelled}{still}")


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
