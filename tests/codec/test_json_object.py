"""Whether text is one JSON object."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamkit.codec.json_object import WholeObjectScan, nests_deeper_than, object_text, same_object


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ('{"a": 1}', '{"a": 1}'),
        (' {"a": 1}\n', ' {"a": 1}\n'),
        ("", "{}"),
        (" \n", "{}"),
        ("null", "{}"),
        (r'"{\"a\": 1}"', '{"a": 1}'),
        ('{"a": 1}{"a":1}', '{"a": 1}'),
        ('{"a": 1} "{\\"a\\":1}" {"a": 1}', '{"a": 1}'),
        ('{"n": 123456789012345678901234567890}', '{"n": 123456789012345678901234567890}'),
        (r'{"a": "\ud83d"}', r'{"a": "\ud83d"}'),
        ('{"a": "\ud83d"}', '{"a": "\ud83d"}'),
    ],
)
def test_an_object_is_found_in_what_it_wears(text: str, found: str) -> None:
    assert object_text(text) == (found, None)


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ('{"a": 1', "the arguments are not one JSON object: Expecting ',' delimiter: line 1 column 8 (char 7)"),
        ('["a"]', "the arguments are not one JSON object: an array came instead"),
        ('"null"', "the arguments are not one JSON object: null came instead"),
        (r'"\"{}\""', "the arguments are not one JSON object: a string came instead"),
        ('"Oslo"', "the arguments are not one JSON object: a string came instead, and its text is not JSON"),
        (r'"{\"a\": 1"', "the arguments are not one JSON object: a string came instead, and its text is not JSON"),
        ('{"a": NaN}', "the arguments are not one JSON object: NaN is not JSON"),
        ('{"a": 1}{"a": 2}', "the arguments are more than one JSON object"),
        ('{"a": 1}{"a": true}', "the arguments are more than one JSON object"),
        ('{"a": 1} and', "the arguments are not one JSON object: Expecting value: line 1 column 10 (char 9)"),
    ],
)
def test_anything_else_is_told_and_left_as_it_is(text: str, problem: str) -> None:
    assert object_text(text) == (text, problem)


def test_what_is_nested_too_deeply_is_no_object() -> None:
    text = '{"a": ' + "[" * 100_000 + "]" * 100_000 + "}"
    assert object_text(text)[1] is not None


def depth(tree: Any) -> int:
    if not isinstance(tree, dict | list):
        return 0
    return 1 + max(map(depth, tree.values() if isinstance(tree, dict) else tree), default=0)


odd_text = st.text('a"\\[]{}é\ud800\n', max_size=6)
odd_trees = st.recursive(
    odd_text | st.integers(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(odd_text, inner, max_size=3),
)


@given(odd_trees, st.integers(0, 20), st.booleans())
def test_nesting_is_counted_outside_of_strings(tree: Any, around: int, ascii_only: bool) -> None:
    for _ in range(around):
        tree = [tree, {"]": "["}]
    text = json.dumps(tree, ensure_ascii=ascii_only)
    assert not nests_deeper_than(depth(tree), text)
    assert not depth(tree) or nests_deeper_than(depth(tree) - 1, text)


def test_objects_are_compared_by_value() -> None:
    assert same_object('{"a": 1, "b": 2}', '{"b":2,"a":1}')
    assert same_object('{"a": [1]}', '{"a": [1.0]}')
    assert not same_object('{"a": 1}', '{"a": 2}')


@pytest.mark.parametrize(
    ("text", "other"), [('{"a": 1}', '{"a": true}'), ('{"a": [{"b": false}]}', '{"a": [{"b": 0}]}')]
)
def test_a_number_is_no_boolean(text: str, other: str) -> None:
    assert not same_object(text, other)


@pytest.mark.parametrize("value", ["9" * 5000, "[" * 5000 + "]" * 5000])
def test_objects_that_cannot_be_compared_are_not_the_same(value: str) -> None:
    assert not same_object(f'{{"a": {value}}}', f'{{"a":{value}}}')


@pytest.mark.parametrize("depth", [100, 300, 450, 600, 900, 5000])
def test_deep_objects_are_compared_or_refused(depth: int) -> None:
    once = '{"a": ' + "[" * depth + "]" * depth + "}"
    assert object_text(f"{once} {once}")[0] in (once, f"{once} {once}")


values: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text('ab"\\{}[]\n é', max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text('k"\\}', max_size=3), inner, max_size=3),
    max_leaves=8,
)


@given(st.dictionaries(st.text(max_size=3), values, max_size=3), st.booleans(), st.data())
def test_a_scan_says_whole_after_the_last_piece_and_never_before(
    fields: Any, ascii_only: bool, data: st.DataObject
) -> None:
    text = json.dumps(fields, ensure_ascii=ascii_only, indent=data.draw(st.sampled_from([None, 1])))
    scan = WholeObjectScan()
    pieces: list[str] = []
    while text:
        size = data.draw(st.integers(1, len(text)))
        pieces.append(text[:size])
        text = text[size:]
        if data.draw(st.booleans()) or not text:
            assert scan.is_whole(pieces) == (not text)
    assert scan.is_whole([*pieces, "\n", ""])


def test_a_scan_reads_each_piece_once() -> None:
    reads: list[int] = []

    class CountedPieces(list[str]):
        def __getitem__(self, place: Any) -> Any:
            found = super().__getitem__(place)
            reads.append(len(found))
            return found

    pieces = CountedPieces(["{", '"a": {'])
    scan = WholeObjectScan()
    for _ in range(50):
        pieces += ["}", '"}}}']
        scan.is_whole(pieces)
    assert sum(reads) == len(pieces)
