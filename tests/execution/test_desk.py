"""Where people decide while the run waits: verdicts at every moment, wrong ones too."""

import re
from collections.abc import Callable
from functools import partial
from typing import Any

import anyio
import anyio.from_thread
import anyio.to_thread
import pytest

from streamkit.errors import FlowError, VerdictRefused
from streamkit.execution.approval import Allow, Card, Question, Verdict
from streamkit.execution.desk import ApprovalDesk
from streamkit.execution.execute import execute_all
from streamkit.execution.verdicts import from_verdicts
from streamkit.flows.flow import Sink
from streamkit.items import ToolCall
from streamkit.testing.grammar import check_grammar
from streamkit.tool_events import (
    ApprovalRequested,
    Failure,
    Output,
    Pending,
    RunEvent,
    ToolEvent,
    ToolResult,
    ToolStarted,
    Value,
    walk,
)
from streamkit.tools.decorators import tool
from streamkit.tools.toolkit import Toolkit

from ..calling import GUARD_SECONDS
from ..gated_tools import BODILESS, TOOLS, calls, sent


@pytest.fixture(autouse=True)
def nothing_sent() -> None:
    sent.clear()


Answer = Callable[[ApprovalDesk, ApprovalRequested], object]


async def run(
    desk: ApprovalDesk, *asked: tuple[str, dict[str, Any]], answer: Answer = lambda desk, event: None
) -> tuple[list[ToolEvent], tuple[ToolResult, ...]]:
    """Execute calls at a desk; each question is answered when it is seen."""
    seen: list[ToolEvent] = []
    with anyio.fail_after(GUARD_SECONDS):
        async with execute_all(TOOLS, calls(*asked), authorize=desk.authorize).open() as events:
            async for event in events:
                seen.append(event)
                if isinstance(event, ApprovalRequested):
                    answer(desk, event)
    check_grammar(seen, pending=[each.call_id for each in events.value if isinstance(each, Pending)])
    return seen, events.value


async def test_a_marked_tool_waits_until_somebody_allows_it() -> None:
    desk = ApprovalDesk()

    def answer(desk: ApprovalDesk, event: ApprovalRequested) -> None:
        assert sent == []
        assert [question.execution_id for question in desk.questions] == ["t.0"]
        assert event == ApprovalRequested(
            "t.0", "c0", "send", {"to": "Ann"}, Card("Send a mail.", "mail.example.org", "once")
        )
        desk.allow(event.execution_id)
        assert desk.questions == (), "what is answered waits no more, though its call has not heard of it yet"

    _, results = await run(desk, ("send", {"to": "Ann"}), ("read", {"p": "a"}), answer=answer)
    assert results == (Value("c0", "send", "sent to Ann", "sent to Ann"), Value("c1", "read", "a", "a"))
    assert (sent, desk.questions) == (["Ann"], ())


async def test_a_safe_call_does_not_wait_for_a_gated_one() -> None:
    order: list[str] = []
    async with execute_all(
        TOOLS, calls(("send", {"to": "Ann"}), ("read", {"p": "a"})), authorize=(desk := ApprovalDesk()).authorize
    ).open() as events:
        async for event in events:
            order.append(type(event).__name__ + event.call_id)
            if isinstance(event, Output) and event.call_id == "c1":
                desk.allow("t.0")
    assert order.index("Outputc1") < order.index("ToolStartedc0")


async def test_a_denied_call_is_answered_with_the_reason() -> None:
    _, (result,) = await run(ApprovalDesk(), ("send", {"to": "Ann"}), answer=lambda desk, event: desk.deny("t.0", "no"))
    assert isinstance(result, Failure)
    assert (result.kind, result.message, sent) == ("denied", "The call of send was denied: no", [])


async def test_edited_arguments_are_checked_before_they_are_taken() -> None:
    def answer(desk: ApprovalDesk, event: ApprovalRequested) -> None:
        told = "send cannot run with these: the arguments do not fit:\n- to: expected string, but got 3"
        with pytest.raises(VerdictRefused, match=re.escape(told)):
            desk.allow("t.0", {"to": 3, "cc": "me"})
        desk.allow("t.0", {"to": "Bob"})

    events, (result,) = await run(ApprovalDesk(), ("send", {"to": "Ann"}), answer=answer)
    assert result.text == "sent to Bob"  # type: ignore[union-attr]
    assert [event.arguments for event in events if isinstance(event, ApprovalRequested | ToolStarted)] == [
        {"to": "Ann"},
        {"to": "Bob"},
    ]


