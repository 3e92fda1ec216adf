"""Calls of the Responses API that are told in odd ways: none of them runs with less than the model wrote."""

import json
from typing import Any

import pytest

from streamkit.testing import decode

OSLO, ROME = '{"city":"Oslo"}', '{"city":"Rome"}'


def called(arguments: Any = "", name: str = "f", **fields: Any) -> dict[str, Any]:
    return {"type": "function_call", "id": "i", "call_id": "a", "name": name, "arguments": arguments, **fields}


def event(kind: str, index: int = 0, **fields: Any) -> dict[str, Any]:
    return {"type": f"response.{kind}", "output_index": index, **fields}


def added(index: int = 0, **fields: Any) -> dict[str, Any]:
    return event("output_item.added", index, item=called(**fields))


def done(arguments: Any, index: int = 0, **fields: Any) -> dict[str, Any]:
    return event("output_item.done", index, item=called(arguments, **fields))


def piece(delta: Any) -> dict[str, Any]:
    return event("function_call_arguments.delta", delta=delta)


def completed(*output: Any) -> dict[str, Any]:
    return {"type": "response.completed", "response": {"status": "completed", "output": list(output)}}


def read(*events: dict[str, Any]) -> dict[str, Any]:
    return decode("openai-responses", [b"data: " + json.dumps(each).encode() + b"\n\n" for each in events])


def test_arguments_that_come_as_an_object_are_those_of_the_call() -> None:
    for rest in ([], [event("function_call_arguments.done", arguments=OSLO)], [done(OSLO)]):
        (call,) = read(added(), piece({"city": "Oslo"}), *rest, completed())["tool_calls"]
        assert call["arguments"] == {"city": "Oslo"}
    assert [call["raw"] for call in read(added(), piece([1]), completed())["invalid_calls"]] == ["[1]"]


@pytest.mark.parametrize("told", ['{"city":"Os', "Oslo", [1], 7, True])
def test_a_call_that_is_told_whole_without_pieces_and_is_no_object_does_not_run_without_arguments(told: Any) -> None:
    for rest in ([event("function_call_arguments.done", arguments=told)], [done(told)], []):
        found = read(added(), *rest, completed(called(told)))
        assert found["tool_calls"] == []
        assert [call["raw"] for call in found["invalid_calls"]] == [told if type(told) is str else json.dumps(told)]


def test_a_call_that_is_not_whole_does_not_run_though_the_response_is() -> None:
    cut: dict[str, Any] = {"status": "incomplete"}
    found = read(added(), piece(OSLO), done(OSLO, **cut), completed(called(OSLO, **cut)))
    assert (found["tool_calls"], found["stop"]) == ([], "length")
    assert [call["reason"] for call in found["abandoned"]] == ["incomplete"]
    assert read(added(), done(OSLO, **cut), completed(called(OSLO)))["stop"] == "tool_calls"


@pytest.mark.parametrize("told", [[], [event("function_call_arguments.done", arguments=OSLO)]])
@pytest.mark.parametrize("tail", [json.dumps(completed()), "[DONE]"])
def test_nor_where_its_arguments_were_told_or_nothing_else_tells_of_the_end(told: list[Any], tail: str) -> None:
    body = "".join(f"data: {json.dumps(each)}\n\n" for each in [added(), *told, done(OSLO, status="incomplete")])
    found = decode("openai-responses", [f"{body}data: {tail}\n\n".encode()])
    assert (found["tool_calls"], found["stop"]) == ([], "length")


@pytest.mark.parametrize("nothing", ["", "null", None])
def test_what_tells_nothing_takes_no_arguments_back(nothing: str | None) -> None:
    for first in ([piece(OSLO)], [piece(OSLO), event("function_call_arguments.done", arguments=OSLO)]):
        for rest in ([event("function_call_arguments.done", arguments=nothing)], [done(nothing)]):
            (call,) = read(added(), *first, *rest, completed())["tool_calls"]
            assert call["arguments"] == {"city": "Oslo"}


@pytest.mark.parametrize("tail", [json.dumps(completed()), "[DONE]"])
def test_arguments_that_only_the_start_of_a_call_has_are_those_of_the_call(tail: str) -> None:
    for rest in ([], [done("")]):
        body = "".join(f"data: {json.dumps(each)}\n\n" for each in [added(arguments=OSLO), *rest])
        found = decode("openai-responses", [f"{body}data: {tail}\n\n".encode()])
        is_whole = bool(rest) or tail != "[DONE]"
        assert [call["arguments"] for call in found["tool_calls"]] == [{"city": "Oslo"}] * is_whole


@pytest.mark.parametrize("first", [piece(OSLO), event("function_call_arguments.done", arguments=OSLO, item_id="i")])
def test_a_call_may_be_added_behind_its_arguments(first: dict[str, Any]) -> None:
    found = read(first, added(), done(OSLO), completed(called(OSLO)))
    assert [(call["id"], call["arguments"]) for call in found["tool_calls"]] == [("a", {"city": "Oslo"})]
    assert found["invalid_calls"] == []


def test_two_calls_may_have_one_call_id() -> None:
    two = (called(OSLO), called(ROME, id="j"))
    for last in (completed(), completed(*two)):
        found = read(done(OSLO), done(ROME, 1, id="j"), last)
        assert [call["arguments"]["city"] for call in found["tool_calls"]] == ["Oslo", "Rome"]


def test_a_call_without_a_name_is_told_with_its_arguments() -> None:
    found = read(done(OSLO, name=""), completed())
    assert [(call["name"], call["raw"]) for call in found["invalid_calls"]] == [(None, OSLO)]


def test_a_turn_that_lost_its_only_call_is_no_answer() -> None:
    found = read(done(OSLO), completed(called(ROME)))
    assert (found["tool_calls"], found["stop"]) == ([], "unknown")
