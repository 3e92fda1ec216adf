"""Where people decide between two requests."""

from typing import Any

import msgspec
import pytest

from streamkit.conversation import Conversation
from streamkit.errors import VerdictRefused
from streamkit.execution.approval import Allow, Authorize, Deny, Undecided, Verdict, allow_all
from streamkit.execution.execute import execute_all
from streamkit.execution.verdicts import from_verdicts
from streamkit.items import user
from streamkit.tool_events import ApprovalRequested, Pending, Value
from streamkit.tools.toolkit import Toolkit
from streamkit.turns import Turn

from ..calling import collect
from ..gated_tools import BODILESS, TOOLS, calls, sent


@pytest.fixture(autouse=True)
def nothing_sent() -> None:
    sent.clear()


def asked_for(*asked: tuple[str, dict[str, Any]]) -> Conversation:
    turn = Turn("t", items=tuple(calls(*asked)), stop_reason="tool_calls")
    return Conversation((user("go"),)).take(turn)


async def settle(state: Conversation, authorize: Authorize) -> Conversation:
    _, results = await collect(execute_all(TOOLS, state.waiting.values(), authorize=authorize))
    stored = msgspec.json.encode(state.settle(results))
    return msgspec.json.decode(stored, type=Conversation)


async def test_answers_come_one_by_one_and_each_call_runs_once() -> None:
    state = asked_for(("send", {"to": "Ann"}), ("send", {"to": "Bob"}), ("read", {"p": "a"}))
    state = await settle(state, from_verdicts({}, state))
    assert (state.ended, list(state.waiting), sent) == ("pending", ["t.0", "t.1"], [])
    state = await settle(state, from_verdicts({"t.1": Allow()}, state))
    assert (state.ended, list(state.waiting), sent) == ("pending", ["t.0"], ["Bob"])
    state = await settle(state, from_verdicts({"t.0": Deny("not Ann")}, state))
    assert (state.ended, state.turn, sent) == (None, None, ["Bob"])
    assert [item.text for item in state.history[-3:]] == [  # type: ignore[union-attr]
        "The call of send was denied: not Ann",
        "sent to Bob",
        "a",
    ]


async def test_a_verdict_on_a_call_that_does_not_wait_is_refused() -> None:
    state = asked_for(("send", {"to": "Ann"}), ("send", {"to": "Bob"}))
    with pytest.raises(VerdictRefused, match="no call waits for a verdict as zz"):
        from_verdicts({"zz": Allow(), "t.0": Allow()}, state)
    with pytest.raises(VerdictRefused, match=r"as c1: that is a call_id, the execution id is t\.1"):
        from_verdicts({"c1": Allow()}, state)
    state = await settle(state, from_verdicts({"t.0": Allow()}, state))
    with pytest.raises(VerdictRefused, match=r"no call waits for a verdict as t\.0"):
        from_verdicts({"t.0": Deny("too late")}, state)
    assert sent == ["Ann"]


async def test_without_an_authoriser_a_marked_tool_is_left_to_a_person() -> None:
    asked = calls(("send", {"to": "Ann"}), ("read", {"p": "a"}))
    events, results = await collect(execute_all(TOOLS, asked))
    assert results == (Pending("c0", "send"), Value("c1", "read", "a", "a"))
    assert [event.call_id for event in events if isinstance(event, ApprovalRequested)] == ["c0"]
    assert sent == []
    await execute_all(TOOLS, asked, authorize=allow_all)
    assert sent == ["Ann"]


async def test_a_call_that_is_allowed_with_what_does_not_fit_stays_pending() -> None:
    state = asked_for(("send", {"to": "Ann"}))
    state = await settle(state, from_verdicts({"t.0": Allow({"zz": 1})}, state))
    assert (state.ended, list(state.waiting), sent) == ("pending", ["t.0"], [])


@pytest.mark.parametrize("verdict", [Allow({"zz": 1}), Undecided()])
async def test_what_decides_nothing_is_asked_about_again(verdict: Verdict) -> None:
    authorize = from_verdicts({"t.0": verdict})
    events, results = await collect(execute_all(TOOLS, calls(("send", {"to": "Ann"})), authorize=authorize))
    assert [type(event) for event in events] == [ApprovalRequested]
    assert results == (Pending("c0", "send"),)


async def test_a_tool_without_a_body_is_asked_about_until_its_value_is_there() -> None:
    authorize = from_verdicts({"t.0": Allow()})
    events, results = await collect(execute_all(Toolkit(BODILESS), calls(("ask_person", {})), authorize=authorize))
    assert [type(event) for event in events] == [ApprovalRequested]
    assert results == (Pending("c0", "ask_person"),)


@pytest.mark.parametrize("verdict", [True, "allow", None])
def test_what_is_no_verdict_is_told_at_once(verdict: Any) -> None:
    with pytest.raises(TypeError, match=r"the verdict on t\.0 is Allow\(\), Deny"):
        from_verdicts({"t.0": verdict})


def test_a_rule_that_cannot_answer_at_once_is_refused() -> None:
    async def asks(call: Any) -> bool:
        return False

    with pytest.raises(TypeError, match="needs= is a plain function"):
        from_verdicts({}, needs=asks)  # type: ignore[arg-type]
