"""Calls that are written down: what runs again after a crash, and what does not."""

from collections.abc import Awaitable, Sequence
from typing import Any

import anyio
import msgspec
import pytest

from streamkit.conversation import Conversation
from streamkit.errors import JournalError, JournalMismatch
from streamkit.execution.approval import Allow, Deny, Question, Verdict
from streamkit.execution.execute import execute_all
from streamkit.execution.running import Running
from streamkit.items import ToolCall, user
from streamkit.journal.entry import CallFinished, CallStarted, Decided, Entry
from streamkit.journal.journals import Journal
from streamkit.journal.log import RunLog
from streamkit.journal.memory import MemoryStore, memory_journal
from streamkit.testing.grammar import check_grammar
from streamkit.tool_events import (
    ApprovalRequested,
    Failure,
    Output,
    ToolEvent,
    ToolResult,
    ToolStarted,
    Value,
)
from streamkit.tools.decorators import tool
from streamkit.tools.tool import ToolContext
from streamkit.tools.toolkit import Toolkit
from streamkit.turns import Turn

ran: list[tuple[str, str, int]] = []
crash_in: set[str] = set()
crashing: list[anyio.CancelScope] = []


async def happen(context: ToolContext[None], name: str) -> str:
    ran.append((name, context.execution_id, context.attempt))
    if name in crash_in:
        crashing[-1].cancel()
        await anyio.sleep_forever()
    return f"{name} done"


@tool
async def pay(context: ToolContext[None]) -> str:
    """Pay, once."""
    return await happen(context, "pay")


@tool(effects="idempotent")
async def put(context: ToolContext[None]) -> str:
    """Put something where it belongs, however often."""
    return await happen(context, "put")


@tool(effects="none")
async def read(context: ToolContext[None]) -> str:
    """Read."""
    return await happen(context, "read")


TOOLS = Toolkit(pay, put, read)
NAMES = ("pay", "put", "read")
CALLS = tuple(ToolCall(f"c{place}", name, "{}", "t", place) for place, name in enumerate(NAMES))


@pytest.fixture(autouse=True)
def nothing_ran() -> None:
    ran.clear()
    crash_in.clear()


async def execute(
    journal: Journal, calls: Sequence[ToolCall] = CALLS, **options: Any
) -> tuple[list[ToolEvent], tuple[ToolResult, ...]]:
    async with journal.drive("r") as run:
        seen: list[ToolEvent] = []
        async with execute_all(TOOLS, calls, journal=run, **options).open() as events:
            async for event in events:
                seen.append(event)
        check_grammar(seen)
        return seen, events.value


async def crash(work: Awaitable[object], *names: str) -> None:
    """Do the work until a tool of one of these names runs; then everything is cut off."""
    crash_in.update(names)
    with anyio.CancelScope() as scope:
        crashing.append(scope)
        await work
    assert scope.cancelled_caught
    crash_in.clear()


async def entries(journal: Journal) -> list[Entry]:
    return [numbered.entry for numbered in await journal.store.read("r")]


def value(place: int) -> Value:
    return Value(f"c{place}", NAMES[place], f"{NAMES[place]} done", f"{NAMES[place]} done")


async def test_a_call_that_is_finished_is_answered_and_does_not_run_again() -> None:
    journal = memory_journal()
    first, results = await execute(journal)
    again, same = await execute(journal)
    assert results == same == (value(0), value(1), value(2))
    assert sorted(name for name, _, _ in ran) == sorted(NAMES)
    assert [event for event in again if isinstance(event, ToolStarted)] == [
        ToolStarted(f"t.{place}", f"c{place}", name, {}) for place, name in enumerate(NAMES)
    ]
    assert sorted(map(repr, first)) == sorted(map(repr, again))


