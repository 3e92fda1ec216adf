"""Shared by the tests of decoders: what comes out of them, and where the recorded streams and the cases lie."""

import json
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, Protocol, TypeVar

import pytest

from streamkit.items import Message, Reasoning, ToolCall
from streamkit.testing.cuts import random_cut
from streamkit.testing.decoders import Outcome, check_outcome, outcome, same
from streamkit.turns import (
    TextDelta,
    ToolInputAbandoned,
    ToolInputAvailable,
    ToolInputDelta,
    ToolInputStart,
    TurnEvent,
)

__all__ = ["Outcome", "outcome", "same"]  # beside what is defined here

assert_consistent = check_outcome

SHARED = Path(__file__).parent.parent.parent / "shared"

R_co = TypeVar("R_co", covariant=True)
R = TypeVar("R")


class SansIO(Protocol[R_co]):
    """Whatever decodes bytes."""

    def feed(self, data: bytes, /) -> Sequence[R_co]: ...

    def end(self) -> Sequence[R_co]: ...


def decode(decoder: SansIO[R], pieces: Iterable[bytes]) -> list[R]:
    """All records that a decoder makes of a body."""
    return [record for piece in pieces for record in decoder.feed(piece)] + list(decoder.end())


def read_arguments(call: ToolCall) -> Any:
    """The arguments of a whole call; those of a custom one are plain text."""
    return call.arguments if call.custom else json.loads(call.arguments)


# The cases: README.md beside them says what their fields mean


def cases(name: str) -> list[Any]:
    """The cases of one file, as parameters named by their ids; none where the folder is absent."""
    path = SHARED / "cases" / name
    found = json.loads(path.read_text("utf-8")) if path.exists() else []
    return [pytest.param(case, id=case["id"]) for case in found]


def case_body(case: dict[str, Any]) -> list[bytes]:
    """The body of a case, in the pieces that the case gives it in."""
    given = case["input"]
    if "chunks_hex" in given:
        return [bytes.fromhex(piece) for piece in given["chunks_hex"]]
    if "chunks" in given:
        return [piece.encode() for piece in given["chunks"]]
    return [f"{line}\n".encode() for line in given["lines"]]


def some_cuts(body: bytes, count: int) -> list[list[bytes]]:
    """Whole, by lines, one byte at a time, and so many random cuttings."""
    lines = body.splitlines(keepends=True)
    return [[body], lines, [body[at : at + 1] for at in range(len(body))]] + [
        random_cut(body, seed) for seed in range(count)
    ]


def assert_expected(case: dict[str, Any], found: Outcome) -> None:
    """Compare an outcome with what a case expects."""
    actual = as_case(found)
    for key, expected in case["expect"].items():
        if key == "events":
            assert_events(expected, found.events)
        elif key != "replay":
            assert matches(expected, actual[key], key), f"{key}: expected {expected}, got {actual[key]}"


def as_case(found: Outcome) -> dict[str, Any]:
    """An outcome in the words of the cases."""
    turn = found.turn
    runnable = [call for call in turn.calls if call.problem is None]
    invalid = [call for call in turn.calls if call.problem is not None]
    announced = {event.call_id for event in found.events if isinstance(event, ToolInputStart)}
    return {
        "text": turn.text,
        "reasoning": "".join(item.text for item in turn.items if isinstance(item, Reasoning)),
        "tool_calls": [{"id": call.call_id, "name": call.name, "arguments": read_arguments(call)} for call in runnable],
        "abandoned": [
            {"id": call.call_id, "reason": call.abandoned} for call in turn.dropped if call.call_id in announced
        ],
        "invalid_calls": [{"id": call.call_id, "name": call.name or None, "raw": call.arguments} for call in invalid],
        "stop_reason": turn.stop_reason,
        "error": None if found.error is None else found.error.kind,
        "usage": {"input": turn.usage.input_tokens, "output": turn.usage.output_tokens},
        "empty": not turn.items,
        "order": [ORDER.get(type(item)) or getattr(item, "call_id", None) for item in turn.items],
    }


ORDER: dict[type, str] = {Message: "text", Reasoning: "reasoning"}
MAY_BE_A_CHOICE = ("stop_reason", "error", "text", "id", "reason")


