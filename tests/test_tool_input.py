"""The calls of a turn: which call a piece belongs to, how it is called, and what the end of the turn makes of it."""

from typing import Any

import pytest

from streamkit.items import ToolCall
from streamkit.parts import InputDelta, InputEnd, InputPart, InputStart, WholeCall
from streamkit.tool_input import ToolInput
from streamkit.turns import (
    ToolInputAbandoned,
    ToolInputAvailable,
    ToolInputDelta,
    ToolInputEvent,
    ToolInputStart,
)


def fed(*parts: InputPart, tools: tuple[str, ...] = ()) -> tuple[ToolInput, list[ToolInputEvent]]:
    calls = ToolInput("turn_1", tools)
    return calls, [event for part in parts for event in calls.feed(part)]


def after_good_end(*parts: InputPart, tools: tuple[str, ...] = ()) -> list[tuple[str, str, str]]:
    """Id, name and arguments of the calls that may run."""
    calls, _ = fed(*parts, tools=tools)
    calls.end()
    records = [call.record("turn_1") for call in calls.calls]
    return [(call.call_id, call.name, call.arguments) for call in records if not call.problem and not call.abandoned]


def piece(text: str = "", index: int | None = 0, call_id: str | None = None, name: str | None = None) -> InputDelta:
    return InputDelta(text, index, call_id, name)


OSLO, ROME = '{"city":"Oslo"}', '{"city":"Rome"}'


