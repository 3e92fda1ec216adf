"""Where a person watches: what every screen can do, and the words that all of them use."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any, Protocol

import msgspec

from streamkit import Failure, Pending, RunEvent, ToolInputAbandoned, ToolResult, Turn, Value

from .tools import Hit, Saved

MODEL, READS = "model", "reads"
WRITES, CALLS, GETS, SAYS = "model writes", "model calls", "model gets", "model says"
RUNS, FOUND, SUBAGENT, FAILED, DROPPED = "tool runs", "found", "sub-agent", "tool failed", "call dropped"
IN_ALL = "in all"

_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\ud800-\udfff\u202a-\u202e\u2066-\u2069]")


class Screen(Protocol):
    """Shows a run to a person. Everything is awaited before the next event is taken."""

    async def wait(self, what: str) -> None:
        """Something begins that takes a while and has no events."""

    async def ask(self, question: str) -> None:
        """The events that follow belong to this question."""

    async def show(self, event: RunEvent) -> None: ...

    async def end(self, summary: Sequence[str]) -> None:
        """All questions are answered."""


def visible(text: str) -> str:
    """Text of a model or a tool, without what would steer a terminal or cannot be encoded."""
    return _CONTROL.sub("\N{REPLACEMENT CHARACTER}", text.replace("\t", " "))


def on_one_line(text: str) -> str:
    return " ".join(visible(text).split())


def outcome(result: ToolResult) -> tuple[str, str]:
    """A word for the result of a call, and what the model reads of it."""
    match result:
        case Value(text=text):
            return GETS, text
        case Failure(message=message):
            return FAILED, message
        case Pending():
            return GETS, "nothing yet"


def why_cut(turn: Turn) -> str:
    """What to say behind a turn that did not come to its own end, or said nothing; mostly nothing."""
    if turn.stop_reason in ("stop", "tool_calls"):
        return "" if turn.text.strip() or turn.calls or turn.dropped else "nothing"
    return "cut at its token limit" if turn.stop_reason == "length" else f"ended: {turn.stop_reason}"


def why_dropped(event: ToolInputAbandoned) -> str:
    return f"{event.reason}: {event.detail}" if event.detail else event.reason


def shown(event: Any) -> str:
    """What a tool has sent, in words, where a screen knows nothing better."""
    if isinstance(event, Hit):
        return f"{event.file}:{event.line}  {event.text}"
    if isinstance(event, Saved):
        return f"{event.file} is saved, its checksum is {'right' if event.verified else 'not known'}"
    if isinstance(event, str):
        return event
    try:
        return msgspec.json.encode(event, enc_hook=repr).decode()
    except Exception:
        return repr(event)


def megabytes(number: float) -> str:
    return f"{number / 1_000_000:.1f}"