async def test_it_is_written_before_it_starts_and_before_it_is_told() -> None:
    store = MemoryStore()
    order: list[str] = []

    @tool
    async def look(context: ToolContext[None]) -> str:
        """Look into the journal."""
        written = [each.entry for each in await store.read("r")]
        assert any(isinstance(entry, CallStarted) for entry in written)
        assert not any(isinstance(entry, CallFinished) for entry in written)
        return "fine"

    async with Journal(store).drive("r") as run:
        flow = execute_all(Toolkit(look), [ToolCall("c", "look", "{}", "t", 0)], journal=run)
        async with flow.open() as events:
            async for event in events:
                if isinstance(event, Output):
                    order = [type(each.entry).__name__ for each in await store.read("r")]
    assert events.value == (Value("c", "look", "fine", "fine"),)
    assert order == ["RunTaken", "CallStarted", "CallFinished"]


@pytest.mark.parametrize("name", NAMES)
async def test_what_had_started_runs_again_only_where_it_may(name: str) -> None:
    journal = memory_journal()
    await crash(execute(journal, max_concurrency=1), name)
    place = NAMES.index(name)
    _, results = await execute(journal)
    again = [(each, number) for each, _, number in ran if each == name]
    if name == "pay":
        told = "The call of pay was interrupted while it ran: it may have happened, so it did not run again."
        assert results[place] == Failure("c0", "pay", "interrupted", told)
        assert again == [("pay", 1)]
    else:
        assert results[place] == value(place)
        assert again == [(name, 1), (name, 2)]
        assert {execution_id for each, execution_id, _ in ran if each == name} == {f"t.{place}"}
    assert all(results[other] == value(other) for other in range(3) if other != place)
    assert sorted(each for each, _, number in ran if number == 1) == sorted(NAMES)
    _, same = await execute(journal)
    assert same == results


@tool(name="put", effects="idempotent")
async def put_elsewhere(place: str) -> str:
    """Put something where it belongs by now."""
    raise AssertionError(place)


async def refuse(question: Question) -> Verdict:
    return Deny("no more")


@pytest.mark.parametrize(
    ("toolkit", "authorize", "why"),
    [
        (Toolkit(read), None, "There is no tool put"),
        (TOOLS.disabled("put", "It is out of order."), None, "It is out of order"),
        (Toolkit(put_elsewhere), None, "place: required, but missing"),
        (TOOLS, refuse, "was denied: no more"),
    ],
    ids=["gone", "disabled", "changed", "denied"],
)
async def test_what_may_have_happened_and_cannot_run_again_is_not_told_as_undone(
    toolkit: Toolkit, authorize: Any, why: str
) -> None:
    journal = memory_journal()
    await crash(execute(journal, CALLS[1:2]), "put")
    async with journal.drive("r") as run:
        (told,) = await execute_all(toolkit, CALLS[1:2], journal=run, authorize=authorize)
    assert isinstance(told, Failure)
    assert told.kind == "interrupted"
    assert "it may have happened. It did not run again: " in told.message
    assert why in told.message


async def test_what_changes_nothing_is_told_as_it_is() -> None:
    journal = memory_journal()
    await crash(execute(journal, CALLS[2:]), "read")
    async with journal.drive("r") as run:
        (told,) = await execute_all(Toolkit(pay), CALLS[2:], journal=run)
    assert isinstance(told, Failure)
    assert told.kind == "unknown_tool"


async def test_a_call_that_is_another_one_by_now_is_refused() -> None:
    journal = memory_journal()
    await execute(journal)
    for changed in ({"name": "read"}, {"arguments": '{"x":1}'}):
        with pytest.raises(JournalMismatch):
            await execute(journal, [msgspec.structs.replace(CALLS[0], **changed)])
    assert len(ran) == 3


async def test_a_call_made_by_hand_is_not_answered_with_the_result_of_another() -> None:
    journal, calls = memory_journal(), [ToolCall(call_id, "pay", "{}") for call_id in ("one", "two")]
    await execute(journal, calls[:1])
    await execute(journal, calls[:1])
    with pytest.raises(JournalMismatch, match="call two has the execution id of call one"):
        await execute(journal, calls[1:])
    assert len(ran) == 1


