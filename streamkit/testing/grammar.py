"""`check_grammar`: do the events of a run follow the two grammars of calls, and the link between them?

    input    ToolInputStart (ToolInputDelta | ToolInputField)* (Available | Abandoned)
             Available may be followed by one Abandoned(discarded), or Abandoned(retried) before a TurnRestarted
    output   ApprovalRequested? (ToolStarted Intermediate*)* Output, a ToolStarted more only as a later attempt
    link     after Available exactly one of Output, Abandoned, or a verdict that is pending at the end of the run
             (its own, or one inside it); after Abandoned never ToolStarted, and an Output, a Failure, only after
             `malformed`

A call may also have output events alone: it was approved in a later run, or executed without a model. What a process
that is gone has left open may be closed at the start: Output of its calls, Abandoned(retried), TurnRestarted. A call
without a name has one Output, a Failure. An id may be used again in a later turn, and in the same one after a
restart. The events of inner runs are held to the same, up to where they were seen; where one call runs several at
once their events cannot be told apart, and only the outer ones are checked.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from enum import Enum

from ..tool_events import (
    ApprovalRequested,
    Failure,
    Intermediate,
    Output,
    Pending,
    RunEvent,
    ToolEvent,
    ToolInputField,
    ToolStarted,
)
from ..turns import (
    ReasoningDelta,
    RefusalDelta,
    TextDelta,
    ToolInputAbandoned,
    ToolInputAvailable,
    ToolInputDelta,
    ToolInputEvent,
    ToolInputStart,
    TurnEnded,
    TurnRestarted,
    TurnStarted,
)


class Phase(Enum):
    """Where a call is."""

    UNSEEN = "was not seen yet"
    WRITING = "is being written"
    AVAILABLE = "is available"
    MALFORMED = "is abandoned as malformed"
    ASKED = "waits for a verdict"
    RUNNING = "runs"
    ANSWERED = "has its output"
    ABANDONED = "is abandoned"


MOVES: dict[tuple[Phase, type], Phase] = {
    (Phase.UNSEEN, ToolInputStart): Phase.WRITING,
    (Phase.WRITING, ToolInputDelta): Phase.WRITING,
    (Phase.WRITING, ToolInputField): Phase.WRITING,
    (Phase.WRITING, ToolInputAvailable): Phase.AVAILABLE,
    (Phase.WRITING, ToolInputAbandoned): Phase.ABANDONED,  # MALFORMED where that is the reason
    (Phase.AVAILABLE, ToolInputAbandoned): Phase.ABANDONED,  # whole, but its turn did not keep it
    (Phase.AVAILABLE, ApprovalRequested): Phase.ASKED,
    (Phase.AVAILABLE, ToolStarted): Phase.RUNNING,
    (Phase.AVAILABLE, Output): Phase.ANSWERED,  # a failure, here as below: only what runs has a value
    (Phase.MALFORMED, Output): Phase.ANSWERED,
    (Phase.ASKED, ToolStarted): Phase.RUNNING,
    (Phase.ASKED, Output): Phase.ANSWERED,
    (Phase.RUNNING, Intermediate): Phase.RUNNING,
    (Phase.RUNNING, Output): Phase.ANSWERED,
    (Phase.RUNNING, ToolStarted): Phase.RUNNING,  # the next attempt, after its process was gone
    # without input in these events
    (Phase.UNSEEN, ApprovalRequested): Phase.ASKED,
    (Phase.UNSEEN, ToolStarted): Phase.RUNNING,
    (Phase.UNSEEN, Output): Phase.ANSWERED,
    # an id that a later turn, or the same one after a restart, uses again
    (Phase.ANSWERED, ToolInputStart): Phase.WRITING,
    (Phase.ABANDONED, ToolInputStart): Phase.WRITING,
}
_CLOSED = {Phase.ANSWERED, Phase.ABANDONED, Phase.MALFORMED}
_CONTENT = (TextDelta, ReasoningDelta, RefusalDelta, ToolInputStart, ToolInputDelta, ToolInputAvailable, TurnRestarted)


class GrammarError(AssertionError):
    """The events of a run do not follow the grammar; the message names the place and the event."""


class _InterleavedError(GrammarError):
    """Two turns at once: an error of the run itself; of inner runs it only means that a call has several."""


def check_grammar(events: Iterable[RunEvent], *, complete: bool = True, pending: Collection[str] = ()) -> None:
    """Raise GrammarError, an AssertionError, at the first event that must not come where it comes.

    complete: the events go to the end of the run, so each call must be closed, except those whose ids are in `pending`.
    False for events that were left, or cut off by an error of the consumer.
    """
    checker = _Checker()
    for number, event in enumerate(events):
        try:
            checker.feed(event)
        except GrammarError as error:
            raise GrammarError(f"event {number}: {error}") from None
    if complete:
        checker.end(pending)


class _Checker:
    """Of one stream of events; the inner runs of each call have another one, among whose events anything may stand."""

    def __init__(self, *, inner: bool = False) -> None:
        self._is_inner = inner
        self._phases: dict[str, Phase] = {}
        self._inner: dict[str, _Checker | None] = {}
        self._turn: str | None = None  # the one under way
        self._has_turns = False

    def feed(self, event: RunEvent) -> None:
        if type(event) is TurnStarted:
            # A turn that failed has no end, but it has closed its calls.
            if Phase.WRITING in self._phases.values():
                raise _InterleavedError(f"turn {event.turn_id} starts while turn {self._turn} writes a call")
            self._turn = event.turn_id
            self._has_turns = True
        elif type(event) is TurnEnded:
            if event.turn.turn_id != self._turn:
                raise _InterleavedError(f"turn {event.turn.turn_id} ends, but the one under way is {self._turn}")
            self._turn = None
        elif isinstance(event, _CONTENT):
            if type(event) is TurnRestarted:
                self._check(Phase.WRITING not in self._phases.values(), "a turn restarts while it writes a call")
            at_start = type(event) is TurnRestarted and not self._has_turns  # of a turn of a process that is gone
            inside = self._is_inner or self._turn is not None
            self._check(inside or at_start, f"a {type(event).__name__} outside of a turn")
        if isinstance(event, ToolInputEvent | ToolInputField | ToolEvent):
            self._move(event)
        if type(event) is Intermediate and event.event is not None:
            self._feed_inner(event.call_id, event.event)

    def _move(self, event: ToolInputEvent | ToolInputField | ToolEvent) -> None:
        kind, call_id = type(event), event.call_id
        phase = self._phases.get(call_id, Phase.UNSEEN)
        after = MOVES.get((phase, kind))
        if phase is Phase.UNSEEN and isinstance(event, ToolInputAbandoned) and event.reason == "retried":
            after = Phase.ABANDONED  # it was begun in a process that is gone
        if after is None:
            raise GrammarError(f"a {kind.__name__} for call {call_id}, which {phase.value}")
        if isinstance(event, ToolInputAbandoned):
            late = phase is Phase.AVAILABLE and event.reason not in ("discarded", "retried")
            self._check(not late, f"call {call_id} is abandoned as {event.reason} after it was available")
            after = Phase.MALFORMED if event.reason == "malformed" else after
        again = isinstance(event, ToolStarted) and event.attempt > 1
        if isinstance(event, ToolStarted) and phase is Phase.RUNNING:
            self._check(again, f"a ToolStarted for call {call_id}, which runs")
        if isinstance(event, Output):
            self._check(event.result.call_id == call_id, f"the output of call {call_id} has the result of another")
            self._check(
                not isinstance(event.result, Pending), f"call {call_id} has an output, but its result is pending"
            )
            ran = phase in (Phase.RUNNING, Phase.UNSEEN) or isinstance(event.result, Failure)
            self._check(ran, f"call {call_id} has a value, but it never ran")
        if after in (Phase.WRITING, Phase.RUNNING) and (after is not phase or again):
            self._inner[call_id] = _Checker(inner=True)
        self._phases[call_id] = after

    def _feed_inner(self, call_id: str, event: RunEvent) -> None:
        inner = self._inner[call_id]
        if inner is None:
            return
        try:
            inner.feed(event)
        except _InterleavedError:
            self._inner[call_id] = None
        except GrammarError as error:
            raise GrammarError(f"inside call {call_id}: {error}") from None

    def end(self, pending: Collection[str]) -> None:
        for call_id, phase in self._phases.items():
            open_for_good = call_id in pending and self._waits(call_id, phase)
            self._check(phase in _CLOSED or open_for_good, f"at the end call {call_id} {phase.value}")

    def _waits(self, call_id: str, phase: Phase) -> bool:
        """Whether the call, or one of its inner runs, may be without a verdict."""
        if phase is not Phase.RUNNING:
            return phase in (Phase.AVAILABLE, Phase.ASKED)
        inner = self._inner[call_id]
        return inner is None or any(inner._waits(each, of_it) for each, of_it in inner._phases.items())

    @staticmethod
    def _check(holds: bool, otherwise: str) -> None:
        if not holds:
            raise GrammarError(otherwise)
