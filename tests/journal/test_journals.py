"""Runs that are driven, resumed and followed, whatever the store."""

import json
from collections.abc import Sequence
from functools import partial
from typing import Any

import anyio
import msgspec
import pytest

from streamkit.conversation import Conversation
from streamkit.errors import JournalError, JournalMismatch, RunIsHeld, UnknownRun
from streamkit.items import ToolCall, Usage, assistant, user
from streamkit.journal.entry import Decided, Entry, Numbered, RunEnded, Shown
from streamkit.journal.hidden_calls import HIDDEN
from streamkit.journal.journals import Followed, Journal
from streamkit.journal.log import RunLog
from streamkit.journal.memory import MemoryStore, memory_journal
from streamkit.tool_events import Failure, Intermediate, Pending, Value
from streamkit.turns import TextDelta, Turn, TurnEnded

from ..calling import GUARD_SECONDS

START = Conversation((user("Pay and read"),))


def turn(number: int = 1) -> Turn:
    calls = tuple(ToolCall(f"c{place}", "pay", f'{{"n": {place}}}', f"turn_{number}", place) for place in range(2))
    return Turn(f"turn_{number}", items=calls, stop_reason="tool_calls", usage=Usage(10, 1))


async def start(run: RunLog, place: int, *, attempt: int = 1) -> None:
    await run.start_call(turn().calls[place], f"turn_1.{place}", {"n": place}, attempt=attempt, effects="once")


async def test_a_run_of_which_nothing_is_written_is_new() -> None:
    async with memory_journal().drive("r") as run:
        assert (run.run_id, run.conversation) == ("r", None)


async def test_a_run_goes_on_where_it_was_saved_last() -> None:
    journal = memory_journal()
    settled = START.take(turn()).settle([Value("c0", "pay", 1, "1"), Value("c1", "pay", 2, "2")])
    asked = settled.say(user("And?"))
    for state in (START, settled, asked, asked.add(Turn("t", items=(assistant("So"),)))):
        async with journal.drive("r") as run:
            await run.save(state)
        async with journal.drive("r") as run:
            assert run.conversation == state


async def test_a_state_costs_what_is_new_in_it() -> None:
    store = MemoryStore()
    async with Journal(store).drive("r") as run:
        state = Conversation((user("x" * 1000),))
        for _ in range(50):
            state = state.say(user("y"))
            await run.save(state)
    assert sum(len(msgspec.json.encode(entry)) for entry in await store.read("r")) < 20_000


class WatchedStore(MemoryStore):
    """Knows what it was given, and whether that was to be durable.

    cancels: cancelled as soon as something is kept. fails: keeps nothing.
    """

    def __init__(self) -> None:
        super().__init__()
        self.given: list[tuple[bool, list[str]]] = []
        self.cancels = anyio.CancelScope()
        self.fails = False

    async def append(self, run_id: str, entries: Sequence[Entry], *, durable: bool) -> int:
        self.given.append((durable, [type(entry).__name__ for entry in entries]))
        if self.fails:
            raise JournalError("the disk is full")
        last = await super().append(run_id, entries, durable=durable)
        self.cancels.cancel()
        await anyio.lowlevel.checkpoint_if_cancelled()
        return last


RESULTS: list[Value | Failure] = [Value("c0", "pay", 1, "1", Usage(5, 5)), Failure("c1", "pay", "failed", "no")]


async def pay_both(run: RunLog) -> Conversation:
    await run.save(START)
    await run.take(turn())
    for place, result in enumerate(RESULTS):
        await start(run, place)
        await run.finish_call(f"turn_1.{place}", result, 0.5)
    return START.add(turn(), RESULTS)


async def test_a_state_that_would_be_found_all_the_same_waits_for_no_disk() -> None:
    store = WatchedStore()
    async with Journal(store, events=False).drive("r") as run:
        state = await pay_both(run)
        store.given.clear()
        await run.save(state)
        assert store.given == []
        await run.take(turn(2))
        assert store.given == [(False, ["StateSaved", "TurnTaken"])]
    async with Journal(store).drive("r") as run:
        assert run.conversation == state.take(turn(2))