async def test_a_tool_may_be_allowed_for_the_rest_of_the_run() -> None:
    desk = ApprovalDesk()
    asked: list[str] = []

    def answer(desk: ApprovalDesk, event: ApprovalRequested) -> None:
        asked.append(event.execution_id)
        if len(asked) == 2:
            desk.allow(event.execution_id, always=True)

    await run(desk, ("send", {"to": "Ann"}), ("send", {"to": "Bob"}), answer=answer)
    assert (sorted(asked), sorted(sent)) == (["t.0", "t.1"], ["Ann", "Bob"])
    await run(desk, ("send", {"to": "Cid"}), answer=answer)
    assert (len(asked), sent[-1]) == (2, "Cid")


async def test_a_question_that_was_answered_along_with_another_may_be_answered_the_same_way() -> None:
    desk = ApprovalDesk()

    def answer(desk: ApprovalDesk, event: ApprovalRequested) -> None:
        desk.allow(event.execution_id, always=True)  # the second question was on its way by then
        with pytest.raises(VerdictRefused, match="answered already"):
            desk.deny(event.execution_id)

    await run(desk, ("send", {"to": "Ann"}), ("send", {"to": "Bob"}), answer=answer)
    assert sorted(sent) == ["Ann", "Bob"]


@pytest.mark.parametrize(
    ("verdict", "result"), [({"arguments": {"to": "Bob"}}, "sent to Bob"), ({"value": "by hand"}, "by hand")]
)
async def test_allowing_a_tool_for_good_keeps_what_is_said_of_this_call(verdict: dict[str, Any], result: str) -> None:
    def answer(desk: ApprovalDesk, event: ApprovalRequested) -> None:
        desk.allow(event.execution_id, always=True, **verdict)

    desk = ApprovalDesk()
    _, (given,) = await run(desk, ("send", {"to": "Ann"}), answer=answer)
    assert isinstance(given, Value)
    assert given.text == result
    await run(desk, ("send", {"to": "Cid"}))
    assert sent[-1] == "Cid"


async def test_another_tool_of_the_same_name_is_not_allowed_with_it() -> None:
    def made() -> Toolkit:
        @tool(name="send", approval=True)
        async def one(to: str) -> str:
            """Send a mail, each sub-agent its own way."""
            return f"{to} has mail"

        return Toolkit(one)

    desk, first, second = ApprovalDesk(), made(), made()
    asked: list[Toolkit] = []
    for number, toolkit in enumerate((first, first, second, second)):
        call = ToolCall("c", "send", '{"to": "Ann"}', "t", number)
        async with execute_all(toolkit, [call], authorize=desk.authorize).open() as events:
            async for event in events:
                if isinstance(event, ApprovalRequested):
                    asked.append(toolkit)
                    desk.allow(event.execution_id, always=True)
    assert asked == [first, second]


@pytest.mark.parametrize(
    "verdict",
    [
        lambda desk: desk.allow("t.0"),
        lambda desk: desk.deny("t.0"),
        lambda desk: desk.allow("t.0", {"to": "Eve"}, early=True),
    ],
    ids=["allow", "deny", "early"],
)
async def test_a_second_verdict_is_refused_and_changes_nothing(verdict: Callable[[ApprovalDesk], None]) -> None:
    desk = ApprovalDesk()

    def answer(desk: ApprovalDesk, event: ApprovalRequested) -> None:
        desk.allow("t.0")
        with pytest.raises(VerdictRefused, match=r"t\.0 is answered already"):
            verdict(desk)

    await run(desk, ("send", {"to": "Ann"}), answer=answer)
    with pytest.raises(VerdictRefused, match=r"t\.0 is answered already"):
        verdict(desk)
    assert sent == ["Ann"]


async def test_a_verdict_on_nothing_is_refused() -> None:
    desk = ApprovalDesk()
    with pytest.raises(VerdictRefused, match="nobody asks about zz"):
        desk.allow("zz")

    def answer(desk: ApprovalDesk, event: ApprovalRequested) -> None:
        with pytest.raises(VerdictRefused, match="nobody asks about zz"):
            desk.deny("zz")
        with pytest.raises(VerdictRefused, match=r"nobody asks about c0: that is a call_id, the execution id is t\.0"):
            desk.allow(event.call_id)
        desk.allow("t.0")

    await run(desk, ("send", {"to": "Ann"}), answer=answer)
    assert sent == ["Ann"]


@pytest.mark.parametrize("say", ["allow", "deny"])
async def test_a_verdict_may_come_before_its_question(say: str) -> None:
    desk = ApprovalDesk()
    getattr(desk, say)("t.0", early=True)
    with pytest.raises(VerdictRefused, match=r"t\.0 is answered already"):
        desk.allow("t.0", early=True)
    events, _ = await run(desk, ("send", {"to": "Ann"}))
    assert not any(isinstance(event, ApprovalRequested) for event in events)
    assert sent == ["Ann"] * (say == "allow")