async def test_a_call_that_failed_stays_failed() -> None:
    journal = memory_journal()
    wrong = [ToolCall("c0", "pay", '{"x": 1}', "t", 0), ToolCall("c1", "nothing", "{}", "t", 1)]
    _, results = await execute(journal, wrong)
    _, same = await execute(journal, wrong)
    assert results == same
    assert [each.kind for each in results if isinstance(each, Failure)] == ["invalid_input", "unknown_tool"]


# Verdicts


async def ask(question: Question) -> Verdict:
    await question.announce(None)
    return Allow() if question.call.name != "put" else Deny("no")


async def test_what_was_decided_is_not_asked_again() -> None:
    journal = memory_journal()
    await crash(execute(journal, authorize=ask), "read")
    decided = [entry for entry in await entries(journal) if isinstance(entry, Decided)]
    assert sorted((each.execution_id, each.allowed, each.reason) for each in decided) == [
        ("t.0", True, ""),
        ("t.1", False, "no"),
        ("t.2", True, ""),
    ]
    events, results = await execute(journal, authorize=ask)
    assert not any(isinstance(event, ApprovalRequested) for event in events)
    assert isinstance(results[1], Failure)
    assert results[1].kind == "denied"
    assert results[2] == value(2)


@pytest.mark.parametrize("verdict", [Allow(), Allow(value="by hand"), Deny("no")], ids=repr)
async def test_what_was_decided_is_kept_where_everything_is_cut_off_at_once(verdict: Verdict) -> None:
    journal, decided = memory_journal(), anyio.Event()

    async def wait(question: Question) -> Verdict:
        await question.announce(None)
        await decided.wait()
        return verdict

    async with journal.drive("r") as run, execute_all(TOOLS, CALLS[:1], journal=run, authorize=wait).open() as events:
        async for event in events:
            assert isinstance(event, ApprovalRequested)
            await run.flush()  # so that nothing else has to be written
            decided.set()
            break
    again, _ = await execute(journal, CALLS[:1], authorize=ask)
    assert not any(isinstance(event, ApprovalRequested) for event in again)


async def test_both_versions_of_edited_arguments_are_kept() -> None:
    @tool(effects="idempotent")
    async def say(text: str) -> str:
        """Say something."""
        return text

    async def edit(question: Question) -> Verdict:
        await question.announce(None)
        return Allow({"text": "hello"})

    journal = memory_journal()
    call = ToolCall("c", "say", '{"text": "helo"}', "t", 0)
    async with journal.drive("r") as run:
        assert (await execute_all(Toolkit(say), [call], authorize=edit, journal=run))[0].text == "hello"  # type: ignore[union-attr]
    kept = await entries(journal)
    assert Decided("t.0", True, {"text": "hello"}, {"text": "helo"}) in kept
    assert [entry.arguments for entry in kept if isinstance(entry, CallStarted)] == [{"text": "hello"}]
    async with journal.drive("r") as run:
        assert (await execute_all(Toolkit(say), [call], authorize=edit, journal=run))[0].text == "hello"  # type: ignore[union-attr]


async def test_a_value_that_somebody_gave_is_never_taken_for_leave_to_run() -> None:
    async def give(question: Question) -> Verdict:
        await question.announce(None)
        return Allow(value="done by hand")

    store = FailingStore(CallFinished)
    with pytest.raises(JournalError):
        await execute(Journal(store), CALLS[:1], authorize=give)
    store.works = True
    _, results = await execute(Journal(store), CALLS[:1], authorize=give)
    assert results == (Value("c0", "pay", "done by hand", "done by hand"),)
    assert ran == []


