"""The ready-made loop: its limits, what waits in it, and going on with a run that was written down."""

import contextlib
import itertools
import threading
from collections.abc import Sequence
from typing import Any

import anyio
import msgspec
import pytest

from streamkit.conversation import Conversation
from streamkit.conversing import converse
from streamkit.decorators import tool
from streamkit.errors import HistoryError, JournalError, RunIsHeld
from streamkit.execution.approval import Allow, Deny, Verdict
from streamkit.execution.execute import execute_all
from streamkit.execution.running import Running
from streamkit.execution.verdicts import from_verdicts
from streamkit.flows.flow import Flow
from streamkit.items import ToolCall, ToolOutput, Usage, user
from streamkit.journal.entry import Entry, TurnTaken
from streamkit.journal.journals import Journal
from streamkit.journal.memory import MemoryStore, memory_journal
from streamkit.testing.grammar import check_grammar
from streamkit.testing.histories import check_items
from streamkit.testing.scripted import ScriptedModel, call
from streamkit.tool_events import ApprovalRequested, Failure, Output, RunEvent, ToolStarted
from streamkit.toolkit import Toolkit
from streamkit.tools import ToolContext
from streamkit.turn_builder import UsageReported
from streamkit.turns import (
    TextDelta,
    ToolInputAbandoned,
    ToolInputDelta,
    ToolInputStart,
    TurnRequest,
    TurnRestarted,
    TurnStarted,
)

from .calling import collect, last_text

ran: list[str] = []


@tool
async def read(p: str = "a") -> str:
    """Read a file."""
    ran.append(p)
    return f"content of {p}"


@tool(approval=True)
async def send(to: str) -> str:
    """Send a mail."""
    ran.append(to)
    return f"sent to {to}"


@tool
async def hang() -> str:
    """Take for ever."""
    await anyio.sleep_forever()
    return ""


KIT = Toolkit(read, send, hang)
GO = (user("go"),)


@pytest.fixture(autouse=True)
def nothing_ran() -> None:
    ran.clear()


async def seen(flow: Flow[RunEvent, Conversation], *pending: str) -> tuple[list[RunEvent], Conversation]:
    with anyio.fail_after(20):
        collected, state = await collect(flow)
    check_grammar(collected, pending=pending)
    if state.turn is None:
        check_items(state.history)
    return collected, state


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


@pytest.mark.parametrize("limits", [{"timeout_seconds": 0.5}, {"idle_timeout_seconds": 0.5}])
async def test_a_run_whose_time_is_up_ends_with_a_whole_history(limits: dict[str, float]) -> None:
    model = ScriptedModel([call("read"), UsageReported(Usage(5, 1))], ["Let me see.", call("hang")])
    flow = converse(model, KIT, GO, **limits)  # type: ignore[arg-type]
    with anyio.fail_after(20):
        async with flow.open() as events:
            collected = [event async for event in events]
    state = events.value
    check_items(state.history)
    assert (state.ended, state.turns, state.usage) == ("budget", 2, Usage(5, 1))
    assert last_text(state).startswith("This call was cancelled: the run ")
    assert any(isinstance(event, ToolStarted) and event.tool == "hang" for event in collected)
    check_grammar(collected)


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


async def test_a_run_whose_time_is_up_stays_so_in_its_journal() -> None:
    journal, collected = memory_journal(), []
    async with journal.drive("r") as run:
        flow = converse(ScriptedModel([call("hang")]), KIT, GO, journal=run, timeout_seconds=0.1)
        async with flow.open() as events:
            collected = [event async for event in events]
    async with journal.follow("r").open() as followed:
        assert [each.event async for each in followed] == collected
    async with journal.drive("r") as run:
        assert (run.conversation, run.owed) == (events.value, ())


async def test_a_limit_keeps_what_the_calls_that_waited_have_done() -> None:
    pending = await converse(ScriptedModel([call("send", {"to": "Ann"})]), KIT, GO, authorize=from_verdicts({}))
    (waiting,) = pending.waiting
    model, verdicts = ScriptedModel([anyio.sleep_forever]), from_verdicts({waiting: Allow()}, pending)
    _, state = await seen(converse(model, KIT, pending, authorize=verdicts, timeout_seconds=1))
    assert (state.ended, last_text(state), ran) == ("budget", "sent to Ann", ["Ann"])


async def test_a_slow_consumer_uses_up_no_time() -> None:
    flow = converse(ScriptedModel([call("read")], ["Done."]), KIT, GO, timeout_seconds=0.2)
    async with flow.open() as events:
        async for event in events:
            if isinstance(event, TurnStarted):
                await anyio.sleep(0.3)
    assert events.value.ended == "answer"


async def test_one_call_of_a_run_is_stopped() -> None:
    running = Running()
    model = ScriptedModel([call("hang"), call("read")], ["Then without."])
    with anyio.fail_after(20):
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


