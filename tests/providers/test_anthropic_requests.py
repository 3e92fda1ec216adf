"""What goes to the Messages API beside the history: wishes, tools, marks for the cache."""

import json

import pytest

from streamkit.items import ToolOutput, UnknownItem, assistant, user
from streamkit.providers.anthropic import OUTPUT_TOKENS, encode_request
from streamkit.turns import TurnRequest

from .anthropic_requests import MARK, SPEC, body_of, call, said


def test_a_plain_request_holds_nothing_that_was_not_asked_for() -> None:
    assert body_of(TurnRequest((user("hi"),))) == {
        "model": "m",
        "max_tokens": OUTPUT_TOKENS,
        "messages": [{"role": "user", "content": [said("hi")]}],
        "stream": True,
    }


def test_all_wishes_are_written() -> None:
    body = body_of(
        TurnRequest(
            (user("hi"),),
            (SPEC,),
            instructions="Be brief.",
            max_output_tokens=9,
            stop=("END",),
            output={"type": "object", "properties": {"a": {"type": "string"}}},
            reasoning_effort="low",
        )
    )
    schema = {"type": "object", "properties": {"a": {"type": "string"}}, "additionalProperties": False}
    del body["messages"]
    assert body == {
        "model": "m",
        "stream": True,
        "system": [said("Be brief.")],
        "tools": [{"name": "search", "description": "Searches.", "input_schema": SPEC.parameters}],
        "max_tokens": 9,
        "stop_sequences": ["END"],
        "output_config": {"effort": "low", "format": {"type": "json_schema", "schema": schema}},
        "thinking": {"type": "adaptive", "display": "summarized"},
    }


def test_extra_goes_over_everything_else() -> None:
    thinking = {"type": "enabled", "budget_tokens": 1024}
    body = body_of(TurnRequest((), reasoning_effort="high", extra={"thinking": thinking, "max_tokens": 5, "top_k": 1}))
    assert (body["thinking"], body["max_tokens"], body["top_k"]) == (thinking, 5, 1)


def test_blank_instructions_are_left_out() -> None:
    assert "system" not in body_of(TurnRequest((), instructions=" \n"))


@pytest.mark.parametrize(
    ("choice", "parallel", "written"),
    [
        ("auto", None, None),
        ("auto", True, None),
        ("auto", False, {"type": "auto", "disable_parallel_tool_use": True}),
        ("none", False, {"type": "none"}),
        ("required", None, {"type": "any"}),
        ("required", False, {"type": "any", "disable_parallel_tool_use": True}),
        ("search", False, {"type": "tool", "name": "search", "disable_parallel_tool_use": True}),
    ],
)
def test_the_choice_of_tools_is_written_as_the_dialect_has_it(
    choice: str, parallel: bool | None, written: object
) -> None:
    request = TurnRequest((), (SPEC,), tool_choice=choice, parallel_calls=parallel)
    assert body_of(request).get("tool_choice") == written
    assert "tool_choice" not in body_of(TurnRequest((), tool_choice=choice, parallel_calls=parallel))


@pytest.mark.parametrize(("choice", "thinks"), [("auto", True), ("none", True), ("required", False), ("search", False)])
def test_a_model_that_must_call_is_not_asked_to_think(choice: str, thinks: bool) -> None:
    body = body_of(TurnRequest((), (SPEC,), tool_choice=choice, reasoning_effort="max"))
    assert ("thinking" in body, body["output_config"]) == (thinks, {"effort": "max"})


@pytest.mark.parametrize(("effort", "sent"), [(None, 0.5), ("low", None)])
def test_a_model_that_thinks_is_asked_without_a_temperature(effort: str | None, sent: float | None) -> None:
    body = body_of(TurnRequest((), temperature=0.5, reasoning_effort=effort))
    assert body.get("temperature") == sent


# Marks for the cache


def test_tools_instructions_and_the_last_two_messages_of_the_person_are_marked() -> None:
    history = (user("a"), assistant("b"), user("c"), call("1"), ToolOutput("1", "f", "d"), user("e"))
    body = body_of(TurnRequest(history, (SPEC,), instructions="i"), cache=True)
    assert body["system"] == [said("i", **MARK)]
    marked = [
        (message["role"], block.get("text")) for message in body["messages"] for block in message["content"]
        if "cache_control" in block
    ]  # fmt: skip
    assert marked == [("user", "c"), ("user", "e")]
    assert "cache_control" not in json.dumps(body["tools"])


def test_without_instructions_the_last_tool_is_marked() -> None:
    body = body_of(TurnRequest((user("a"),), (SPEC, SPEC)), cache=True)
    assert ["cache_control" in tool for tool in body["tools"]] == [False, True]
    assert body["messages"] == [{"role": "user", "content": [said("a", **MARK)]}]
    assert "system" not in body


def test_marks_leave_no_trace_in_a_history_and_can_be_left_out() -> None:
    block = {"type": "fallback"}
    request = TurnRequest((user("a"), UnknownItem(block, "anthropic")), (SPEC,), instructions="i")
    body = encode_request(request, "m")
    assert json.dumps(body).count("cache_control") == 2
    assert "cache_control" not in json.dumps(body_of(request))
    assert block == {"type": "fallback"}