@pytest.mark.parametrize(
    ("parts", "calls"),
    [
        pytest.param(
            [piece('{"city"', 0, "a", "f"), piece("{", 1, "b", "f"), piece(':"Oslo"}', 0), piece("}", 1)],
            [("a", "f", OSLO), ("b", "f", "{}")],
            id="by index",
        ),
        pytest.param(
            [piece(OSLO, None, "a", "f"), piece("{", None, "b", "f"), piece("}", None, "b")],
            [("a", "f", OSLO), ("b", "f", "{}")],
            id="without an index by id",
        ),
        pytest.param(
            [piece("", None, "a", "f"), piece("{", None), piece("}", None)],
            [("a", "f", "{}")],
            id="without both to the last",
        ),
        pytest.param(
            [piece("", None, "a", "f"), piece('{"city":'), piece('"Oslo"}')],
            [("a", "f", OSLO)],
            id="with an index that comes late",
        ),
        pytest.param(
            [piece("", None, "a", "f"), piece('{"city":', 0, "a", "f"), piece('"Oslo"}')],
            [("a", "f", OSLO)],
            id="with an index that comes late, and all that was told again",
        ),
        pytest.param(
            [piece("", None, "a", "f"), piece(OSLO, 0, "b", "g")],
            [("a", "f", "{}"), ("b", "g", OSLO)],
            id="an index that comes late, of another call",
        ),
        pytest.param(
            [
                piece('{"a":1}', None, "a", "f"),
                piece("{", None, "b", "g"),
                piece('{"a":1}', None, "a"),
                piece("}", None),
            ],
            [("a", "f", '{"a":1}'), ("b", "g", "{}")],
            id="the last is the one begun last",
        ),
        pytest.param(
            [piece("{", 0, "a", "f"), piece("}", 0, "b")], [("a", "f", "{}")], id="a changed id alone is a repeat"
        ),
        pytest.param(
            [piece("", 0, "a", "f"), piece("{}", 0, "b", "g")],
            [("a", "f", "{}"), ("b", "g", "{}")],
            id="a new id with a name on a used index",
        ),
        pytest.param(
            [piece(OSLO, 0, "a", "f"), piece(ROME, 0, "b")],
            [("a", "f", OSLO)],
            id="a new id after a whole object, but then no name",
        ),
        pytest.param(
            [piece(OSLO, 0, "a", "f"), piece("", 0, "b"), piece(ROME, 0, None, "g")],
            [("a", "f", OSLO), ("b", "g", ROME)],
            id="a new id after a whole object, its name later",
        ),
        pytest.param(
            [piece(OSLO, 0, None, "f"), piece(ROME, 0, None, "g")],
            [("call_1_0", "f", OSLO), ("call_1_1", "g", ROME)],
            id="a new name after a whole object",
        ),
        pytest.param(
            [piece(OSLO, 0, None, "f"), piece(ROME, 0, None, "f")],
            [("call_1_0", "f", OSLO), ("call_1_1", "f", ROME)],
            id="the same name after a whole object, without any ids",
        ),
        pytest.param(
            [piece("{", 0, "a", "f"), piece("}", 0, "a", "f"), piece("", 0, "a", "f")],
            [("a", "f", "{}")],
            id="id and name repeated",
        ),
        pytest.param(
            [piece("{", 0, None, "f"), piece("}", 0, "late"), piece("", 0, "later")],
            [("late", "f", "{}")],
            id="the first id wins, also when it is late",
        ),
        pytest.param(
            [piece(OSLO, 0, "a", "f"), piece(ROME, 1, "a", "f"), piece("{}", 2, "a", "f")],
            [("a", "f", OSLO), ("call_1_1", "f", ROME), ("call_1_2", "f", "{}")],
            id="an id that is taken",
        ),
        pytest.param(
            [piece(OSLO, 0, "a", "f"), piece("", 0, "b", "g"), piece('{"city":', 1), piece('"Rome"}', 1)],
            [("a", "f", OSLO), ("b", "g", ROME)],
            id="begun at the index of another call, its own index comes later",
        ),
        pytest.param(
            [piece("", 1), piece(OSLO, 0, "a", "f"), piece("", 1, "", ""), InputDelta()],
            [("a", "f", OSLO)],
            id="what says nothing begins no call",
        ),
        pytest.param(
            [
                WholeCall("f", OSLO, "a"),
                WholeCall("f", '{"city": "Oslo"}', "a"),
                WholeCall("f", ROME, "a"),
                WholeCall("f", OSLO),
                WholeCall("f", OSLO),
            ],
            [("a", "f", OSLO), ("call_1_1", "f", ROME), ("call_1_2", "f", OSLO), ("call_1_3", "f", OSLO)],
            id="a whole call that is told twice, its id too",
        ),
        pytest.param(
            [
                WholeCall("f", OSLO),
                WholeCall("f", ROME, "call_1_0"),
                WholeCall("f", "{}", "call_1_3"),
                WholeCall("g", ""),
            ],
            [("call_1_0", "f", OSLO), ("call_1_1", "f", ROME), ("call_1_3", "f", "{}"), ("call_1_3_", "g", "{}")],
            id="an id that looks like one of ours",
        ),
        pytest.param(
            [WholeCall("f", {"city": "Oslo"}), WholeCall("f", ROME), WholeCall("g", "", "a")],
            [("call_1_0", "f", OSLO), ("call_1_1", "f", ROME), ("a", "g", "{}")],
            id="whole calls",
        ),
        pytest.param(
            [
                InputStart(0, "a", "f"),
                InputStart(1, "b", "g"),
                piece("{}", 1),
                piece(OSLO, 0),
                InputEnd(1),
                InputEnd(0),
            ],
            [("a", "f", OSLO), ("b", "g", "{}")],
            id="starts and ends",
        ),
        pytest.param(
            [InputStart(None, None, "f"), piece(OSLO, None), InputEnd(), InputStart(None, None, "f"), InputEnd()],
            [("call_1_0", "f", OSLO), ("call_1_1", "f", "{}")],
            id="starts and ends without ids and indexes",
        ),
        pytest.param(
            [InputStart(0, "a", "f"), InputStart(0, "a", "f"), piece("{}"), InputEnd(0), InputEnd(0), InputEnd(7)],
            [("a", "f", "{}")],
            id="a start and an end repeated",
        ),
        pytest.param(
            [InputStart(0, "a", "f"), piece('{"ci'), InputEnd(None, "a", OSLO)],
            [("a", "f", OSLO)],
            id="an end with the whole arguments",
        ),
        pytest.param(
            [
                *(InputStart(0, "a", "f"), piece(OSLO), InputEnd(0, None, "{}")),
                *(InputStart(1, "b", "f"), InputEnd(1, None, "{}")),
            ],
            [("a", "f", OSLO), ("b", "f", "{}")],
            id="an end with an empty object takes nothing back",
        ),
    ],
)
def test_each_piece_finds_its_call(parts: list[InputPart], calls: list[Any]) -> None:
    assert after_good_end(*parts) == calls


