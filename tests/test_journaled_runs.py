"""Runs of `converse` that are written down, and go on after a crash."""

import contextlib
import itertools
from collections.abc import Sequence
from typing import Any

import anyio
import pytest

from streamkit.conversation import Conversation
from streamkit.conversing import converse
from streamkit.errors import JournalError, JournalMismatch, RunIsHeld
from streamkit.execution.approval import Allow
from streamkit.execution.execute import execute_all
from streamkit.execution.verdicts import from_verdicts
from streamkit.flows.flow import Sink
from streamkit.items import ToolOutput, user
from streamkit.journal.entry import Entry, TurnTaken
from streamkit.journal.journals import Journal
from streamkit.journal.memory import MemoryStore, memory_journal
from streamkit.loops import Next, loop
from streamkit.testing.grammar import check_grammar
from streamkit.testing.histories import check_items
from streamkit.testing.scripted import ScriptedModel, call
from streamkit.tool_events import Failure, Output, RunEvent, ToolStarted
from streamkit.tools.decorators import tool
from streamkit.tools.toolkit import Toolkit
from streamkit.turns import (
    TextDelta,
    ToolInputAbandoned,
    ToolInputDelta,
    ToolInputStart,
    TurnRequest,
    TurnRestarted,
    TurnStarted,
)

from .calling import last_text
from .reading_runs import GO, KIT, ran, seen


@pytest.fixture(autouse=True)
def nothing_ran() -> None:
    ran.clear()


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


async def test_a_step_that_does_not_take_its_turn_is_told_before_anything_runs() -> None:
    shown: list[RunEvent] = []
    async with memory_journal().drive("r") as run:

        async def step(out: Sink[RunEvent], state: Conversation) -> Next[Conversation]:
            turn = await out.forward(ScriptedModel(SCRIPT[0]).stream_turn(TurnRequest(state.history, KIT.specs)))
            return Next(state.add(turn, await out.forward(execute_all(KIT, turn.calls, journal=run))))

        with pytest.raises(JournalMismatch, match=r"await journal\.take\(turn\)"):
            await loop(step, Conversation(GO), journal=run).tap(shown.append)
    assert not any(isinstance(event, ToolStarted) for event in shown)


@pytest.mark.parametrize("after", [9, 14], ids=["among its calls", "behind its calls"])
async def test_a_run_that_was_cut_off_is_not_begun_anew_under_its_id(after: int) -> None:
    journal = memory_journal()
    await cut_off(journal, after)
    async with journal.drive("r") as run:
        with pytest.raises(JournalMismatch, match=r"begin with run\.conversation"):
            await converse(ScriptedModel(*SCRIPT), KIT, GO, journal=run)
        state = await converse(ScriptedModel(lambda _: ["Done."]), KIT, (*GO, user("No, wait")), journal=run)
    assert state.text == "Done."


async def test_a_run_that_had_its_answer_may_answer_anew() -> None:
    journal = memory_journal()
    await drive(journal, ScriptedModel(*SCRIPT))
    async with journal.drive("r") as run:
        state = await converse(ScriptedModel(["Or so."]), KIT, GO, journal=run)
    assert state.text == "Or so."


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
