"""Calls of Gemini, whole and in pieces."""

import json
from typing import Any

import pytest

from streamkit.items import ToolCall
from streamkit.turns import ToolInputAvailable, ToolInputDelta, ToolInputStart

from ..streams import assert_consistent
from .gemini_events import BEGIN, END, STOP, call, pieces, read, said, value


def test_a_whole_call_is_one_delta_of_compact_json() -> None:
    found = read(said(call("f", args={"city": "Zürich", "n": [1, 2.5, None]}, id="a")), STOP)
    text = '{"city":"Zürich","n":[1,2.5,null]}'
    assert found.events == [ToolInputStart("a", "f"), ToolInputDelta("a", text), ToolInputAvailable("a", text)]
    assert (found.turn.stop_reason, found.turn.stop_word) == ("tool_calls", "STOP")


@pytest.mark.parametrize("fields", [{}, {"args": None}, {"args": {}}, {"willContinue": False}])
def test_a_call_may_have_no_arguments(fields: dict[str, Any]) -> None:
    assert [item.arguments for item in read(said(call("f", **fields)), STOP).turn.calls] == ["{}"]


@pytest.mark.parametrize(
    ("told", "problem"),
    [(call(args={"x": 1}), "the call has no name"), (call("f", args=[1]), "the arguments are not one JSON object: an")],
)
def test_a_call_that_cannot_run_is_told(told: dict[str, Any], problem: str) -> None:
    (item,) = read(said(told), STOP).turn.calls
    assert str(item.problem).startswith(problem)


@pytest.mark.parametrize("fields", [{}, {"willContinue": False}, {"id": "a"}, {"args": {}}])
def test_an_empty_call_that_ends_nothing_is_nothing(fields: dict[str, Any]) -> None:
    assert read(said(call(**fields)), STOP).turn.items == ()


def test_values_are_put_at_their_paths_and_shown_as_they_come() -> None:
    found = read(
        said(call("write", "s", willContinue=True)),
        said(pieces(value("$.path", "a.", goes_on=True))),
        said(pieces(value("$.path", "txt", goes_on=True))),
        said(pieces(value("$.path", ""))),
        said(call(willContinue=True)),
        said(pieces(value("$.lines[0]", "x"), value("$.lines[1]", 2), value("$.flags.new", True))),
        said(pieces(value("$.mode", None), goes_on=False)),
        STOP,
    )
    text = '{"path":"a.txt","lines":["x",2],"flags":{"new":true},"mode":null}'
    deltas = ["{", '"path":"a.', "txt", '"', ',"lines":["x",2],"flags":{"new":true', '},"mode":null', "}"]
    assert found.events == [
        ToolInputStart("call_1_0", "write"),
        *(ToolInputDelta("call_1_0", delta) for delta in deltas),
        ToolInputAvailable("call_1_0", text),
    ]
    assert found.turn.calls[0].opaque == {"gemini": {"thoughtSignature": "s"}}


def test_a_call_in_pieces_keeps_its_id() -> None:
    turn = read(said(call("f", willContinue=True, id="a")), said(pieces(value("$.x", 1), goes_on=False)), STOP).turn
    assert turn.calls == (ToolCall("a", "f", '{"x":1}', "turn_1", opaque={"gemini": {"id": "a"}}),)


def test_an_id_that_comes_late_goes_back_all_the_same() -> None:
    turn = read(BEGIN, said(pieces(value("$.x", 1), goes_on=False, id="late")), STOP).turn
    assert turn.calls == (ToolCall("call_1_0", "f", '{"x":1}', "turn_1", opaque={"gemini": {"id": "late"}}),)


def test_values_that_come_out_of_order_are_all_there() -> None:
    found = read(
        BEGIN,
        said(pieces(value("$.a.x", 1), value("$.b", "t", goes_on=True), value("$.a.y", 2), value("$.b", "u"))),
        END,
        STOP,
    )
    assert json.loads(found.turn.calls[0].arguments) == {"a": {"x": 1, "y": 2}, "b": "tu"}
    assert_consistent(found)


def test_whole_arguments_beside_pieces_win() -> None:
    found = read(BEGIN, said(pieces(value("$.x", "a", goes_on=True))), said(call(args={"x": "ab", "y": [1]})), STOP)
    assert json.loads(found.turn.calls[0].arguments) == {"x": "ab", "y": [1]}
    assert_consistent(found)
    turn = read(said(call("f", args={"y": [1]}, willContinue=True)), said(pieces(value("$.x", 2))), END, STOP).turn
    assert turn.calls[0].arguments == '{"y":[1],"x":2}'


