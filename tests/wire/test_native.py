"""The native protocol: what a run tells, as frames."""

from typing import Any

import msgspec
import pytest
from hypothesis import given, reject, settings
from hypothesis import strategies as st

from streamkit import (
    ApprovalRequested,
    Conversation,
    Failure,
    Intermediate,
    ModelError,
    Output,
    ReasoningDelta,
    RefusalDelta,
    RunEvent,
    TextDelta,
    ToolCall,
    ToolInputAbandoned,
    ToolInputAvailable,
    ToolInputDelta,
    ToolInputStart,
    ToolStarted,
    TurnRestarted,
    TurnStarted,
    Value,
)
from streamkit.errors import JournalError, RunStopped
from streamkit.items import ProviderTool, UnknownItem, Usage
from streamkit.journal.entry import Shown
from streamkit.journal.entry import decode as decode_entry
from streamkit.journal.entry import encode as encode_entry
from streamkit.tool_events import Pending, ToolInputField
from streamkit.turns import Turn, TurnEnded
from streamkit.wire import native_frames
from streamkit.wire.native import NativeEncoder

from ..agent_run import Run, World
from .native_grammar import Told, check_frames, encoded, frames_of
from .runs import RUNS, Made, play

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


@settings(max_examples=60)
@given(RUNS, st.booleans(), st.booleans())
def test_the_frames_of_every_run_follow_their_grammar(made: Made, restarts: bool, hides: bool) -> None:
    recorded = play(made, restarts=restarts)
    encoder = NativeEncoder(run_id="run", redact=(lambda tool, value: value) if hides else None)
    frames = frames_of(recorded.encode(encoder))
    check_frames(frames)
    ended = {type(None): "finish", RunStopped: "stopped"}
    assert frames[-1]["type"] == ended.get(type(recorded.error), "error")


@settings(max_examples=40)
@given(RUNS)
def test_events_that_were_written_down_give_the_same_bytes(made: Made) -> None:
    recorded = play(made)
    try:
        written = [encode_entry(Shown(event)) for event in recorded.events]
    except UnicodeEncodeError:  # half a character cannot be written down
        reject()
    read = [entry.event for entry in map(decode_entry, written) if isinstance(entry, Shown)]
    end = recorded.error or recorded.state
    assert encoded(read, end) == encoded(recorded.events, end)


# Calls that go nowhere


def dropped(frames: list[Told]) -> list[tuple[str, str]]:
    return [(frame["toolCallId"], frame["reason"]) for frame in frames if frame["type"] == "tool-result"]


def test_a_call_that_the_model_never_finished_is_ended_then_dropped() -> None:
    events: list[RunEvent] = [
        ToolInputStart("c1", "f"),
        ToolInputDelta("c1", '{"a'),
        ToolInputAbandoned("c1", "incomplete", "the turn was cut"),
    ]
    assert told(events)[2:] == [
        {"type": "tool-call-end", "id": "c1", "dropped": True, "reason": "incomplete", "detail": "the turn was cut"},
        {
            "type": "tool-result", "id": "r-c1", "toolCallId": "c1", "toolName": "f", "result": "",
            "dropped": True, "reason": "incomplete", "detail": "the turn was cut",
        },
    ]  # fmt: skip


def test_a_malformed_call_is_ended_as_dropped_and_has_a_failure_for_result() -> None:
    failure = Failure("c1", "f", "invalid_input", "not an object")
    events: list[RunEvent] = [
        ToolInputStart("c1", "f"),
        ToolInputAbandoned("c1", "malformed", "more than one"),
        Output("c1", "f", failure),
    ]
    *_, end, result = told(events)
    assert (end["dropped"], end["reason"], end["detail"]) == (True, "malformed", "more than one")
    assert (result["error"], result["result"]) == ({"kind": "invalid_input", "message": "not an object"}, "")
    assert "dropped" not in result


def test_a_malformed_call_that_nobody_answers_is_dropped() -> None:
    malformed: list[RunEvent] = [ToolInputStart("c1", "f"), ToolInputAbandoned("c1", "malformed", "no object")]
    call = ToolCall("c1", "f", "[]", "t", 0, "no object")
    kept = TurnEnded(Turn("t", "m", (call,), "tool_calls"))
    frames = told([TurnStarted("t", "m"), *malformed, kept], ModelError("no capacity"))
    assert types(frames)[-2:] == ["turn-end", "tool-result"]
    assert dropped(frames) == [("c1", "malformed")]
    forbidden = TurnEnded(Turn("t", "m", (msgspec.structs.replace(call, abandoned="discarded"),)))
    frames = told([TurnStarted("t", "m"), *malformed, forbidden])
    assert types(frames)[-2:] == ["tool-result", "turn-end"]
    assert dropped(frames) == [("c1", "discarded")]


