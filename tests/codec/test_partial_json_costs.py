"""JSON in pieces: the limits of a text, and what it costs to read it."""

import itertools
import json
import sys
import tracemalloc

import pytest

from streamkit.codec.partial_json import Broken, FieldEvent, FieldText, PartialJson
from streamkit.errors import DecodeError

from .json_pieces import cut, every_place, fed
from .naive_json import Naive

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