@pytest.mark.parametrize("is_gated", [True, False])
async def test_an_early_verdict_that_does_not_fit_is_asked_for(is_gated: bool) -> None:
    desk = ApprovalDesk(needs=lambda call: is_gated)
    with pytest.raises(VerdictRefused, match="it is not known which tool to allow always"):
        desk.allow("t.0", always=True, early=True)
    desk.allow("t.0", {"to": 5}, early=True)
    async with execute_all(TOOLS, calls(("send", {"to": "Ann"})), authorize=desk.authorize).open() as events:
        async for event in events:
            if isinstance(event, ApprovalRequested):
                desk.allow(event.execution_id, {"to": "Bob"})
    assert sent == ["Bob"]


@pytest.mark.parametrize("is_desk", [True, False])
async def test_what_a_client_gives_with_a_verdict_breaks_no_line_of_the_log(
    is_desk: bool, caplog: pytest.LogCaptureFixture
) -> None:
    given = {"to": "Ann", "more\nERROR all is lost": 1}
    desk = ApprovalDesk()
    if is_desk:
        desk.allow("t.0", given, early=True)
    authorize = desk.authorize if is_desk else from_verdicts({"t.0": Allow(given)})
    async with execute_all(TOOLS, calls(("send", {"to": "Ann"})), authorize=authorize).open() as events:
        async for event in events:
            if is_desk and isinstance(event, ApprovalRequested):
                desk.deny(event.execution_id)
    (record,) = caplog.records
    assert "all is lost" in record.message
    assert "\n" not in record.message


async def test_a_verdict_on_a_call_that_was_cancelled_is_refused() -> None:
    desk = ApprovalDesk()
    async with execute_all(TOOLS, calls(("send", {"to": "Ann"})), authorize=desk.authorize).open() as events:
        async for _ in events:
            break
    with pytest.raises(VerdictRefused, match=r"t\.0 was cancelled"):
        desk.allow("t.0")
    assert sent == []


async def test_nobody_is_waited_for_for_ever() -> None:
    desk = ApprovalDesk(timeout_seconds=0.01)
    _, (result,) = await run(desk, ("send", {"to": "Ann"}))
    assert isinstance(result, Failure)
    assert result.message == "The call of send was denied: nobody decided within 0.01 seconds"
    with pytest.raises(VerdictRefused, match=r"t\.0 was not answered in time"):
        desk.allow("t.0")


async def test_arguments_that_were_allowed_are_changed_by_nobody() -> None:
    @tool(approval=True)
    async def post(to: list[str]) -> str:
        """Send a mail to many."""
        return ",".join(to)

    desk, mine = ApprovalDesk(), ["Ann"]
    async with execute_all(Toolkit(post), calls(("post", {"to": []})), authorize=desk.authorize).open() as events:
        async for event in events:
            if isinstance(event, ApprovalRequested):
                desk.allow(event.execution_id, {"to": mine})
                mine.append("Bob")
    assert events.value == (Value("c0", "post", "Ann", "Ann"),)


def test_a_desk_that_cannot_work_is_refused_where_it_is_made() -> None:
    async def asks(call: Any) -> bool:
        return False

    with pytest.raises(ValueError, match="timeout_seconds must be more than 0, but is -1"):
        ApprovalDesk(timeout_seconds=-1)
    with pytest.raises(TypeError, match="needs= is a plain function"):
        ApprovalDesk(needs=asks)  # type: ignore[arg-type]


async def test_a_desk_in_place_of_its_function_is_told() -> None:
    with pytest.raises(TypeError, match=r"such as desk\.authorize, not ApprovalDesk"):
        await execute_all(TOOLS, [], authorize=ApprovalDesk())  # type: ignore[arg-type]


async def test_a_verdict_from_another_thread_is_refused_and_changes_nothing() -> None:
    desk = ApprovalDesk()
    async with execute_all(TOOLS, calls(("send", {"to": "Ann"})), authorize=desk.authorize).open() as events:
        async for event in events:
            if isinstance(event, ApprovalRequested):
                with pytest.raises(FlowError, match=r"from_thread\.run_sync\(desk\.allow"):
                    await anyio.to_thread.run_sync(desk.allow, event.execution_id)
                with pytest.raises(FlowError):
                    await anyio.to_thread.run_sync(desk.close)
                allow = partial(desk.allow, event.execution_id)
                await anyio.to_thread.run_sync(anyio.from_thread.run_sync, allow)
    assert sent == ["Ann"]


