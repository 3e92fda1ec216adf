"""Running calls: what happens meanwhile, and the results that the model gets to see."""

from __future__ import annotations

from typing import Any, Literal

import msgspec

from .items import Image, Tagged, Usage
from .turns import TurnEvent

FailureKind = Literal[
    "unknown_tool", "disabled_tool", "invalid_input", "denied", "cancelled", "timeout", "idle_timeout", "failed",
    "reducer_failed", "not_serialisable", "duplicate_call", "truncated", "interrupted",
]  # fmt: skip


Effects = Literal["none", "idempotent", "once"]
"""What a call may do to the world: nothing; the same however often it runs with one execution id; something new each
time."""


class Value(Tagged, frozen=True):
    """A call that went well.

    text, images: what the model reads and sees. usage: of the model turns that ran inside the call.
    """

    call_id: str
    tool: str
    value: Any
    text: str
    usage: Usage = Usage()
    images: tuple[Image, ...] = ()


class Failure(Tagged, frozen=True, dict=True):
    """A call that did not go well.

    message: a sentence that the model can act on. partial: what came before it went wrong.
    """

    call_id: str
    tool: str
    kind: FailureKind
    message: str
    partial: Any = None
    usage: Usage = Usage()

    @property
    def cause(self) -> BaseException | None:
        """The original exception, for us: it is not part of the record and never encoded."""
        return self.__dict__.get("cause")

    def caused_by(self, cause: BaseException) -> Failure:
        """The same failure, with the exception that stands behind it."""
        self.__dict__["cause"] = cause
        return self

    def saying(self, message: str) -> Failure:
        """The same failure in other words, with what stands behind it."""
        said = msgspec.structs.replace(self, message=message)
        said.__dict__.update(self.__dict__)
        return said


class Pending(Tagged, frozen=True, dict=True):
    """A call that nobody has decided yet, or in whose inner runs such a call waits; never shown to a model."""

    call_id: str
    tool: str


ToolResult = Value | Failure | Pending


class ApprovalRequested(Tagged, frozen=True):
    """Somebody has to decide about a call. arguments: validated. card: what the person should be shown."""

    execution_id: str
    call_id: str
    tool: str
    arguments: Any
    card: Any = None


class ToolStarted(Tagged, frozen=True):
    """A call runs now, with these arguments. attempt: 1, or more where it runs again after a crash."""

    execution_id: str
    call_id: str
    tool: str
    arguments: Any
    attempt: int = 1


class Intermediate(Tagged, frozen=True):
    """What a running call shows of its work: an event of an inner run in `event`, anything else in `data`."""

    call_id: str
    tool: str
    data: Any = None
    event: RunEvent | None = None


class Output(Tagged, frozen=True):
    """A call has ended. seconds: since it started; 0 where it never did."""

    call_id: str
    tool: str
    result: ToolResult
    seconds: float = 0.0


class ToolInputField(Tagged, frozen=True, gc=False):
    """The next piece of one field of a call's arguments, only from `fields(flow)`. path: keys and places from the top.

    text: of a string the next piece; of a number, true, false or null its JSON, whole.
    """

    call_id: str
    path: tuple[str | int, ...]
    text: str


ToolEvent = ApprovalRequested | ToolStarted | Intermediate | Output
RunEvent = TurnEvent | ToolEvent | ToolInputField


def walk(event: RunEvent) -> tuple[tuple[str, ...], RunEvent]:
    """The ids of the calls around an event, outermost first, and the innermost event itself."""
    path: list[str] = []
    while type(event) is Intermediate and event.event is not None:
        path.append(event.call_id)
        event = event.event
    return tuple(path), event
