"""JSON in pieces: the same for every cut, never wrong before the end, and broken where it breaks."""

import itertools
import json
import re
import sys
import tracemalloc
from collections.abc import Callable, Iterable, Iterator, Sequence
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

# What it is compared with: slow, recursive, and written without a look at the parser


class End(Exception):
    """The text ends here, and could go on."""


class Fault(Exception):
    """Here stands what no JSON text has in this place."""


class Naive:
    """What is known of a JSON text that may end anywhere, read from its beginning to its end.

    value: what there is of it, {} where there is nothing. fault: the place of the first impossible character. whole:
    whether the text may end here.
    """

    def __init__(self, text: str) -> None:
        self.text, self.at = text, 0
        self.value: Any = {}
        self.fault: int | None = None
        self.whole = False
        try:
            self.read_value(self.set_top)
            self.skip_blanks()
            if self.at < len(text):
                raise Fault
            self.whole = True
        except End:
            pass
        except Fault:
            self.fault = self.at

    def set_top(self, value: Any) -> None:
        self.value = {} if value is None else value

    def peek(self) -> str:
        if self.at == len(self.text):
            raise End
        return self.text[self.at]

    def take(self, allowed: str) -> str:
        character = self.peek()
        if character not in allowed:
            raise Fault
        self.at += 1
        return character

    def skip_blanks(self) -> None:
        while self.at < len(self.text) and self.text[self.at] in " \t\n\r":
            self.at += 1

    def read_value(self, put: Callable[[Any], None]) -> None:
        self.skip_blanks()
        first = self.peek()
        if first == "{":
            self.read_object(put)
        elif first == "[":
            self.read_array(put)
        elif first == '"':
            self.read_string(put)
        elif first in "-0123456789":
            self.read_number(put)
        else:
            for word, value in (("true", True), ("false", False), ("null", None)):
                if first == word[0]:
                    for character in word:
                        self.take(character)
                    put(value)
                    return
            raise Fault

    def read_object(self, put: Callable[[Any], None]) -> None:
        self.take("{")
        fields: dict[str, Any] = {}
        put(fields)
        self.skip_blanks()
        while self.peek() != "}":
            if fields or self.text[self.at] == ",":
                self.take("," if fields else "")
                self.skip_blanks()
            key = self.read_string(lambda _: None)
            self.skip_blanks()
            self.take(":")
            self.read_value(lambda value, key=key: fields.__setitem__(key, value))  # type: ignore[misc]
            self.skip_blanks()
        self.take("}")

    def read_array(self, put: Callable[[Any], None]) -> None:
        self.take("[")
        items: list[Any] = []
        put(items)
        self.skip_blanks()
        if self.peek() == "]":
            self.take("]")
            return
        while True:
            place = len(items)
            self.read_value(lambda value, place=place: items.__setitem__(slice(place, None), [value]))  # type: ignore[misc]
            self.skip_blanks()
            if self.take(",]") == "]":
                return

    def read_string(self, put: Callable[[Any], None]) -> str:
        self.take('"')
        text = ""
        put("")
        while (character := self.peek()) != '"':
            if character < " ":
                raise Fault
            self.at += 1
            text += self.read_escape() if character == "\\" else character
            put(whole(text[:-1] if "\ud800" <= text[-1] <= "\udbff" else text))
        self.at += 1
        put(whole(text))
        return str(whole(text))

    def read_escape(self) -> str:
        kind = self.take('"\\/bfnrtu')
        if kind == "u":
            return chr(int("".join(self.take("0123456789abcdefABCDEF") for _ in range(4)), 16))
        return str(json.loads(f'"\\{kind}"'))

    def read_number(self, put: Callable[[Any], None]) -> None:
        start = self.at
        beginning = r"-?|-?(0|[1-9][0-9]*)(\.?|\.[0-9]+([eE][+-]?[0-9]*)?|[eE][+-]?[0-9]*)"
        while self.at < len(self.text) and re.fullmatch(beginning, self.text[start : self.at + 1]):
            self.at += 1
        number = self.text[start : self.at]
        ended = self.at < len(self.text)
        if not number[-1].isdigit():
            raise Fault if ended else End
        if not ended:
            self.whole = start == 0 or not self.text[:start].strip(" \t\n\r")
            raise End
        put(json.loads(number))


