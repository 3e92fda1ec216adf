"""A whole run under every fault there is (DESIGN 8): whatever breaks, wherever, and with or without a journal.

After each of them: the grammars hold, nothing is left running or open, the history is one that all providers take; and
a run that was written down goes on to its end, in which nothing ran twice that must not.
"""

import asyncio
import gc
import itertools
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import anyio
import anyio.lowlevel
import pytest
import trio

from streamkit import (
    ApprovalRequested,
    Failure,
    ModelError,
    Output,
    RunEvent,
    ToolOutput,
    Transcript,
    TurnStarted,
)
from streamkit.errors import VerdictRefused
from streamkit.journal.entry import CallFinished, Entry
from streamkit.journal.journals import Journal
from streamkit.journal.memory import MemoryStore
from streamkit.testing.leftovers import nothing_left

from .agent_run import CALLS, FIRST, GO, MAY_HAVE_HAPPENED, TEXTS, TURNS, Run, World, check_by_all, check_ran
from .attacks import Boom, repeat

BACKENDS = ("asyncio", "trio")
GUARD_SECONDS = 200


@pytest.fixture(autouse=True)
def only_our_garbage() -> Iterator[None]:
    """Or else each look for garbage goes through everything that the test runner has."""
    gc.collect()
    gc.freeze()
    yield
    gc.unfreeze()


class WaitingStore(MemoryStore):
    """One that takes its time over each entry, in which it may be cancelled, as a disk does."""

    async def append(self, run_id: str, entries: Sequence[Entry], *, durable: bool) -> int:
        await anyio.lowlevel.checkpoint()
        return await super().append(run_id, entries, durable=durable)


def new_journal() -> Journal:
    return Journal(WaitingStore())


async def play(run: Run, journal: Journal | None, **options: Any) -> None:
    if journal is None:
        await run.go(**options)
        return
    async with journal.drive("r") as log:
        await run.go(log, **options)


async def go_on(broken: Run, journal: Journal) -> Run:
    """The same run, in another process as it were: it ends, and nothing happened twice that must not."""
    after, returned = Run(broken.world), set(broken.world.returned)
    await play(after, journal)
    after.check(complete=True)
    after.check_answered(returned)
    check_ran(broken.world, broken.finished())
    return after


@pytest.mark.parametrize("is_written", [False, True])
async def test_without_a_fault_all_is_well(is_written: bool) -> None:
    run = Run(World())
    async with nothing_left():
        await play(run, new_journal() if is_written else None)
    run.check(complete=True)
    run.check_answered()
    assert run.state is not None
    assert run.transcript.history() == run.state.history
    assert sorted(ran.tool for ran in run.world.ran) == ["fails", "plain", "read", "read", "read", "send", "tally"]


# It is cut off


class StepLoop(asyncio.SelectorEventLoop):
    """Calls `strike` behind its n-th callback, which mostly is a step of a task."""

    strike: Callable[[], object] | None = None
    left = 0

    def call_soon(  # type: ignore[override]  # any arguments, whatever the callback takes
        self, callback: Callable[..., Any], *args: Any, context: Any = None
    ) -> asyncio.Handle:
        def counted(*args: Any) -> None:
            callback(*args)
            self.count()

        return super().call_soon(counted, *args, context=context)

    def count(self) -> None:
        self.left -= 1
        if self.left == 0 and self.strike is not None:
            self.strike()


class StepInstrument(trio.abc.Instrument):
    """The same behind the n-th step of a task."""

    strike: Callable[[], object] | None = None
    left = 0

    def after_task_step(self, task: trio.lowlevel.Task) -> None:
        self.left -= 1
        if self.left == 0 and self.strike is not None:
            self.strike()