async def test_a_state_that_waits_for_no_disk_is_found_where_it_was_lost() -> None:
    store = MemoryStore()
    async with Journal(store).drive("r") as run:
        state = await pay_both(run)
        await run.save(state)
        found = RunLog(store, "r", events=True, redaction=None)
        await found.load()
        assert found.conversation == state


async def test_a_state_that_was_lost_is_found_behind_the_next_turn_too() -> None:
    store = WatchedStore()
    async with Journal(store, events=False).drive("r") as run:
        await run.save(state := await pay_both(run))
        store.fails = True
        with pytest.raises(JournalError):
            await run.flush()
        store.fails = False
        await run.take(turn(2))
    async with Journal(store).drive("r") as run:
        assert run.conversation == state.take(turn(2))


async def test_a_state_that_is_kept_back_is_written_soon() -> None:
    store = WatchedStore()
    async with Journal(store, events=False).drive("r") as run:
        await run.save(await pay_both(run))
        with anyio.fail_after(GUARD_SECONDS):
            await run.until_kept()
        await run.flush()
        assert store.given[-1] == (False, ["StateSaved"])


async def test_a_state_that_is_kept_back_is_written_with_the_end_of_the_turn_before_it() -> None:
    store = WatchedStore()
    async with Journal(store).drive("r") as run:
        state = await pay_both(run)
        assert run.show(TurnEnded(turn(2))) is None  # of a turn that its step throws away
        await run.save(state)
        await run.flush()
        assert store.given[-1] == (False, ["Shown", "StateSaved"])


@pytest.mark.parametrize("hides", [False, True])
async def test_a_state_that_would_not_be_found_is_durable(hides: bool) -> None:
    store = WatchedStore()
    told = Value("c0", "pay", {"card": "4711"}, '{"card":"4711"}')
    async with Journal(store, events=False, redact=hide if hides else None).drive("r") as run:
        state = await pay_both(run)
        if hides:
            await run.finish_call("turn_1.0", told, 0.5)
            state = START.add(turn(), [told, RESULTS[1]])
        else:
            state = state.say(user("Go on"))
        await run.save(state)
        assert store.given[-1] == (True, ["StateSaved"])


async def test_a_state_is_durable_whose_calls_did_not_run() -> None:
    store = WatchedStore()
    not_run = [Failure(f"c{place}", "pay", "cancelled", "the limit") for place in range(2)]
    async with Journal(store, events=False).drive("r") as run:
        await run.save(START)
        await run.take(turn(), not_run)
        await run.save(START.add(turn(), not_run))
        assert store.given[-1] == (True, ["StateSaved"])


async def test_a_state_is_written_whole_after_one_that_was_kept_back_was_lost() -> None:
    store = WatchedStore()
    async with Journal(store, events=False).drive("r") as run:
        await run.save(state := await pay_both(run))
        store.fails = True
        with pytest.raises(JournalError):
            await run.take(turn(2))
        store.fails = False
        await run.save(state := state.say(user("Go on")))
    async with Journal(store).drive("r") as run:
        assert run.conversation == state


async def test_a_state_is_durable_where_nobody_knows_what_was_written_before() -> None:
    store = WatchedStore()
    async with Journal(store, events=False).drive("r") as run:
        await run.save(START)
        with anyio.CancelScope() as store.cancels:
            await run.save(START.say(user("And?")))
        assert store.cancels.cancelled_caught
        await run.take(turn())
        for place, result in enumerate(RESULTS):
            await run.finish_call(f"turn_1.{place}", result, 0.5)
        await run.save(state := START.add(turn(), RESULTS))
        assert store.given[-1] == (True, ["StateSaved"])
    async with Journal(store).drive("r") as run:
        assert run.conversation == state


