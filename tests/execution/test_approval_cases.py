"""The cases of `cases/approval.json`: a run waits for people, over requests and processes. Each test names its case."""

from collections.abc import Mapping
from typing import Any

import anyio
import msgspec
import pytest

from streamkit.conversation import Conversation
from streamkit.conversing import converse
from streamkit.errors import VerdictRefused
from streamkit.execution.approval import Allow, Deny, Verdict
from streamkit.execution.desk import ApprovalDesk
from streamkit.execution.verdicts import from_verdicts
from streamkit.items import ToolCall, ToolOutput, user
from streamkit.testing import ScriptedModel, call, check_grammar, check_history
from streamkit.tool_events import ApprovalRequested, Failure, Output, RunEvent, ToolStarted
from streamkit.tools.decorators import tool
from streamkit.tools.tool import ToolContext
from streamkit.tools.toolkit import Toolkit

ran: list[str] = []
GO = Conversation((user("go"),))


@tool(approval=True)
async def send(context: ToolContext[Any], to: str) -> str:
    """Send a mail."""
    ran.append(f"{to} by {context.context}")
    return f"sent to {to}"


@tool
async def read() -> str:
    """Read."""
    ran.append("read")
    return "what is there"


TOOLS = Toolkit(send, read)


@pytest.fixture(autouse=True)
def nothing_ran() -> None:
    ran.clear()


async def request(
    model: ScriptedModel, state: Conversation, verdicts: Mapping[str, Verdict] = {}, *, by: str = "me"
) -> tuple[list[RunEvent], Conversation]:
    """What a server does in one request: from stored JSON to stored JSON, with nothing kept between."""
    state = msgspec.json.decode(msgspec.json.encode(state), type=Conversation)
    authorize = from_verdicts(verdicts, state)
    async with converse(model, TOOLS, state, authorize=authorize, context=by).open() as events:
        seen = [event async for event in events]
    check_grammar(seen, pending=[waiting.call_id for waiting in events.value.waiting.values()])
    return seen, events.value


def waiting(state: Conversation) -> dict[str, str]:
    """The ids under which a verdict is given, by call id."""
    return {waits.call_id: execution_id for execution_id, waits in state.waiting.items()}


def told(state: Conversation) -> list[tuple[str, str]]:
    return [(item.call_id, item.text) for item in state.history if isinstance(item, ToolOutput)]


async def test_a_run_ends_before_a_call_that_must_be_approved() -> None:
    """approval-pauses-stream"""
    seen, state = await request(ScriptedModel([call("send", {"to": "Ann"}, split=3, call_id="s")]), GO)
    assert state.ended == "pending"
    (question,) = [event for event in seen if isinstance(event, ApprovalRequested)]
    assert question.arguments == {"to": "Ann"}
    assert [(waits.call_id, waits.arguments) for waits in state.waiting.values()] == [("s", '{"to":"Ann"}')]
    assert not any(isinstance(event, ToolStarted | Output) for event in seen)
    assert ran == []


async def test_two_questions_of_one_turn_are_answered_in_any_order() -> None:
    """approval-two-in-one-turn"""
    sends = [call("send", {"to": name}, call_id=call_id) for name, call_id in (("Ann", "s1"), ("Bob", "s2"))]
    model = ScriptedModel([*sends, call("read", call_id="r")], ["Done."])
    seen, state = await request(model, GO)
    assert {event.call_id for event in seen if isinstance(event, ApprovalRequested)} == {"s1", "s2"}
    _, state = await request(model, state, {waiting(state)["s2"]: Allow()})
    assert (state.ended, list(waiting(state)), len(model.requests)) == ("pending", ["s1"], 1)
    _, state = await request(model, state, {waiting(state)["s1"]: Deny("declined by Ann's friend")})
    assert (state.ended, len(model.requests)) == ("answer", 2)
    assert sorted(ran) == ["Bob by me", "read"]
    denied, *others = told(state)
    assert denied[0] == "s1"
    assert "declined by Ann's friend" in denied[1]
    assert others == [("s2", "sent to Bob"), ("r", "what is there")]
    assert model.requests[1].history == state.history[:-1]
    for dialect in ("openai-chat", "openai-responses", "anthropic", "gemini", "ollama"):
        check_history(state.history, dialect)


async def test_what_was_answered_before_a_second_pause_is_not_said_again() -> None:
    """approval-consecutive"""
    turns = [call("send", {"to": "Ann"}, call_id="a")], [call("send", {"to": "Bob"}, call_id="b")], ["Done."]
    model = ScriptedModel(*turns)
    _, state = await request(model, GO)
    for _ in range(2):
        assert state.ended == "pending"
        _, state = await request(model, state, dict.fromkeys(waiting(state).values(), Allow()))
    assert state.ended == "answer"
    for number, asked in enumerate(model.requests):
        ids = [item.call_id for item in asked.history if isinstance(item, ToolCall)]
        answers = [item.call_id for item in asked.history if isinstance(item, ToolOutput)]
        assert ids == answers == ["a", "b"][:number]
    assert ran == ["Ann by me", "Bob by me"]


async def test_what_goes_on_has_a_context_of_its_own_and_is_not_asked_again() -> None:
    """approval-survives-json-and-context"""
    _, state = await request(ScriptedModel([call("send", {"to": "Ann"}, call_id="s")]), GO, by="the first process")
    verdicts = {waiting(state)["s"]: Allow()}
    seen, state = await request(ScriptedModel(["Done."]), state, verdicts, by="the second process")
    assert not any(isinstance(event, ApprovalRequested) for event in seen)
    assert (state.ended, ran) == ("answer", ["Ann by the second process"])


async def test_wrong_answers_are_refused_and_change_nothing() -> None:
    """approval-wrong-answers: of a stored run, and of a live one"""
    model = ScriptedModel([call("send", {"to": "Ann"}, call_id="q1")], ["Done."])
    _, state = await request(model, GO)
    with pytest.raises(VerdictRefused, match="zz"):
        await request(model, state, {"zz": Allow()})
    answers = {waiting(state)["q1"]: Allow()}
    _, done = await request(model, state, answers)
    with pytest.raises(VerdictRefused):
        await request(model, done, answers)
    assert (done.ended, ran) == ("answer", ["Ann by me"])


async def test_wrong_answers_at_a_desk_are_refused_and_change_nothing() -> None:
    """approval-wrong-answers: of a live run"""
    desk = ApprovalDesk()
    model = ScriptedModel([call("send", {"to": "Ann"}, call_id="q1")], [call("send", {"to": "Bob"}, call_id="q2")])
    asked: list[str] = []
    with anyio.CancelScope() as scope:
        async with converse(model, TOOLS, GO, authorize=desk.authorize, context="me").open() as events:
            async for event in events:
                if isinstance(event, ApprovalRequested):
                    asked.append(event.execution_id)
                    if len(asked) == 2:
                        scope.cancel()
                        continue
                    with pytest.raises(VerdictRefused, match="nobody asks about zz"):
                        desk.allow("zz")
                    desk.allow(event.execution_id)
                    with pytest.raises(VerdictRefused, match="is answered already"):
                        desk.deny(event.execution_id)
                assert not (isinstance(event, Output) and isinstance(event.result, Failure))
    assert scope.cancelled_caught
    with pytest.raises(VerdictRefused, match="was cancelled"):
        desk.allow(asked[1])
    assert ran == ["Ann by me"]
