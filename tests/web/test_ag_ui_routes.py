"""Runs for AG-UI: the client holds the conversation, and may have tools of its own."""

import json
from typing import Any

import pytest

from streamkit.conversation import Conversation
from streamkit.conversing import converse
from streamkit.flows.flow import Flow
from streamkit.items import user
from streamkit.testing.scripted import ScriptedModel, call
from streamkit.tool_events import RunEvent
from streamkit.web import RunRequest, app

from .asgi import Exchange
from .serving import Agent, Deletes, post

SAYS_HI = {"id": "m1", "role": "user", "content": "Hi"}


def events(asked: Exchange) -> list[dict[str, Any]]:
    return [json.loads(line.removeprefix("data: ")) for line in asked.text.split("\n\n") if line.startswith("data: ")]


def body(*messages: dict[str, Any], **more: Any) -> dict[str, Any]:
    basic = {"threadId": "t1", "runId": "r1", "state": {}, "tools": [], "context": [], "forwardedProps": {"mine": 1}}
    return {**basic, "messages": list(messages), **more}


def tool_named(name: str) -> dict[str, Any]:
    return {"name": name, "description": "Of the page.", "parameters": {"type": "object", "properties": {}}}


class WithClientTools(Agent):
    """Also lets the model call the tools of the client."""

    def __call__(self, run: RunRequest) -> Flow[RunEvent, Conversation]:
        self.asked.append(run)
        toolkit = run.toolkit_with(self.toolkit)
        return converse(ScriptedModel(*self.turns), toolkit, run.conversation, authorize=run.authorize)


async def test_a_message_is_answered() -> None:
    agent = Agent(["Hel", "lo"])
    system = {"id": "s", "role": "system", "content": "Be brief."}
    asked = await post(app(agent), "/ag-ui", body(system, SAYS_HI))
    assert asked.status == 200
    told = events(asked)
    assert (told[0]["type"], told[0]["threadId"], told[0]["runId"]) == ("RUN_STARTED", "t1", "r1")
    assert "".join(each["delta"] for each in told if each["type"] == "TEXT_MESSAGE_CONTENT") == "Hello"
    assert told[-1]["type"] == "RUN_FINISHED"
    (run,) = agent.asked
    assert run.conversation.history == (user("Hi"),)
    assert run.instructions == "Be brief."
    assert run.data["forwardedProps"] == {"mine": 1}
    assert run.run_id == asked.headers["x-run-id"]


async def test_a_tool_of_the_client_is_answered_by_it() -> None:
    agent = WithClientTools([call("look", call_id="c1")])
    served = app(agent)
    asked = await post(served, "/ag-ui", body(SAYS_HI, tools=[tool_named("look")]))
    assert events(asked)[-1]["outcome"]["pendingToolCallIds"] == ["c1"]
    agent.turns = (["I see."],)
    said = {
        "id": "a1",
        "role": "assistant",
        "toolCalls": [{"id": "c1", "type": "function", "function": {"name": "look", "arguments": "{}"}}],
    }
    gave = {"id": "o1", "role": "tool", "toolCallId": "c1", "content": "a cat"}
    again = await post(served, "/ag-ui", body(SAYS_HI, said, gave, tools=[tool_named("look")]))
    assert any(each.get("delta") == "I see." for each in events(again))


async def test_a_tool_of_the_client_does_not_take_the_name_of_one_of_ours() -> None:
    deletes = Deletes()
    asked = await post(
        app(WithClientTools(tools=(deletes.tool,))), "/ag-ui", body(SAYS_HI, tools=[tool_named("delete")])
    )
    assert asked.status == 422
    assert "delete" in asked.json["error"]


@pytest.mark.parametrize("wrong", [{}, [], body(), body({"role": "nobody"}), body(SAYS_HI, threadId="a" * 1000)])
async def test_a_body_that_gives_no_sense_is_refused(wrong: Any) -> None:
    asked = await post(app(Agent()), "/ag-ui", wrong)
    assert asked.status == 422
    assert asked.json["error"]