# How it is fed


def cut(text: str, places: Iterable[int]) -> list[str]:
    """The text in pieces, some of them empty."""
    ends = sorted(place % (len(text) + 1) for place in places)
    return [text[start:end] for start, end in itertools.pairwise([0, *ends, len(text)])]


def fed(pieces: Iterable[str], **limits: int) -> tuple[PartialJson, list[FieldEvent]]:
    """A parser that has read the pieces, and its events; those of one string that follow each other are joined."""
    parser = PartialJson(**limits)
    events: list[FieldEvent] = []
    for event in itertools.chain.from_iterable(parser.feed(piece) for piece in pieces):
        last = events[-1] if events else None
        if isinstance(event, FieldText) and isinstance(last, FieldText):
            assert last.path == event.path
            events[-1] = FieldText(event.path, last.text + event.text)
        else:
            events.append(event)
    return parser, events


def replay(events: Iterable[FieldEvent]) -> Any:
    """The value that events tell of."""
    top: dict[int, Any] = {}

    def put(path: Sequence[Any], value: Any) -> None:
        *outer, last = (0, *path)
        into: Any = top
        for step in outer:
            into = into[step]
        if isinstance(into, list):
            into[last:] = [value]
        else:
            into[last] = value

    texts: dict[Sequence[str | int], str] = {}
    for event in events:
        match event:
            case FieldOpened(path, kind):
                texts[path] = ""
                put(path, {"object": {}, "array": [], "string": ""}[kind])
            case FieldText(path, text):
                assert text
                texts[path] += text
                put(path, texts[path])
            case FieldValue(path, value):
                put(path, value)
    return {} if top.get(0) is None else top[0]


def every_place(text: str) -> Iterator[list[str]]:
    yield [text]
    yield list(text)
    for place in range(1, len(text)):
        yield [text[:place], text[place:]]