@pytest.mark.parametrize(
    "bad",
    [
        {"stringValue": "no path"},
        {"jsonPath": 5, "stringValue": "x"},
        {"jsonPath": "$[0]", "numberValue": 1},
        {"jsonPath": "$.x.y", "numberValue": 1},
        {"jsonPath": "$.y", "numberValue": {"a": 1}},
        {"jsonPath": "$.y", "stringValue": ["a"]},
    ],
)
def test_values_that_make_no_object_spoil_their_call_alone(bad: dict[str, Any]) -> None:
    found = read(BEGIN, said(pieces(value("$.x", 1), bad, value("$.z", 2))), END, said(call("g", args={})), STOP)
    assert_consistent(found)
    spoiled, whole = found.turn.calls
    assert str(spoiled.problem).startswith("the arguments are not one JSON object")
    assert spoiled.arguments == '{"x":1' + "".join(json.dumps(each) for each in (bad, value("$.z", 2)))
    assert (whole.name, whole.problem) == ("g", None)


def test_an_array_with_holes_is_no_argument() -> None:
    found = read(BEGIN, said(pieces(value("$.x[1]", 1))), END, STOP)
    assert found.turn.calls[0].problem is not None
    assert_consistent(found)


def test_a_value_that_says_nothing_adds_nothing() -> None:
    odd = {"jsonPath": "$.x", "willContinue": True, "newValue": 5}
    assert read(BEGIN, said(pieces(odd, value("$.y", 1))), END, STOP).turn.calls[0].arguments == '{"y":1}'


@pytest.mark.parametrize("last", [STOP, said(call("g", args={}), finish="STOP"), said(finish="A_NEW_ONE")])
def test_the_good_end_or_the_next_call_ends_a_call_that_nobody_ended(last: dict[str, Any]) -> None:
    turn = read(BEGIN, said(pieces(value("$.x", 1))), last).turn
    assert (turn.calls[0].arguments, turn.calls[0].problem) == ('{"x":1}', None)


@pytest.mark.parametrize("last", [STOP, said(call("f", willContinue=True)), said(call("g", args={}))])
def test_but_not_inside_of_a_value(last: dict[str, Any]) -> None:
    found = read(BEGIN, said(pieces(value("$.x", "cut", goes_on=True))), last, STOP)
    assert found.turn.calls[0].arguments == '{"x":"cut'
    assert found.turn.calls[0].problem is not None
    assert_consistent(found)


@pytest.mark.parametrize("word", ["MAX_TOKENS", "SAFETY"])
def test_a_turn_that_is_cut_leaves_its_call_incomplete(word: str) -> None:
    found = read(BEGIN, said(pieces(value("$.x", 1)), finish=word))
    assert found.turn.calls == ()
    assert [(item.arguments, item.abandoned) for item in found.turn.dropped] == [('{"x":1', "incomplete")]


def test_a_call_that_was_begun_and_never_ended_does_not_run_without_arguments() -> None:
    found = read(BEGIN, said({"text": "a"}, finish="MAX_TOKENS"))
    assert [item.abandoned for item in found.turn.dropped] == ["incomplete"]


@pytest.mark.parametrize(
    ("told", "texts"),
    [
        (call("f", willContinue=True), ['{"x":1}', '{"y":2}']),
        (pieces(name="g"), ['{"x":1}', '{"y":2}']),
        (pieces(value("$.z", 3), name="g"), ['{"x":1}', '{"z":3,"y":2}']),
        (pieces(value("$.z", 3), name="f"), ['{"x":1,"z":3,"y":2}']),
        (pieces(value("$.z", 3), name="f", id="b"), ['{"x":1}', '{"z":3,"y":2}']),
        (pieces(value("$.z", 3), name="f", id="a"), ['{"x":1,"z":3,"y":2}']),
        (pieces(value("$.z", 3), id="b"), ['{"x":1,"z":3,"y":2}']),
        (pieces(value("$.z", 3), name=""), ['{"x":1,"z":3,"y":2}']),
    ],
)
def test_a_name_begins_another_call_unless_it_is_repeated(told: dict[str, Any], texts: list[str]) -> None:
    begin = said(call("f", willContinue=True, id="a"))
    turn = read(
        begin, said(pieces(value("$.x", 1))), said(told), said(pieces(value("$.y", 2), goes_on=False)), STOP
    ).turn
    assert [item.arguments for item in turn.calls] == texts


def test_pieces_of_calls_that_are_written_at_the_same_time_go_by_their_ids() -> None:
    def text(piece: str, call_id: str, **fields: Any) -> dict[str, Any]:
        return said(pieces(value("$.x", piece, goes_on=fields.get("goes_on", True)), id=call_id, **fields))

    begun = [text("a", "1", name="f"), text("b", "2", name="g")]
    ended = [text("A", "1", goes_on=False), text("B", "2", goes_on=False)]
    turn = read(*begun, *ended, STOP).turn
    assert [(item.name, item.arguments, item.problem) for item in turn.calls] == [
        ("f", '{"x":"aA"}', None),
        ("g", '{"x":"bB"}', None),
    ]
    assert [item.problem is None for item in read(*begun, ended[1], STOP).turn.calls] == [False, True]