@pytest.mark.parametrize(
    ("names", "tools", "name"),
    [
        (["get_", "weather"], ("get_weather",), "get_weather"),
        (["get", "_wea", "ther"], ("get_weather",), "get_weather"),
        (["get", "_weather"], ("get", "get_weather"), "get"),
        (["get_weather", "get_weather"], ("get_weather",), "get_weather"),
        (["get_", "weather"], ("other",), "get_"),
        (["get_", "weather"], (), "get_"),
    ],
)
def test_pieces_of_a_name_are_joined_when_only_that_is_a_known_tool(
    names: list[str], tools: tuple[str, ...], name: str
) -> None:
    parts = [piece("", 0, "a" if place == 0 else None, some) for place, some in enumerate(names)]
    calls, events = fed(*parts, piece("{}"), tools=tools)
    assert events == [ToolInputStart("a", name), ToolInputDelta("a", "{}")]
    assert calls.end() == [ToolInputAvailable("a", "{}")]


@pytest.mark.parametrize("index", [0, None])
@pytest.mark.parametrize("first", ["", "{}"])
def test_the_name_of_another_known_tool_begins_a_call_though_the_one_before_has_no_text(
    index: int | None, first: str
) -> None:
    parts = [piece(first, index, None, "now"), piece(OSLO, index, None, "search"), piece("", index, None, "now")]
    assert after_good_end(*parts, tools=("now", "search")) == [
        ("call_1_0", "now", "{}"),
        ("call_1_1", "search", OSLO),
        ("call_1_2", "now", "{}"),
    ]


def test_but_not_where_the_id_says_that_it_is_the_same_call() -> None:
    parts = [piece("", 0, "a", "get"), piece("{}", 0, "a", "get_all")]
    assert after_good_end(*parts, tools=("get", "get_all")) == [("a", "get", "{}")]


def test_a_name_does_not_grow_after_argument_text() -> None:
    parts = [piece("{", 0, "a", "get_"), piece("}", 0, None, "weather")]
    assert after_good_end(*parts, tools=("get_weather",)) == [("a", "get_", "{}")]


def test_a_known_name_is_announced_at_once() -> None:
    _, events = fed(piece("", 0, "a", "get"), tools=("get", "get_weather"))
    assert events == [ToolInputStart("a", "get")]


def test_a_call_is_announced_with_id_and_name_and_its_first_delta_is_what_came_before() -> None:
    _, events = fed(piece('{"a'), piece('":', 0, "a"), piece("1", 0, None, "f"), piece("}"))
    assert events == [
        ToolInputStart("a", "f"),
        ToolInputDelta("a", '{"a":'),
        ToolInputDelta("a", "1"),
        ToolInputDelta("a", "}"),
    ]


def test_a_call_that_gets_no_id_does_not_wait_for_one() -> None:
    _, events = fed(InputStart(0, None, "f", without_id=True), piece("{", 0, "late"), InputStart(1, None, "g"))
    assert events == [ToolInputStart("call_1_0", "f"), ToolInputDelta("call_1_0", "{")]


