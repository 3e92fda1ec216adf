"""`RunLog`: one run as it is written down, and as it is found again after a crash."""

from __future__ import annotations

from collections.abc import Awaitable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import msgspec

from ..conversation import Conversation, Paused
from ..errors import JournalMismatch, RunIsHeld, words_of
from ..items import History, ToolCall
from ..ledger import strike_out
from ..redaction import Redaction
from ..tool_events import ApprovalRequested, Effects, Failure, RunEvent, ToolEvent, Value
from ..turns import Turn, TurnEnded, TurnStarted
from .backlog import Backlog
from .entry import CallFinished, CallPaused, CallStarted, Decided, Entry, RunEnded, Shown, StateSaved, TurnTaken, plain
from .hidden_calls import HIDDEN, redacted_pause, redacted_state, redacted_turn
from .known_calls import KnownCalls, digest
from .store import PAGE, JournalStore
from .unclosed import Unclosed


class RunLog:
    """A run that somebody drives. Made by `Journal.drive`.

    conversation: where the run stands: None for a new one; with an unsettled `turn` if calls of it have no result yet.
    owed: the ends of what was shown as begun, and then cut off; `loop` sends them first.
    """

    def __init__(self, store: JournalStore, run_id: str, *, events: bool, redaction: Redaction | None) -> None:
        self.run_id = run_id
        self.conversation: Conversation | None = None
        self._store = store
        self._keeps_events = events
        self._redaction = redaction
        self._loops = False
        self._turn_id = ""  # of the turn whose calls may run
        self._backlog = Backlog(store, run_id, self._know_nothing)
        self._calls = KnownCalls()
        self._written: History = ()  # of the state that was saved last, as it was given
        self._saved: Conversation | None = None  # what need not be saved again
        self._found: Conversation | None = None  # what is written, but for results; None if unsure
        self._behind: Conversation | None = None  # where the process before this one stood, until a loop begins
        self.owed: tuple[RunEvent, ...] = ()
        self._asked: set[str] = set()  # what a process before this one has asked about: who follows knows of it

    # What is found again

    async def load(self) -> None:
        """Read what was written before."""
        after = settled = 0
        while page := await self._store.read(self.run_id, after, limit=PAGE, shown=False):
            for numbered in page:
                self._take_in(numbered.entry)
                if isinstance(numbered.entry, CallFinished):
                    self._backlog.numbers[numbered.entry.execution_id] = numbered.number
                elif isinstance(numbered.entry, StateSaved) and numbered.entry.state.turn is None:
                    settled = numbered.number
            after = page[-1].number
        self.owed = await self._read_owed(settled)
        found = self.conversation
        if found is None or found.turn is None:
            self._saved = self._found = found
        else:
            self.conversation = self._calls.settle(found, found.turn)
            # Else it is saved before all else: the next turn must not be written behind one that waits for its results,
            # and the next pause of a call not behind one of which no state tells what was used until then.
            if self.conversation.turn is not None and self.conversation.paused == found.paused:
                self._saved = self._found = self.conversation
        self._behind = self.conversation

    async def _read_owed(self, settled: int) -> tuple[RunEvent, ...]:
        unclosed = Unclosed()
        while page := await self._store.read(self.run_id, settled, limit=PAGE):
            for numbered in page:
                if isinstance(numbered.entry, Shown):
                    unclosed.feed(numbered.entry.event)
            settled = page[-1].number
        self._asked = unclosed.asked
        turn = None if self.conversation is None else self.conversation.turn
        return tuple(unclosed.ends(turn, self._calls.started, self._calls.finished)) if self._keeps_events else ()

    def _take_in(self, entry: Entry) -> None:
        match entry:
            case StateSaved(kept=kept, state=state):
                history = self.conversation.history if self.conversation else ()
                self.conversation = msgspec.structs.replace(state, history=history[:kept] + state.history)
                self._written = self.conversation.history
                if state.turn is None:
                    self._calls.forget()
            case TurnTaken(turn=turn):
                before = self.conversation or Conversation()
                if before.turn is not None:  # the state after it was lost: it is what its results give
                    before = self._calls.settle(before, before.turn)
                self.conversation = before.take(turn)
            case _:
                self._calls.take_in(entry)

    def verdict(self, execution_id: str) -> Decided | None:
        """What was decided about a call."""
        return self._calls.verdicts.get(execution_id)

    def is_left_pending(self, execution_id: str) -> bool:
        """Whether the run ended since nobody had decided about this call."""
        state = self.conversation
        return state is not None and state.ended == "pending" and execution_id in state.waiting

    def started(self, execution_id: str) -> CallStarted | None:
        """The last attempt to run a call."""
        return self._calls.started.get(execution_id)

    def is_paused(self, execution_id: str) -> bool:
        """Whether a call that has started waits, and may start again: nothing cut it off."""
        return execution_id in self._calls.paused

    async def finished(self, call: ToolCall, execution_id: str) -> CallFinished | None:
        """The result of a call that has one, also of a turn that was settled long ago, and is run once more.

        Raises JournalMismatch where it began as a call of something else.
        """
        self._calls.check_same(call, execution_id)
        finished = self._calls.finished.get(execution_id) or await self._backlog.read_finished(execution_id)
        if finished is not None and finished.result.call_id != call.call_id:  # both were made by hand, without a turn
            raise JournalMismatch(
                f"call {call.call_id} has the execution id of call {finished.result.call_id}: {execution_id!r}"
            )
        return finished

    async def result(self, execution_id: str) -> Value | Failure | None:
        """The result of a call of this run, of any turn, as it is written down; None where there is none."""
        finished = await self._backlog.read_finished(execution_id)
        return None if finished is None else finished.result

    # What is written of calls

    def check_taken(self, calls: Iterable[ToolCall]) -> None:
        """Raise JournalMismatch for a call of a loop whose turn was not taken: after a crash nobody would know of it,
        and the model would be asked, and call, once more.
        """
        strange = next((call for call in calls if call.turn_id not in ("", self._turn_id)), None)
        if self._loops and strange is not None:
            raise JournalMismatch(
                f"the turn of call {strange.call_id} is not written down: await journal.take(turn) before execute_all"
            )

    async def start_call(
        self, call: ToolCall, execution_id: str, arguments: dict[str, Any], *, attempt: int, effects: Effects
    ) -> None:
        """A call is about to run; when this returns, that survives a crash."""
        seen = arguments if self._redaction is None else self._redaction.arguments(call.name, arguments)
        known = digest(call.arguments) if seen == arguments else ""
        entry = CallStarted(execution_id, call.call_id, call.name, plain(seen), known, attempt, effects)
        self._calls.take_in(entry)
        await self._backlog.write(entry, durable=True)

    async def pause_call(self, call: ToolCall, execution_id: str, paused: Paused) -> None:
        """A call has to wait for calls of its inner runs; when this returns, that survives a crash."""
        self._calls.paused[execution_id] = paused
        seen = paused if self._redaction is None else redacted_pause(paused, call, self._redaction)
        if seen is not None:
            await self._backlog.write(CallPaused(execution_id, seen), durable=True)

    async def finish_call(self, execution_id: str, result: Value | Failure, seconds: float) -> None:
        """A call has its result; when this returns, that survives a crash."""
        await self._backlog.write(self._finish(execution_id, result, seconds), durable=True)

    def _finish(self, execution_id: str, result: Value | Failure, seconds: float) -> CallFinished:
        entry = CallFinished(execution_id, self._redaction.result(result) if self._redaction else result, seconds)
        self._calls.take_in(entry)
        return entry

    async def decide(self, call: ToolCall, decided: Decided) -> None:
        """Somebody has decided about a call; when this returns, that survives a crash."""
        self._calls.verdicts[decided.execution_id] = decided
        if self._redaction is not None and decided.arguments is not None:
            seen, original = (self._redaction.arguments(call.name, of) for of in (decided.arguments, decided.original))
            reason = decided.reason if seen == decided.arguments else HIDDEN
            decided = msgspec.structs.replace(decided, arguments=seen, original=original, reason=reason)
        await self._backlog.write(decided, durable=True)

    # What is written of turns and states

    async def take(self, turn: Turn, results: Sequence[Failure] = ()) -> None:
        """The model has answered with calls that are about to run. For a step of your own, before `execute_all`.

        It becomes durable with the next durable entry. results: of calls that must not run, not even when somebody
        continues after a crash.
        """
        found, self._found, self._saved = self._found, None, None
        self._turn_id = turn.turn_id
        execution_ids = {call.call_id: call.local_id for call in turn.calls}
        taken = TurnTaken(redacted_turn(turn, self._redaction))
        finished = [self._finish(execution_ids[result.call_id], result, 0.0) for result in results]
        try:
            await self._backlog.write(taken, *finished, durable=False)
        except Exception:
            raise
        except BaseException:  # it may stand there all the same: then the calls go on with the run, and nowhere else
            strike_out(execution_ids)
            raise
        if found is not None and found.turn is None and len(finished) < len(turn.calls):
            self._found = found.take(taken.turn)  # durable by the time when the other calls have their results

    async def save(self, state: Conversation) -> None:
        """The loop has come to this state; when this returns, that survives a crash.

        What would be found all the same, since its turn and all results of that are written, is not waited for.
        """
        if state.turn is not None:
            self._turn_id = state.turn.turn_id
        if state == self._saved:
            return
        would_be_found = self._would_be_found(state)
        kept = _shared(self._written, state.history)
        written = msgspec.structs.replace(state, history=state.history[kept:])
        if self._redaction is not None:
            written = redacted_state(written, self._redaction)
        self.conversation = state
        if state.turn is None:
            self._calls.forget()
        if would_be_found:
            self._backlog.check_open()
            self._backlog.let_go()
            self._backlog.keep(StateSaved(kept, written))
        else:
            self._know_nothing()  # whoever is cancelled does not know what stands there
            await self._backlog.write(StateSaved(kept, written), durable=True)
        self._written, self._saved, self._found = state.history, state, state

    def _would_be_found(self, state: Conversation) -> bool:
        found = self._found
        if found is None or found.turn is None or not found.waiting.keys() <= self._backlog.numbers.keys():
            return False
        return self._calls.settle(found, found.turn) == state

    def _know_nothing(self) -> None:
        """The next state is written whole."""
        self._written, self._saved, self._found = (), None, None

    async def end(self, error: BaseException | None) -> None:
        """The run is over."""
        if error is not None:
            self._backlog.drop_held()
        said = None if error is None else f"{type(error).__name__}: {words_of(error)}"
        try:
            await self._backlog.write(RunEnded(said), durable=True)
        finally:
            self._backlog.close()

    # What is written of events

    def show(self, event: RunEvent) -> Awaitable[None] | None:
        """An event goes to the consumer. Gives what is left to await, mostly None."""
        seen = event if self._redaction is None else self._redaction.event(event)
        if self._keeps_events and seen is not None and not self._is_known_question(seen):
            if type(seen) is TurnEnded:
                self._backlog.hold_the_next()
            elif isinstance(seen, TurnStarted | ToolEvent):
                self._backlog.let_go()  # a step that takes no turns
            self._backlog.keep(Shown(seen))
            if self._backlog.is_full:
                return self._backlog.flush()
        return None

    def _is_known_question(self, event: RunEvent) -> bool:
        return bool(self._asked) and isinstance(event, ApprovalRequested) and event.execution_id in self._asked

    async def until_kept(self) -> None:
        """Return when an event or a state is kept back, or was since this was called last."""
        await self._backlog.until_kept()

    async def flush(self) -> None:
        """Write what is kept back."""
        await self._backlog.flush()

    def check_begins(self, state: object) -> None:
        """Raise JournalMismatch for a state that a process before this one has left behind: its calls would run again,
        as others. A run that had its answer may be told to answer anew.
        """
        found, self._behind = self._behind, None
        if found is None or not isinstance(state, Conversation) or state.turn is not None:
            return
        goes_on = found.turn is not None or (found.ended is None and len(found.history) > len(state.history))
        if goes_on and state.history == found.history[: len(state.history)]:
            raise JournalMismatch(
                f"run {self.run_id} has come further than the history that it is given: begin with run.conversation,"
                " or under another id"
            )

    @contextmanager
    def looping(self) -> Iterator[None]:
        """Held by a loop while it goes on: what a second one saved would pass for the state of the first."""
        if self._loops:
            raise RunIsHeld(
                f"run {self.run_id} is driven by another loop; an inner run needs one of its own:"
                " async with journal.drive(context.execution_id) as inner"
            )
        self._loops = True
        try:
            yield
        finally:
            self._loops = False


def check_driven(journal: object) -> None:
    """Raise TypeError for what is given as `journal=` and is no run that somebody drives."""
    if not isinstance(journal, RunLog | None):
        raise TypeError(f"journal= is a run: async with journal.drive('…') as run, not a {type(journal).__name__}")


def _shared(history: History, other: History) -> int:
    """How many items the two begin with that are the same objects."""
    return next(
        (place for place, (one, two) in enumerate(zip(history, other, strict=False)) if one is not two),
        min(len(history), len(other)),
    )
