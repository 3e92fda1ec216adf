"""Reasoning in chat completions: where servers put it, and what goes back of it."""

from typing import Any

import pytest

from streamkit.items import Message, Reasoning, UnknownItem, user
from streamkit.providers.openai_chat_wire import REASONING
from streamkit.turns import ReasoningDelta

from .chat_events import STOP, delta, messages, read


def test_reasoning_in_two_fields_counts_once() -> None:
    found = read(delta(reasoning="Hm", reasoning_content="Hm"), delta(reasoning_content="m"), STOP)
    assert found.events == [ReasoningDelta("Hm"), ReasoningDelta("m")]
    assert found.turn.items == (Reasoning("Hmm", "trace", {"openai_chat": {"field": "reasoning_content"}}),)


def test_reasoning_that_is_only_in_its_details_is_shown() -> None:
    details = [{"type": "reasoning.summary", "summary": "short"}, {"type": "reasoning.text", "text": "long"}]
    found = read(delta(reasoning_details=details), STOP)
    assert found.events == [ReasoningDelta("short", "summary"), ReasoningDelta("long")]


def test_the_pieces_of_reasoning_details_are_joined_and_otherwise_as_they_came() -> None:
    found = read(
        delta(reasoning="a", reasoning_details=[{"type": "reasoning.text", "text": "a", "index": 0, "format": "x"}]),
        delta(reasoning="b", reasoning_details=[{"type": "reasoning.text", "text": "b", "index": 0, "format": "x"}]),
        delta(reasoning_details=[{"type": "reasoning.text", "signature": "s", "index": 0, "format": "x"}]),
        delta(reasoning_details=[{"type": "reasoning.encrypted", "data": "", "id": None, "index": 1}]),
        STOP,
    )
    (item,) = found.turn.items
    assert isinstance(item, Reasoning)
    assert item.opaque is not None
    assert item.opaque["openai_chat"] == {
        "field": "reasoning",
        "reasoning_details": [
            {"type": "reasoning.text", "text": "ab", "index": 0, "format": "x", "signature": "s"},
            {"type": "reasoning.encrypted", "data": "", "id": None, "index": 1},
        ],
    }


@pytest.mark.parametrize("key", ["text", "summary", "data"])
def test_a_character_of_reasoning_details_that_was_cut_in_two_is_whole_again(key: str) -> None:
    found = read(*(delta(reasoning_details=[{key: text}]) for text in ("x\ud83d", "\ude00y")), STOP)
    shown = [event.text for event in found.events if isinstance(event, ReasoningDelta)]
    assert shown == ([] if key == "data" else ["x", "😀y"])
    (item,) = found.turn.items
    assert isinstance(item, Reasoning)
    assert item.opaque == {"openai_chat": {"reasoning_details": [{key: "x😀y"}]}}


@pytest.mark.parametrize("field", REASONING)
def test_reasoning_goes_back_into_the_field_that_it_came_from(field: str) -> None:
    found = read(delta(**{field: "Hm"}), delta(content="Yes"), STOP)
    assert found.turn.items[0] == Reasoning("Hm", "trace", {"openai_chat": {"field": field}})
    assert messages(user("?"), *found.turn.items)[1] == {"role": "assistant", "content": "Yes", field: "Hm"}


def test_reasoning_that_is_no_text_is_kept() -> None:
    assert read(delta(reasoning={"a": 1}), STOP).turn.items == (UnknownItem({"reasoning": {"a": 1}}),)


def test_what_github_wants_back_goes_back() -> None:
    found = read(delta(reasoning_text="Hm"), delta(content="Yes"), delta(reasoning_opaque="x"), STOP)
    said = messages(user("?"), *found.turn.items)[1]
    assert said == {"role": "assistant", "content": "Yes", "reasoning_text": "Hm", "reasoning_opaque": "x"}


def test_the_blocks_of_litellm_go_back_each_with_its_signature() -> None:
    pieces = [("a", None), ("b", None), ("", "s1"), ("c", None), ("", "s2")]
    events = [
        delta(reasoning_content=text, thinking_blocks=[{"type": "thinking", "thinking": text, "signature": signature}])
        for text, signature in pieces
    ]
    found = read(*events, delta(content="Yes"), STOP)
    assert "".join(event.text for event in found.events if isinstance(event, ReasoningDelta)) == "abc"
    assert messages(user("?"), *found.turn.items)[1]["thinking_blocks"] == [
        {"type": "thinking", "thinking": "ab", "signature": "s1"},
        {"type": "thinking", "thinking": "c", "signature": "s2"},
    ]


@pytest.mark.parametrize(
    ("part", "kind"),
    [
        ({"type": "thinking", "thinking": [{"type": "text", "text": "Hm"}, {"type": "other"}]}, "trace"),
        ({"type": "thinking", "thinking": "Hm"}, "trace"),
        ({"type": "reasoning", "summary": [{"type": "summary_text", "text": "Hm"}, {"text": ""}]}, "summary"),
    ],
)
def test_reasoning_may_be_a_part_of_the_content(part: dict[str, Any], kind: str) -> None:
    items = read(delta(content=[part, {"type": "text", "text": "Yes"}]), STOP).turn.items
    assert items[1] == Message("assistant", "Yes")
    assert isinstance(items[0], Reasoning)
    assert (items[0].text, items[0].kind) == ("Hm", kind)