@pytest.mark.parametrize("is_written", [False, True])
@pytest.mark.parametrize("backend", BACKENDS)
def test_it_may_be_cancelled_between_any_two_steps_of_its_tasks(backend: str, is_written: bool) -> None:
    instrument = StepInstrument()

    async def attack(number: int) -> bool:
        journal = new_journal() if is_written else None
        run = Run(World())
        stepping = instrument if backend == "trio" else asyncio.get_running_loop()
        assert isinstance(stepping, StepInstrument | StepLoop)
        with anyio.CancelScope() as scope:
            stepping.strike, stepping.left = scope.cancel, number + 1
            await play(run, journal)
        stepping.strike = None
        run.check(complete=not scope.cancelled_caught)
        if journal is not None:
            await go_on(run, journal)
        return scope.cancel_called

    async def main() -> None:
        with anyio.fail_after(GUARD_SECONDS):
            assert await repeat(attack) > 40

    options: dict[str, Any] = {"instruments": [instrument]} if backend == "trio" else {"loop_factory": StepLoop}
    anyio.run(main, backend=backend, backend_options=options)


@pytest.mark.parametrize("is_written", [False, True])
@pytest.mark.parametrize("way", ["breaks", "raises"])
async def test_its_consumer_may_leave_at_every_event(way: str, is_written: bool) -> None:
    for leave_after in itertools.count(1):
        journal = new_journal() if is_written else None
        run = Run(World())

        def leave(event: RunEvent) -> bool:
            run.allow(event)  # noqa: B023
            if len(run.seen) < leave_after:  # noqa: B023
                return False
            if way == "raises":
                raise Boom
            return True

        async with nothing_left():
            try:
                await play(run, journal, at_event=leave)
            except Boom:
                assert way == "raises"
        run.check(complete=run.state is not None)
        if journal is not None:
            await go_on(run, journal)
        if run.state is not None:
            assert leave_after > 40
            return


# The person decides


def asked_for(run: Run, others: int) -> bool:
    """Whether nothing but the verdict is waited for."""
    is_asked = any(isinstance(event, ApprovalRequested) for event in run.seen)
    return is_asked and sum(isinstance(event, Output) for event in run.seen) == others


@pytest.mark.parametrize("is_written", [False, True])
@pytest.mark.parametrize("says", ["allow", "deny"])
async def test_a_verdict_may_come_at_every_moment_and_counts_once(says: str, is_written: bool) -> None:
    for number in itertools.count(1):
        run = Run(World())
        given: list[int] = []

        def decide(_: RunEvent) -> None:
            first = next(event for event in run.seen if isinstance(event, TurnStarted))  # noqa: B023
            execution_id = f"{first.turn_id}.{CALLS.index('s')}"
            if given:  # noqa: B023
                with pytest.raises(VerdictRefused):
                    run.desk.allow(execution_id, early=True)  # noqa: B023
            elif len(run.seen) == number or asked_for(run, len(CALLS) - 1):  # noqa: B023
                getattr(run.desk, says)(execution_id, early=True)  # noqa: B023
                given.append(len(run.seen))  # noqa: B023

        async with nothing_left():
            await play(run, new_journal() if is_written else None, at_event=decide)
        run.check(complete=True)
        assert [ran.tool for ran in run.world.ran].count("send") == (says == "allow")
        if given != [number]:  # later there is nothing but to wait for it
            assert number > 30
            return


async def test_a_verdict_after_the_run_was_cancelled_is_refused_and_its_call_is_asked_about_again() -> None:
    journal = new_journal()
    run = Run(World())

    def cancel(_: RunEvent) -> None:
        if asked_for(run, len(CALLS) - 1):
            scope.cancel()

    with anyio.CancelScope() as scope:
        await play(run, journal, at_event=cancel)
    (question,) = [event for event in run.seen if isinstance(event, ApprovalRequested)]
    with pytest.raises(VerdictRefused, match="was cancelled"):
        run.desk.allow(question.execution_id)
    after = await go_on(run, journal)
    assert question.execution_id in {event.execution_id for event in after.seen if isinstance(event, ApprovalRequested)}


# The model is faulty


def broken_turns(change: Any) -> list[tuple[tuple[Any, ...], ...]]:
    """TURNS, with each part of each turn changed in its turn. change: (parts before, part, parts behind) -> parts."""
    return [
        (*TURNS[:turn], tuple(change(parts[:place], parts[place], parts[place + 1 :])), *TURNS[turn + 1 :])
        for turn, parts in enumerate(TURNS)
        for place in range(len(parts))
    ]


