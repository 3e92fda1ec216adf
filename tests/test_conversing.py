"""The ready-made loop: what it may use, and what waits in it."""

from collections.abc import Sequence
from typing import Any

import anyio
import msgspec
import pytest

from streamkit.conversation import Conversation
from streamkit.conversing import converse
from streamkit.errors import HistoryError
from streamkit.execution.approval import Allow, Deny, Verdict
from streamkit.execution.desk import ApprovalDesk
from streamkit.execution.running import Running
from streamkit.execution.verdicts import from_verdicts
from streamkit.items import ToolCall, ToolOutput, Usage, user
from streamkit.journal.memory import memory_journal
from streamkit.parts import UsageReported
from streamkit.testing.scripted import ScriptedModel, call
from streamkit.tool_events import ApprovalRequested, Failure, ToolStarted
from streamkit.tools.decorators import tool
from streamkit.tools.tool import ToolContext
from streamkit.tools.toolkit import Toolkit
from streamkit.turns import ToolInputAbandoned, TurnRequest, TurnStarted

from .calling import GUARD_SECONDS, last_text
from .reading_runs import GO, KIT, ran, read, seen, send


@pytest.fixture(autouse=True)
def nothing_ran() -> None:
    ran.clear()


# Limits


async def test_the_last_turn_may_not_call_tools() -> None:
    model = ScriptedModel([call("read")], ["Enough, so: ", call("read", call_id="again")])
    events, state = await seen(converse(model, KIT, GO, max_turns=2))
    assert [(request.tool_choice, request.tools) for request in model.requests] == [
        ("auto", KIT.specs),
        ("none", KIT.specs),
    ]
    assert ToolInputAbandoned("again", "discarded", "the turn may not call tools") in events
    assert (state.ended, state.turns, ran) == ("turn_limit", 2, ["a"])


async def test_without_a_closing_turn_the_last_calls_are_answered_as_not_run() -> None:
    model = ScriptedModel([call("read")], [call("read")])
    _, state = await seen(converse(model, KIT, GO, max_turns=2, closing_turn=False))
    assert [request.tool_choice for request in model.requests] == ["auto", "auto"]
    assert (state.ended, last_text(state)) == ("turn_limit", "This call did not run: the limit was reached.")


@pytest.mark.parametrize("closing_turn", [True, False])
async def test_an_answer_in_the_last_turn(closing_turn: bool) -> None:
    model = ScriptedModel([call("read")], ["Done."])
    _, state = await seen(converse(model, KIT, GO, max_turns=2, closing_turn=closing_turn))
    assert (state.ended, last_text(state)) == ("turn_limit" if closing_turn else "answer", "Done.")


async def test_a_turn_that_goes_on_counts_from_the_start_of_its_run() -> None:
    before = (await converse(ScriptedModel([call("read")], ["Done."]), KIT, GO)).say(user("again"))
    model = ScriptedModel([call("read")], ["Done."])
    _, state = await seen(converse(model, KIT, before, max_turns=3))
    assert (state.ended, state.turns) == ("answer", 4)


async def test_calls_beyond_the_limit_are_answered_as_not_run() -> None:
    model = ScriptedModel([call("read", {"p": "a"}), call("read", {"p": "b"}), call("read", {"p": "c"})], ["So."])
    _, state = await seen(converse(model, KIT, GO, max_calls=2))
    assert sorted(ran) == ["a", "b"]
    assert [item.failed for item in state.history if isinstance(item, ToolOutput)] == [False, False, True]
    assert (state.ended, model.requests[1].tool_choice) == ("budget", "none")


async def test_no_more_turns_are_asked_when_the_tokens_are_used_up() -> None:
    spent = UsageReported(Usage(90, 10))
    model = ScriptedModel([call("read"), spent], [call("read"), spent], ["So.", spent])
    _, state = await seen(converse(model, KIT, GO, max_tokens=200))
    assert (state.ended, state.usage, ran) == ("budget", Usage(270, 30), ["a", "a"])


