"""JSON in pieces: the same for every cut, never wrong before the end, and broken where it breaks."""

import json
import re
from typing import Any

import pytest
from hypothesis import assume, example, given
from hypothesis import strategies as st

from streamkit.codec.partial_json import (
    Broken,
    FieldClosed,
    FieldEvent,
    FieldOpened,
    FieldText,
    FieldValue,
    PartialJson,
)
from streamkit.codec.surrogates import whole
from streamkit.errors import DecodeError

from ..streams import cases
from .json_pieces import cut, every_place, fed, loads, replay
from .naive_json import Naive

# Texts

SNIPPETS = [
    *'{}[]:,"0123-+.eE\\ntfu \n\t/', "true", "false", "null", '""', '"a"', '"a":', '{"', "1.5e3", "-0", "NaN", "1,",
    '\\"', "\\\\", "\\n", "\\u00e9", "\\ud83d", "\\ude00", "\\u12", "\ud83d", "\ude00", "😀", "é", "\xa0", "\x7f", "\0",
]  # fmt: skip
garbage = st.lists(st.sampled_from(SNIPPETS), max_size=12).map("".join)
in_strings = st.lists(st.sampled_from([s for s in SNIPPETS if '"' not in s or s == '\\"'] + ["plain"]), max_size=8)
texts_of_strings = in_strings.map(lambda parts: '{"k": "' + "".join(parts) + '"}')
values: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=9),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=3), inner, max_size=4),
    max_leaves=12,
)


@st.composite
def json_texts(draw: st.DrawFn) -> str:
    value, indent = draw(values), draw(st.sampled_from([None, 1]))
    separators = draw(st.sampled_from([(",", ":"), (" ,", " : ")]))
    text = json.dumps(value, ensure_ascii=draw(st.booleans()), indent=indent, separators=separators)
    return draw(st.sampled_from(["", " ", "\r\n"])) + text + draw(st.sampled_from(["", "\n\t"]))


@st.composite
def spoilt_texts(draw: st.DrawFn) -> str:
    text: str = draw(json_texts())
    place = draw(st.integers(0, len(text)))
    put_in: str = draw(st.sampled_from([*SNIPPETS, ""]))
    return text[:place] + put_in + text[place + draw(st.integers(0, 2)) :]


any_text = json_texts() | spoilt_texts() | garbage | texts_of_strings
cuts = st.lists(st.integers(0, 200), max_size=12)


# Properties


@given(json_texts(), cuts)
def test_in_the_end_it_is_what_json_loads_gives(text: str, places: list[int]) -> None:
    parser, events = fed(cut(text, places))
    value = loads(text)
    assert parser.finish() == value
    assert repr(parser.finish()) == repr(value)  # -0.0 and True too
    assert not any(isinstance(event, Broken) for event in events)


@given(any_text, cuts)
def test_no_cut_changes_what_is_told(text: str, places: list[int]) -> None:
    _, events = fed([text])
    assert fed(cut(text, places))[1] == events
    assert fed(text)[1] == events


@given(any_text, cuts)
@example('{"a": 01}', [])
@example('["\ud83d\\ude00\\ud83d', [])
def test_what_is_known_after_each_piece_is_what_a_slow_reader_knows(text: str, places: list[int]) -> None:
    parser, sofar = PartialJson(), ""
    broken: list[FieldEvent] = []
    for piece in cut(text, places):
        sofar += piece
        broken += [event for event in parser.feed(piece) if isinstance(event, Broken)]
        known = Naive(sofar)
        assert [event.position for event in broken if isinstance(event, Broken)] == (
            [] if known.fault is None else [known.fault]
        )
        assert parser.snapshot() == known.value
        assert finishes(parser) == known.whole


@given(any_text, cuts)
def test_keys_stay_and_texts_only_grow(text: str, places: list[int]) -> None:
    begun = [event.path for event in fed([text])[1] if isinstance(event, FieldOpened | FieldValue)]
    assume(len(set(begun)) == len(begun))  # no repeated key
    parser, last = PartialJson(), None
    for piece in cut(text, places):
        parser.feed(piece)
        now = parser.snapshot()
        assert last in (None, {}) or grew(last, now)
        last = now


