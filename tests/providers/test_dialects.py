"""What holds for every dialect: recorded streams and reported cases give what is expected, however they are cut."""

import copy
import json
from collections.abc import Callable
from typing import Any

import pytest

from streamkit.errors import BadPayload, ProviderError
from streamkit.items import UnknownItem
from streamkit.providers.decoders import DECODERS
from streamkit.providers.model import Decoder
from streamkit.testing import decode
from streamkit.testing.decoders import check_decoder

from ..streams import (
    assert_consistent,
    assert_expected,
    assert_recorded,
    case_body,
    cases,
    outcome,
    recorded_body,
    recordings,
    same,
    some_cuts,
)

CASES = {
    "openai-chat": ["stream_framing.json", "stream_openai_chat.json"],
    "openai-responses": ["stream_openai_responses.json"],
    "anthropic": ["stream_anthropic_messages.json"],
    "gemini": ["stream_gemini.json"],
    "ollama": ["stream_ollama_chat.json"],
}


def reported() -> list[Any]:
    return [
        pytest.param(dialect, *case.values, id=f"{dialect}-{case.id}")
        for dialect, files in CASES.items()
        if dialect in DECODERS
        for file in files
        for case in cases(file)
    ]


def recorded() -> list[Any]:
    return [pytest.param(dialect, *entry.values, id=entry.id) for dialect in DECODERS for entry in recordings(dialect)]


@pytest.mark.parametrize(("dialect", "case"), reported())
def test_a_reported_stream_gives_what_is_expected_in_any_cut(dialect: str, case: dict[str, Any]) -> None:
    pieces = case_body(case)
    tools = case["input"].get("tools", ())
    found = outcome(DECODERS[dialect](), pieces, tools)
    assert_expected(case, found)
    assert_consistent(found)
    for cut in some_cuts(b"".join(pieces), 200):
        assert same(outcome(DECODERS[dialect](), cut, tools), found)


@pytest.mark.parametrize(("dialect", "entry"), recorded())
def test_a_recorded_stream_gives_what_is_expected_in_any_cut(dialect: str, entry: dict[str, Any]) -> None:
    body = recorded_body(entry)
    found = outcome(DECODERS[dialect](), [body])
    assert_recorded(entry, found)
    assert_consistent(found)
    for cut in some_cuts(body, 12):
        assert same(outcome(DECODERS[dialect](), cut), found)