async def test_what_runs_on_behind_a_limit_is_told() -> None:
    end = threading.Event()

    @tool
    def block() -> None:
        """Wait on a thread."""
        end.wait(20)

    try:
        flow = converse(ScriptedModel([call("block")]), Toolkit(block), GO, idle_timeout_seconds=0.2)
        _, state = await seen(flow)
    finally:
        end.set()
    assert state.ended == "budget"
    assert last_text(state).endswith("gave no sign of life for 0.2 seconds. It may still be running.")


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


# Written down


async def drive(journal: Journal, model: ScriptedModel, **options: Any) -> Conversation:
    async with journal.drive("r") as run:
        return await converse(model, KIT, run.conversation or GO, journal=run, **options)


SCRIPT = [call("read", {"p": "a"}), call("read", {"p": "b"})], [call("read", {"p": "c"})], ["Done."]


async def cut_off(journal: Journal, after: int) -> bool:
    """Run the script until its consumer leaves after so many events; whether there were so many."""
    async with journal.drive("r") as run, converse(ScriptedModel(*SCRIPT), KIT, GO, journal=run).open() as events:
        async for _ in events:
            if not after:
                return True
            after -= 1
    return False


async def test_a_state_that_was_stored_earlier_runs_no_finished_call_again() -> None:
    journal = memory_journal()
    async with journal.drive("r") as run:
        asked = await converse(ScriptedModel([call("send", {"to": "Ann"})]), KIT, GO, journal=run)
    for _ in range(2):
        authorize = from_verdicts({execution_id: Allow() for execution_id in asked.waiting}, asked)
        async with journal.drive("r") as run:
            state = await converse(ScriptedModel(["Done."]), KIT, asked, journal=run, authorize=authorize)
        assert (state.ended, ran) == ("answer", ["Ann"])


async def test_a_run_goes_on_after_it_was_cut_off_anywhere() -> None:
    for after in itertools.count():
        ran.clear()
        journal = memory_journal()
        was_cut = await cut_off(journal, after)
        async with journal.drive("r") as run:
            turns = run.conversation.turns if run.conversation is not None else 0
        state = await drive(journal, ScriptedModel(*SCRIPT[turns:]))
        check_items(state.history)
        assert (state.ended, state.turns, last_text(state)) == ("answer", 3, "Done.")
        told = [item.text for item in state.history if isinstance(item, ToolOutput)]
        for path, text in zip("abc", told, strict=True):
            assert ran.count(path) <= 1
            assert text == f"content of {path}" or "it may have happened" in text
        if not was_cut:
            break
    assert sorted(ran) == ["a", "b", "c"]


class Crashing(MemoryStore):
    """As a process that is killed leaves it: after so many appends nothing is kept any more."""

    def __init__(self, appends: int) -> None:
        super().__init__()
        self.left = appends

    async def append(self, run_id: str, entries: Sequence[Entry], *, durable: bool) -> int:
        self.left -= 1
        if self.left < 0:
            raise JournalError("the process is gone")
        return await super().append(run_id, entries, durable=durable)


@pytest.mark.parametrize("appends", range(2, 9))
async def test_calls_beyond_the_limit_do_not_run_after_a_crash_either(appends: int) -> None:
    store = Crashing(appends)
    script: list[list[Any]] = [[call("read", {"p": path}) for path in "abcd"], ["So."]]
    with contextlib.suppress(JournalError):
        async with Journal(store).drive("r") as run:
            await converse(ScriptedModel(*script), KIT, GO, journal=run, max_calls=2)
    store.left = 10**6
    async with Journal(store).drive("r") as run:
        turns = run.conversation.turns if run.conversation is not None else 0
        await converse(ScriptedModel(*script[turns:]), KIT, run.conversation or GO, journal=run, max_calls=2)
    async with Journal(store).follow("r").open() as followed:
        seen = [each.event async for each in followed]
    check_grammar(seen)
    ends = [event.result for event in seen if isinstance(event, Output)]
    # One that was about to run when the store failed is told as interrupted.
    cut_off = sum(isinstance(end, Failure) and end.kind == "interrupted" for end in ends)
    assert set(ran) <= {"a", "b"}
    assert len(set(ran)) + cut_off >= 2


async def test_who_follows_sees_every_end_however_often_the_process_dies() -> None:
    for appends in itertools.count(2):
        ran.clear()
        store = Crashing(appends)
        with contextlib.suppress(JournalError):
            await cut_off(Journal(store), after=1000)
        died, store.left = store.left < 0, 10**6
        journal = Journal(store)
        async with journal.drive("r") as run:
            turns = run.conversation.turns if run.conversation is not None else 0
            flow = converse(ScriptedModel(*SCRIPT[turns:]), KIT, run.conversation or GO, journal=run)
            async with flow.open() as events:
                resumed = [event async for event in events]
        async with journal.follow("r").open() as followed:
            shown = [each.event async for each in followed]
        check_grammar(shown)
        assert shown[len(shown) - len(resumed) :] == resumed
        assert sum(isinstance(event, Output) for event in shown) == 3
        if not died:
            break