async def test_a_run_that_waits_for_people_uses_up_its_turns_all_the_same() -> None:
    model = ScriptedModel(*[[call("send", {"to": "Ann"})]] * 9)
    state = await converse(model, KIT, Conversation((user("x"),)), max_turns=3)
    while state.ended == "pending":
        verdicts: dict[str, Verdict] = {execution_id: Allow() for execution_id in state.waiting}
        state = msgspec.json.decode(msgspec.json.encode(state), type=Conversation)
        state = await converse(model, KIT, state, max_turns=3, authorize=from_verdicts(verdicts, state))
    assert (len(model.requests), state.ended) == (3, "turn_limit")
    state = await converse(model, KIT, state.say(user("go on")), max_turns=3)
    assert (state.ended, state.used.turns) == ("pending", 1)


@pytest.mark.parametrize(
    ("limits", "path", "ended", "turns"),
    [
        ({"max_turns": 3}, "a", "turn_limit", 3),
        ({"max_calls": 2}, "a", "budget", 3),
        ({"max_tokens": 25}, "a", "budget", 4),
        ({"max_repairs": 1}, 1, "repair_limit", 2),
    ],
)
async def test_what_a_run_has_used_counts_after_its_process_died(
    limits: dict[str, Any], path: Any, ended: str, turns: int
) -> None:
    def turn(_: TurnRequest) -> Sequence[Any]:
        return [call("read", {"p": path}), UsageReported(Usage(5, 5))]

    model, journal, states = ScriptedModel(*[turn] * 9), memory_journal(), [Conversation((user("x"),))]
    while states[-1].ended is None:
        async with journal.drive("r") as run:
            flow = converse(model, Toolkit(read, send), run.conversation or states[0], journal=run, **limits)
            async with flow.open() as events:
                begun = 0
                async for event in events:
                    begun += isinstance(event, TurnStarted)
                    if begun == 2:
                        break
        async with journal.drive("r") as run:
            states.append(run.conversation or states[0])
    assert (states[-1].ended, states[-1].turns) == (ended, turns)


async def test_one_call_of_a_run_is_stopped() -> None:
    running = Running()
    model = ScriptedModel([call("hang"), call("read")], ["Then without."])
    with anyio.fail_after(GUARD_SECONDS):
        async with converse(model, KIT, GO, running=running).open() as events:
            async for event in events:
                if isinstance(event, ToolStarted) and event.tool == "hang":
                    running.cancel(event.execution_id, "I have seen enough")
    assert events.value.ended == "answer"
    assert [result for result in running.results.values() if isinstance(result, Failure)] == [
        Failure("call_1", "hang", "cancelled", "The call of hang was cancelled: I have seen enough")
    ]


@pytest.mark.parametrize("name", ["max_turns", "max_calls", "max_tokens", "max_repairs", "max_concurrency"])
def test_a_limit_below_nothing_is_refused(name: str) -> None:
    with pytest.raises(ValueError, match=name):
        _ = converse(ScriptedModel(), KIT, GO, **{name: -1})  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("history", "told"),
    [
        ("hello", "not str"),
        ((*GO, None), "and not of NoneType"),
        ((), "begins with what the person says"),
        ((*GO, ToolCall("c", "read", "{}")), r"call c has no result: cancel_pending\(history, 'why'\)"),
    ],
)
def test_a_history_that_no_provider_takes_is_refused(history: Any, told: str) -> None:
    with pytest.raises((TypeError, HistoryError), match=told):
        _ = converse(ScriptedModel(), KIT, history)


async def test_a_run_without_tools_ends_with_its_answer() -> None:
    model = ScriptedModel(["Hello."])
    state = await converse(model, Toolkit(), GO, max_turns=1, instructions="Be brief.")
    (asked,) = model.requests
    assert (state.ended, asked.tool_choice, asked.instructions) == ("answer", "auto", "Be brief.")


