"""The native protocol: what a run tells, as frames."""

from typing import Any

import msgspec

from streamkit import (
    Intermediate,
    Output,
    TextDelta,
    ToolInputAvailable,
    ToolInputDelta,
    ToolInputStart,
    ToolStarted,
    Value,
)
from streamkit.tool_events import RunEvent
from streamkit.wire import native_frames
from streamkit.wire.native import NativeEncoder

from ..agent_run import Run, World
from .native_grammar import Told, check_frames, encoded, frames_of

WHOLE: list[RunEvent] = [
    TextDelta("Hi"),
    ToolInputStart("c1", "f"),
    ToolInputDelta("c1", "{}"),
    ToolInputAvailable("c1", "{}"),
    ToolStarted("t.0", "c1", "f", {}),
    Intermediate("c1", "f", {"p": 50}),
    Output("c1", "f", Value("c1", "f", {"r": 1}, '{"r":1}'), 0.5),
    TextDelta("Bye"),
]


def told(events: list[RunEvent], end: object = None, **options: Any) -> list[Told]:
    """The frames of a run between its first and its last."""
    return told_all(events, end, **options)[1:-1]


def told_all(events: list[RunEvent], end: object = None, **options: Any) -> list[Told]:
    frames = frames_of(encoded(events, end, NativeEncoder(run_id="run", **options)))
    check_frames(frames)
    return frames


def types(frames: list[Told]) -> list[str]:
    return [frame["type"] for frame in frames]


def test_each_part_has_a_start_its_deltas_and_an_end() -> None:
    assert told_all(WHOLE) == [
        {"type": "start", "messageId": "run", "protocol": "streamkit.1"},
        {"type": "text-start", "id": "text-1"},
        {"type": "text-delta", "id": "text-1", "delta": "Hi"},
        {"type": "text-end", "id": "text-1"},
        {"type": "tool-call-start", "id": "c1", "toolName": "f"},
        {"type": "tool-call-delta", "id": "c1", "argsTextDelta": "{}"},
        {"type": "tool-call-end", "id": "c1"},
        {"type": "tool-start", "id": "c1", "executionId": "t.0", "toolName": "f", "args": {}, "attempt": 1},
        {"type": "tool-progress", "id": "c1", "data": {"p": 50}},
        {
            "type": "tool-result", "id": "r-c1", "toolCallId": "c1", "toolName": "f", "result": {"r": 1},
            "text": '{"r":1}', "seconds": 0.5,
        },
        {"type": "text-start", "id": "text-2"},
        {"type": "text-delta", "id": "text-2", "delta": "Bye"},
        {"type": "text-end", "id": "text-2"},
        {"type": "finish", "messageId": "run"},
    ]  # fmt: skip


def test_what_is_written_in_a_hurry_is_what_the_records_say() -> None:
    events: list[RunEvent] = [
        ToolInputStart('a\u2028"', "f"),
        ToolInputDelta('a\u2028"', "{\n"),
        TextDelta("a"),
        TextDelta('\ud83d"'),
    ]
    frames = encoded(events).split(b"data: ")[3:6:1]
    records = [
        native_frames.ToolCallDelta('a\u2028"', "{\n"),
        native_frames.TextStart("text-1"),
        native_frames.TextDelta("text-1", "a"),
    ]
    assert [each.partition(b"\n")[0] for each in frames] == [msgspec.json.encode(record) for record in records]


async def test_a_whole_run_follows_the_grammar_of_frames() -> None:
    run = Run(World())
    await run.go()
    frames = told_all(run.seen, run.state)
    assert frames[-1]["ended"] == "answer"
    assert {frame["type"] for frame in frames} >= {"approval-request", "tool-progress", "reasoning-delta"}
    inner = [frame for frame in frames if frame.get("path")]
    assert {tuple(frame["path"]) for frame in inner} == {("d",)}
    assert {frame["id"] for frame in inner if frame["type"] == "tool-call-start"} == {"r~2"}