class Leaving(MemoryStore):
    """Whose reader leaves as soon as a turn is written down."""

    scope: anyio.CancelScope | None = None

    async def append(self, run_id: str, entries: Sequence[Entry], *, durable: bool) -> int:
        last = await super().append(run_id, entries, durable=durable)
        if self.scope is not None and any(isinstance(entry, TurnTaken) for entry in entries):
            self.scope.cancel()
        return last


async def test_calls_that_go_on_later_were_never_told_to_go_nowhere() -> None:
    store = Leaving()
    journal = Journal(store)
    with anyio.CancelScope() as store.scope:
        await drive(journal, ScriptedModel(*SCRIPT))
    assert store.scope.cancelled_caught
    store.scope = None
    state = await drive(journal, ScriptedModel(*SCRIPT[1:]))
    assert (state.ended, sorted(ran)) == ("answer", ["a", "b", "c"])
    async with journal.follow("r").open() as followed:
        check_grammar([each.event async for each in followed])


async def test_a_turn_that_its_process_left_open_is_taken_back() -> None:
    store = MemoryStore()
    async with Journal(store).drive("r") as run:
        for event in (
            TurnStarted("t", "m"),
            TextDelta("Let me"),
            ToolInputStart("c", "read"),
            ToolInputDelta("c", "{"),
        ):
            assert run.show(event) is None
    async with Journal(store).drive("r") as run:
        assert run.owed == (
            ToolInputAbandoned("c", "retried", "the process that ran it is gone"),
            TurnRestarted("the process that ran it is gone"),
        )
        state = await converse(ScriptedModel(["Done."]), KIT, GO, journal=run)
    async with Journal(store).drive("r") as run:
        assert (run.owed, run.conversation) == ((), state)


async def test_a_run_has_one_loop() -> None:
    raised: list[str] = []
    journal = memory_journal()
    async with journal.drive("r") as run:

        @tool
        async def delegate() -> None:
            """Ask another model, and write it down in the wrong place."""
            with pytest.raises(RunIsHeld, match=r"async with journal\.drive\(context\.execution_id\)") as refused:
                await converse(ScriptedModel(["Done."]), KIT, GO, journal=run)
            raised.append(str(refused.value))

        model = ScriptedModel([call("delegate")], ["Done."])
        state = await converse(model, Toolkit(delegate), GO, journal=run)
    assert raised
    async with journal.drive("r") as run:
        assert run.conversation == state


async def test_a_journal_in_place_of_a_run_is_told() -> None:
    with pytest.raises(TypeError, match=r"journal= is a run: async with journal\.drive"):
        await converse(ScriptedModel(["Done."]), KIT, GO, journal=memory_journal())  # type: ignore[arg-type]
    with pytest.raises(TypeError, match=r"journal= is a run: async with journal\.drive"):
        await execute_all(KIT, [], journal=memory_journal())  # type: ignore[arg-type]


async def test_a_run_that_has_ended_stays_as_it_is() -> None:
    journal = memory_journal()
    state = await drive(journal, ScriptedModel(["Done."]))
    async with journal.drive("r") as run:
        assert run.conversation == state
        state = await converse(ScriptedModel(["Again."]), KIT, state.say(user("And now?")), journal=run)
    async with journal.drive("r") as run:
        assert run.conversation == state


async def test_who_follows_sees_what_the_consumer_sees() -> None:
    journal = memory_journal()
    async with journal.drive("r") as run:
        model = ScriptedModel([call("read", {"p": "x"}, split=2)], ["Do", "ne."])
        collected, _ = await seen(converse(model, KIT, GO, journal=run))
    async with journal.follow("r").open() as events:
        assert [each.event async for each in events] == collected
    assert "".join(event.text for event in collected if isinstance(event, TextDelta)) == "Done."
    assert sum(isinstance(event, Output) for event in collected) == 1


async def test_a_run_without_tools_ends_with_its_answer() -> None:
    model = ScriptedModel(["Hello."])
    state = await converse(model, Toolkit(), GO, max_turns=1, instructions="Be brief.")
    (asked,) = model.requests
    assert (state.ended, asked.tool_choice, asked.instructions) == ("answer", "auto", "Be brief.")


@pytest.mark.parametrize("name", ["timeout_seconds", "idle_timeout_seconds"])
def test_no_time_at_all_is_refused(name: str) -> None:
    with pytest.raises(ValueError, match=name):
        _ = converse(ScriptedModel(), KIT, GO, **{name: 0})  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("model", "tools", "hint"),
    [("openai:gpt-5", Toolkit(), "streamkit.providers.named"), (ScriptedModel(["Hi"]), [], "Toolkit")],
)
def test_what_is_no_model_or_toolkit_is_named_at_once(model: Any, tools: Any, hint: str) -> None:
    with pytest.raises(TypeError, match=hint):
        _ = converse(model, tools, (user("Hi"),))
