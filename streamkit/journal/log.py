"""`RunLog`: one run as it is written down, and as it is found again after a crash."""

from __future__ import annotations

from collections.abc import Awaitable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from typing import Any, TypeVar

import anyio
import msgspec

from ..errors import JournalError, JournalMismatch, RunIsHeld
from ..history import Conversation, Paused
from ..items import History, ToolCall, TurnItem
from ..ledger import strike_out
from ..redaction import Redaction
from ..sinks import Sink, SinkAtOnce, SinkBefore
from ..tool_events import ApprovalRequested, Effects, Failure, RunEvent, ToolEvent, ToolResult, Value
from ..turns import Turn, TurnEnded, TurnStarted
from .entry import CallFinished, CallPaused, CallStarted, Decided, Entry, RunEnded, Shown, StateSaved, TurnTaken, plain
from .store import PAGE, JournalStore
from .unclosed import Unclosed

R = TypeVar("R")
T = TypeVar("T", bound=TurnItem)

HIDDEN = "its arguments were hidden when they were written down, so it cannot run any more"

BATCH = 256
"""How many events are kept back before they are written, unless something durable takes them along earlier."""


class RunLog:
    """A run that somebody drives. Made by `Journal.drive`.

    conversation: where the run stands: None for a new one; with an unsettled `turn` where calls of it have no result
    yet. owed: the ends of what was shown as begun, and then cut off; `loop` sends them first.
    """

    def __init__(self, store: JournalStore, run_id: str, *, events: bool, redaction: Redaction | None) -> None:
        self.run_id = run_id
        self.conversation: Conversation | None = None
        self._store = store
        self._keeps_events = events
        self._redaction = redaction
        self._is_over = self._loops = False
        self._pending: list[Entry] = []
        self._is_quiet = True  # nothing was kept back since `until_kept` was called last
        self._something_kept = anyio.Event()
        self._held: int | None = None  # the place among them of the end of a turn that nobody has taken yet
        self._written: History = ()  # of the state that was saved last, as it was given
        self._saved: Conversation | None = None  # what need not be saved again
        self._found: Conversation | None = None  # what is written, but for results; None if unsure
        self._verdicts: dict[str, Decided] = {}
        self._started: dict[str, CallStarted] = {}
        self._paused: dict[str, Paused] = {}  # of calls that did not start again since
        self._finished: dict[str, CallFinished] = {}
        self.owed: tuple[RunEvent, ...] = ()
        self._asked: set[str] = set()  # what a process before this one has asked about: who follows knows of it
        self._numbers: dict[str, int] = {}  # of the results, those of settled turns too

    # What is found again

    async def load(self) -> None:
        """Read what was written before."""
        after = settled = 0
        while page := await self._store.read(self.run_id, after, limit=PAGE, shown=False):
            for numbered in page:
                self._take_in(numbered.entry)
                if isinstance(numbered.entry, CallFinished):
                    self._numbers[numbered.entry.execution_id] = numbered.number
                elif isinstance(numbered.entry, StateSaved) and numbered.entry.state.turn is None:
                    settled = numbered.number
            after = page[-1].number
        self.owed = await self._read_owed(settled)
        if self.conversation is not None and self.conversation.turn is not None:
            self.conversation = self._settle_what_is_known(self.conversation, self.conversation.turn)
            if self.conversation.turn is None:
                return  # settled only now: the next turn must not be written behind one that waits for its results
        self._saved = self._found = self.conversation

    async def _read_owed(self, settled: int) -> tuple[RunEvent, ...]:
        unclosed = Unclosed()
        while page := await self._store.read(self.run_id, settled, limit=PAGE):
            for numbered in page:
                if isinstance(numbered.entry, Shown):
                    unclosed.feed(numbered.entry.event)
            settled = page[-1].number
        self._asked = unclosed.asked
        turn = None if self.conversation is None else self.conversation.turn
        return tuple(unclosed.ends(turn, self._started, self._finished)) if self._keeps_events else ()

    def _take_in(self, entry: Entry) -> None:
        match entry:
            case StateSaved(kept=kept, state=state):
                history = self.conversation.history if self.conversation else ()
                self.conversation = msgspec.structs.replace(state, history=history[:kept] + state.history)
                self._written = self.conversation.history
                if state.turn is None:
                    self._forget_calls()
            case TurnTaken(turn=turn):
                before = self.conversation or Conversation()
                if before.turn is not None:  # the state after it was lost: it is what its results give
                    before = self._settle_what_is_known(before, before.turn)
                self.conversation = before.take(turn)
            case Decided() if entry.reason != HIDDEN:  # else somebody has to decide again
                self._verdicts[entry.execution_id] = entry
            case CallStarted():
                self._started[entry.execution_id] = entry
                self._paused.pop(entry.execution_id, None)
            case CallPaused(execution_id=execution_id, paused=paused):
                self._paused[execution_id] = paused
            case CallFinished():
                self._finished[entry.execution_id] = entry

    def _settle_what_is_known(self, state: Conversation, turn: Turn) -> Conversation:
        """The state with the results that the calls of its unsettled turn have already."""
        waits = {key for key in state.waiting if _of(self._finished, key) is None}
        items = tuple(_as_it_ran(item, waits) if isinstance(item, ToolCall) else item for item in turn.items)
        state = msgspec.structs.replace(state, turn=msgspec.structs.replace(turn, items=items))
        results: list[ToolResult] = []
        for key, call in state.waiting.items():
            if key in self._finished:
                results.append(self._finished[key].result)
            elif (paused := _of(self._paused, key)) is not None and paused != state.paused.get(key):
                results.append(paused.result(call))
        return state.settle(results)

    def _forget_calls(self) -> None:
        """The calls of a turn that is settled are asked for no more."""
        self._verdicts.clear()
        self._started.clear()
        self._paused.clear()
        self._finished.clear()

    def verdict(self, execution_id: str) -> Decided | None:
        """What was decided about a call."""
        return self._verdicts.get(execution_id)

    def started(self, execution_id: str) -> CallStarted | None:
        """The last attempt to run a call."""
        return self._started.get(execution_id)

    async def finished(self, call: ToolCall, execution_id: str) -> CallFinished | None:
        """The result of a call that has one, also of a turn that was settled long ago, and is run once more.

        Raises JournalMismatch where it began as a call of something else.
        """
        started = self._started.get(execution_id)
        if started is not None and started.tool != call.name:
            raise JournalMismatch(f"call {execution_id} is written down as one of {started.tool}, not of {call.name}")
        if started is not None and started.digest not in ("", digest(call.arguments)):
            raise JournalMismatch(f"call {execution_id} of {call.name} is written down with other arguments")
        return self._finished.get(execution_id) or await self._read_finished(execution_id)

    # What is written

    async def start_call(
        self, call: ToolCall, execution_id: str, arguments: dict[str, Any], *, attempt: int, effects: Effects
    ) -> None:
        """A call is about to run; when this returns, that survives a crash."""
        seen = arguments if self._redaction is None else self._redaction.arguments(call.name, arguments)
        known = digest(call.arguments) if seen == arguments else ""
        entry = CallStarted(execution_id, call.call_id, call.name, plain(seen), known, attempt, effects)
        self._started[execution_id] = entry
        self._paused.pop(execution_id, None)
        await self._write(entry, durable=True)

    async def pause_call(self, call: ToolCall, execution_id: str, paused: Paused) -> None:
        """A call has to wait for calls of its inner runs; when this returns, that survives a crash."""
        self._paused[execution_id] = paused
        seen = paused if self._redaction is None else _redacted_pause(paused, call, self._redaction)
        if seen is not None:
            await self._write(CallPaused(execution_id, seen), durable=True)

    def is_paused(self, execution_id: str) -> bool:
        """Whether a call that has started waits, and may start again: nothing cut it off."""
        return execution_id in self._paused

    async def finish_call(self, execution_id: str, result: Value | Failure, seconds: float) -> None:
        """A call has its result; when this returns, that survives a crash."""
        await self._write(self._finish(execution_id, result, seconds), durable=True)

    def _finish(self, execution_id: str, result: Value | Failure, seconds: float) -> CallFinished:
        entry = CallFinished(execution_id, self._redaction.result(result) if self._redaction else result, seconds)
        self._finished[execution_id] = entry
        return entry

    async def result(self, execution_id: str) -> Value | Failure | None:
        """The result of a call of this run, of any turn, as it is written down; None where there is none."""
        finished = await self._read_finished(execution_id)
        return None if finished is None else finished.result

    async def _read_finished(self, execution_id: str) -> CallFinished | None:
        number = self._numbers.get(execution_id)
        if number is None:
            return None
        (numbered,) = await self._store.read(self.run_id, number - 1, limit=1)
        return numbered.entry if isinstance(numbered.entry, CallFinished) else None

    async def decide(self, call: ToolCall, decided: Decided) -> None:
        """Somebody has decided about a call; when this returns, that survives a crash."""
        self._verdicts[decided.execution_id] = decided
        if self._redaction is not None and decided.arguments is not None:
            seen, original = (self._redaction.arguments(call.name, of) for of in (decided.arguments, decided.original))
            reason = decided.reason if seen == decided.arguments else HIDDEN
            decided = msgspec.structs.replace(decided, arguments=seen, original=original, reason=reason)
        await self._write(decided, durable=True)

    async def take(self, turn: Turn, results: Sequence[Failure] = ()) -> None:
        """The model has answered with calls that are about to run. Durable with whatever durable comes next.

        results: of those that shall not run, also not when somebody goes on after a crash.
        """
        found, self._found, self._saved = self._found, None, None
        execution_ids = {call.call_id: f"{call.turn_id}.{call.place}" for call in turn.calls}
        taken = TurnTaken(_redacted(turn, self._redaction))
        finished = [self._finish(execution_ids[result.call_id], result, 0.0) for result in results]
        try:
            await self._write(taken, *finished, durable=False)
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
        if state == self._saved:
            return
        would_be_found = self._would_be_found(state)
        kept = _shared(self._written, state.history)
        written = msgspec.structs.replace(state, history=state.history[kept:])
        if self._redaction is not None:
            written = _redacted_state(written, self._redaction)
        self.conversation = state
        if state.turn is None:
            self._forget_calls()
        if would_be_found:
            self._check_driven()
            self._held = None
            self._keep(StateSaved(kept, written))
        else:
            self._know_nothing()  # whoever is cancelled does not know what stands there
            await self._write(StateSaved(kept, written), durable=True)
        self._written, self._saved, self._found = state.history, state, state

    def _would_be_found(self, state: Conversation) -> bool:
        found = self._found
        if found is None or found.turn is None or not found.waiting.keys() <= self._numbers.keys():
            return False
        return self._settle_what_is_known(found, found.turn) == state

    def _know_nothing(self) -> None:
        """The next state is written whole."""
        self._written, self._saved, self._found = (), None, None

    def show(self, event: RunEvent) -> Awaitable[None] | None:
        """An event goes to the consumer. Gives what is left to await, mostly None."""
        seen = event if self._redaction is None else self._redaction.event(event)
        if self._keeps_events and seen is not None and not self._is_known_question(seen):
            if type(seen) is TurnEnded:
                self._held = len(self._pending)
            elif self._held is not None and isinstance(seen, TurnStarted | ToolEvent):
                self._held = None  # a step that takes no turns
            self._keep(Shown(seen))
            if len(self._pending) >= BATCH:
                return self.flush()
        return None

    def _is_known_question(self, event: RunEvent) -> bool:
        return bool(self._asked) and isinstance(event, ApprovalRequested) and event.execution_id in self._asked

    async def end(self, error: BaseException | None) -> None:
        """The run is over."""
        if error is not None and self._held is not None:
            del self._pending[self._held]  # the model will be asked again
        said = None if error is None else f"{type(error).__name__}: {error}"
        try:
            await self._write(RunEnded(said), durable=True)
        finally:
            self._is_over = True  # by now somebody else may drive it

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

    def _keep(self, entry: Entry) -> None:
        """Keep an entry back until something durable takes it along, or `flush` is called."""
        self._pending.append(entry)
        if self._is_quiet:
            self._is_quiet = False
            self._something_kept.set()

    async def until_kept(self) -> None:
        """Return when something is kept back, or was since this was called last."""
        await self._something_kept.wait()
        self._is_quiet, self._something_kept = True, anyio.Event()

    async def flush(self) -> None:
        """Write what is kept back.

        The end of a turn waits for what becomes of it, and is written in one piece with that: after a crash in between
        the model is asked again, and those who follow would see two turns where the run has one.
        """
        entries, self._pending = self._pending[: self._held], [] if self._held is None else self._pending[self._held :]
        self._held = self._held and 0
        if entries:
            await self._append(entries, durable=False, carries=True)

    async def _write(self, *entries: Entry, durable: bool) -> None:
        kept, self._pending, self._held = self._pending, [], None
        await self._append([*kept, *entries], durable=durable, carries=bool(kept))

    async def _append(self, entries: Sequence[Entry], *, durable: bool, carries: bool) -> None:
        """carries: what was kept back is among them, and must not be lost where its task is cancelled."""
        self._check_driven()
        try:
            with anyio.CancelScope(shield=True) if carries else nullcontext():
                last = await self._store.append(self.run_id, entries, durable=durable)
        except Exception:
            self._know_nothing()
            raise
        for number, entry in enumerate(entries, last - len(entries) + 1):
            if type(entry) is CallFinished:
                self._numbers[entry.execution_id] = number
        if carries:
            await anyio.lowlevel.checkpoint_if_cancelled()

    def _check_driven(self) -> None:
        if self._is_over:
            raise JournalError(f"run {self.run_id} is driven no more: the block of journal.drive was left")


