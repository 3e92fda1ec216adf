"""An object whose values come one by one: its text grows, and is what the values make, whatever their order."""

import json
import random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamkit.codec.json_paths import GrowingObject, path_steps
from streamkit.errors import DecodeError


@pytest.mark.parametrize(
    ("path", "steps"),
    [
        ("$.a", ("a",)),
        ("$.a.b[0][12].c", ("a", "b", 0, 12, "c")),
        ("$['a b'].c", ("a b", "c")),
        ('$["a.b"]', ("a.b",)),
        (r"$['it\'s \"so\" \\ \u00e9']", ('it\'s "so" \\ é',)),
        ("$['say \"hi\"']", ('say "hi"',)),
        ("$.it's.ö-1", ("it's", "ö-1")),
        ("$['']", ("",)),
    ],
)
def test_a_path_names_one_place(path: str, steps: tuple[Any, ...]) -> None:
    assert path_steps(path) == steps


@pytest.mark.parametrize(
    "path",
    ["", "$", "a", "a.b", "$[0]", "$.", "$..a", "$.a[", "$.a[x]", "$.a[-1]", "$.a[*]", "$['a", r"$['\x']",
     "$.a[9999999999]", "$" + ".a" * 101],
)  # fmt: skip
def test_an_odd_path_is_refused(path: str) -> None:
    with pytest.raises(DecodeError):
        path_steps(path)


def written(*values: tuple[str, Any] | tuple[str, str, bool]) -> list[str]:
    """The pieces of text: a value of two is whole, one of three is a piece of a string that may go on."""
    growing = GrowingObject()
    pieces = [GrowingObject.START]
    for value in values:
        if len(value) == 3:
            pieces.append(growing.put_text(value[0], value[1], goes_on=value[2]))
        else:
            pieces.append(growing.put(*value))
    return [*pieces, growing.end()]


def test_text_goes_out_as_soon_as_it_is_certain() -> None:
    assert written(
        ("$.path", "a.", True),
        ("$.path", 't"xt', True),
        ("$.path", "", False),
        ("$.lines[0].text", "one", True),
        ("$.lines[0].number", 1),
        ("$.lines[1].text", "two", False),
        ("$.lines[1].last", True),
        ("$.mode", None),
        ("$.scale", 0.5),
    ) == [
        "{",
        '"path":"a.', 't\\"xt', '"',
        ',"lines":[{"text":"one', '","number":1', '},{"text":"two"', ',"last":true',
        '}],"mode":null', ',"scale":0.5',
        "}",
    ]  # fmt: skip


def test_a_string_in_one_piece_is_closed_at_once() -> None:
    assert written(("$.a", "é\n", False)) == ["{", '"a":"é\\n"', "}"]


def test_no_values_are_an_empty_object() -> None:
    assert written() == ["{", "}"]


def test_a_string_that_was_to_go_on_is_closed_by_the_end() -> None:
    growing = GrowingObject()
    growing.put_text("$.a", "x", goes_on=True)
    assert growing.is_inside_string
    assert growing.end() == '"}'
    growing = GrowingObject()
    growing.put_text("$.a", "x", goes_on=True)
    growing.put_text("$.a", "y", goes_on=False)
    assert not growing.is_inside_string


@pytest.mark.parametrize(
    ("values", "text"),
    [
        ([("$.a.x", 1), ("$.b", 2), ("$.a.y", 3)], '{"a":{"x":1},"b":2,"a":{"x":1,"y":3}}'),
        ([("$.a", "x", True), ("$.b", 2), ("$.a", "y", True)], '{"a":"x","b":2,"a":"xy"}'),
        ([("$.l[1]", 1), ("$.b", 2), ("$.l[0]", 0)], '{"b":2,"l":[0,1]}'),
        ([("$.l[0].l[1]", 1), ("$.l[0].l[0]", 0)], '{"l":[{"l":[0,1]}]}'),
        ([("$.l[0].x", 1), ("$.l[1].x", 2), ("$.l[0].y", 3)], '{"l":[{"x":1},{"x":2}],"l":[{"x":1,"y":3},{"x":2}]}'),
        ([("$.a", 1), ("$.a", 2), ("$.b", 3)], '{"a":1,"b":3,"a":2}'),
        ([("$.a", 1), ("$.a", True)], '{"a":1,"a":true}'),
        ([("$.a", 1), ("$.b", 2), ("$.a", "x", False)], '{"a":1,"b":2,"a":"x"}'),
    ],
)
def test_a_key_whose_place_has_passed_is_written_once_more(values: list[Any], text: str) -> None:
    assert "".join(written(*values)) == text