def loads(text: str) -> Any:
    """What `json.loads` gives, but for halves of characters, and without NaN and Infinity."""

    def fields(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        return {whole(key): value for key, value in pairs}

    def refuse(constant: str) -> None:
        raise ValueError(constant)

    value: Any = json.loads(text, object_pairs_hook=fields, parse_constant=refuse)
    return whole(value)


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


# Limits


def test_too_deep_is_broken_where_it_gets_too_deep() -> None:
    for opening, closing in (("[", "]"), ('{"a":', "}")):
        deep = opening * 3 + "1" + closing * 3
        for pieces in every_place(deep):
            assert fed(pieces, max_depth=3)[0].finish() == json.loads(deep)
            assert fed(pieces, max_depth=2)[1][-1] == Broken(2 * len(opening), "no container in 2 others")
    assert isinstance(fed(["[" * 100_000])[1][-1], Broken)


def test_too_long_is_broken_at_the_limit() -> None:
    text = '{"a": "some text", "b": 1}'
    for pieces in every_place(text):
        assert fed(pieces, limit_chars=len(text))[0].finish() == json.loads(text)
        for limit in (3, 9, 12, len(text) - 1):
            parser, events = fed(pieces, limit_chars=limit)
            assert events[-1] == Broken(limit, f"the end, since {limit} characters are the limit")
            assert parser.snapshot() == Naive(text[:limit]).value
            assert parser.feed("x") == ()


@pytest.mark.parametrize("looks", [0, 7, 600])
@pytest.mark.parametrize("unit", ["x", "\\n", "\xa0", "\\u00e9"])
def test_a_long_text_is_broken_at_the_limit_too(unit: str, looks: int) -> None:
    """Also when somebody looks at it again and again. Short pieces of a string are not counted one by one."""
    limit = 200_000
    parser = PartialJson(limit_chars=limit)
    pieces = cut('"' + unit * (250_000 // len(unit)), range(0, 250_000, 99))
    came, told = 0, 0
    events: tuple[FieldEvent, ...] = ()
    for number, piece in enumerate(pieces):
        events = parser.feed(piece)
        told += sum(len(event.text) for event in events if isinstance(event, FieldText))
        came += len(piece)
        if came > limit:
            break
        assert not any(isinstance(event, Broken) for event in events)
        if looks and number % looks == 0:
            parser.snapshot()
    assert events[-1] == Broken(limit, f"the end, since {limit} characters are the limit")
    assert told == (limit - 1) // len(unit)


def test_a_number_of_more_digits_than_python_reads_is_broken() -> None:
    digits = "9" * (sys.get_int_max_str_digits() + 1)
    assert fed([f"[1, {digits}]"])[1][-1] == Broken(4, "a number of fewer digits")
    assert fed(["[1, ", digits, "]"])[1][-1] == Broken(4, "a number of fewer digits")
    with pytest.raises(DecodeError, match="a number of fewer digits"):
        fed([digits])[0].finish()
    assert fed([f"[0.{digits}]"])[0].finish() == [1.0]


# What is shared, and what it costs


def test_a_snapshot_is_a_copy_that_shares_what_is_closed() -> None:
    parser, _ = fed(['{"closed": [[1]], "open": [[2], ["x'])
    before, again = parser.snapshot(), parser.snapshot()
    assert before == again
    parser.feed('yz"], 3]}')
    assert before == {"closed": [[1]], "open": [[2], ["x"]]}
    assert parser.snapshot() == {"closed": [[1]], "open": [[2], ["xyz"], 3]}
    assert before["closed"] is again["closed"] is parser.finish()["closed"]
    assert before["open"] is not again["open"]
    assert before["open"][0] is parser.finish()["open"][0]


def test_a_snapshot_that_is_asked_again_joins_nothing() -> None:
    parser, _ = fed('{"a": "some text')
    assert parser.snapshot()["a"] is parser.snapshot()["a"]


def test_a_path_is_made_once_for_all_pieces_of_a_field() -> None:
    parser, _ = fed(['{"a": {"b": "'])
    (first,), (second,) = parser.feed("some"), parser.feed(r"\n")
    assert isinstance(first, FieldText)
    assert isinstance(second, FieldText)
    assert first.path is second.path


@pytest.mark.parametrize("text", ["eight ch", "x", r"some \n\"s", "ünïcödé\xa0", r"\u00e9\u00e9", r"\ud83d\ude00"])
def test_memory_is_that_of_the_text(text: str) -> None:
    value = json.loads(f'"{text}"') * 10_000
    tracemalloc.start()
    try:
        parser = PartialJson()
        parser.feed('"')
        for _ in range(10_000):
            parser.feed(text[:8])
            parser.feed(text[8:])
        parser.feed('"')
        assert tracemalloc.get_traced_memory()[1] <= 2.5 * sys.getsizeof(value) + 50_000
    finally:
        tracemalloc.stop()
    assert parser.finish() == value


@pytest.mark.parametrize("unit", ["x", "\\n", '\\"', "\\u00e9", "\\ud83d", "\\", "\xa0", "1"])
def test_the_work_grows_with_the_text_alone(unit: str) -> None:
    """Counted in calls, of Python and of C: nothing is read again, nothing is joined again."""

    def calls(times: int) -> int:
        counted = itertools.count()
        parser = PartialJson()
        parser.feed('{"content":' + ('"' if unit != "1" else ""))
        pieces = list(unit * times)
        sys.setprofile(lambda *_: next(counted) and None)
        try:
            for number, piece in enumerate(pieces):
                parser.feed(piece)
                if number % 500 == 0:
                    parser.snapshot()
        finally:
            sys.setprofile(None)
        return next(counted)

    assert calls(4_000) < 4.2 * calls(1_000)


def test_a_long_text_comes_out_whole() -> None:
    parser, _ = fed('{"content":"' + "x" * 80_000 + '"}')
    assert parser.finish() == {"content": "x" * 80_000}