def check_driven(journal: object) -> None:
    """Raise TypeError for what is given as `journal=` and is no run that somebody drives."""
    if not isinstance(journal, RunLog | None):
        raise TypeError(f"journal= is a run: async with journal.drive('…') as run, not a {type(journal).__name__}")


class RecordedSink(SinkBefore[RunEvent], SinkAtOnce[RunEvent]):
    """Writes down each event before it passes it on. Those that were sent first come first, in both."""

    __slots__ = ("_log",)

    def __init__(self, to: Sink[RunEvent], log: RunLog) -> None:
        super().__init__(to)
        self._log = log

    @property
    def watched(self) -> bool:
        """Also where the run is awaited: whoever follows it is shown what is written down."""
        return True

    def put(self, event: RunEvent) -> Awaitable[None] | None:
        left = self._log.show(event)
        return self._to.put(event) if left is None else self._then_put(left, event)

    async def _then_put(self, left: Awaitable[None], event: RunEvent) -> None:
        await left
        await self._to.send(event)

    def branch(self) -> RecordedSink:
        return RecordedSink(self._to.branch(), self._log)


def digest(arguments: str) -> str:
    """Tells whether the arguments of two calls are the same text, and nothing of what it is."""
    from hashlib import sha256  # noqa: PLC0415 - it loads OpenSSL, and only who writes a run down needs it

    return sha256(arguments.encode(errors="surrogatepass")).hexdigest()


