"""What a client of MCP is told of calls of ours."""

from base64 import b64encode
from itertools import pairwise
from typing import Any

import mcp_types as types
import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as some

from streamkit.items import Image
from streamkit.mcp import Progress
from streamkit.mcp.answers import ProgressTeller, answer
from streamkit.mcp.results import value_of
from streamkit.tool_events import Failure, Intermediate, Pending, Value
from streamkit.tools.values import what_the_model_gets
from streamkit.turns import TextDelta


class Row(msgspec.Struct):
    name: str
    size: int


class Loaded(msgspec.Struct):
    loaded: int
    total: int
    status: str


def valued(value: Any) -> Value:
    text, images = what_the_model_gets(value)
    return Value("c1", "tool", value, text, images=images)


@pytest.mark.parametrize(
    ("value", "text", "structured"),
    [
        ("well", "well", None),
        ('{"a": 1}', '{"a": 1}', None),  # text that looks like an object stays text
        (None, "null", None),
        ([1, 2], "[1,2]", None),
        ({"a": [1]}, '{"a":[1]}', {"a": [1]}),
        (Row("a", 1), '{"name":"a","size":1}', {"name": "a", "size": 1}),
        ({1: "one"}, '{"1":"one"}', {"1": "one"}),
    ],
)
def test_a_value_is_text_and_an_object_is_structured_content_too(value: Any, text: str, structured: Any) -> None:
    given = answer(valued(value))
    assert given.content == [types.TextContent(text=text)]
    assert given.structured_content == structured
    assert not given.is_error


def test_an_object_that_is_cut_is_only_text() -> None:
    cut = msgspec.structs.replace(valued({"a": "long"}), text='{"a": "lo\n[Cut: these are the first characters.]')
    assert answer(cut).structured_content is None


def test_pictures_are_pictures_and_addresses_of_some_are_text() -> None:
    value = ["a cat", Image(b"bytes", "image/png"), Image(url="https://example.org/cat.png")]
    given = answer(valued(value))
    assert given.content == [
        types.TextContent(text="a cat"),
        types.ImageContent(data=b64encode(b"bytes").decode(), mime_type="image/png"),
        types.TextContent(text="https://example.org/cat.png"),
    ]
    assert value_of(answer(valued(value[1]))) == value[1]


@pytest.mark.parametrize(
    ("result", "told"),
    [
        (Failure("c1", "tool", "failed", "No such row."), "No such row."),
        (
            Pending("c1", "tool"),
            "The call of tool was not allowed: a person has to allow it, and none was asked here.",
        ),
    ],
)
def test_what_is_no_value_is_an_error_with_a_sentence(result: Failure | Pending, told: str) -> None:
    given = answer(result)
    assert given.is_error
    assert given.content == [types.TextContent(text=told)]


@pytest.mark.parametrize(
    "result",
    [
        valued("half \ud83d"),
        valued(["a cat", Image(url="https://example.org/\ud83d")]),
        Failure("c1", "tool", "failed", "half \ud83d"),
        Pending("c1", "half \ud83d"),
    ],
)
def test_half_a_character_does_not_end_the_server(result: Value | Failure | Pending) -> None:
    assert "\N{REPLACEMENT CHARACTER}" in answer(result).model_dump_json()


class Reports:
    def __init__(self) -> None:
        self.made: list[tuple[float, float | None, str | None]] = []

    async def __call__(self, progress: float, total: float | None, message: str | None) -> None:
        self.made.append((progress, total, message))


async def reports_of(*shown: Any) -> list[tuple[float, float | None, str | None]]:
    reports = Reports()
    teller = ProgressTeller(reports)
    for each in shown:
        is_event = isinstance(each, TextDelta)
        await teller.tell(Intermediate("c1", "tool", None if is_event else each, each if is_event else None))
    return reports.made


async def test_intermediates_are_counted_and_said_as_text_or_json() -> None:
    assert await reports_of("page 3", Row("a", 1), TextDelta("hm"), object(), "x" * 5000) == [
        (1, None, "page 3"),
        (2, None, '{"name":"a","size":1}'),
        (3, None, '{"type":"text_delta","text":"hm"}'),
        (4, None, None),
        (5, None, "x" * 4000 + "… [cut: 5000 characters]"),
    ]


async def test_half_a_character_in_progress_does_not_end_the_server_either() -> None:
    given = ["half \ud83d", "x" * 3999 + "\ud83d" + "x", Progress(7, None, "\ud83d"), Loaded(8, 9, "\ud83d")]
    messages = [message for _, _, message in await reports_of(*given)]
    assert all(message is not None and "\N{REPLACEMENT CHARACTER}" in message for message in messages)
    assert all(message is not None and message.encode() for message in messages)


async def test_progress_of_another_server_keeps_its_numbers() -> None:
    given = [Progress(0, 3), Progress(0.5, 3, "half"), Progress(3, 3)]
    assert await reports_of(*given) == [(0, 3, None), (0.5, 3, "half"), (3, 3, None)]


async def test_what_says_how_far_it_is_is_progress_with_its_numbers() -> None:
    one, more = {"done": 1, "total": 3}, {"done": 3, "total": 3, "file": "a"}
    assert await reports_of(one, Loaded(2, 3, "two of them"), more, {"percent": 70}, Row("a", 1)) == [
        (1, 3, None),
        (2, 3, "two of them"),
        (3, 3, '{"done":3,"total":3,"file":"a"}'),
        (70, 100, None),
        (pytest.approx(70), 100, '{"name":"a","size":1}'),
    ]


async def test_what_is_said_between_two_numbers_leaves_the_next_one_as_it_is() -> None:
    numbers = [
        number for number, _, _ in await reports_of({"done": 0.1, "total": 1}, "well", {"done": 0.2, "total": 1})
    ]
    assert numbers == [0.1, pytest.approx(0.1), 0.2]


async def test_what_is_said_again_keeps_its_total_and_what_begins_again_loses_it() -> None:
    given = [Progress(3, 3), Progress(3, 3, "checking"), Progress(1, 2, "the next"), Progress(4, 5)]
    assert [(total, message) for _, total, message in await reports_of(*given)] == [
        (3, None), (3, "checking"), (None, "the next"), (5, None),
    ]  # fmt: skip


NUMBERS = some.floats(min_value=-1e6, max_value=1e6) | some.just(float("nan")) | some.just(float("inf"))
SHARES = some.fixed_dictionaries({"done": NUMBERS, "total": NUMBERS})


@given(shown=some.lists(some.just("text") | some.builds(Progress, NUMBERS) | SHARES))
async def test_the_number_of_a_report_always_grows(shown: list[Any]) -> None:
    numbers = [number for number, _, _ in await reports_of(*shown)]
    assert all(before < after < float("inf") for before, after in pairwise(numbers))
    assert len(numbers) == len(shown)
