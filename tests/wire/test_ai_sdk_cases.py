"""The cases about the UI message stream: their events, in words of no implementation, as ours, and what has to hold."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from streamkit import (
    Intermediate,
    Output,
    TextDelta,
    ToolInputAbandoned,
    ToolInputAvailable,
    ToolInputDelta,
    ToolInputStart,
    ToolStarted,
    Turn,
    TurnEnded,
    Value,
)
from streamkit.errors import ProviderError
from streamkit.tool_events import RunEvent
from streamkit.wire.ai_sdk import AiSdkEncoder

from .runs import Recorded
from .ui_client import UiClient, chunks_of

CASES = Path(__file__).parents[3] / "shared" / "cases" / "wire.json"
pytestmark = pytest.mark.skipif(not CASES.exists(), reason="the cases are not there")


def body_of(case_id: str) -> bytes:
    """The events of a case as the encoder tells them; and what every case says."""
    (case,) = (case for case in json.loads(CASES.read_text("utf-8")) if case["id"] == case_id)
    told = case["input"]["events"]
    errors = [ProviderError(each["message"]) for each in told if each["type"] == "error"]
    recorded = Recorded(list(ours(told)), error=errors[0] if errors else None)
    body = recorded.encode(AiSdkEncoder(run_id="m1"))
    UiClient().read(body)
    return body


def ours(told: list[dict[str, Any]]) -> Iterator[RunEvent]:
    tools: dict[str, str] = {}
    started: set[str] = set()
    for each in told:
        call_id = each.get("id", "")
        if each["type"] in ("tool_intermediate", "tool_output") and call_id not in started:
            started.add(call_id)
            yield ToolStarted(f"t.{len(started)}", call_id, tools[call_id], {})
        match each["type"]:
            case "text_delta":
                yield TextDelta(each["text"].replace("\\ud83d (a single unpaired surrogate code point)", "\ud83d"))
            case "tool_input_start":
                tools[call_id] = each["name"]
                yield ToolInputStart(call_id, each["name"])
            case "tool_input_delta":
                yield ToolInputDelta(call_id, each["delta"])
            case "tool_input_available":
                yield ToolInputAvailable(call_id, json.dumps(each["arguments"]))
            case "tool_input_abandoned":
                yield ToolInputAbandoned(call_id, each["reason"])
            case "tool_intermediate":
                yield Intermediate(call_id, tools[call_id], each["data"])
            case "tool_output":
                value = Value(call_id, tools[call_id], each["output"], json.dumps(each["output"]))
                yield Output(call_id, tools[call_id], value)
            case "finish":
                yield TurnEnded(Turn("t", stop_reason=each["stop_reason"]))


def types_for(body: bytes, part_id: str) -> list[str]:
    return [chunk["type"] for chunk in chunks_of(body) if part_id in (chunk.get("id"), chunk.get("toolCallId"))]


def test_parts_have_their_start_and_their_end() -> None:
    body = body_of("wire-ui-start-before-delta")
    assert types_for(body, "text-1") == types_for(body, "text-2") == ["text-start", "text-delta", "text-end"]
    assert types_for(body, "c1") == [
        "tool-input-start", "tool-input-delta", "tool-input-available",
        "tool-output-available", "tool-output-available",
    ]  # fmt: skip
    assert [chunk["type"] for chunk in chunks_of(body)].count("finish") == 1


def test_an_error_before_anything_is_one_frame() -> None:
    chunks = chunks_of(body_of("wire-ui-error-before-any-part"))
    assert [chunk["type"] for chunk in chunks] == ["start", "error"]
    assert chunks[-1]["errorText"] == "no capacity"


def test_a_call_that_never_runs_is_closed_with_its_reason() -> None:
    body = body_of("wire-ui-abandoned-call")
    assert types_for(body, "c1")[-1] == "tool-input-error"
    assert UiClient().read(body).call("c1")["errorText"].startswith("incomplete")


def test_intermediates_are_preliminary() -> None:
    outputs = [
        (chunk["output"], chunk.get("preliminary", False))
        for chunk in chunks_of(body_of("wire-ui-intermediate"))
        if chunk["type"] == "tool-output-available"
    ]
    assert outputs == [({"p": 50}, True), ({"p": 100}, True), ("x", False)]


def test_text_comes_as_it_was_said() -> None:
    assert UiClient().read(body_of("wire-ui-newlines-and-unicode")).text == "a\nb\u2028c\U0001f600\ufffd"