@pytest.mark.parametrize("value", [1, None, True, 0.5])
def test_the_same_value_again_adds_nothing(value: Any) -> None:
    assert written(("$.a", value), ("$.a", value))[2:] == ["", "}"]


def test_an_empty_piece_for_a_string_that_has_ended_adds_nothing() -> None:
    assert written(("$.a", "x", False), ("$.b", 1), ("$.a", "", False))[2:] == [',"b":1', "", "}"]


@pytest.mark.parametrize(
    "values",
    [
        [("$.a", 1), ("$.a.b", 2)],
        [("$.a", "x", False), ("$.a.b", 2)],
        [("$.a.b", 1), ("$.a", 2)],
        [("$.a.b", 1), ("$.a", "x", True)],
        [("$.a.b", 1), ("$.a[0]", 2)],
        [("$.a[0]", 1), ("$.a.b", "x", False)],
        [("$.a[1]", 1)],
        [("", 1)],
        [("$.a[0]", 1), ("$.a[2]", 1)],
    ],
)
def test_values_that_make_no_object_are_refused(values: list[Any]) -> None:
    with pytest.raises(DecodeError):
        written(*values)


@pytest.mark.parametrize(
    ("values", "whole", "text"),
    [
        ([("$.a", 1)], {"b": {"c": []}}, '{"a":1,"b":{"c":[]}}'),
        ([("$.a.b", "x", False), ("$.a.c[0]", 1)], {"a": {"b": "x", "c": [1]}}, '{"a":{"b":"x","c":[1]}}'),
        ([("$.a", "x", True)], {"a": "xy", "b": None}, '{"a":"x","b":null,"a":"xy"}'),
        ([], {"a": [1], "b": 2}, '{"a":[1],"b":2}'),
    ],
)
def test_a_key_can_be_set_to_anything(values: list[Any], whole: dict[str, Any], text: str) -> None:
    growing = GrowingObject()
    said = [growing.put_text(*each[:2], goes_on=each[2]) if len(each) == 3 else growing.put(*each) for each in values]
    said += [growing.put_key(key, value) for key, value in whole.items()]
    said += [growing.put_key(key, value) for key, value in whole.items()]
    assert "{" + "".join(said) + growing.end() == text


def test_nothing_is_put_inside_of_a_value_that_came_whole() -> None:
    growing = GrowingObject()
    growing.put_key("a", {"b": 1})
    with pytest.raises(DecodeError):
        growing.put("$.a.c", 1)


def test_a_very_long_string_is_written_piece_by_piece() -> None:
    growing = GrowingObject()
    pieces = [growing.put_text("$.a", "xy", goes_on=True) for _ in range(100_000)]
    assert pieces[0] == '"a":"xy'
    assert set(pieces[1:]) == {"xy"}


# Any values in any order

LEAVES = st.none() | st.booleans() | st.integers(-9, 9) | st.text('a"\\é', max_size=4)
VALUES: st.SearchStrategy[Any] = st.recursive(
    LEAVES,
    lambda inner: (
        st.lists(inner, min_size=1, max_size=3)
        | st.dictionaries(st.text("ab .'\"\\[", max_size=2), inner, min_size=1, max_size=3)
    ),
    max_leaves=12,
)


def leaves(value: Any, path: str = "$") -> list[tuple[Any, ...]]:
    """Each value with its path; strings in two pieces."""
    if isinstance(value, dict):
        return [leaf for key, each in value.items() for leaf in leaves(each, f"{path}[{json.dumps(key)}]")]
    if isinstance(value, list):
        return [leaf for index, each in enumerate(value) for leaf in leaves(each, f"{path}[{index}]")]
    if isinstance(value, str):
        return [(path, value[:2], True), (path, value[2:], False)]
    return [(path, value)]


@given(st.dictionaries(st.text("ab", max_size=2), VALUES, max_size=4), st.integers(0, 99))
def test_the_text_is_the_object_whatever_the_order(value: dict[str, Any], seed: int) -> None:
    in_order = leaves(value)
    text = "".join(written(*in_order))
    assert text == json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    random.Random(seed).shuffle(in_order)
    assert json.loads("".join(written(*whole_strings(in_order)))) == value


def whole_strings(values: list[tuple[Any, ...]]) -> list[tuple[Any, ...]]:
    """The pieces of each string in their own order again, but where they are."""
    pieces: dict[str, list[tuple[Any, ...]]] = {}
    for value in values:
        pieces.setdefault(value[0], []).append(value)
    for same in pieces.values():
        same.sort(key=lambda value: not value[-1] if len(value) == 3 else 0)
    return [pieces[value[0]].pop(0) for value in values]
