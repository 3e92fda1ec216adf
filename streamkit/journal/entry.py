"""What is written down of a run.

Entries come in order, each with a number from 1. Most of them are there for whoever goes on with the run after a crash
(`RunLog` reads them); `Shown` is for whoever watches it, and holds what the consumer was told.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import msgspec
from msgspec import UNSET

from ..codec.surrogates import whole
from ..conversation import Conversation, Paused
from ..items import Tagged
from ..tool_events import ApprovalRequested, Effects, Failure, Intermediate, RunEvent, Value
from ..turns import Turn


class RunTaken(Tagged, frozen=True):
    """Somebody begins to drive the run, or goes on with it. driver: who."""

    driver: str


class StateSaved(Tagged, frozen=True):
    """The state of the loop. Its history holds only what is new: before it stand the first `kept` items of the state
    before."""

    kept: int
    state: Conversation


class TurnTaken(Tagged, frozen=True):
    """The model has answered with calls, and they are about to run."""

    turn: Turn


class Decided(Tagged, frozen=True):
    """Somebody has decided about a call. arguments: those it shall run with, None for its own. reason: of a denial.

    original: what the model wrote, where it shall run with others. value: what it gives, without running; of a run that
    goes on the value is written down as the result.
    """

    execution_id: str
    allowed: bool
    arguments: Any = None
    original: Any = None
    reason: str = ""
    value: Any = UNSET


class CallStarted(Tagged, frozen=True):
    """A call is about to run. digest: of the arguments as the model wrote them; empty where something is hidden."""

    execution_id: str
    call_id: str
    tool: str
    arguments: Any
    digest: str
    attempt: int
    effects: Effects


class CallPaused(Tagged, frozen=True):
    """A call ran, and waits since calls of its inner runs do. It has no result, and may run again."""

    execution_id: str
    paused: Paused


class CallFinished(Tagged, frozen=True):
    """A call has its result. seconds: that it ran; 0 where it never did."""

    execution_id: str
    result: Value | Failure
    seconds: float = 0.0


class Shown(Tagged, frozen=True):
    """An event that went to the consumer."""

    event: RunEvent


class RunEnded(Tagged, frozen=True):
    """The run is over: nothing follows, unless somebody goes on with it. error: what it ended with, None if well."""

    error: str | None = None


Entry = RunTaken | StateSaved | TurnTaken | Decided | CallStarted | CallPaused | CallFinished | Shown | RunEnded


@cache
def _decoder() -> msgspec.json.Decoder[Entry]:
    """Made where something is read: who writes nothing down should not wait for it at the start."""
    return msgspec.json.Decoder(Entry)


def _told(value: object) -> object:
    """What stands for an object that JSON does not know: what a pydantic model says of itself, or its repr."""
    dump = getattr(value, "model_dump", None)
    try:
        return dump(mode="json") if callable(dump) else repr(value)[:1000]
    except Exception:  # of its class
        return f"<{type(value).__name__}>"


_encode = msgspec.json.Encoder(enc_hook=_told).encode


def encode(entry: Entry) -> bytes:
    """An entry as JSON. What a tool shows need not be JSON: half a character becomes U+FFFD, a list in itself text."""
    try:
        try:
            return _encode(entry)
        except UnicodeEncodeError:
            return _encode(whole(plain(entry)))
    except Exception:  # of a class of the author, or of a value: a number of too many digits, nesting that is too deep
        if not isinstance(entry, Shown):
            raise
        return _encode(Shown(_retold(entry.event)))


def _retold(event: RunEvent) -> RunEvent:
    """The event, with text in place of what its author made."""
    match event:
        case Intermediate(event=inner) if inner is not None:
            return msgspec.structs.replace(event, event=_retold(inner))
        case Intermediate(data=data):
            return msgspec.structs.replace(event, data=_told(data))
        case ApprovalRequested():
            return msgspec.structs.replace(event, card=_told(event.card))
    return event


def plain(value: Any) -> Any:
    """A value as JSON knows it."""
    return msgspec.to_builtins(value, enc_hook=_told, str_keys=True)


def decode(written: bytes | str) -> Entry:
    """The entry that was encoded. Raises msgspec.DecodeError for anything else."""
    return _decoder().decode(written)


class Numbered(msgspec.Struct, frozen=True):
    """An entry with its number."""

    number: int
    entry: Entry