@pytest.mark.parametrize("end", [None, ModelError("no capacity"), RunStopped("enough")])
def test_what_never_ran_is_dropped_at_the_end_and_what_waits_or_runs_is_kept(end: object) -> None:
    events: list[RunEvent] = [
        TextDelta("I look"),
        *[ToolInputStart(call_id, "f") for call_id in ("writing", "whole", "waits", "runs")],
        *[ToolInputAvailable(call_id, "{}") for call_id in ("whole", "waits", "runs")],
        ApprovalRequested("t.2", "waits", "f", {}),
        ToolStarted("t.3", "runs", "f", {}),
        Intermediate("runs", "f", event=TextDelta("inside")),
        Intermediate("runs", "f", event=ToolInputStart("whole", "g")),
    ]
    frames = told(events, end)
    assert dropped(frames) == [("writing", "incomplete"), ("whole", "discarded"), ("whole~2", "incomplete")]
    assert frames[-1]["path"] == ["runs"]


def test_a_call_that_waits_unasked_is_kept() -> None:
    turn = Turn("t", items=(ToolCall("c1", "f", "{}", "t", 0), ToolCall("c2", "f", "{}", "t", 1)))
    state = Conversation().take(turn).settle([Pending("c1", "f")])
    events: list[RunEvent] = [ToolInputStart("c1", "f"), ToolInputAvailable("c1", "{}")]
    frames = told_all(events, state)
    assert dropped(frames) == []
    assert (frames[-1]["ended"], frames[-1]["pending"]) == ("pending", ["t.0", "t.1"])


def test_what_a_call_leaves_open_inside_of_it_ends_with_it() -> None:
    inner: list[RunEvent] = [
        TurnStarted("i", "m"),
        ToolInputStart("a", "g"),
        ToolInputAvailable("a", "{}"),
        ToolStarted("t.0/i.0", "a", "g", {}),
        Intermediate("a", "g", event=TextDelta("deep")),
        ToolInputStart("b", "g"),
    ]
    events: list[RunEvent] = [
        ToolStarted("t.0", "c1", "f", {}),
        *[Intermediate("c1", "f", event=event) for event in inner],
        Output("c1", "f", Failure("c1", "f", "timeout", "f took too long.")),
    ]
    *_, text_end, call_end, result, last = told(events)
    assert (text_end["type"], text_end["path"]) == ("text-end", ["c1", "a"])
    assert (call_end["type"], call_end["id"]) == ("tool-call-end", "b")
    assert (result["toolCallId"], result["detail"]) == ("b", "the call around it has ended")
    assert last["toolCallId"] == "c1"


def test_a_restart_takes_the_calls_back_then_says_so() -> None:
    events: list[RunEvent] = [
        TurnStarted("t", "m"),
        TextDelta("a"),
        ToolInputStart("c1", "f"),
        ToolInputAbandoned("c1", "retried"),
        TurnRestarted("the stream broke"),
        ToolInputStart("c1", "f"),
    ]
    frames = told(events)
    assert dropped(frames) == [("c1", "retried"), ("c1~2", "incomplete")]
    assert {"type": "turn-restart", "reason": "the stream broke"} in frames


# What is in a frame


def test_reasoning_refusals_and_what_providers_run_have_frames_of_their_own() -> None:
    events: list[RunEvent] = [
        TurnStarted("t", "m"),
        ReasoningDelta("so"),
        ReasoningDelta("in short", "summary"),
        RefusalDelta("no"),
        UnknownItem({"x": 1}, "gemini"),
        ProviderTool("s", "search", {"q": 1}, None, "web_search", {"gemini": {"signature": "opaque"}}),
        TurnEnded(Turn("t", "m", (), "refusal", "REFUSED", Usage(3, 2))),
    ]
    usage = {"inputTokens": 3, "outputTokens": 2, "cachedTokens": 0, "reasoningTokens": 0}
    assert told(events) == [
        {"type": "turn-start", "id": "t", "model": "m"},
        {"type": "reasoning-start", "id": "reasoning-1", "kind": "trace"},
        {"type": "reasoning-delta", "id": "reasoning-1", "delta": "so"},
        {"type": "reasoning-end", "id": "reasoning-1"},
        {"type": "reasoning-start", "id": "reasoning-2", "kind": "summary"},
        {"type": "reasoning-delta", "id": "reasoning-2", "delta": "in short"},
        {"type": "reasoning-end", "id": "reasoning-2"},
        {"type": "refusal-start", "id": "refusal-3"},
        {"type": "refusal-delta", "id": "refusal-3", "delta": "no"},
        {"type": "unknown", "item": {"x": 1}, "dialect": "gemini"},
        {"type": "refusal-end", "id": "refusal-3"},
        {
            "type": "provider-tool", "id": "s", "toolName": "search", "input": {"q": 1}, "output": None,
            "kind": "web_search",
        },
        {"type": "turn-end", "id": "t", "stopReason": "refusal", "stopWord": "REFUSED", "usage": usage},
    ]  # fmt: skip


def test_arguments_that_contradict_their_pieces_are_told_at_the_end() -> None:
    events: list[RunEvent] = [
        ToolInputStart("c1", "f"),
        ToolInputDelta("c1", '{"a":1'),
        ToolInputAvailable("c1", '{"a":2}'),
    ]
    assert told(events)[2] == {"type": "tool-call-end", "id": "c1", "argsText": '{"a":2}'}