async def test_a_turn_that_was_cut_off_is_found_with_the_results_it_had() -> None:
    journal = memory_journal()
    with pytest.raises(LookupError):
        async with journal.drive("r") as run:
            await run.save(START)
            await run.take(turn())
            await start(run, 0)
            await run.finish_call("turn_1.0", Value("c0", "pay", 1, "1", Usage(5, 5)), 0.5)
            await start(run, 1)
            raise LookupError
    async with journal.drive("r") as run:
        assert run.conversation == START.take(turn()).settle([Value("c0", "pay", 1, "1", Usage(5, 5))])
        finished, started = await run.finished(turn().calls[0], "turn_1.0"), run.started("turn_1.1")
        assert finished is not None
        assert (finished.result, finished.seconds) == (Value("c0", "pay", 1, "1", Usage(5, 5)), 0.5)
        assert started is not None
        assert (started.arguments, started.attempt, started.effects) == ({"n": 1}, 1, "once")
        assert await run.finished(turn().calls[1], "turn_1.1") is None


async def test_a_pending_call_is_found_pending_with_its_verdict() -> None:
    journal = memory_journal()
    waiting = START.add(turn(), [Pending("c0", "pay"), Failure("c1", "pay", "denied", "no")])
    async with journal.drive("r") as run:
        await run.decide(turn().calls[0], Decided("turn_1.0", True, {"n": 5}))
        await run.save(waiting)
    async with journal.drive("r") as run:
        assert run.conversation == waiting
        assert run.verdict("turn_1.0") == Decided("turn_1.0", True, {"n": 5})
        await run.save(waiting.settle([Value("c0", "pay", 1, "1")]))
        assert run.verdict("turn_1.0") is None


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (ToolCall("c0", "read", '{"n": 0}'), "as one of pay, not of read"),
        (ToolCall("c0", "pay", '{"n": 1}'), "other arguments"),
    ],
)
async def test_a_call_that_is_another_one_is_refused(call: ToolCall, message: str) -> None:
    async with memory_journal().drive("r") as run:
        await start(run, 0)
        with pytest.raises(JournalMismatch, match=message):
            await run.finished(call, "turn_1.0")


async def test_who_has_left_the_block_writes_no_more() -> None:
    journal = memory_journal()
    async with journal.drive("r") as run:
        state = await pay_both(run)
    for write in (partial(run.save, state), partial(run.take, turn(2))):
        with pytest.raises(JournalError, match="run r is no longer driven"):
            await write()


async def test_who_is_cancelled_takes_no_event_along_that_was_shown_before() -> None:
    journal = memory_journal()
    async with journal.drive("r") as run:
        for write in (run.flush, partial(start, run, 0)):
            assert run.show(TextDelta("a")) is None
            with anyio.CancelScope() as scope:
                scope.cancel()
                await write()
            assert scope.cancelled_caught
    assert [each.event for each in await followed(journal, "r")] == [TextDelta("a")] * 2


@pytest.mark.parametrize("run_id", [None, 5])
async def test_an_id_that_is_no_text_is_refused(run_id: Any) -> None:
    with pytest.raises(TypeError, match="the id of a run is a str, not"):
        async with memory_journal().drive(run_id):
            pass


async def test_resuming_what_never_was_is_an_error() -> None:
    journal = memory_journal()
    with pytest.raises(UnknownRun, match="nothing is written down of a run r"):
        async with journal.resume("r"):
            pass
    async with journal.drive("r"):
        with pytest.raises(RunIsHeld):
            async with journal.drive("r"):
                pass
    async with journal.resume("r") as run:
        assert run.conversation is None


# Followers


def texts(followed: Sequence[Followed]) -> list[str]:
    return [each.event.text for each in followed if isinstance(each.event, TextDelta)]


async def show(run: RunLog, *said: str) -> None:
    for text in said:
        assert run.show(TextDelta(text)) is None


async def followed(journal: Journal, run_id: str, after: int = 0) -> list[Followed]:
    async with journal.follow(run_id, after=after).open() as events:
        return [event async for event in events]


