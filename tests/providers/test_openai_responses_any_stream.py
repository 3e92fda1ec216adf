"""Any stream at all of the Responses API, and any way to tell of an answer."""

import json
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from streamkit.errors import ModelError
from streamkit.items import Message, Reasoning
from streamkit.providers.openai_responses_decoder import OpenAIResponsesDecoder
from streamkit.testing.cuts import random_cut

from ..streams import outcome, same
from .responses_events import ERROR, FAILED, OBJECT, added, check, completed, done, event, incomplete, read, sse

# Any way to tell of an answer


def events_of(place: int, item: dict[str, Any], draw: Any) -> list[dict[str, Any]]:
    """One way to tell of an item: pieces of the beginning of its text, and some of the events that tell it whole."""
    kind, whole = item["type"], item.get("arguments") or (item["content"] or item["summary"])[0]["text"]
    word, part = {
        "message": ("output_text", {"content_index": 0}),
        "reasoning": ("reasoning_summary_text", {"summary_index": 0}),
        "function_call": ("function_call_arguments", {}),
    }[kind]
    index = place if draw(st.booleans()) else None
    rotates = index is not None and draw(st.booleans())

    def told(name: str, **fields: Any) -> dict[str, Any]:
        item_id = f"{item['id']}_{name}" if rotates else item["id"]
        return event(name, index, item_id=item_id, **fields)

    end = draw(st.integers(0, len(whole)))
    cut = draw(st.integers(0, end))
    bare = {**item, "id": f"{item['id']}_new" if rotates else item["id"], "arguments": "", "content": [], "summary": []}
    is_added = kind == "function_call" or index is None or draw(st.booleans())
    events = [event("output_item.added", index, item=bare)] if is_added else []
    events += [told(f"{word}.delta", delta=piece, **part) for piece in (whole[:cut], whole[cut:end]) if piece]
    if draw(st.booleans()):
        events.append(told(f"{word}.done", text=whole, arguments=whole, **part))
    if draw(st.booleans()):
        events.append(event("output_item.done", index, item=item))
    return events


WORDS = st.text("ab é", min_size=1, max_size=6)


@settings(max_examples=200)
@given(st.lists(st.tuples(st.sampled_from(["message", "reasoning", "function_call"]), WORDS), max_size=5), st.data())
def test_whatever_is_left_out_the_answer_is_the_same(answer: list[tuple[str, str]], data: st.DataObject) -> None:
    output = []
    for place, (kind, words) in enumerate(answer):
        item: dict[str, Any] = {"type": kind, "id": f"i{place}", "content": [], "summary": []}
        if kind == "function_call":
            item |= {"call_id": f"c{place}", "name": "f", "arguments": json.dumps({"k": words})}
        else:
            part = {"type": "output_text" if kind == "message" else "summary_text", "text": words}
            item["content" if kind == "message" else "summary"] = [part]
        output.append(item)
    found = read(
        *(told for place, item in enumerate(output) for told in events_of(place, item, data.draw)), completed(*output)
    )
    for item_type, kind in ((Message, "message"), (Reasoning, "reasoning")):
        texts = "".join(item.text for item in found.turn.items if isinstance(item, item_type))
        assert sorted(texts) == sorted("".join(words for each, words in answer if each == kind))
    calls = [(call.call_id, json.loads(call.arguments), call.problem) for call in found.turn.calls]
    assert sorted(calls) == [
        (f"c{place}", {"k": words}, None) for place, (kind, words) in enumerate(answer) if kind == "function_call"
    ]


# Any stream at all

