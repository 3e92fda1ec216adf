"""Any stream at all of the Messages API."""

from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from streamkit.errors import ModelError
from streamkit.providers.anthropic_decoder import AnthropicDecoder
from streamkit.testing.cuts import random_cut

from ..streams import assert_consistent, outcome, same
from .anthropic_events import begin, delta, end, read, sse, stop

TEXTS = st.sampled_from(["", "a", "é", "\ud83d", "\ude00", "{", "\n"])
INPUT = st.sampled_from(["{", "}", '"k":', '"', "1", "", "null", "{}", '{"k":1}', '{"k":1}{"k":1}', {"k": 1}, None])
INDEXES = st.sampled_from([0, 0, 1, 2, None])
KINDS = st.sampled_from(["text", "thinking", "redacted_thinking", "tool_use", "server_tool_use", "new"])
EVENTS: st.SearchStrategy[dict[str, Any]] = (
    st.builds(
        begin,
        INDEXES,
        KINDS,
        id=st.sampled_from(["a", "b", "", 3]),
        name=st.sampled_from(["f", "", None]),
        input=st.sampled_from([{}, {"k": 1}, "", None, [1]]),
        text=TEXTS,
        thinking=TEXTS,
    )
    | st.builds(lambda index, piece: delta(index, "text", text=piece), INDEXES, TEXTS)
    | st.builds(lambda index, piece: delta(index, "thinking", thinking=piece), INDEXES, TEXTS)
    | st.builds(lambda index, piece: delta(index, "signature", signature=piece), INDEXES, TEXTS)
    | st.builds(lambda index, piece: delta(index, "citations", citation=piece), INDEXES, TEXTS)
    | st.builds(lambda index, piece: delta(index, "input_json", partial_json=piece), INDEXES, INPUT)
    | st.builds(stop, INDEXES)
    | st.builds(lambda word: end(word)[0], st.sampled_from(["end_turn", "tool_use", "max_tokens", "new", None]))
)
FAULTS = st.sampled_from(
    [b""] * 9 + [sse({"type": "error", "error": {}}), b"data: {\n\n", b": ping\n\n", b"foo: bar\n\n", b"\xff"]
)


ENDS = st.sampled_from([b"", sse({"type": "message_stop"}), b"data: [DONE]\n\n"])
BODIES = st.tuples(st.lists(EVENTS, max_size=14), FAULTS, st.lists(EVENTS, max_size=2), ENDS).map(
    lambda parts: sse(*parts[0]) + parts[1] + sse(*parts[2]) + parts[3]
)


@settings(max_examples=200)
@given(BODIES, st.integers(0, 9), st.data())
def test_any_stream_keeps_the_grammar_of_tool_input_in_any_cut(body: bytes, seed: int, data: st.DataObject) -> None:
    if data.draw(st.integers(0, 3), label="whole, unless 0") == 0:
        body = body[: data.draw(st.integers(0, len(body)), label="broken off at")]
    found = outcome(AnthropicDecoder(), [body], ["f"])
    assert same(outcome(AnthropicDecoder(), random_cut(body, seed), ["f"]), found)
    assert_consistent(found)


KEYS = [
    "type", "index", "delta", "content_block", "message", "usage", "text", "thinking", "partial_json", "signature",
    "citation", "citations", "stop_reason", "stop_details", "id", "name", "input", "tool_use_id", "content", "error",
    "input_tokens", "output_tokens_details",
]  # fmt: skip
WORDS = [
    "content_block_start", "content_block_delta", "content_block_stop", "message_delta", "text_delta", "tool_use",
    "input_json_delta", "signature_delta", "citations_delta", "server_tool_use", "new_tool_result", "text", "thinking",
]  # fmt: skip
ANY_JSON: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers(-2, 2**65) | st.floats() | st.text("ab\ud83d", max_size=3)
    | st.sampled_from(WORDS),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(KEYS), inner, max_size=4),
    max_leaves=12,
)  # fmt: skip
ODD_EVENTS = st.tuples(EVENTS, st.dictionaries(st.sampled_from(KEYS), ANY_JSON, max_size=2), st.booleans()).map(
    lambda parts: (
        {**parts[0], **parts[1]}
        if parts[2]
        else {key: {**value, **parts[1]} if isinstance(value, dict) else value for key, value in parts[0].items()}
    )
)


@given(st.lists(ANY_JSON | ODD_EVENTS, max_size=6))
def test_no_json_breaks_the_decoder(events: list[Any]) -> None:
    found = read(*events, *end())
    assert found.error is None or isinstance(found.error, ModelError)
    assert_consistent(found)


@given(st.binary(max_size=60))
def test_no_bytes_break_the_decoder(body: bytes) -> None:
    found = outcome(AnthropicDecoder(), [body])
    assert isinstance(found.error, ModelError) or b"[DONE]" in body  # which alone ends a turn, an empty one
    assert found.turn is None or not found.turn.items
