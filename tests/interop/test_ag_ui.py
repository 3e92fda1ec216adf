"""The client of AG-UI that others wrote, against a real server: what a front end has after each run."""

import base64
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import anyio
import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from streamkit import (
    Conversation,
    Flow,
    ReasoningDelta,
    RunEvent,
    ToolError,
    Toolkit,
    ToolOutput,
    TurnRequest,
    converse,
    count,
    last,
    streaming_tool,
    tool,
    user,
)
from streamkit.errors import ProviderError
from streamkit.testing import ScriptedModel, call, interleave, stop
from streamkit.web.application import app
from streamkit.web.requests import RunRequest
from streamkit.web.response import FlowResponse
from streamkit.wire.ag_ui import AgUiEncoder
from streamkit.wire.ag_ui_input import from_run_input
from streamkit.wire.seals import Seal

from ..wire.runs import RUNS, Made, play
from .parts import needs_node
from .serving import run_node, serve

pytestmark = needs_node

SEAL = Seal()
LARGE = 2_000_000
PICK = {"name": "pick", "description": "Picks a color.", "parameters": {"type": "object", "properties": {}}}

left: list[str] = []  # what was cleaned up, for the test that stops a run


@tool
async def read(p: str) -> str:
    """Reads."""
    return f"read {p}"


@streaming_tool(reduce=last(int, default=0))
async def steps(upto: int) -> AsyncIterator[int]:
    """Counts."""
    for number in range(upto + 1):
        yield number


@tool
async def fails() -> None:
    """Fails."""
    raise ToolError("failed on purpose")


@tool(approval=True)
async def send(to: str) -> str:
    """Sends."""
    return f"sent to {to}"


@tool
async def large() -> str:
    """Gives a lot."""
    return "x" * LARGE


@streaming_tool(reduce=count())
async def endless() -> AsyncIterator[int]:
    """Goes on until it is stopped."""
    try:
        yield 0
        await anyio.sleep_forever()
    finally:
        left.append("endless")


@tool
def delegate(p: str) -> Flow[RunEvent, str]:
    """Has an inner run."""
    model = ScriptedModel(
        ["Let me see.", call("read", {"p": p}, call_id="a"), call("fails", {}, call_id="b")], ["inside"]
    )
    return converse(model, Toolkit(read, fails), (user("look"),)).then(lambda state: state.ended or "")


TOOLKIT = Toolkit(read, steps, fails, send, large, endless, delegate)

SCRIPTS: dict[str, list[list[Any]]] = {
    "calls": [
        [
            ReasoningDelta("Hm."),
            "Let me see.",
            interleave(
                call("read", {"p": "a\u2028\U0001f600"}, call_id="a", split=3),
                call("steps", {"upto": 3}, call_id="b", split=2),
                call("fails", {}, call_id="c"),
            ),
        ],
        ["Done."],
    ],
    "inner": [[call("delegate", {"p": "x"}, call_id="a")], ["Done."]],
    "large": [[call("large", {}, call_id="d")], ["Done."]],
    "cut": [[call("read", {"p": "x"}, call_id="a"), call("read", '{"p"', call_id="b", ends=False), stop("length")]],
    "malformed": [[call("read", '["p"]', call_id="a")], ["Sorry."]],
    "breaks": [["Hi", call("read", '{"p', call_id="a", ends=False), ProviderError("no capacity")]],
    "send": [
        ["I send.", call("send", {"to": "Ann"}, call_id="s"), call("read", {"p": "x"}, call_id="r")],
        ["Sent?"],
    ],
    "twice": [[call("send", {"to": "Ann"}, call_id="s"), call("send", {"to": "Bob"}, call_id="t")], ["Done."]],
    "pick": [["Which?", call("pick", {}, call_id="p"), call("read", {"p": "x"}, call_id="r")], ["Fine."]],
    "both": [[call("pick", {}, call_id="p"), call("send", {"to": "Ann"}, call_id="s")], ["Fine."]],
    "stop": [["I go on.", call("endless", {}, call_id="e")], ["Well."]],
    "more": [["And more."]],
}  # fmt: skip

heard: list[TurnRequest] = []


class Scripted:
    """Says the first turn of a script, and the second once results are the last thing in the history."""

    name = "scripted"

    def __init__(self, script: str) -> None:
        self._turns = SCRIPTS[script]

    def stream_turn(self, request: TurnRequest) -> Any:
        heard.append(request)
        has_results = isinstance(request.history[-1], ToolOutput)
        return ScriptedModel(self._turns[-1 if has_results else 0]).stream_turn(request)


def _start(run: RunRequest) -> Flow[RunEvent, Conversation]:
    model, toolkit = Scripted(run.data["forwardedProps"]["script"]), run.toolkit_with(TOOLKIT)
    return converse(model, toolkit, run.conversation, authorize=run.authorize, running=run.running, journal=run.journal)


