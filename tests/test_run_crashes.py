"""Whole runs whose processes are killed, or whose disks are full, hundreds of times.

What is finished is, nothing happens twice that must not, and whoever asks or watches is told what nobody knows.
"""

import itertools
import json
import sqlite3
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import anyio
import pytest

from streamkit import (
    Conversation,
    Message,
    RunEvent,
    TextDelta,
    Toolkit,
    ToolOutput,
    ToolStarted,
    Transcript,
    Turn,
    TurnEnded,
    TurnStarted,
    Value,
    converse,
    tool,
)
from streamkit.errors import JournalError
from streamkit.items import ToolCall
from streamkit.journal.entry import Entry, Shown
from streamkit.journal.journals import Journal
from streamkit.journal.memory import MemoryStore, memory_journal
from streamkit.journal.sqlite import SqliteStore
from streamkit.testing import call, check_grammar

from . import crash_run
from .calling import last_text
from .crash_checks import Screen
from .crash_points import Points
from .crash_run import GO, Planned, read_deeds

ROOT = Path(__file__).parents[1]
GUARD_SECONDS = 280
DEATHS = 150
KINDS = {"step", "statement", "instruction", "deed", "event", "clock", "full", "locked"}


@pytest.mark.skipif(sys.platform == "win32", reason="nothing forks here")
@pytest.mark.parametrize("seed", [1, 2, 3])
def test_a_run_ends_as_it_must_wherever_its_processes_are_killed(tmp_path: Path, seed: int) -> None:
    command = [sys.executable, "-m", "tests.run_crashes", str(tmp_path), str(seed), str(DEATHS)]
    ended = subprocess.run(command, cwd=ROOT, timeout=GUARD_SECONDS, capture_output=True, check=False)
    assert ended.returncode == 0, ended.stderr.decode()
    assert json.loads(ended.stdout).keys() == KINDS


# What such deaths have shown


@tool(effects="none")
async def read(path: str) -> str:
    """Reads."""
    return f"content of {path}"


A_CALL = ToolCall("a", "read", '{"path":"a"}', "turn_1", 0)
FIRST = Turn("turn_1", "m", (Message("assistant", "I read."), A_CALL), "tool_calls")
MODEL = Planned((("I read.",), ("More.", call("read", {"path": "b"})), ("Do", "ne.")))


async def live(journal: Journal, leave_after: int | None = None) -> Conversation | None:
    """Go on with the run, to its end or to an event."""
    async with journal.drive("r") as run:
        assert run.conversation is not None
        async with converse(MODEL, Toolkit(read), run.conversation, journal=run).open() as events:
            number = 0
            async for _ in events:
                number += 1
                if number == leave_after:
                    return None
        return events.value


async def test_a_run_may_die_anywhere_after_it_has_found_a_turn_with_all_its_results() -> None:
    for leave_after in itertools.count(1):
        journal = memory_journal()
        async with journal.drive("r") as run:
            await run.save(Conversation(GO))
            await run.take(FIRST)
            await run.finish_call("turn_1.0", Value("a", "read", "content of a", "content of a"), 0.5)
        state = await live(journal, leave_after)
        was_left = state is None
        state = state or await live(journal)
        assert state is not None
        assert (state.ended, state.turns, last_text(state)) == ("answer", 3, "Done.")
        told = [item.text for item in state.history if isinstance(item, ToolOutput)]
        assert told == ["content of a", "content of b"]
        async with journal.follow("r").open() as events:
            check_grammar([followed.event async for followed in events])
        if not was_left:
            break
    assert leave_after > 8


async def test_a_turn_that_a_step_throws_away_does_not_stand_in_the_way_of_the_next() -> None:
    journal = memory_journal()
    async with journal.drive("r") as run:
        await run.save(start := Conversation(GO))
        await run.take(FIRST)
        await run.save(start)
        await run.take(FIRST)
    async with journal.drive("r") as run:
        assert run.conversation == start.take(FIRST)


# The end of a turn, and what becomes of it


async def shown(journal: Journal) -> list[RunEvent]:
    """All that was written of what was shown, also of a run that has not ended."""
    return [each.entry.event for each in await journal.store.read("r") if isinstance(each.entry, Shown)]