async def test_a_call_that_somebody_cancelled_does_not_run_again_where_everything_is_cut_off_at_once() -> None:
    journal, running = memory_journal(), Running()

    @tool(effects="idempotent")
    async def hang() -> None:
        """Hang."""
        ran.append(("hang", "", 1))
        await anyio.sleep_forever()

    toolkit, calls = Toolkit(hang, read), [ToolCall("c", "hang", "{}", "t", 0), ToolCall("q", "read", "{}", "t", 1)]
    async with journal.drive("r") as run:
        options: dict[str, Any] = {"running": running, "journal": run, "authorize": waits_for_reading}
        async with execute_all(toolkit, calls, **options).open() as events:
            async for event in events:
                if isinstance(event, ToolStarted):
                    running.cancel("t.0", "I have seen enough")
                    running.cancel("t.1", "I do not need it")
                    break
    assert [result.kind for result in running.results.values() if isinstance(result, Failure)] == ["cancelled"] * 2
    async with journal.drive("r") as run:
        results = await execute_all(toolkit, calls, journal=run)
    assert [result.kind for result in results if isinstance(result, Failure)] == ["cancelled"] * 2
    assert len(ran) == 1


async def waits_for_reading(question: Question) -> Verdict:
    if question.call.name == "read":
        await question.announce(None)
        await anyio.sleep_forever()
    return Allow()


# A store that fails


class FailingStore(MemoryStore):
    """Fails to write what it is told to fail at."""

    def __init__(self, kind: type[Entry]) -> None:
        super().__init__()
        self._kind = kind
        self.works = False

    async def append(self, run_id: str, entries: Sequence[Entry], *, durable: bool) -> int:
        if not self.works and any(isinstance(entry, self._kind) for entry in entries):
            raise JournalError("the disk is full")
        return await super().append(run_id, entries, durable=durable)


async def test_nothing_happens_that_cannot_be_written_down() -> None:
    with pytest.raises(JournalError, match="the disk is full"):
        await execute(Journal(FailingStore(CallStarted)))
    assert ran == []


async def test_what_is_finished_is_not_lost_with_the_store() -> None:
    store = FailingStore(CallFinished)
    journal = Journal(store)
    store.works = True
    await execute(journal, CALLS[:1])
    store.works = False
    with pytest.raises(JournalError, match="the disk is full"):
        await execute(journal, CALLS[:2])
    store.works = True
    _, results = await execute(journal, CALLS[:2])
    assert results == (value(0), value(1))
    assert [(name, attempt) for name, _, attempt in ran] == [("pay", 1), ("put", 1), ("put", 2)]


async def test_a_result_is_written_down_also_when_everybody_leaves() -> None:
    journal = memory_journal()

    @tool
    async def commit() -> str:
        """Is left in the middle, and ends all the same."""
        with anyio.CancelScope(shield=True):
            left.set()
            await gone.wait()
        return "committed"

    left, gone = anyio.Event(), anyio.Event()
    call = ToolCall("c", "commit", "{}", "t", 0)

    async def leave(run: RunLog) -> None:
        async with execute_all(Toolkit(commit), [call], journal=run).open() as events:
            async for _ in events:
                break

    async with journal.drive("r") as run, anyio.create_task_group() as tasks:
        tasks.start_soon(leave, run)
        await left.wait()
        gone.set()
    async with journal.drive("r") as run:
        assert await run.finished(call, "t.0") is not None


# A conversation


async def test_a_turn_goes_on_where_it_was_cut() -> None:
    journal = memory_journal()
    turn = Turn("t", items=CALLS, stop_reason="tool_calls")

    async def begin() -> None:
        async with journal.drive("r") as run:
            await run.save(Conversation((user("go"),)))
            await run.take(turn)
            await execute_all(TOOLS, turn.calls, journal=run, max_concurrency=1)

    await crash(begin(), "put")
    async with journal.drive("r") as run:
        state = run.conversation
        assert state is not None
        assert list(state.waiting) == ["t.1", "t.2"]
        state = state.settle(await execute_all(TOOLS, state.waiting.values(), journal=run))
        await run.save(state)
    assert sorted(name for name, _, _ in ran) == ["pay", "put", "put", "read"]
    assert [item.text for item in state.history[-3:]] == ["pay done", "put done", "read done"]  # type: ignore[union-attr]
    assert (state.turn, state.turns) == (None, 1)
