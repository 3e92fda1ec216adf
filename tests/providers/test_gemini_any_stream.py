"""Any events of Gemini at all."""

from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from streamkit.errors import ModelError
from streamkit.providers.gemini_decoder import GeminiDecoder, GeminiJsonArrayDecoder
from streamkit.testing.cuts import random_cut

from ..streams import assert_consistent, outcome, same
from .gemini_events import STOP, read, said, sse

TEXTS = st.sampled_from(["", "a", "é", "\ud83d", "\ude00", "{", "\n", None, 5])
SIGNATURES = st.sampled_from([None, None, None, "s", "", 7])
PATHS = st.sampled_from(["$.a", "$.b", "$.b.c", "$.l[0]", "$.l[1]", "$.l[0].x", "$['d e']", "$", "$[0]", "", None, 4])
VALUES: st.SearchStrategy[dict[str, Any]] = st.fixed_dictionaries(
    {"jsonPath": PATHS},
    optional={
        "stringValue": TEXTS,
        "numberValue": st.sampled_from([1, 0.5, "NaN", None, {}]),
        "boolValue": st.booleans(),
        "nullValue": st.sampled_from(["NULL_VALUE", None]),
        "willContinue": st.booleans(),
    },
)
CALLS = st.fixed_dictionaries(
    {},
    optional={
        "name": st.sampled_from(["f", "g", "", None, 3]),
        "id": st.sampled_from(["a", "b", "", None, 4]),
        "args": st.sampled_from([None, {}, {"x": 1}, {"a": "a"}, "{", [1], 5]),
        "partialArgs": st.lists(VALUES, max_size=3) | st.none(),
        "willContinue": st.booleans() | st.none(),
    },
)
PARTS = st.fixed_dictionaries(
    {},
    optional={"text": TEXTS, "thought": st.booleans(), "thoughtSignature": SIGNATURES},
) | st.builds(lambda told, signature: {"functionCall": told, "thoughtSignature": signature}, CALLS, SIGNATURES)
OTHERS = st.sampled_from(
    [{"executableCode": {"code": "1"}}, {"toolResponse": {}}, {"inlineData": {}}, {"functionResponse": {}}, {"x": 1}]
)
WORDS = st.sampled_from([None] * 8 + ["STOP", "MAX_TOKENS", "SAFETY", "OTHER", "MALFORMED_FUNCTION_CALL", "NEW", 5])
EVENTS = st.builds(lambda parts, word: said(*parts, finish=word), st.lists(PARTS | OTHERS, max_size=3), WORDS)
FAULTS = st.sampled_from(
    [b""] * 9
    + [
        sse({"error": {"message": "no"}}),
        b"data: {\n\n",
        b": ping\n\n",
        b"foo: bar\n\n",
        b"\xff",
        sse({"usageMetadata": 1}),
    ]
    + [sse({"promptFeedback": {"blockReason": "OTHER"}}), sse({"usageMetadata": {"promptTokenCount": 1}})]
)
BODIES = st.tuples(st.lists(EVENTS, max_size=10), FAULTS, st.lists(EVENTS, max_size=3), st.booleans()).map(
    lambda parts: sse(*parts[0]) + parts[1] + sse(*parts[2]) + (sse(STOP) if parts[3] else b"")
)


@settings(max_examples=200)
@given(BODIES, st.integers(0, 9), st.data())
def test_any_stream_keeps_the_grammar_of_tool_input_in_any_cut(body: bytes, seed: int, data: st.DataObject) -> None:
    if data.draw(st.integers(0, 3), label="whole, unless 0") == 0:
        body = body[: data.draw(st.integers(0, len(body)), label="broken off at")]
    found = outcome(GeminiDecoder(), [body])
    assert same(outcome(GeminiDecoder(), random_cut(body, seed)), found)
    assert_consistent(found)


KEYS = [
    "candidates", "content", "parts", "text", "functionCall", "args", "name", "id", "index", "usageMetadata", "error",
    "partialArgs", "jsonPath", "stringValue", "willContinue", "thought", "thoughtSignature", "finishReason", "message",
    "promptFeedback", "blockReason", "groundingMetadata", "executableCode", "toolCall", "promptTokenCount", "code",
]  # fmt: skip
ANY_JSON: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers(-2, 2**65) | st.floats() | st.text("ab\ud83d", max_size=3),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(KEYS), inner, max_size=4),
    max_leaves=12,
)


@given(st.lists(ANY_JSON | ANY_JSON.map(said) | ANY_JSON.map(lambda told: said({"functionCall": told})), max_size=4))
def test_no_json_breaks_the_decoder(events: list[Any]) -> None:
    found = read(*events, STOP)
    assert found.error is None or isinstance(found.error, ModelError)
    assert_consistent(found)


@given(st.binary(max_size=60))
def test_no_bytes_break_the_decoders(body: bytes) -> None:
    for decoder in (GeminiDecoder(), GeminiJsonArrayDecoder()):
        assert isinstance(outcome(decoder, [body]).error, ModelError)
