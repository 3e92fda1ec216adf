"""The words for the reason to stop: those of other servers, in any letters, are read by every dialect."""

import json
from typing import Any

import pytest

from streamkit.providers.decoders import DECODERS
from streamkit.testing import decode
from streamkit.testing.decoders import check_decoder

CALL = {"name": "get", "arguments": "{}"}


def sse(*events: Any) -> bytes:
    return b"".join(f"data: {json.dumps(event)}\n\n".encode() for event in events)


def body(dialect: str, word: str) -> bytes:
    """An answer with one whole call that ends with this word."""
    if dialect == "openai-chat":
        delta = {"tool_calls": [{"index": 0, "id": "a", "function": CALL}]}
        return sse({"choices": [{"delta": delta}]}, {"choices": [{"delta": {}, "finish_reason": word}]})
    if dialect == "anthropic":
        block = {"type": "tool_use", "id": "a", "name": "get", "input": {}}
        return sse(
            {"type": "content_block_start", "index": 0, "content_block": block},
            {"type": "content_block_stop", "index": 0},
            {"type": "message_delta", "delta": {"stop_reason": word}},
            {"type": "message_stop"},
        )
    if dialect == "gemini":
        parts = [{"functionCall": {"name": "get", "args": {}}}]
        return sse({"candidates": [{"content": {"parts": parts}, "finishReason": word}]})
    message = {"content": "", "tool_calls": [{"function": CALL}]}
    return json.dumps({"message": message, "done": True, "done_reason": word}).encode() + b"\n"


@pytest.mark.parametrize("dialect", ["openai-chat", "anthropic", "gemini", "ollama"])
@pytest.mark.parametrize(
    ("word", "stop"),
    [
        ("length", "length"),
        ("MAX_TOKENS", "length"),
        ("max_output_tokens", "length"),
        ("model_context_window_exceeded", "length"),
        ("time_limit", "length"),
        ("content_filter", "content_filter"),
        ("SAFETY", "content_filter"),
        ("guardrail_intervened", "content_filter"),
        ("content_filter: RECITATION", "content_filter"),
        ("refusal", "refusal"),
        ("abort", "error"),
        ("ERROR", "error"),
        ("malformed_function_call", "error"),
        ("a_new_one: a_newer_one", "tool_calls"),
        ("TOOL_CALL", "tool_calls"),
        ("eos_token", "tool_calls"),
        ("a_new_one", "tool_calls"),
    ],
)
def test_the_words_of_other_servers_are_read(dialect: str, word: str, stop: str) -> None:
    found = decode(dialect, [body(dialect, word)])
    assert (found["stop"], found["stop_reason"]) == (stop, word)
    assert [call["name"] for call in found["tool_calls"]] == ["get"] * (stop == "tool_calls")
    assert (found["error"] is not None) == (stop == "error")
    check_decoder(DECODERS[dialect], body(dialect, word))


@pytest.mark.parametrize("dialect", ["openai-chat", "anthropic", "gemini", "ollama"])
@pytest.mark.parametrize(
    ("word", "kind"),
    [
        ("MALFORMED_FUNCTION_CALL", "bad_model_output"),
        ("malformed_function_call", "bad_model_output"),
        ("function_call_filter: MALFORMED_FUNCTION_CALL", "bad_model_output"),
        ("malformed_tool_use", "bad_model_output"),
        ("error", "provider_error"),
    ],
)
def test_a_call_that_the_model_wrote_badly_is_told_as_such_by_every_dialect(dialect: str, word: str, kind: str) -> None:
    found = decode(dialect, [body(dialect, word)])
    assert found["error"] == {"kind": kind, "message": f"the provider ended the turn with the word {word}"}