async def test_a_closed_desk_leaves_its_calls_pending() -> None:
    desk = ApprovalDesk()
    _, results = await run(desk, ("send", {"to": "Ann"}), answer=lambda desk, event: desk.close())
    assert results == (Pending("c0", "send"),)
    events, results = await run(desk, ("send", {"to": "Bob"}))
    assert results == (Pending("c0", "send"),)
    assert [type(event) for event in events] == [ApprovalRequested]  # whoever has the run has to know what waits
    with pytest.raises(VerdictRefused, match="the desk is closed"):
        desk.allow("other")
    assert sent == []


async def test_an_error_in_the_rule_means_asking() -> None:
    def needs(call: Any) -> bool:
        raise LookupError

    asked: list[str] = []

    def answer(desk: ApprovalDesk, event: ApprovalRequested) -> None:
        asked.append(event.tool)
        desk.allow(event.execution_id)

    await run(ApprovalDesk(needs=needs), ("read", {"p": "a"}), answer=answer)
    assert asked == ["read"]


async def test_a_call_of_an_inner_run_is_asked_about_at_the_same_desk() -> None:
    desk = ApprovalDesk()

    @tool
    async def agent(out: Sink[RunEvent]) -> str:
        """A run inside of a call."""
        (result,) = await out.forward(execute_all(TOOLS, calls(("send", {"to": "Ann"})), authorize=desk.authorize))
        return result.text if isinstance(result, Value) else "no"

    paths: list[tuple[str, ...]] = []
    outer = ToolCall("outer", "agent", "{}", "o", 0)
    async with execute_all(Toolkit(agent), [outer], authorize=desk.authorize).open() as events:
        async for event in events:
            path, inner = walk(event)
            if isinstance(inner, ApprovalRequested):
                paths.append(path)
                assert inner.execution_id == "o.0/t.0"
                desk.allow(inner.execution_id)
    assert paths == [("outer",)]
    assert events.value == (Value("outer", "agent", "sent to Ann", "sent to Ann"),)


async def test_arguments_that_are_no_mapping_are_refused() -> None:
    given: Any = "Bob"
    with pytest.raises(TypeError, match="by name"):
        ApprovalDesk().allow("t.0", given)


# A tool without a body


async def test_a_tool_without_a_body_is_answered_by_whoever_has_the_run() -> None:
    toolkit = Toolkit(BODILESS)
    assert await execute_all(toolkit, calls(("ask_person", {}))) == (Pending("c0", "ask_person"),)
    desk = ApprovalDesk()
    seen: list[ToolEvent] = []
    async with execute_all(toolkit, calls(("ask_person", {})), authorize=desk.authorize).open() as events:
        async for event in events:
            seen.append(event)
            if isinstance(event, ApprovalRequested):
                assert event.card == Card("Ask the person.", None, "once", wants_value=True)
                with pytest.raises(VerdictRefused, match="give the value"):
                    desk.allow("t.0")
                desk.allow("t.0", value={"age": 42})
    assert events.value == (Value("c0", "ask_person", {"age": 42}, '{"age":42}'),)
    check_grammar(seen)


async def test_a_tool_without_a_body_cannot_be_allowed_always() -> None:
    desk = ApprovalDesk()
    given: list[str] = []
    execution = execute_all(Toolkit(BODILESS), calls(("ask_person", {}), ("ask_person", {})), authorize=desk.authorize)
    async with execution.open() as events:
        async for event in events:
            if isinstance(event, ApprovalRequested):
                with pytest.raises(VerdictRefused, match="each of its calls needs a value of its own"):
                    desk.allow(event.execution_id, value="x", always=True)
                desk.allow(event.execution_id, value=event.execution_id)
                given.append(event.execution_id)
    assert [result.text for result in events.value if isinstance(result, Value)] == sorted(given) == ["t.0", "t.1"]


async def test_a_value_that_cannot_be_written_is_a_failure() -> None:
    async def authorize(question: Any) -> Verdict:
        return Allow(value=object())

    (result,) = await execute_all(Toolkit(BODILESS), calls(("ask_person", {})), authorize=authorize)
    assert isinstance(result, Failure)
    assert result.kind == "not_serialisable"


async def test_a_verdict_that_came_before_a_cancellation_counts() -> None:
    desk = ApprovalDesk()

    async def announce(card: Any) -> None:
        desk.allow("t.0")
        scope.cancel()

    valid = TOOLS.validate(ToolCall("c", "send", '{"to": "Ann"}', "t", 0))
    question = Question(valid, "t.0", None, announce, lambda arguments: None, lambda: False)
    verdict: Verdict | None = None
    with anyio.CancelScope() as scope:
        verdict = await desk.authorize(question)
    assert verdict == Allow()
