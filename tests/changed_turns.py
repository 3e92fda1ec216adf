"""Turns to be held back or edited, tools for their calls, and what is told of them."""

from collections.abc import Callable, Sequence
from typing import Any

import msgspec

from streamkit import (
    Failure,
    Flow,
    RunEvent,
    TextDelta,
    ToolCall,
    ToolInputAbandoned,
    ToolInputAvailable,
    ToolInputDelta,
    ToolInputStart,
    ToolSpec,
    Turn,
    TurnEnded,
    TurnEvent,
    TurnRequest,
    TurnStarted,
    tool,
    user,
)
from streamkit.testing import ScriptedModel, call, check_grammar

REQUEST = TurnRequest((user("go"),), (ToolSpec("read", "Reads.", {}), ToolSpec("write", "Writes.", {})))
READ = call("read", {"p": "a"}, call_id="c1", split=4)
WRITE = call("write", {"p": "b"}, call_id="c2", split=4)


class Refused(Exception):
    """Raised by checks and edits."""


def turn_of(*parts: Any) -> Flow[TurnEvent, Turn]:
    """A turn that can be opened as often as it has to be."""
    return Flow(lambda out: ScriptedModel(list(parts)).stream_turn(REQUEST)._run(out))


def told(events: Sequence[RunEvent]) -> list[str]:
    """Events in a few words each; the deltas of a call joined."""
    lines: list[str] = []
    for event in events:
        if isinstance(event, ToolInputDelta) and lines[-1].startswith(f"delta {event.call_id} "):
            lines[-1] += event.delta
        else:
            lines.append(IN_WORDS.get(type(event), repr)(event))
    return lines


IN_WORDS: dict[type, Callable[[Any], str]] = {
    TurnStarted: lambda event: "turn",
    TurnEnded: lambda event: f"end {event.turn.stop_reason}",
    TextDelta: lambda event: f"text {event.text}",
    ToolInputStart: lambda event: f"start {event.call_id} {event.tool}",
    ToolInputDelta: lambda event: f"delta {event.call_id} {event.delta}",
    ToolInputAvailable: lambda event: f"available {event.call_id} {event.arguments}",
    ToolInputAbandoned: lambda event: f"abandoned {event.call_id} {event.reason}",
}


async def seen(turn: Flow[TurnEvent, Turn]) -> tuple[list[TurnEvent], Turn]:
    """All events of a turn, and the turn: the same, and the same in its end, and they keep the grammar."""
    async with turn.open() as opened:
        events = [event async for event in opened]
    ended = events[-1]
    assert isinstance(ended, TurnEnded)
    assert ended.turn == opened.value
    check_grammar(events, pending=[call.call_id for call in opened.value.calls])
    return events, opened.value


def without_calls(turn: Turn) -> Turn:
    items = tuple(item for item in turn.items if not isinstance(item, ToolCall))
    return msgspec.structs.replace(turn, items=items, stop_reason="stop")


def change(tool: str, /, **fields: Any) -> Callable[[ToolCall], ToolCall | None]:
    return lambda call: msgspec.structs.replace(call, **fields) if call.name == tool else call


def answer_of(call: ToolCall) -> Failure:
    return Failure(call.call_id, call.name, "failed", "no")


@tool
async def read(p: str) -> str:
    """Reads."""
    return f"read {p}"


@tool
async def write(p: str) -> str:
    """Writes."""
    return f"wrote {p}"