@given(any_text, cuts)
def test_the_events_tell_all_of_the_value(text: str, places: list[int]) -> None:
    parser = PartialJson()
    events: list[FieldEvent] = []
    for piece in cut(text, places):
        events += parser.feed(piece)
        assert replay(events) == parser.snapshot()


@given(any_text)
def test_what_the_slow_reader_takes_for_json_is_json(text: str) -> None:
    try:
        value = loads(text)
    except ValueError:
        assert not Naive(text).whole
    else:
        assert Naive(text).whole
        parser, _ = fed([text])
        assert parser.finish() == value


def finishes(parser: PartialJson) -> bool:
    try:
        parser.finish()
    except DecodeError:
        return False
    return True


def grew(before: Any, now: Any) -> bool:
    if isinstance(before, dict):
        return isinstance(now, dict) and all(key in now and grew(before[key], now[key]) for key in before)
    if isinstance(before, list):
        return isinstance(now, list) and len(before) <= len(now) and all(map(grew, before, now))
    if isinstance(before, str):
        return isinstance(now, str) and now.startswith(before)
    return type(before) is type(now) and bool(before == now)


# Cases


@pytest.mark.parametrize("case", cases("partial_json.json"))
def test_case(case: dict[str, Any]) -> None:
    if "pieces" not in case["input"]:
        pytest.skip("its cost is counted below")
    parser = PartialJson()
    for piece, expected in zip(case["input"]["pieces"], case["expect"]["after_each_piece"], strict=True):
        parser.feed(piece)
        assert parser.snapshot() == expected
    assert finishes(parser) == case["expect"]["complete"]
    assert not case["expect"].get("broken") or parser.feed('"') == ()


def test_events_are_told_in_the_order_of_the_text() -> None:
    _, events = fed(['{"path": "a.t', 'xt", "lines": [1, null], "more": {}}'])
    assert events == [
        FieldOpened((), "object"),
        FieldOpened(("path",), "string"),
        FieldText(("path",), "a.txt"),
        FieldClosed(("path",)),
        FieldOpened(("lines",), "array"),
        FieldValue(("lines", 0), 1),
        FieldValue(("lines", 1), None),
        FieldClosed(("lines",)),
        FieldOpened(("more",), "object"),
        FieldClosed(("more",)),
        FieldClosed(()),
    ]


@pytest.mark.parametrize(
    ("text", "position", "expected"),
    [
        ("?", 0, "a value"),
        ("'a'", 0, "a value"),
        ("NaN", 0, "a value"),
        ("-Infinity", 1, "a digit"),
        ("nule", 3, "the rest of null"),
        ("[01]", 2, "a comma or ]"),
        ("[1.]", 3, "a digit"),
        ("[1e]", 3, "a digit or a sign"),
        ("[1e+]", 4, "a digit"),
        ("[+1]", 1, "a value or ]"),
        ("[,]", 1, "a value or ]"),
        ("[1,]", 3, "a value"),
        ("[1 2]", 3, "a comma or ]"),
        ("[1}", 2, "a comma or ]"),
        ("{,", 1, "a key or }"),
        ("{a: 1}", 1, "a key or }"),
        ('{"a" 1}', 5, "a colon"),
        ('{"a": 1,}', 8, "a key"),
        ('{"a": 1 "b"', 8, "a comma or }"),
        ('{"a": 1} {', 9, "nothing more"),
        ("{} // no", 3, "nothing more"),
        ("\ufeff{}", 0, "a value"),
        ("\xa0{}", 0, "a value"),
        ('["a\nb"]', 3, "a character that a string may hold"),
        ('{"a\tb": 1}', 3, "a character that a string may hold"),
        (r'["a\qb"]', 4, "the rest of an escape"),
        (r'["a\u12x4"]', 7, "a hexadecimal digit"),
        (r'["a\u12"]', 7, "a hexadecimal digit"),
        (r'["a\\\x"]', 6, "the rest of an escape"),
        (r'["\ud83d\x"]', 9, "the rest of an escape"),
    ],
)
def test_the_first_impossible_character_is_told_with_what_could_stand_there(
    text: str, position: int, expected: str
) -> None:
    for pieces in every_place(text):
        parser, events = fed(pieces)
        assert events[-1] == Broken(position, expected)
        assert parser.feed("more") == ()
        with pytest.raises(DecodeError, match=re.escape(f"expected {expected} at character {position} of")):
            parser.finish()
    assert not any(isinstance(event, Broken) for event in fed([text[:position]])[1])