async def test_who_follows_hears_of_the_end_of_a_turn_together_with_what_becomes_of_it() -> None:
    journal = memory_journal()
    events: list[RunEvent] = [TurnStarted("turn_1", "m"), TurnEnded(FIRST)]
    async with journal.drive("r") as run:
        for event in events:
            assert run.show(event) is None
        await run.flush()
        assert await shown(journal) == events[:1]
        await run.take(FIRST)
        assert await shown(journal) == events


async def test_a_turn_that_is_taken_by_nobody_ends_when_its_calls_begin() -> None:
    journal = memory_journal()
    events: list[RunEvent] = [TurnStarted("turn_1", "m"), TurnEnded(FIRST), ToolStarted("turn_1.0", "a", "read", {})]
    async with journal.drive("r") as run:
        for event in events:
            assert run.show(event) is None
        await run.flush()
        assert await shown(journal) == events


async def test_a_turn_that_was_lost_at_its_end_is_shown_once() -> None:
    journal = memory_journal()
    turn = Turn("turn_1", "m", (Message("assistant", "I read."),), "stop")
    with pytest.raises(ConnectionError):
        async with journal.drive("r") as run:
            await run.save(Conversation(GO))
            for event in (TurnStarted("turn_1", "m"), TextDelta("I read."), TurnEnded(turn)):
                assert run.show(event) is None
            raise ConnectionError
    state = await live(journal)
    screen, transcript = Screen(), Transcript(GO)
    for told in await shown(journal):
        screen.show(told)
        transcript.feed(told)
    assert screen.texts == ["I read."]
    assert state is not None
    assert transcript.history() == state.history


async def test_a_state_whose_write_was_cancelled_is_written_as_a_whole_the_next_time() -> None:
    journal = memory_journal()
    async with journal.drive("r") as run:
        await run.save(state := Conversation(GO))
        with anyio.CancelScope() as scope:
            scope.cancel()
            await run.save(state := state.say(Message("user", "And?")))
        await run.save(state := state.say(Message("user", "So?")))
    async with journal.drive("r") as run:
        assert run.conversation == state


# The store fails


class FailingTogether(MemoryStore):
    """Once it is broken it lets two of those that write wait for each other, and then fails both."""

    def __init__(self) -> None:
        super().__init__()
        self.is_broken = False
        self.one_waits = anyio.Event()
        self.two_wait = anyio.Event()

    async def append(self, run_id: str, entries: Sequence[Entry], *, durable: bool) -> int:
        if self.is_broken:
            (self.two_wait if self.one_waits.is_set() else self.one_waits).set()
            await self.two_wait.wait()
            raise JournalError("the disk is full")
        return await super().append(run_id, entries, durable=durable)


async def test_a_store_that_fails_at_two_places_of_a_run_is_one_error() -> None:
    store = FailingTogether()
    with pytest.raises(JournalError, match="the disk is full"), anyio.fail_after(GUARD_SECONDS):
        async with Journal(store).drive("r") as run:
            store.is_broken = True
            assert run.show(TextDelta("a")) is None
            await store.one_waits.wait()
            await run.save(Conversation(GO))


@contextmanager
def damaged(path: Path, number: int) -> Iterator[None]:
    """Half of an entry is lost, and comes back."""
    connection = sqlite3.connect(path, isolation_level=None)
    which = "run_id = 'r' AND number = ?"
    (written,) = connection.execute(f"SELECT entry FROM entries WHERE {which}", (number,)).fetchone()
    connection.execute(f"UPDATE entries SET entry = ? WHERE {which}", (written[: len(written) // 2], number))
    yield
    connection.execute(f"UPDATE entries SET entry = ? WHERE {which}", (written, number))
    connection.close()


async def test_a_run_with_an_entry_that_is_damaged_does_nothing_and_names_it(tmp_path: Path) -> None:
    path, deeds = tmp_path / "runs.db", tmp_path / "deeds"
    store = SqliteStore(path)
    await crash_run.live(Journal(store), deeds, Points())
    done = read_deeds(deeds)
    for each in await store.read("r", shown=False):
        with (
            damaged(path, each.number),
            pytest.raises(JournalError, match=rf"runs\.db is damaged: entry {each.number} of run r"),
        ):
            await crash_run.live(Journal(store), deeds, Points())
    await crash_run.live(Journal(store), deeds, Points())
    assert read_deeds(deeds) == done
    await store.aclose()
