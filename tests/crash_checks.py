"""What must hold of a run that was killed and went on until it ended."""

import sqlite3
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple, TypeVar

import msgspec

from streamkit import ApprovalRequested, Conversation, Failure, Output, RunEvent, ToolOutput, Transcript
from streamkit.journal.entry import (
    CallFinished,
    CallStarted,
    Decided,
    Entry,
    RunEnded,
    RunTaken,
    Shown,
    StateSaved,
    decode,
)
from streamkit.testing import check_grammar, check_history
from streamkit.tool_events import walk
from streamkit.turns import TextDelta, TurnRestarted, TurnStarted

from .crash_run import EFFECTS, GO, INNER_TEXTS, RUN, TEXTS, Deed, read_deeds

DIALECTS = ("openai-chat", "openai-responses", "anthropic", "gemini", "ollama")
MARKED = ("pay", "erase")
MAY_HAVE_HAPPENED = "it may have happened"

E = TypeVar("E")


class Followed(NamedTuple):
    """What a follower in another process saw, and its number."""

    number: int
    event: RunEvent


def check_run(journal: Path, deeds: Path, seen: list[Followed]) -> None:
    runs = read_runs(journal)
    entries = runs[RUN]
    assert isinstance(entries[-1][1], RunEnded)
    check_seen(entries, seen)
    check_deeds(read_deeds(deeds), [entry for entries in runs.values() for _, entry in entries])
    told = check_history_of(RUN, entries, TEXTS)
    for run_id in runs.keys() - {RUN}:
        told |= check_history_of(run_id, runs[run_id], INNER_TEXTS)
    check_told(told, [event for _, event in seen])


def read_runs(path: Path) -> dict[str, list[tuple[int, Entry]]]:
    """All that is written down, with its numbers, by run."""
    connection = sqlite3.connect(path)
    assert connection.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
    runs: defaultdict[str, list[tuple[int, Entry]]] = defaultdict(list)
    for run_id, number, entry in connection.execute(
        "SELECT run_id, number, entry FROM entries ORDER BY run_id, number"
    ):
        runs[run_id].append((number, decode(entry)))
    connection.close()
    return runs


def check_seen(entries: list[tuple[int, Entry]], seen: list[Followed]) -> None:
    """Without gap or repeat, and according to the grammars, whoever died meanwhile."""
    assert [number for number, _ in entries] == list(range(1, len(entries) + 1))
    assert seen == [(number, entry.event) for number, entry in entries if isinstance(entry, Shown)]
    check_grammar(without_second_questions(entries))
    screen = Screen()
    transcript = Transcript(GO)
    for _, event in seen:
        screen.show(event)
        transcript.feed(event)
    assert screen.texts == ["I see. ", "More. ", "Done."]
    assert transcript.history() == last_state([entry for _, entry in entries]).history


class Screen:
    """What whoever follows has before him: the text of each turn."""

    def __init__(self) -> None:
        self.texts: list[str] = []

    def show(self, event: RunEvent) -> None:
        match event:
            case TurnStarted():
                self.texts.append("")
            case TextDelta(text=text):
                self.texts[-1] += text
            case TurnRestarted():
                self.texts.pop()


def without_second_questions(entries: list[tuple[int, Entry]]) -> Iterator[RunEvent]:
    """The events; the questions that nobody had answered when their process died are not asked twice."""
    asked: dict[str, tuple[int, RunEvent]] = {}
    life = 0
    for _, entry in entries:
        if isinstance(entry, RunTaken):
            life += 1
        elif isinstance(entry, Shown):
            question = walk(entry.event)[1]
            if isinstance(question, ApprovalRequested):
                before = asked.setdefault(question.execution_id, (life, question))
                if before[0] < life:
                    assert before[1] == question
                    continue
            yield entry.event


def check_deeds(deeds: list[Deed], entries: list[Entry]) -> None:
    """Nothing happened that was not written down before, or twice in one attempt; and in a second one only where that
    may be."""
    started = {(entry.execution_id, str(entry.attempt), entry.tool) for entry in of_type(entries, CallStarted)}
    assert {deed[:3] for deed in deeds} <= started
    assert len(set(deeds)) == len(deeds)
    ids: defaultdict[tuple[str, str], set[str]] = defaultdict(set)
    for deed in deeds:
        ids[deed.tool, deed.what].add(deed.execution_id)
        assert deed.attempt == "1" or deed.tool in EFFECTS, f"{deed} of what may happen once"
    assert all(len(same) == 1 for same in ids.values()), f"one call has several ids: {ids}"
    assert ("erase", "C") not in ids
    assert not {("pay", "5"), ("pay", "9")} & ids.keys()


def check_history_of(run_id: str, entries: list[tuple[int, Entry]], texts: dict[str, str]) -> dict[str, str]:
    """The model was told of each call, what it gave or that nobody knows; gives the latter, by execution id."""
    written = [entry for _, entry in entries]
    finished: set[str] = set()
    decided: set[str] = set()
    for entry in written:
        match entry:
            case CallStarted(execution_id=execution_id, tool=name):
                assert name not in MARKED or execution_id in decided, f"call {execution_id} ran undecided"
                assert execution_id not in finished, f"call {execution_id} ran again after it had finished"
            case CallFinished(execution_id=execution_id):
                assert execution_id not in finished, f"call {execution_id} finished twice"
                denied = isinstance(entry.result, Failure) and entry.result.kind == "denied"
                assert not denied or execution_id in decided, f"nobody has denied call {execution_id}"
                finished.add(execution_id)
            case Decided(execution_id=execution_id):
                decided.add(execution_id)
            case Shown(event=ApprovalRequested(execution_id=execution_id)):
                assert execution_id not in decided, f"call {execution_id} was asked about again"
    state = last_state(written)
    assert state.ended == "answer"
    for dialect in DIALECTS:
        check_history(state.history, dialect)
    outputs = [item for item in state.history if isinstance(item, ToolOutput)]
    assert [item.call_id for item in outputs] == list(texts)
    failed = {
        entry.result.call_id: entry.execution_id
        for entry in of_type(written, CallFinished)
        if isinstance(entry.result, Failure) and entry.result.kind == "interrupted"
    }
    for item in outputs:
        assert (MAY_HAVE_HAPPENED in item.text) if item.call_id in failed else (item.text == texts[item.call_id])
    return {execution_id: call_id for call_id, execution_id in failed.items()}


def check_told(told: dict[str, str], events: list[RunEvent]) -> None:
    """Each call has one output among the events, and says there, too, if nobody knows what became of it."""
    outputs = [event for event in events if isinstance(event, Output)]
    assert sorted(event.call_id for event in outputs) == sorted(TEXTS)
    interrupted = {event.call_id for event in outputs if is_interrupted(event)}
    assert interrupted == {call_id for execution_id, call_id in told.items() if "/" not in execution_id}


def is_interrupted(event: RunEvent) -> bool:
    return isinstance(event, Output) and isinstance(event.result, Failure) and event.result.kind == "interrupted"


def of_type(entries: list[Entry], kind: type[E]) -> list[E]:
    return [entry for entry in entries if isinstance(entry, kind)]


def last_state(entries: list[Entry]) -> Conversation:
    """The state that was saved last, whole."""
    history: tuple[object, ...] = ()
    state: Conversation | None = None
    for entry in of_type(entries, StateSaved):
        history = (*history[: entry.kept], *entry.state.history)
        state = msgspec.structs.replace(entry.state, history=history)
    assert state is not None
    return state