def matches(expected: Any, actual: Any, key: str = "") -> bool:
    """Whether a value is what a case expects; a list in place of a single value is a choice, `*` any id."""
    if key in MAY_BE_A_CHOICE and isinstance(expected, list):
        return actual in expected
    if key == "id" and expected == "*":
        return bool(actual)
    if key == "arguments":
        return bool(expected == actual)
    if isinstance(expected, dict):
        return all(matches(value, actual.get(name), name) for name, value in expected.items())
    if isinstance(expected, list):
        return len(expected) == len(actual) and all(map(matches, expected, actual))
    return bool(expected == actual)


def assert_events(expected: list[dict[str, Any]], events: list[TurnEvent]) -> None:
    """The expected events come in this order, others between them; the deltas of a call join to the same text."""
    neutral = [as_neutral(event) for event in events]
    deltas: dict[str, str] = {}
    wanted: dict[str, str] = {}
    for event in neutral:
        if event.get("type") == "tool_input_delta":
            deltas[event["id"]] = deltas.get(event["id"], "") + event["delta"]
    rest = iter(neutral)
    for event in expected:
        if event["type"] == "tool_input_delta":
            wanted[event["id"]] = wanted.get(event["id"], "") + event["delta"]
        else:
            assert any(matches(event, other) for other in rest), f"{event} is missing, or out of order"
    for call_id, text in wanted.items():
        assert deltas[call_id] == text


def as_neutral(event: TurnEvent) -> dict[str, Any]:
    match event:
        case ToolInputStart(call_id, tool):
            return {"type": "tool_input_start", "id": call_id, "name": tool}
        case ToolInputDelta(call_id, delta):
            return {"type": "tool_input_delta", "id": call_id, "delta": delta}
        case ToolInputAvailable(call_id, arguments):
            return {"type": "tool_input_available", "id": call_id, "arguments": json.loads(arguments)}
        case ToolInputAbandoned(call_id, reason):
            return {"type": "tool_input_abandoned", "id": call_id, "reason": reason}
        case TextDelta(text):
            return {"type": "text_delta", "text": text}
    return {}


# The recorded streams: README.md beside them says what their index holds


def recordings(dialect: str) -> list[Any]:
    """The recorded streams of a dialect, as parameters named by their files; none where the folder is absent."""
    path = SHARED / "corpus" / "streams" / "index.json"
    found = json.loads(path.read_text("utf-8")) if path.exists() else []
    return [pytest.param(entry, id=entry["file"]) for entry in found if entry["dialect"] == dialect]


def recorded_body(entry: dict[str, Any]) -> bytes:
    return (SHARED / "corpus" / "streams" / str(entry["file"])).read_bytes()


def assert_recorded(entry: dict[str, Any], found: Outcome) -> None:
    """Compare an outcome with what the index of the recordings expects."""
    expected, turn = entry["expected"], found.turn
    assert turn.text == expected["text"]
    assert "".join(item.text for item in turn.items if isinstance(item, Reasoning)) == (expected["reasoning"] or "")
    assert turn.refusal == (expected["refusal"] or "")
    assert turn.stop_word == expected["stop_reason"]
    assert (found.error is not None) == (expected["error"] is not None) or entry.get("error_allowed")
    calls = [item for item in turn.items if isinstance(item, ToolCall)]
    assert len(calls) == len(expected["tool_calls"])
    for call, wanted in zip(calls, expected["tool_calls"], strict=True):
        assert (call.call_id, call.name) == (wanted["id"] or call.call_id, wanted["name"])
        if wanted["arguments"] is None:
            assert call.problem is not None or call.abandoned is not None
            assert call.arguments == wanted["arguments_raw"]
        else:
            assert (read_arguments(call), call.problem) == (wanted["arguments"], None)
    counts = entry["expected"].get("usage_counts") or {}
    usage = turn.usage
    assert usage.input_tokens == counts.get("input", 0)
    assert usage.output_tokens in (counts.get("output", 0), counts.get("output", 0) + counts.get("reasoning", 0))
    assert usage.cached_tokens == counts.get("cached_input", usage.cached_tokens)
    assert usage.reasoning_tokens == counts.get("reasoning", usage.reasoning_tokens)