def test_the_next_call_ends_the_one_before_that_is_whole() -> None:
    calls, events = fed(piece(OSLO, 0, "a", "f"), piece("", 1, "b", "g"))
    assert events == [
        ToolInputStart("a", "f"),
        ToolInputDelta("a", OSLO),
        ToolInputAvailable("a", OSLO),
        ToolInputStart("b", "g"),
    ]
    assert calls.end() == [ToolInputDelta("b", "{}"), ToolInputAvailable("b", "{}")]


def test_the_next_call_does_not_end_one_that_has_an_end_of_its_own() -> None:
    _, events = fed(InputStart(0, "a", "f"), piece("{}"), InputStart(1, "b", "g"), InputEnd(0))
    assert events[-2:] == [ToolInputStart("b", "g"), ToolInputAvailable("a", "{}")]


def test_a_call_without_a_name_has_no_events_but_is_there() -> None:
    calls, events = fed(piece("{}", 0, "a"), piece("{", 1))
    assert events + calls.end() == []
    assert [call.record("turn_1") for call in calls.calls] == [
        ToolCall("a", "", "{}", "turn_1", 0, "the call has no name"),
        ToolCall("call_1_1", "", "{", "turn_1", 1, "the call has no name"),
    ]


def test_a_call_that_ended_without_one_object_is_malformed_when_the_turn_ends() -> None:
    calls, events = fed(InputStart(0, "a", "f"), piece("[]"), InputEnd(0))
    assert events == [ToolInputStart("a", "f")]
    problem = "the arguments are not one JSON object: an array came instead"
    assert calls.end() == [ToolInputDelta("a", "[]"), ToolInputAbandoned("a", "malformed", problem)]
    assert calls.calls[0].record("turn_1") == ToolCall("a", "f", "[]", "turn_1", 0, problem)


def abandoned_by_cut(*parts: InputPart) -> list[tuple[str, str]]:
    calls, _ = fed(*parts)
    events = calls.cut("why")
    assert all(call.abandoned for call in calls.calls)
    return [(event.call_id, event.reason) for event in events if isinstance(event, ToolInputAbandoned)]


@pytest.mark.parametrize(
    ("parts", "abandoned"),
    [
        ([piece("{", 0, "a", "f")], [("a", "incomplete")]),
        ([piece(OSLO, 0, "a", "f")], [("a", "incomplete")]),
        ([piece(OSLO, 0, "a", "f"), piece("{", 1, "b", "g")], [("a", "discarded"), ("b", "incomplete")]),
        (
            [piece("{", 0, "a", "f"), piece("{", 1, "b", "g"), piece("}"), piece("}", 1)],
            [("a", "discarded"), ("b", "incomplete")],
        ),
        ([WholeCall("f", "{}", "a"), WholeCall("f", "{", "b")], [("a", "discarded"), ("b", "incomplete")]),
        (
            [InputStart(0, "a", "f"), piece("{}"), InputStart(1, "b", "g"), InputEnd(1)],
            [("a", "incomplete"), ("b", "discarded")],
        ),
        ([piece("{", 0, None, "f")], [("call_1_0", "incomplete")]),
        ([piece("{}", 0, "a")], []),
    ],
)
def test_a_cut_turn_abandons_every_call(parts: list[InputPart], abandoned: list[tuple[str, str]]) -> None:
    assert abandoned_by_cut(*parts) == abandoned


def test_a_cut_after_the_end_takes_back_what_was_available() -> None:
    calls, _ = fed(piece(OSLO, 0, "a", "f"), piece("[]", 1, "b", "g"), piece("", 2, "c"))
    calls.end()
    assert calls.cut("why") == [ToolInputAbandoned("a", "discarded", "why")]
    assert [call.abandoned for call in calls.calls] == ["discarded"] * 3
    assert calls.cut("again") == []


def test_a_closing_record_without_a_name_is_kept_as_it_came() -> None:
    calls, _ = fed(InputStart(0, "a"), InputEnd(0, arguments=OSLO))
    calls.end()
    (call,) = [call.record("turn_1") for call in calls.calls]
    assert (call.arguments, call.problem) == (OSLO, "the call has no name")