async def test_a_follower_sees_every_event_once_wherever_it_comes_back() -> None:
    journal = memory_journal()
    seen: dict[int, list[Followed]] = {}

    async def watch(after: int) -> None:
        seen[after] = await followed(journal, "r", after)

    async with anyio.create_task_group() as tasks, journal.drive("r") as run:
        await show(run, *"abc")
        await run.flush()
        for after in (0, 1, 2, 3, 4):
            tasks.start_soon(watch, after)
        await anyio.wait_all_tasks_blocked()
        await show(run, *"de")
        await run.save(START)
        await show(run, *"fg")
    everything = await followed(journal, "r")
    assert texts(everything) == list("abcdefg")
    for after, events in seen.items():
        assert events == [event for event in everything if event.number > after]
    for event in everything:
        assert await followed(journal, "r", event.number) == [each for each in everything if each.number > event.number]


class Read(MemoryStore):
    """Counts how often it is read."""

    reads = 0

    async def read(self, run_id: str, after: int = 0, **options: Any) -> Sequence[Numbered]:
        self.reads += 1
        return await super().read(run_id, after, **options)


async def test_a_follower_reads_once_for_what_comes() -> None:
    store = Read()
    journal = Journal(store)
    async with anyio.create_task_group() as tasks, journal.drive("r") as run:
        for _ in range(10):
            tasks.start_soon(followed, journal, "r")
        await anyio.wait_all_tasks_blocked()
        before = store.reads
        for text in "abc":
            await show(run, text)
            await run.flush()
            await anyio.wait_all_tasks_blocked()
        assert store.reads - before == 10 * 3


async def test_a_follower_goes_on_with_a_run_that_goes_on() -> None:
    journal = memory_journal()
    async with journal.drive("r") as run:
        await show(run, "a")
    async with journal.drive("r") as run:
        await show(run, "b")
    assert texts(await followed(journal, "r")) == ["a", "b"]


@pytest.mark.parametrize(("run_id", "after"), [("other", 0), ("r", 999), ("r", -1)])
async def test_a_follower_of_what_is_not_there_is_told(run_id: str, after: int) -> None:
    journal = memory_journal()
    async with journal.drive("r") as run:
        await show(run, "a")
    with pytest.raises(UnknownRun):
        await followed(journal, run_id, after)


async def test_an_event_is_written_soon_even_when_nothing_follows() -> None:
    journal = memory_journal()
    async with journal.drive("r") as run:
        await show(run, "a")
        with anyio.fail_after(GUARD_SECONDS):
            await journal.store.wait("r", after=1)
        assert [type(each.entry) for each in await journal.store.read("r", after=1)] == [Shown]


class Unspeakable:
    def __repr__(self) -> str:
        raise LookupError


class Mute(Exception):
    def __str__(self) -> str:
        raise LookupError


DEEP = json.loads("[" * 600 + '"\\ud83d"' + "]" * 600)
CIRCLE: list[Any] = []
CIRCLE.append(CIRCLE)


@pytest.mark.parametrize(
    ("data", "read"),
    [
        ({"a\ud83d": "\ude00"}, {"a\ufffd": "\ufffd"}),
        ((1, {2: None}), [1, {"2": None}]),
        (CIRCLE, "[[...]]"),
        ([Unspeakable()], ["<Unspeakable>"]),
        ([10**5000], "<list>"),
        (DEEP, repr(DEEP)[:1000]),
    ],
)
async def test_what_has_no_json_is_written_as_far_as_it_goes(data: Any, read: Any) -> None:
    journal = memory_journal()
    async with journal.drive("r") as run:
        assert run.show(Intermediate("c", "t", event=Intermediate("d", "u", data))) is None
    async with journal.follow("r").open() as followed:
        assert [each.event async for each in followed] == [Intermediate("c", "t", event=Intermediate("d", "u", read))]