def test_the_usage_of_inner_runs_is_told_with_their_call() -> None:
    (frame,) = told([Output("c1", "f", Value("c1", "f", None, "null", Usage(3)))])
    assert (frame["result"], frame["usage"]["inputTokens"]) == (None, 3)


def test_text_is_valid_whatever_is_in_it() -> None:
    text = "a\nb\u2028c\U0001f600\r\n\r\ndata: x\n\n\x00"
    call_id = half = "\ud83d"
    frames = told([TextDelta(text), TextDelta(half), ToolInputStart(call_id, "f"), ToolInputDelta(call_id, half)])
    assert [frame["delta"] for frame in frames if frame["type"] == "text-delta"] == [text, "\ufffd"]
    assert frames[5] == {"type": "tool-call-delta", "id": "\ufffd", "argsTextDelta": "\ufffd"}


def test_a_huge_value_goes_out_as_its_beginning() -> None:
    huge = "é" * 25_000_000
    output = Output("c1", "f", Value("c1", "f", huge, huge))
    progress, result = told([ToolStarted("t.0", "c1", "f", {}), Intermediate("c1", "f", {"page": huge}), output])[1:]
    assert (progress["data"]["truncated"], progress["data"]["bytes"]) == (True, 50_000_011)
    assert progress["data"]["head"].startswith('{"page":"éé')
    assert result["result"] == {"truncated": True, "bytes": 50_000_002, "head": "é" * 1024}
    assert result["text"] == "é" * 1024 + "… (the first of 50,000,000 bytes)"


def test_a_limit_of_ones_own_counts_each_value() -> None:
    started = ToolStarted("t.0", "c1", "f", {})
    shown = [Intermediate("c1", "f", "x" * 98), Intermediate("c1", "f", "x" * 99)]
    frames = told([started, *shown], value_limit_bytes=100)[1:]
    assert frames[0]["data"] == "x" * 98
    assert frames[1]["data"]["bytes"] == 101


# The end


def test_an_error_is_told_as_data_and_nothing_follows_it() -> None:
    encoder = NativeEncoder(run_id="run")
    body = encoder.open() + encoder.event(TextDelta("Hi")) + encoder.error(ModelError("no capacity"))
    frames = frames_of(body)
    check_frames(frames)
    assert frames[-1] == {"type": "error", "message": "no capacity", "code": "model_error"}
    assert encoder.end(None) + encoder.error(ModelError("again")) == b""


def test_a_bug_is_told_without_its_words() -> None:
    for error in (KeyError("/etc/secret"), JournalError("runs.db is locked"), BaseExceptionGroup("", [KeyError()])):
        assert told_all([], error)[-1] == {
            "type": "error", "message": "the run failed with an internal error", "code": "internal_error",
        }  # fmt: skip


def test_a_run_that_was_stopped_says_why() -> None:
    assert told_all([], RunStopped("enough"))[-1] == {"type": "stopped", "reason": "enough"}


# Fields


def fields_of(frames: list[Told]) -> list[tuple[Any, ...]]:
    return [(frame.get("path"), frame["field"], frame["text"]) for frame in frames if frame["type"] == "tool-field"]


def test_fields_follow_their_delta_and_stand_before_the_end() -> None:
    pieces = ('{"a":"x', 'y"', ',"n":1}')
    events: list[RunEvent] = [ToolInputStart("c", "f"), *(ToolInputDelta("c", piece) for piece in pieces)]
    frames = told([*events, ToolInputAvailable("c", "".join(pieces))], fields=True)
    assert types(frames)[:-1] == ["tool-call-start", *("tool-call-delta", "tool-field") * 3, "tool-call-end"]
    assert fields_of(frames) == [(None, ["a"], "x"), (None, ["a"], "y"), (None, ["n"], "1")]


def test_calls_of_inner_runs_have_fields_too_and_none_comes_twice() -> None:
    inner: list[RunEvent] = [
        ToolInputStart("c", "g"),
        ToolInputDelta("c", '{"a":1}'),
        ToolInputField("c", ("a",), "1"),
        ToolInputAvailable("c", '{"a":1}'),
    ]
    outer: list[RunEvent] = [ToolInputStart("c", "f"), ToolInputDelta("c", '{"b":2}')]
    outer += [ToolInputAvailable("c", '{"b":2}'), ToolStarted("t.0", "c", "f", {"b": 2})]
    frames = told([*outer, *(Intermediate("c", "f", event=each) for each in inner)], fields=True)
    assert fields_of(frames) == [(None, ["b"], "2"), (["c"], ["a"], "1")]


def test_fields_show_no_more_than_may_be_seen() -> None:
    events: list[RunEvent] = [ToolInputStart("c", "f"), ToolInputDelta("c", '{"key":"s3')]
    events += [ToolInputDelta("c", 'cret"}'), ToolInputAvailable("c", '{"key":"s3cret"}')]
    frames = told(events, fields=True, redact=lambda tool, value: {"key": "***"})
    assert fields_of(frames) == [(None, ["key"], "***")]