@pytest.mark.parametrize(
    ("model", "tools", "hint"),
    [("openai:gpt-5", Toolkit(), "streamkit.providers.named"), (ScriptedModel(["Hi"]), [], "Toolkit")],
)
def test_what_is_no_model_or_toolkit_is_named_at_once(model: Any, tools: Any, hint: str) -> None:
    with pytest.raises(TypeError, match=hint):
        _ = converse(model, tools, (user("Hi"),))


@pytest.mark.parametrize(
    ("option", "hint"),
    [({"running": Running}, r"made by Running\(\)"), ({"authorize": ApprovalDesk()}, r"such as desk\.authorize")],
)
def test_what_steers_no_run_is_named_before_a_model_is_asked(option: dict[str, Any], hint: str) -> None:
    with pytest.raises(TypeError, match=hint):
        _ = converse(ScriptedModel(["Hi"]), KIT, GO, **option)


def test_a_history_in_place_of_a_request_is_named_at_once() -> None:
    asked: Any = GO
    with pytest.raises(TypeError, match=r"request is a TurnRequest, .* not a tuple"):
        _ = converse(ScriptedModel(["Hi"]), Toolkit(), GO, request=asked)


# What waits


async def test_a_stored_conversation_runs_what_was_allowed_without_asking_the_model() -> None:
    model = ScriptedModel([call("send", {"to": "Ann"}), call("send", {"to": "Bob"}), call("read")], ["Done."])
    events, state = await seen(converse(model, KIT, GO, authorize=from_verdicts({})), "call_1", "call_2")
    assert {event.call_id for event in events if isinstance(event, ApprovalRequested)} == {"call_1", "call_2"}
    stored = msgspec.json.encode(state)
    for verdicts, asked in ([{1: Allow()}, 1], [{0: Deny("not Ann")}, 2]):
        state = msgspec.json.decode(stored, type=Conversation)
        ids = {execution_id.rpartition(".")[2]: execution_id for execution_id in state.waiting}
        given: dict[str, Verdict] = {ids[str(place)]: verdict for place, verdict in verdicts.items()}  # type: ignore[attr-defined]
        open_calls = ["call_1"] if asked == 1 else []
        _, state = await seen(converse(model, KIT, state, authorize=from_verdicts(given, state)), *open_calls)
        assert len(model.requests) == asked
        stored = msgspec.json.encode(state)
    assert (state.ended, sorted(ran)) == ("answer", ["Bob", "a"])
    told = [item.text for item in model.requests[1].history if isinstance(item, ToolOutput)]
    assert told == ["The call of send was denied: not Ann", "sent to Bob", "content of a"]
    assert state.turns == 2


async def test_two_pauses_in_one_run_repeat_nothing() -> None:
    model = ScriptedModel([call("send", {"to": "Ann"})], [call("send", {"to": "Bob"})], ["Done."])
    state = Conversation(GO)
    for _ in range(2):
        state = await converse(model, KIT, state, authorize=from_verdicts({}))
        assert state.ended == "pending"
        state = await converse(model, KIT, state, authorize=from_verdicts(dict.fromkeys(state.waiting, Allow()), state))
    assert (state.ended, ran) == ("answer", ["Ann", "Bob"])
    ids = [item.call_id for item in model.requests[-1].history if isinstance(item, ToolOutput)]
    assert ids == ["call_1", "call_2"]


async def test_a_resumed_run_gets_its_context_anew() -> None:
    @tool(approval=True)
    async def whose(context: ToolContext[str]) -> str:
        """Tell the context."""
        return context.context

    kit = Toolkit(whose)
    model = ScriptedModel([call("whose")], ["Done."])
    state = await converse(model, kit, GO, authorize=from_verdicts({}), context="old")
    verdicts = from_verdicts(dict.fromkeys(state.waiting, Allow()), state)
    state = await converse(model, kit, state, authorize=verdicts, context="new")
    assert [item.text for item in state.history if isinstance(item, ToolOutput)] == ["new"]