def _of(records: Mapping[str, R], key: str) -> R | None:
    """What is known of a call of the turn, which inside of another call is named with the path to it."""
    path = f"/{key}"
    return records.get(key) or next((of for named, of in records.items() if named.endswith(path)), None)


def _as_it_ran(call: ToolCall, waits: Collection[str]) -> ToolCall:
    if call.problem == HIDDEN and f"{call.turn_id}.{call.place}" not in waits:
        return msgspec.structs.replace(call, problem=None)
    return call


def _redacted(turn: Turn, redaction: Redaction | None) -> Turn:
    """A turn as it is written while its calls have no results. One of which something is hidden cannot run later."""
    if redaction is None:
        return turn
    return msgspec.structs.replace(turn, items=tuple(_redacted_item(item, redaction) for item in turn.items))


def _redacted_state(state: Conversation, redaction: Redaction) -> Conversation:
    waiting = state.waiting
    seen = {key: _redacted_pause(paused, waiting[key], redaction) for key, paused in state.paused.items()}
    return msgspec.structs.replace(
        redaction.conversation(state),
        turn=state.turn and _redacted(state.turn, redaction),
        paused={key: paused for key, paused in seen.items() if paused is not None},
    )


def _redacted_pause(paused: Paused, call: ToolCall, redaction: Redaction) -> Paused | None:
    """None where something is hidden of the call: then it cannot go on, and its inner runs may tell what it was."""
    given = paused.arguments
    if redaction.item(call) is not call or (given is not None and redaction.arguments(call.name, given) != given):
        return None
    return msgspec.structs.replace(
        paused,
        waits={execution_id: _redacted_item(each, redaction) for execution_id, each in paused.waits.items()},
        runs=tuple(msgspec.structs.replace(run, state=_redacted_state(run.state, redaction)) for run in paused.runs),
    )


def _redacted_item(item: T, redaction: Redaction) -> T:
    seen = redaction.item(item)
    if isinstance(seen, ToolCall) and seen is not item and seen.problem is None:
        return msgspec.structs.replace(seen, problem=HIDDEN)
    return seen


def _shared(history: History, other: History) -> int:
    """How many items the two begin with that are the same objects."""
    return next(
        (place for place, (one, two) in enumerate(zip(history, other, strict=False)) if one is not two),
        min(len(history), len(other)),
    )