TEXTS = st.sampled_from(["", "a", "é", "\ud83d", "\ude00", "{", "\n"])
ARGUMENTS = st.sampled_from(["", "{", "}", '"k":', "1", "null", "{}", OBJECT, '{"k":2}', "x", "\ud83d"])
INDEXES = st.sampled_from([0, 0, 1, 2, None, "0", -1])
IDS = st.sampled_from([None, "a", "b", "", 3, "\ud83d"])
PARTS: st.SearchStrategy[dict[str, Any]] = st.builds(
    lambda kind, value, notes: {"type": kind, "text": value, "refusal": value, "annotations": notes},
    st.sampled_from(["output_text", "refusal", "reasoning_text", "summary_text", "new"]),
    TEXTS,
    st.sampled_from([[], [1], None]),
)
CALLED: st.SearchStrategy[dict[str, Any]] = st.fixed_dictionaries(
    {"type": st.sampled_from(["function_call", "custom_tool_call"])},
    optional={
        "id": IDS, "call_id": IDS, "name": st.sampled_from([None, "f", "g", ""]), "input": TEXTS,
        "arguments": ARGUMENTS | st.just({"k": 1}), "status": st.sampled_from(["completed", "incomplete"]),
    },
)  # fmt: skip
SAID: st.SearchStrategy[dict[str, Any]] = st.fixed_dictionaries(
    {"type": st.sampled_from(["message", "reasoning"])},
    optional={"id": IDS, "content": st.lists(PARTS, max_size=2), "summary": st.lists(PARTS, max_size=2)},
)
OTHERS: st.SearchStrategy[dict[str, Any]] = st.fixed_dictionaries(
    {"type": st.sampled_from(["mcp_call", "web_search_call", "new"])}, optional={"id": IDS, "arguments": ARGUMENTS}
)
ITEMS = CALLED | CALLED | SAID | OTHERS
PIECES: st.SearchStrategy[dict[str, Any]] = st.builds(
    lambda kind, index, item_id, delta: event(
        kind, index, item_id=item_id, delta=delta, text=delta, arguments=delta, input=delta, code=delta
    ),
    st.sampled_from([
        "output_text.delta", "output_text.done", "refusal.delta", "reasoning_text.delta", "reasoning_text.done",
        "reasoning_summary_text.delta", "function_call_arguments.delta", "function_call_arguments.done",
        "custom_tool_call_input.delta", "custom_tool_call_input.done", "mcp_call_arguments.done",
    ]),
    INDEXES,
    IDS,
    TEXTS | ARGUMENTS,
)  # fmt: skip
EVENTS = (
    st.builds(added, ITEMS, INDEXES)
    | st.builds(done, ITEMS, INDEXES)
    | PIECES
    | st.builds(lambda index, part: event("content_part.done", index, part=part), INDEXES, PARTS)
).map(sse)
FAULTS = st.sampled_from([b""] * 9 + [sse(ERROR), sse(FAILED), b"data: {\n\n", b": ping\n\n", b"foo: bar\n\n", b"\xff"])
ENDS = st.builds(
    lambda make, output: sse(make(*output)),
    st.sampled_from([completed, lambda *output: incomplete({"reason": "max_output_tokens"}, *output)]),
    st.lists(ITEMS, max_size=4),
) | st.sampled_from([b"", b"data: [DONE]\n\n"])
BODIES = st.tuples(st.lists(EVENTS, max_size=12), FAULTS, ENDS).map(lambda parts: b"".join([*parts[0], *parts[1:]]))


@settings(max_examples=200)
@given(BODIES, st.integers(0, 9), st.data())
def test_any_stream_keeps_the_grammar_of_tool_input_in_any_cut(body: bytes, seed: int, data: st.DataObject) -> None:
    if data.draw(st.integers(0, 3), label="whole, unless 0") == 0:
        body = body[: data.draw(st.integers(0, len(body)), label="broken off at")]
    found = outcome(OpenAIResponsesDecoder(), [body], ["f"])
    assert same(outcome(OpenAIResponsesDecoder(), random_cut(body, seed), ["f"]), found)
    check(found)


ANY_JSON: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers(-2, 2**65) | st.floats() | st.text("ab\ud83d", max_size=3),
    lambda inner: st.lists(inner, max_size=3)
    | st.dictionaries(
        st.sampled_from([
            "type", "delta", "output_index", "item_id", "item", "part", "response", "output", "id", "call_id", "name",
            "arguments", "content", "summary", "text", "usage", "input_tokens_details", "error", "status", "message",
        ]),
        inner,
        max_size=4,
    ),
    max_leaves=12,
)  # fmt: skip
FIELDS = ["delta", "output_index", "item_id", "content_index", "item", "part", "response", "text", "arguments"]


@given(BODIES, st.data())
def test_no_odd_field_breaks_the_decoder(body: bytes, data: st.DataObject) -> None:
    events = [json.loads(line[6:]) for line in body.splitlines() if line.startswith(b'data: {"')]
    if events:
        told = data.draw(st.sampled_from(events))
        told.update(data.draw(st.dictionaries(st.sampled_from(FIELDS), ANY_JSON, min_size=1, max_size=2)))
        if isinstance(told.get("item"), dict):
            fields = st.sampled_from(["id", "call_id", "name", "content"])
            told["item"].update(data.draw(st.dictionaries(fields, ANY_JSON, max_size=1)))
    found = read(*events, completed())
    assert found.error is None or isinstance(found.error, ModelError)


@given(st.lists(ANY_JSON, max_size=4))
def test_no_json_breaks_the_decoder(events: list[Any]) -> None:
    found = read(*events, completed())
    assert found.error is None or isinstance(found.error, ModelError)


@given(st.binary(max_size=60))
def test_no_bytes_break_the_decoder(body: bytes) -> None:
    found = outcome(OpenAIResponsesDecoder(), [body])
    assert isinstance(found.error, ModelError) or b"[DONE]" in body  # which alone ends a turn, an empty one
    assert found.turn is None or not found.turn.items
