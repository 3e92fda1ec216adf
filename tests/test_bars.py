"""What counts as a progress, and how it is read."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, NamedTuple

import msgspec
import pydantic
import pytest

from streamkit.bars import Bar, progress_of


class Struct(msgspec.Struct):
    file: str
    bytes: int
    total_bytes: int


@dataclass
class Record:
    done: int
    total: int
    message: str = "as told"


class Model(pydantic.BaseModel):
    number: int
    of: int


class Pair(NamedTuple):
    progress: float
    total: float


@pytest.mark.parametrize(
    ("data", "bar"),
    [
        (Struct("a", 3, 9), Bar(3, 9, unit="bytes")),
        (Record(1, 2), Bar(1, 2, "as told")),
        (Model(number=1, of=2), Bar(1, 2)),
        (Pair(0.5, 1.0), Bar(0.5, 1.0)),
        ({"progress": 3, "total": 4, "message": "on it"}, Bar(3, 4, "on it")),
        ({"pages_total": 4, "pages": 3}, Bar(3, 4)),
        ({"percent": 62.4}, Bar(62.4, 100, unit="percent")),
        ({"done": 5, "total": 4}, Bar(5, 4)),
        ({"done": -5, "total": 4}, Bar(-5, 4)),
    ],
)
def test_numbers_of_a_whole_are_a_bar(data: Any, bar: Bar) -> None:
    assert progress_of(data) == bar
    assert 0 <= bar.share <= 1


@pytest.mark.parametrize(
    ("data", "told"),
    [
        ({"progress": 3.0, "total": None, "message": "three of them"}, "three of them"),
        ({"progress": 3_000.0, "total": None, "message": None}, "3,000"),
    ],
)
def test_how_far_something_is_of_nobody_knows_what_is_told_in_words(data: Any, told: str) -> None:
    assert progress_of(data) == told


@pytest.mark.parametrize(
    "data",
    [
        "3 of 4",
        {"done": 3},
        {"done": True, "total": 4},
        {"done": "3", "total": 4},
        {"done": 0, "total": 0},
        {"done": math.nan, "total": 4},
        {"done": 10**400, "total": 4},
        {"done": math.inf, "total": None},
        {"total": 4, "file": "a"},
        {1: 2, "total": 4},
        dict.fromkeys(map(str, range(1000)), 1) | {"done": 1, "total": 2},
        [1, 2],
        None,
        object(),
    ],
)
def test_anything_else_is_none(data: Any) -> None:
    assert progress_of(data) is None


@pytest.mark.parametrize(
    ("bar", "read"),
    [
        (Bar(12_400_000, 20_000_000, unit="bytes"), "12.4 of 20.0 MB"),
        (Bar(900, 2_000, unit="bytes"), "0.9 of 2.0 kB"),
        (Bar(3, 1_000), "3 of 1,000"),
        (Bar(0.5, 1.0), "0.5 of 1"),
        (Bar(62.4, 100, unit="percent"), "62 %"),
    ],
)
def test_a_bar_is_read_as_an_amount(bar: Bar, read: str) -> None:
    assert bar.amount == read


@pytest.mark.parametrize("number", [math.nan, math.inf, 10**400])
def test_a_bar_of_numbers_that_say_nothing_is_empty(number: float) -> None:
    for bar in (Bar(number, 4), Bar(1, number, unit="bytes"), Bar(number, number, unit="percent"), Bar(1, 0)):
        assert (bar.share, bar.amount) == (0, "")