def test_text_before_a_fault_is_shown_and_stays() -> None:
    parser, events = fed(['{"a": "good', r' and \n\q gone"}'])
    assert parser.snapshot() == {"a": "good and \n"}
    assert events[-2:] == [FieldText(("a",), "good and \n"), Broken(19, "the rest of an escape")]


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "expected a value at character 0, where the JSON text ends"),
        (" tr", "expected a value at character 3,"),
        ("[", "expected a value or ] at character 1,"),
        ('{"a', "expected the rest of a key at character 3,"),
        ('["a', "expected the rest of a string at character 3,"),
        ("[12", "expected the rest of a number at character 3,"),
        ("-", "expected a digit at character 1,"),
        ("1e", "expected a digit or a sign at character 2,"),
    ],
)
def test_a_text_that_cannot_end_here_is_refused(text: str, says: str) -> None:
    with pytest.raises(DecodeError, match=re.escape(says)):
        fed([text])[0].finish()


@pytest.mark.parametrize(
    ("text", "shown", "value"),
    [
        ('["a', ["a"], None),
        ('"he', "he", None),
        ('"hello"', "hello", "hello"),
        ("true", True, True),
        ("null", {}, None),
        ("12", {}, 12),  # more digits may come
        ("12 ", 12, 12),
        ("[]", [], []),
    ],
)
def test_a_text_that_is_no_object_shows_what_it_is(text: str, shown: Any, value: Any) -> None:
    parser, _ = fed([text])
    assert parser.snapshot() == shown
    if finishes(parser):
        assert parser.finish() == value
        assert parser.snapshot() == shown


def test_of_a_repeated_key_the_last_one_wins_from_its_first_character() -> None:
    parser, _ = fed(['{"a": {"b": 1}, "c": 2, "a":'])
    assert parser.snapshot() == {"a": {"b": 1}, "c": 2}
    parser.feed(' "x')
    assert parser.snapshot() == {"a": "x", "c": 2}
    assert list(parser.snapshot()) == ["a", "c"]


def test_halves_of_characters_meet_however_they_are_written() -> None:
    for text in ('["\\ud83d\\ude00"]', '["\ud83d\\ude00"]', '["\\ud83d\ude00"]', '["\ud83d\ude00"]'):
        for pieces in every_place(text):
            parser, events = fed(pieces)
            assert parser.finish() == ["😀"]
            assert FieldText((0,), "😀") in events


@pytest.mark.parametrize("text", ['["\\ud83d"]', '["\\ude00"]', '["\ud83d"]', '["\\ud83dx"]', '["\\ud83d\\n"]'])
def test_a_half_that_stays_alone_is_replaced(text: str) -> None:
    for pieces in every_place(text):
        parser, events = fed(pieces)
        assert parser.finish() == whole(json.loads(text))
        assert parser.finish()[0].startswith("\ufffd")
        assert FieldText((0,), parser.finish()[0]) in events


def test_keys_are_mended_as_texts_are() -> None:
    for pieces in every_place(r'{"\ud83d\ude00": 1, "\ud83d": 2, "\u00e9\n": 3}'):
        assert fed(pieces)[0].finish() == {"😀": 1, "\ufffd": 2, "é\n": 3}
