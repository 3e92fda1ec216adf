"""What a verdict, or none, or an odd one makes of a call."""

from typing import Any

import pytest

from streamkit.execution.approval import Allow, Deny, Question, Undecided, Verdict
from streamkit.execution.execute import execute_all
from streamkit.testing.grammar import check_grammar
from streamkit.tool_events import (
    ApprovalRequested,
    Failure,
    Pending,
    ToolStarted,
    Value,
)
from streamkit.tools.decorators import tool
from streamkit.tools.toolkit import Toolkit

from ..calling import call, collect


async def deny(question: Question) -> Verdict:
    return Deny("not on Fridays")


async def leave_open(question: Question) -> Verdict:
    await question.announce({"note": "please"})
    await question.announce({"note": "again"})
    return Undecided()


async def edit(question: Question) -> Verdict:
    return Allow({"p": "b"})


async def edit_wrongly(question: Question) -> Verdict:
    return Allow({"p": 3})


async def break_down(question: Question) -> Verdict:
    raise LookupError("the database of verdicts is gone")


async def answer_nonsense(question: Question) -> Any:
    return True


def answer_at_once(question: Question) -> Verdict:
    return Allow()


async def test_an_authoriser_that_is_not_async_says_so_in_the_log(caplog: pytest.LogCaptureFixture) -> None:
    @tool
    async def read(p: str) -> str:
        """Reads."""
        return p

    authorize: Any = answer_at_once
    _, (result,) = await collect(execute_all(Toolkit(read), [call(read, {"p": "a"})], authorize=authorize))
    assert isinstance(result, Failure)
    assert result.kind == "denied"
    assert "authorize= is an async function (async def), but returned Allow" in caplog.text


@pytest.mark.parametrize(
    ("authorize", "outcome"),
    [
        (deny, "denied: The call of read was denied: not on Fridays"),
        (leave_open, "pending"),
        (edit, "b"),
        (edit_wrongly, "invalid_input: "),
        (break_down, "denied: The call of read was denied: it could not be decided whether this call may run"),
        (answer_nonsense, "denied: The call of read was denied: it could not be decided whether this call may run"),
    ],
)
async def test_a_verdict_decides_what_becomes_of_a_call(authorize: Any, outcome: str) -> None:
    @tool
    async def read(p: str) -> str:
        """Reads."""
        return p

    events, (result,) = await collect(
        execute_all(Toolkit(read), [call(read, {"p": "a"}, call_id="c1")], authorize=authorize)
    )
    match result:
        case Value():
            assert result.text == outcome
            started = next(event for event in events if isinstance(event, ToolStarted))
            assert started.arguments == {"p": "b"}
        case Failure():
            assert f"{result.kind}: {result.message}".startswith(outcome)
        case Pending():
            assert outcome == "pending"
            assert events == [ApprovalRequested(events[0].execution_id, "c1", "read", {"p": "a"}, {"note": "please"})]  # type: ignore[union-attr]
    check_grammar(events, pending=["c1"])


@pytest.mark.parametrize("arguments", [[1], 3])
async def test_an_odd_verdict_denies_its_call_and_frees_its_lane(arguments: Any) -> None:
    async def authorize(question: Question) -> Verdict:
        return Allow(arguments) if question.call.call.place == 0 else Allow({})

    @tool(serial="lane")
    async def work() -> str:
        """Shares a lane."""
        return "fine"

    calls = [call(work, turn_id="t", place=place) for place in (0, 1)]
    _, (denied, value) = await collect(execute_all(Toolkit(work), calls, authorize=authorize))
    assert isinstance(denied, Failure)
    assert denied.kind == "denied"
    assert isinstance(value, Value)
