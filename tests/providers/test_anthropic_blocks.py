"""What a content block holds while it is written."""

from typing import Any

import pytest

from streamkit.providers.anthropic_blocks import Block, Field


@pytest.mark.parametrize(
    ("first", "pieces", "value"),
    [
        (None, [], None),
        ("", ["a", "b"], "ab"),
        ("a", ["b"], "ab"),
        ([1], [[2], [], [3, 4]], [1, 2, 3, 4]),
        (None, ["a", "b"], "ab"),
        (None, [None, [1]], [1]),
        (1, [2, 3], 3),
        ({"a": 1}, [{"b": 2}], {"b": 2}),
        ("a", [["b"], ["c"]], ["b", "c"]),
        ("a", [None, "b", "c"], "bc"),
        (True, ["a", False], False),
    ],
)
def test_texts_and_lists_grow_and_everything_else_is_replaced(first: Any, pieces: list[Any], value: Any) -> None:
    field = Field(first)
    for piece in pieces:
        field.add(piece)
    assert field.value() == value
    assert field.is_whole(value)
    assert not field.is_whole([value])


def test_a_block_is_as_it_began_with_what_was_added() -> None:
    block = Block({"type": "text", "text": "", "citations": [1]})
    for number in (2, 3):
        block.field("citations").add([number])
    block.field("new").add("a")
    assert block.whole() == {"type": "text", "text": "", "citations": [1, 2, 3], "new": "a"}


@pytest.mark.parametrize(("kind", "known"), [("text", "text"), (None, ""), (3, "")])
def test_the_kind_of_a_block_is_a_text(kind: Any, known: str) -> None:
    assert Block({"type": kind}).kind == known