@pytest.mark.parametrize("is_written", [False, True])
async def test_the_stream_of_the_model_may_break_at_every_part(is_written: bool) -> None:
    for turns in broken_turns(lambda before, part, behind: (*before, ModelError("lost"))):
        journal = new_journal() if is_written else None
        run = Run(World(), turns)
        async with nothing_left():
            with pytest.raises(ModelError, match="lost"):
                await play(run, journal)
        run.check(complete=True)
        check_ran(run.world, run.finished())
        if turns[0] is not FIRST:
            assert run.world.ran == []
        if journal is not None:
            await go_on(run, journal)


async def test_every_part_of_the_model_may_come_twice() -> None:
    for turns in broken_turns(lambda before, part, behind: (*before, part, part, *behind)):
        run = Run(World(), turns)
        async with nothing_left():
            await play(run, None)
        run.check(complete=True)
        check_ran(run.world, run.finished())
        assert run.state is not None
        assert run.state.ended == "answer"
        assert len([ran for ran in run.world.ran if ran.tool == "send"]) <= 1


async def test_every_part_of_the_model_may_be_missing() -> None:
    ends = 0
    for turns in broken_turns(lambda before, part, behind: (*before, *behind)):
        run = Run(World(), turns)
        async with nothing_left():
            try:
                await play(run, None)
            except ModelError:
                ends += 1
        run.check(complete=True)
        check_ran(run.world, run.finished())
    assert ends <= len(TURNS)


async def test_a_transcript_may_hear_every_event_twice() -> None:
    run = Run(World())
    await play(run, None)
    assert run.state is not None
    for twice, event in enumerate(run.shown):
        transcript = Transcript(GO)
        for before in run.shown[: twice + 1]:
            transcript.feed(before)
        transcript.feed(event)
        check_by_all(transcript.history("It was stopped."))
        for behind in run.shown[twice + 1 :]:
            transcript.feed(behind)
        assert transcript.history() == run.state.history


# A tool is faulty


@pytest.mark.parametrize("is_written", [False, True])
async def test_a_tool_may_raise_at_every_event(is_written: bool) -> None:
    for event in range(3):
        journal = new_journal() if is_written else None
        run = Run(World(tally_fails_at=event))
        async with nothing_left():
            await play(run, journal)
        run.check(complete=True)
        assert run.state is not None
        told = {item.call_id: item for item in run.state.history if isinstance(item, ToolOutput)}
        assert (told["t"].failed, told["t"].text) == (True, "tally failed with an internal error.")
        others = {call_id: item.text for call_id, item in told.items() if call_id not in "tf"}
        assert others == {call_id: text for call_id, text in TEXTS.items() if call_id not in "tf"}


# The process dies


class Written(MemoryStore):
    """A store that remembers what was appended together, and what had happened in the world by then."""

    def __init__(self, world: World) -> None:
        super().__init__()
        self._world = world
        self.appended: list[tuple[Sequence[Entry], int]] = []

    async def append(self, run_id: str, entries: Sequence[Entry], *, durable: bool) -> int:
        self.appended.append((entries, len(self._world.ran)))
        return await super().append(run_id, entries, durable=durable)


async def test_it_goes_on_after_its_process_died_at_or_between_the_points_of_its_journal() -> None:
    world = World()
    store = Written(world)
    whole = Run(world)
    await play(whole, Journal(store))
    deaths = [(kept, store.appended[kept - 1][1]) for kept in range(1, len(store.appended) + 1)]
    deaths += [(kept, happened) for kept, (_, happened) in enumerate(store.appended)]  # just before the next
    interrupted = 0
    for kept, happened in sorted(set(deaths)):
        left = MemoryStore()
        entries = [entry for each, _ in store.appended[:kept] for entry in each]
        await left.append("r", entries, durable=True)
        dead = Run(World(ran=world.ran[:happened]))
        after = await go_on(dead, Journal(left))
        finished = {entry.execution_id for entry in entries if isinstance(entry, CallFinished)}
        check_ran(dead.world, finished)
        assert after.state is not None
        told = [item.text for item in after.state.history if isinstance(item, ToolOutput)]
        interrupted += any(MAY_HAVE_HAPPENED in text for text in told)
        answered = [event.result for event in after.seen if isinstance(event, Output)]
        assert sum(isinstance(result, Failure) and result.kind == "interrupted" for result in answered) <= 3
    assert interrupted