@pytest.mark.parametrize(("dialect", "entry"), recorded())
def test_a_recorded_stream_that_ends_early_runs_no_call(dialect: str, entry: dict[str, Any]) -> None:
    body = recorded_body(entry)
    for end in range(0, len(body), max(1, len(body) // 40)):
        found = outcome(DECODERS[dialect](), [body[:end]])
        assert_consistent(found)
        if found.error is not None:
            assert not found.turn.calls


@pytest.mark.parametrize(("dialect", "entry"), recorded())
def test_the_object_of_a_recorded_stream_has_the_expected_keys(dialect: str, entry: dict[str, Any]) -> None:
    expected, told = entry["expected"], decode(dialect, [recorded_body(entry)])
    for key in ("text", "refusal", "stop_reason"):
        assert told[key] == expected[key]
    assert told["reasoning"] == (expected["reasoning"] or "")
    assert [(item["id"], item["type"], item["name"]) for item in told["other_items"]] == [
        (item["id"], item["type"], item["name"]) for item in expected["other_items"]
    ]
    may_run = [call for call in expected["tool_calls"] if call["arguments"] is not None]
    assert [(call["name"], call["arguments"], call.get("kind")) for call in told["tool_calls"]] == [
        (call["name"], call["arguments"], call.get("kind")) for call in may_run
    ]
    raws = [call["raw"] for call in told["abandoned"] + told["invalid_calls"]]
    assert raws == [call["arguments_raw"] for call in expected["tool_calls"] if call["arguments"] is None]


@pytest.mark.parametrize("decoder", DECODERS.values(), ids=DECODERS.keys())
@pytest.mark.parametrize("body", [b"", b"\n", b"<html><title>Oops</title>", b'{"error": "no"}', b"\xff\xfe\x00", b"{}"])
def test_a_body_that_is_no_turn_ends_in_an_error(decoder: Callable[[], Decoder], body: bytes) -> None:
    for cut in some_cuts(body, 3):
        found = outcome(decoder(), cut)
        assert found.error is not None
        assert found.turn.stop_reason == "error"
        assert not found.turn.calls


TEXTS: dict[str, list[Any]] = {
    "openai-chat": [
        {"choices": [{"delta": {"content": "ke"}}]},
        {"choices": [{"delta": {"content": "pt"}, "finish_reason": "stop"}]},
    ],
    "openai-responses": [
        {"type": "response.output_text.delta", "output_index": 0, "content_index": 0, "delta": "ke"},
        {"type": "response.output_text.delta", "output_index": 0, "content_index": 0, "delta": "pt"},
        {"type": "response.completed", "response": {"status": "completed"}},
    ],
    "anthropic": [
        {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": "ke"}},
        {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "pt"}},
        {"type": "message_delta", "delta": {"stop_reason": "end_turn"}},
        {"type": "message_stop"},
    ],
    "gemini": [
        {"candidates": [{"content": {"parts": [{"text": "ke"}]}}]},
        {"candidates": [{"content": {"parts": [{"text": "pt"}]}, "finishReason": "STOP"}]},
    ],
}


@pytest.mark.parametrize("dialect", TEXTS)
@pytest.mark.parametrize(
    "form",
    ["data: {}\n", "event: message\ndata: {}\n", "data: data: {}\n\n", "data: {}\r\n", "data: {}\ndata: ping\ndata:\n"],
)
@pytest.mark.parametrize("tail", ["", "data: [DONE]\n", "\ndata: ping\n\n", "data"])
def test_events_without_blank_lines_between_them_are_read(dialect: str, form: str, tail: str) -> None:
    body = "".join(form.replace("{}", json.dumps(event)) for event in TEXTS[dialect]).encode() + tail.encode()
    check_decoder(DECODERS[dialect], body)
    found = outcome(DECODERS[dialect](), [body])
    assert (found.turn.text, found.turn.stop_reason) == ("kept", "stop")


@pytest.mark.parametrize("dialect", TEXTS)
def test_what_came_before_a_cut_is_read_without_blank_lines_too(dialect: str) -> None:
    first, *_ = TEXTS[dialect]
    found = outcome(DECODERS[dialect](), [f"data: {json.dumps(first)}\ndata: {{".encode()])
    assert (found.turn.text, found.turn.stop_reason) == ("ke", "error")


@pytest.mark.parametrize("dialect", TEXTS)
@pytest.mark.parametrize("sign", ["ping", "PING", "keep-alive", ""])
def test_a_sign_of_life_is_nothing_else(dialect: str, sign: str) -> None:
    body = "".join(f"data: {json.dumps(event)}\n\ndata: {sign}\n\n" for event in TEXTS[dialect]).encode()
    found = outcome(DECODERS[dialect](), [body])
    assert (found.turn.text, found.turn.stop_reason, len(found.turn.items)) == ("kept", "stop", 1)


ODD = [
    ("openai-chat", "choices.0.index", {"a": 1}),
    ("openai-chat", "choices.0.finish_reason", {"type": "stop"}),
    ("openai-chat", "choices.0.delta.tool_calls", ""),
    ("openai-chat", "choices.1", None),
    ("openai-chat", "x_groq", "request"),
    ("anthropic", "index", "zero"),
    ("anthropic", "delta.thinking", 5),
    ("gemini", "candidates.0.index", [0]),
    ("gemini", "candidates.0.content.parts.1", None),
    ("gemini", "usageMetadata", "none"),
    ("gemini-json-array", "candidates.1", 7),
]
EVENTS: dict[str, Any] = {
    "openai-chat": {"choices": [{"delta": {"content": "kept"}}]},
    "anthropic": {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "kept"}},
    "gemini": {"candidates": [{"content": {"parts": [{"text": "kept"}]}}]},
}


def framed(dialect: str, event: Any) -> bytes:
    text = json.dumps(event)
    return f"[{text}]".encode() if dialect == "gemini-json-array" else f"data: {text}\n\n".encode()


@pytest.mark.parametrize(("dialect", "place", "value"), ODD)
def test_a_field_of_another_shape_costs_nothing_else(dialect: str, place: str, value: Any) -> None:
    event = copy.deepcopy(EVENTS[dialect.removesuffix("-json-array")])
    *way, last = [int(step) if step.isdigit() else step for step in place.split(".")]
    holder = event
    for step in way:
        holder = holder[step]
    if isinstance(last, int):
        holder.insert(last, value)
    else:
        holder[last] = value
    found = outcome(DECODERS[dialect](), [framed(dialect, event)])
    assert found.turn.text == "kept"
    (odd,) = [item.item for item in found.turn.items if isinstance(item, UnknownItem)]
    assert list(odd.values()) == [value]


@pytest.mark.parametrize(
    ("dialect", "event"),
    [
        ("openai-chat", {"choices": [{"delta": {"content": "kept", "tool_calls": {"function": "get"}}}]}),
        ("openai-chat", {"choices": [{"delta": {"content": "kept", "tool_calls": [{"function": "get"}]}}]}),
        ("gemini", {"candidates": [{"content": {"parts": [{"text": "kept"}, {"functionCall": "get()"}]}}]}),
        (
            "gemini",
            {"candidates": [{"content": {"parts": [{"text": "kept"}, {"functionCall": {"partialArgs": {"a": 1}}}]}}]},
        ),
    ],
)
def test_a_piece_of_a_call_that_cannot_be_read_ends_the_turn(dialect: str, event: Any) -> None:
    found = outcome(DECODERS[dialect](), [framed(dialect, event)])
    assert (type(found.error), found.turn.text) == (BadPayload, "kept")
    assert "a piece of a call" in str(found.error)


def test_a_call_with_a_hole_does_not_run() -> None:
    def piece(calls: Any) -> bytes:
        return framed("openai-chat", {"choices": [{"delta": {"tool_calls": calls}}]})

    begin = piece([{"index": 0, "id": "a", "function": {"name": "read", "arguments": '{"path": "/a'}}])
    hole = piece([{"index": 0, "function": "/b"}])
    rest = piece([{"index": 0, "function": {"arguments": '/c"}'}}])
    found = outcome(DECODERS["openai-chat"](), [begin, hole, rest, b"data: [DONE]\n\n"])
    assert (type(found.error), found.turn.calls) == (BadPayload, ())


@pytest.mark.parametrize("dialect", ["openai-chat", "anthropic", "gemini", "ollama"])
@pytest.mark.parametrize(
    "told",
    [
        {"error": {"message": "no"}},
        {"errors": [{"message": "no"}]},
        {"message": "no", "code": 500},
        {"message": "no"},
        {"status": "error", "message": "no"},
        {"error_code": 336, "error_msg": "no"},
        {"type": "overloaded_error", "message": "no"},
        {"type": "exception", "message": "no"},
        {"throttlingException": {"message": "no"}},
        {"detail": "no"},
        [{"error": {"message": "no", "status": "UNAVAILABLE"}}],
    ],
)
def test_an_error_of_any_shape_ends_the_turn(dialect: str, told: Any) -> None:
    body = json.dumps(told).encode()
    first = b'{"message": {"content": ""}}\n' if dialect == "ollama" else b""
    found = outcome(DECODERS[dialect](), [first, body + b"\n" if dialect == "ollama" else b"data: " + body + b"\n\n"])
    assert isinstance(found.error, ProviderError)
    assert str(found.error).startswith("no")
