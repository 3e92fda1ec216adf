"""The cases of `cases/validation.json`, read in place: data for a tool with a schema, scripts for the loop."""

import json
from pathlib import Path
from typing import Any

import pytest

from streamkit.conversation import Conversation
from streamkit.conversing import converse
from streamkit.errors import InvalidInput
from streamkit.items import Message, ToolOutput, user
from streamkit.testing.grammar import check_grammar
from streamkit.testing.histories import check_items
from streamkit.testing.scripted import ScriptedModel, call
from streamkit.tool_events import Failure, Output, RunEvent, ToolStarted
from streamkit.tools.decorators import tool
from streamkit.tools.tool import Tool
from streamkit.tools.toolkit import Toolkit

FILE = Path(__file__).parents[2] / "shared" / "cases" / "validation.json"
CASES = json.loads(FILE.read_text("utf-8")) if FILE.exists() else []
OF_SCHEMAS = {case["id"]: case for case in CASES if "schema" in case["input"]}


async def hand_back(**arguments: Any) -> dict[str, Any]:
    return arguments


@pytest.mark.parametrize("name", OF_SCHEMAS)
def test_arguments_are_mended_or_refused_with_a_message(name: str) -> None:
    given, expect = OF_SCHEMAS[name]["input"], OF_SCHEMAS[name]["expect"]
    it = Tool(name="it", description="It.", input=given["schema"], function=hand_back)
    text = json.dumps(given["arguments"])
    if "arguments" in expect:
        assert it.decode(text) == it.convert(given["arguments"]) == expect["arguments"]
        return
    with pytest.raises(InvalidInput) as raised:
        it.decode(text)
    message = str(raised.value)
    assert all(f"{field}: required" in message for field in expect["error_names"])
    assert f"received fields: {', '.join(given['arguments'])}" in message
    assert len(message) < 1000
    assert ".py" not in message
    assert "Traceback" not in message


def test_every_case_is_played() -> None:
    played = {"valid-heal-once", "valid-heal-gives-up", "valid-invalid-json-is-told", *OF_SCHEMAS}
    assert {case["id"] for case in CASES} <= played


ran: list[tuple[int, int]] = []


@tool
async def add(a: int, b: int) -> int:
    """Adds."""
    ran.append((a, b))
    return a + b


@tool
async def write(path: str, content: str) -> None:
    """Writes."""


async def played(model: ScriptedModel, **options: Any) -> tuple[list[RunEvent], Conversation]:
    ran.clear()
    async with converse(model, Toolkit(add, write), (user("go"),), **options).open() as events:
        collected = [event async for event in events]
    check_grammar(collected)
    check_items(events.value.history)
    return collected, events.value


async def test_heal_once() -> None:
    model = ScriptedModel([call("add", {"a": 1})], [call("add", {"a": 1, "b": 2})], ["3"])
    _, state = await played(model)
    assert ran == [(1, 2)]
    output = model.requests[1].history[-1]
    assert isinstance(output, ToolOutput)
    assert (output.call_id, output.failed) == ("call_1", True)
    assert "b: required" in output.text
    last = state.history[-1]
    assert (isinstance(last, Message) and last.text, state.ended) == ("3", "answer")


async def test_heal_gives_up() -> None:
    model = ScriptedModel(*[[call("add", {"a": 1})]] * 10)
    events, state = await played(model, max_repairs=2)
    assert (len(model.requests), ran, state.ended, state.turns) == (3, [], "repair_limit", 3)
    last = events[-1]
    assert isinstance(last, Output)
    assert isinstance(last.result, Failure)
    assert (last.tool, last.result.kind) == ("add", "invalid_input")
    assert "b: required" in last.result.message


async def test_invalid_json_is_told() -> None:
    model = ScriptedModel([call("write", '{"path": "a')], ["ok"])
    events, _ = await played(model)
    assert not any(isinstance(event, ToolStarted) for event in events)
    (output,) = (item for item in model.requests[1].history if isinstance(item, ToolOutput))
    assert (output.call_id, output.failed) == ("call_1", True)
    assert output.text == (
        "The call of write did not run: the arguments are not valid JSON: "
        'Unterminated string starting at (character 9, near \'{"path": "a\')'
    )


# The limit of repairs


WRONG, RIGHT = call("add", {"a": 1}), call("add", {"a": 1, "b": 2})


async def test_a_right_call_gives_the_model_its_tries_again() -> None:
    model = ScriptedModel([WRONG], [WRONG], [RIGHT], [WRONG], [WRONG], ["ok"])
    _, state = await played(model)
    assert (state.ended, len(ran)) == ("answer", 1)


async def test_calls_side_by_side_are_one_try() -> None:
    model = ScriptedModel([WRONG] * 3, [WRONG, RIGHT], [WRONG] * 3, ["ok"])
    _, state = await played(model, max_repairs=1)
    assert state.ended == "answer"


async def test_each_tool_has_its_own_tries() -> None:
    wrong_too = call("write", {"path": "a"})
    model = ScriptedModel([WRONG], [wrong_too], [WRONG], [wrong_too], ["ok"])
    _, state = await played(model, max_repairs=2)
    assert state.ended == "answer"
    _, state = await played(ScriptedModel([WRONG], [wrong_too], [WRONG], [wrong_too], ["ok"]), max_repairs=1)
    assert (state.ended, state.turns) == ("repair_limit", 3)


async def test_without_repairs_the_first_wrong_call_ends_the_run() -> None:
    _, state = await played(ScriptedModel([call("add", "[1]")]), max_repairs=0)
    assert (state.ended, state.turns) == ("repair_limit", 1)
    with pytest.raises(ValueError, match="max_repairs"):
        _ = converse(ScriptedModel(), Toolkit(add), (user("go"),), max_repairs=-1)


async def test_a_run_that_gave_up_may_go_on_and_counts_anew() -> None:
    run = converse(ScriptedModel(*[[WRONG]] * 5, ["ok"]), Toolkit(add), (user("go"),), max_repairs=1)
    state = await run
    assert (state.ended, state.turns) == ("repair_limit", 2)
    assert (await run).ended == "repair_limit"  # each opening is a run of its own
    model = ScriptedModel([WRONG], ["ok"])
    state = await converse(model, Toolkit(add), state.say(user("again")), max_repairs=1)
    assert state.ended == "answer"