async def test_a_run_whose_error_cannot_be_said_has_ended_all_the_same() -> None:
    journal = memory_journal()
    with pytest.raises(Mute):
        async with journal.drive("r"):
            raise Mute
    assert [each.entry for each in await journal.store.read("r")][-1] == RunEnded("Mute: ")


async def test_a_journal_without_events_has_none() -> None:
    journal = memory_journal(events=False)
    async with journal.drive("r") as run:
        await show(run, "a")
    assert await followed(journal, "r") == []


# What nobody may read


def hide(tool: str, value: Any) -> Any:
    return {**value, "card": "****"} if isinstance(value, dict) and "card" in value else value


async def test_what_is_hidden_is_written_nowhere() -> None:
    store = MemoryStore()
    call = ToolCall("c0", "pay", '{"card": "4711"}', "turn_1", 0)
    asked = Turn("turn_1", items=(call,), stop_reason="tool_calls")
    async with Journal(store, redact=hide).drive("r") as run:
        await run.save(START)
        await run.take(asked)
        await run.decide(call, Decided("turn_1.0", True, {"card": "4711"}, {"card": "4711"}))
        await run.start_call(call, "turn_1.0", {"card": "4711"}, attempt=1, effects="idempotent")
        await run.finish_call("turn_1.0", Value("c0", "pay", {"card": "4711"}, '{"card":"4711"}'), 0.1)
        await run.save(START.add(asked, [Value("c0", "pay", {"card": "4711"}, '{"card":"4711"}')]))
    written = msgspec.json.encode(await store.read("r"))
    assert b"4711" not in written
    assert written.count(b"****") == 8


async def test_a_call_whose_arguments_were_hidden_does_not_run_later() -> None:
    journal = memory_journal(redact=hide)
    calls = tuple(ToolCall(f"c{place}", "pay", '{"card": "4711"}', "turn_1", place) for place in range(2))
    asked = Turn("turn_1", items=calls, stop_reason="tool_calls")
    with pytest.raises(LookupError):
        async with journal.drive("r") as run:
            await run.save(START)
            await run.take(asked)
            await run.start_call(calls[0], "turn_1.0", {"card": "4711"}, attempt=1, effects="idempotent")
            await run.finish_call("turn_1.0", Value("c0", "pay", 1, "1"), 0.1)
            raise LookupError
    async with journal.drive("r") as run:
        assert run.conversation is not None
        assert run.conversation.turn is not None
        done, waits = run.conversation.turn.calls
        assert (done.arguments, done.problem) == ('{"card":"****"}', None)
        assert waits.problem == "its arguments were hidden when they were written down, so it cannot run any more"
        assert await run.finished(done, "turn_1.0") is not None


async def test_a_pending_call_whose_arguments_were_hidden_does_not_run_with_what_hides_them() -> None:
    journal = memory_journal(redact=hide)
    calls = tuple(ToolCall(f"c{place}", "pay", '{"card": "4711"}', "turn_1", place) for place in range(2))
    asked = Turn("turn_1", items=calls, stop_reason="tool_calls")
    async with journal.drive("r") as run:
        await run.save(START.add(asked, [Value("c0", "pay", 1, "1"), Pending("c1", "pay")]))
    async with journal.drive("r") as run:
        assert run.conversation is not None
        assert run.conversation.turn is not None
        assert [call.problem for call in run.conversation.turn.calls] == [None, HIDDEN]


async def test_a_verdict_with_hidden_arguments_has_to_be_given_again() -> None:
    journal = memory_journal(redact=hide)
    async with journal.drive("r") as run:
        for place, edited in enumerate([{"card": "4711"}, {"n": 1}]):
            await run.decide(turn().calls[place], Decided(f"turn_1.{place}", True, edited, {}))
            assert run.verdict(f"turn_1.{place}") is not None
        await run.save(START.add(turn(), [Pending("c0", "pay"), Pending("c1", "pay")]))
    async with journal.drive("r") as run:
        assert run.verdict("turn_1.0") is None
        assert run.verdict("turn_1.1") == Decided("turn_1.1", True, {"n": 1}, {})