async def _route_of_ones_own(request: Request) -> Response:
    asked = from_run_input(await request.json(), seal=SEAL)
    model = Scripted(asked.data["forwardedProps"]["script"])
    flow = converse(model, asked.toolkit_with(TOOLKIT), asked.conversation, authorize=asked.authorize())
    return FlowResponse(flow, asked.encoder())


OURS = app(_start)
OWN = Starlette(routes=[Route("/ag-ui", _route_of_ones_own, methods=["POST"])])


def front_end(script: str, *steps: Any, app: Any = OURS) -> list[Any]:
    """What a front end has after each step; the script is the same in all of them, unless one says another."""
    plan = [{"props": {"script": script}, **step} for step in steps]
    with serve(app) as url:
        results: list[Any] = run_node("ag_ui.mjs", f"{url}/ag-ui", json.dumps(plan))
    for result in results:
        assert result["failed"] is not None or result["warnings"] == []
    return results


def one(script: str) -> Any:
    (result,) = front_end(script, {"say": "go"})
    assert result["failed"] is None
    return result


def message_of(result: Any, call_id: str) -> Any:
    (message,) = [message for message in result["messages"] if message.get("toolCallId") == call_id]
    return message


def texts(result: Any, role: str = "assistant") -> list[str]:
    return [message["content"] for message in result["messages"] if message["role"] == role and message.get("content")]


def calls(result: Any) -> dict[str, str]:
    found = [call for message in result["messages"] for call in message.get("toolCalls", ())]
    return {call["id"]: call["function"]["arguments"] for call in found}


def test_calls_side_by_side_with_what_they_show_and_give() -> None:
    result = one("calls")
    assert json.loads(calls(result)["a"]) == {"p": "a\u2028\U0001f600"}
    assert json.loads(calls(result)["b"]) == {"upto": 3}
    assert texts(result) == ["Let me see.", "Done."]
    assert texts(result, "reasoning") == ["Hm."]
    assert [message_of(result, call_id)["content"] for call_id in "abc"] == [
        "read a\u2028\U0001f600",
        "3",
        "failed on purpose",
    ]
    assert message_of(result, "c")["metadata"]["streamkit"]["error"] == "failed"
    (activity,) = [message["content"] for message in result["messages"] if message["role"] == "activity"]
    assert activity == {"toolCallId": "b", "toolName": "steps", "data": 3}
    assert result["finished"]["outcome"] == "success"
    assert result["finished"]["pendingToolCallIds"] == []
    roles = [message["role"] for message in result["messages"]]
    assert roles == ["user", "reasoning", "assistant", *["tool"] * 3, "activity", "assistant"]


def test_a_long_value_does_not_arrive_whole() -> None:
    told = message_of(one("large"), "d")["content"]
    assert len(told) < 300_000


def test_an_inner_run_is_a_sub_agent() -> None:
    result = one("inner")
    assert [(agent["subagentRunId"], agent["name"]) for agent in result["subagents"]] == [("a", "delegate")]
    inner = [message for message in result["messages"] if message.get("subagentRunId") == "a"]
    assert [message.get("content") for message in inner] == ["Let me see.", "read x", "failed on purpose", "inside"]
    assert "SUBAGENT_FINISHED" in result["events"]


@pytest.mark.parametrize(
    ("script", "reasons"),
    [("cut", {"a": "discarded", "b": "incomplete"}), ("breaks", {"a": "incomplete"})],
)
def test_calls_that_never_ran_are_not_left_to_the_client(script: str, reasons: dict[str, str]) -> None:
    result = one(script)
    told = {call_id: message_of(result, call_id)["metadata"]["streamkit"] for call_id in reasons}
    assert {call_id: about["reason"] for call_id, about in told.items()} == reasons
    if result["finished"] is not None:
        assert result["finished"]["pendingToolCallIds"] == []


def test_a_malformed_call_has_its_failure() -> None:
    result = one("malformed")
    assert message_of(result, "a")["metadata"]["streamkit"]["error"] == "invalid_input"
    assert texts(result) == ["Sorry."]


def test_an_error_in_mid_stream_is_told_and_the_next_run_goes_on() -> None:
    broken, after = front_end("breaks", {"say": "go"}, {"say": "again", "props": {"script": "more"}})
    assert (broken["error"]["message"], broken["error"]["code"]) == ("no capacity", "provider_error")
    assert broken["events"][-1] == "RUN_ERROR"
    assert texts(after)[-1] == "And more."


@pytest.mark.parametrize(
    ("payload", "text"),
    [
        ({"approved": True}, "sent to Ann"),
        ({"approved": True, "editedArgs": {"to": "Eve"}}, "sent to Eve"),
        ({"approved": False, "reason": "not today"}, "not today"),
        ("cancelled", "the person did not decide"),
    ],
)
def test_a_person_decides_over_http(payload: Any, text: str) -> None:
    asked, after = front_end("send", {"say": "go"}, {"approve": payload})
    (question,) = asked["interrupts"]
    assert question["toolCallId"] == "s"
    assert [custom["name"] for custom in asked["customs"]][:1] == ["streamkit.approval-request"]
    assert message_of(asked, "r")["content"] == "read x"  # it did not wait
    assert text in message_of(after, "s")["content"]
    assert after["finished"]["outcome"] == "success"
    assert texts(after) == ["I send.", "Sent?"]


def test_a_route_of_ones_own_answers_a_front_end() -> None:
    asked, after = front_end("send", {"say": "go"}, {"approve": True}, app=OWN)
    assert len(asked["interrupts"]) == 1
    assert message_of(after, "s")["content"] == "sent to Ann"


def test_what_is_refused_says_why() -> None:
    (refused,) = front_end("pick", {"say": "go", "tools": [{**PICK, "name": "send"}]})
    assert "the server has tools of its own that are named send" in refused["failed"]


def test_two_questions_are_answered_together() -> None:
    asked, after = front_end("twice", {"say": "go"}, {"approve": [True, False]})
    assert len(asked["interrupts"]) == 2
    assert message_of(after, "s")["content"] == "sent to Ann"
    assert "the person said no" in message_of(after, "t")["content"]


def test_the_client_answers_calls_of_its_own_tools() -> None:
    asked, after = front_end("pick", {"say": "go", "tools": [PICK]}, {"answers": {"pick": "red"}, "tools": [PICK]})
    assert asked["finished"]["pendingToolCallIds"] == ["p"]
    assert asked["customs"][0]["name"] != "streamkit.approval-request"
    assert [item.text for item in heard[-1].history if isinstance(item, ToolOutput)] == ["red", "read x"]
    assert [tool.name for tool in heard[-1].tools][-1] == "pick"
    assert texts(after) == ["Which?", "Fine."]


def test_a_question_and_a_tool_of_the_client_in_one_turn() -> None:
    asked, after = front_end(
        "both", {"say": "go", "tools": [PICK]}, {"approve": True, "answers": {"pick": "red"}, "tools": [PICK]}
    )
    assert asked["finished"]["outcome"] == "interrupt"
    assert message_of(after, "s")["content"] == "sent to Ann"
    assert after["finished"]["outcome"] == "success"


def test_a_client_that_stops_ends_the_run_and_goes_on_with_the_next() -> None:
    left.clear()
    stopped, after = front_end(
        "stop", {"say": "go", "stopAt": "ACTIVITY_SNAPSHOT"}, {"say": "and now?", "props": {"script": "more"}}
    )
    assert "TOOL_CALL_RESULT" not in stopped["events"]
    assert left == ["endless"]
    outputs = [item for item in heard[-1].history if isinstance(item, ToolOutput)]
    assert [(output.call_id, output.failed) for output in outputs] == [("e", True)]
    assert texts(after)[-1] == "And more."


def test_calls_that_have_the_same_ids_in_the_next_run_are_others() -> None:
    _, after = front_end("calls", {"say": "go"}, {"say": "again"})
    assert set(calls(after)) == {*"abc", *(f"{call_id}~2" for call_id in "abc")}
    assert all(json.loads(arguments) is not None for arguments in calls(after).values())


def read_by_client(folder: Path, *bodies: bytes) -> list[Any]:
    """What a front end has after each of some bodies."""
    (folder / "bodies.json").write_text(json.dumps([base64.b64encode(body).decode() for body in bodies]))
    results: list[Any] = run_node("ag_ui.mjs", "-", str(folder / "bodies.json"))
    assert [(result["failed"], result["warnings"]) for result in results] == [(None, [])] * len(bodies)
    return results


def test_what_a_turn_showed_before_it_began_anew_is_gone(tmp_path: Path) -> None:
    recorded = play(Made([["Whole."]]), restarts=True)
    (result,) = read_by_client(tmp_path, recorded.encode(AgUiEncoder(run_id="r")))
    assert texts(result) == ["Whole."]
    assert (texts(result, "reasoning"), texts(result, "tool"), calls(result)) == ([], [], {})
    assert result["finished"]["pendingToolCallIds"] == []


def test_the_client_takes_whatever_a_run_does(tmp_path: Path) -> None:
    """Many random runs, each read by the real client, with its checks of schema and order."""
    bodies: list[bytes] = []

    @settings(max_examples=80, deadline=None, phases=[Phase.generate], derandomize=True, database=None)
    @given(made=RUNS, restarts=st.booleans())
    def record(made: Made, restarts: bool) -> None:
        run = play(made, restarts=restarts)
        bodies.append(run.encode(AgUiEncoder(run_id="r", thread_id="t", client_tools={"pick"})))

    record()
    for result in read_by_client(tmp_path, *bodies):
        assert (result["finished"] is None) is (result["error"] is not None)
