"""`check_grammar` accepts what may happen and names the first event that must not."""

from collections.abc import Sequence

import pytest

from streamkit.testing.grammar import MOVES, GrammarError, Phase, check_grammar
from streamkit.tool_events import (
    ApprovalRequested,
    Failure,
    Intermediate,
    Output,
    Pending,
    RunEvent,
    ToolInputField,
    ToolStarted,
    Value,
)
from streamkit.turns import (
    TextDelta,
    ToolInputAbandoned,
    ToolInputAvailable,
    ToolInputDelta,
    ToolInputStart,
    Turn,
    TurnEnded,
    TurnRestarted,
    TurnStarted,
)

BEGIN, END = TurnStarted("t", "m"), TurnEnded(Turn("t"))
START, DELTA = ToolInputStart("c", "read"), ToolInputDelta("c", "{}")
FIELD = ToolInputField("c", ("path",), "a.txt")
AVAILABLE = ToolInputAvailable("c", "{}")
ASKED = ApprovalRequested("t.0", "c", "read", {})
STARTED, SHOWN = ToolStarted("t.0", "c", "read", {}), Intermediate("c", "read", 1)
VALUE = Output("c", "read", Value("c", "read", 1, "1"))
FAILURE = Output("c", "read", Failure("c", "read", "failed", "no"))
WRITTEN: list[RunEvent] = [BEGIN, START, DELTA, AVAILABLE, END]


def abandoned(reason: str) -> ToolInputAbandoned:
    return ToolInputAbandoned("c", reason)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "events",
    [
        [],
        [BEGIN, TextDelta("hi"), END],
        [*WRITTEN, STARTED, SHOWN, SHOWN, VALUE],
        [BEGIN, START, DELTA, FIELD, FIELD, DELTA, FIELD, AVAILABLE, END, STARTED, VALUE],
        [BEGIN, START, DELTA, FIELD, abandoned("incomplete")],
        [*WRITTEN, STARTED, SHOWN, ToolStarted("t.0", "c", "read", {}, 2), SHOWN, VALUE],
        [*WRITTEN, ASKED, STARTED, VALUE],
        [*WRITTEN, ASKED, FAILURE],
        [*WRITTEN, FAILURE],
        [*WRITTEN, abandoned("discarded")],
        [BEGIN, START, abandoned("incomplete")],  # a turn that failed has no end
        [BEGIN, START, DELTA, abandoned("malformed"), END, FAILURE],
        [BEGIN, START, abandoned("retried"), TurnRestarted("again"), START, DELTA, AVAILABLE, END, STARTED, VALUE],
        [STARTED, VALUE],  # executed without a model
        [FAILURE],  # a call without a name
        [*WRITTEN, STARTED, VALUE, *WRITTEN, STARTED, VALUE],  # an id that a later turn uses again
        [STARTED, *(Intermediate("c", "ask", event=event) for event in (*WRITTEN, STARTED, VALUE)), VALUE],
        [STARTED, *(Intermediate("c", "ask", event=event) for event in (BEGIN, TurnStarted("u", "m"))), VALUE],
    ],
)
def test_what_may_happen_passes(events: Sequence[RunEvent]) -> None:
    check_grammar(events)
    for length in range(len(events)):
        check_grammar(events[:length], complete=False)


@pytest.mark.parametrize(
    ("events", "says"),
    [
        ([TextDelta("hi")], "event 0: a TextDelta outside of a turn"),
        ([BEGIN, START, START], "event 2: a ToolInputStart for call c, which is being written"),
        ([BEGIN, DELTA], "event 1: a ToolInputDelta for call c, which was not seen yet"),
        ([BEGIN, FIELD], "event 1: a ToolInputField for call c, which was not seen yet"),
        ([*WRITTEN, FIELD], "a ToolInputField for call c, which is available"),
        ([BEGIN, START, abandoned("incomplete"), FIELD], "a ToolInputField for call c, which is abandoned"),
        ([BEGIN, START, STARTED], "a ToolStarted for call c, which is being written"),
        ([BEGIN, START, END], "at the end call c is being written"),
        ([BEGIN, START, TurnStarted("u", "m")], "turn u starts while turn t writes a call"),
        ([BEGIN, START, TurnRestarted("again")], "event 2: a turn restarts while it writes a call"),
        ([BEGIN, TurnEnded(Turn("u"))], "turn u ends, but the one under way is t"),
        (WRITTEN, "at the end call c is available"),
        ([*WRITTEN, STARTED], "at the end call c runs"),
        ([*WRITTEN, VALUE], "call c has a value, but it never ran"),
        ([*WRITTEN, STARTED, VALUE, VALUE], "an? Output for call c, which has its output"),
        ([*WRITTEN, STARTED, STARTED], "a ToolStarted for call c, which runs"),
        ([*WRITTEN, STARTED, VALUE, STARTED], "a ToolStarted for call c, which has its output"),
        ([*WRITTEN, abandoned("incomplete")], "abandoned as incomplete after it was available"),
        ([BEGIN, START, abandoned("incomplete"), STARTED], "a ToolStarted for call c, which is abandoned"),
        ([BEGIN, START, abandoned("incomplete"), FAILURE], "for call c, which is abandoned"),
        ([BEGIN, START, abandoned("malformed"), STARTED], "for call c, which is abandoned as malformed"),
        ([STARTED, Output("c", "read", Value("d", "read", 1, "1"))], "has the result of another"),
        ([STARTED, Output("c", "read", Pending("c", "read"))], "its result is pending"),
        ([STARTED, Intermediate("c", "ask", event=DELTA)], "event 1: inside call c: a ToolInputDelta for call c"),
    ],
)
def test_what_must_not_happen_is_named(events: Sequence[RunEvent], says: str) -> None:
    with pytest.raises(GrammarError, match=says):
        check_grammar(events)


def test_a_pending_call_may_stay_open_and_only_that_one() -> None:
    for events in (WRITTEN, [*WRITTEN, ASKED]):
        check_grammar(events, pending=["c"])
    with pytest.raises(GrammarError):
        check_grammar([*WRITTEN, STARTED], pending=["c"])


def test_every_phase_has_a_way_out() -> None:
    assert {phase for phase, _ in MOVES} == set(Phase)


def test_a_call_that_runs_may_stay_open_only_where_one_inside_of_it_waits() -> None:
    asked = Intermediate("c", "read", event=ApprovalRequested("e/f", "d", "send", {}))
    check_grammar([*WRITTEN, STARTED, asked], pending=["c"])
    answered = Intermediate("c", "read", event=Output("d", "send", Failure("d", "send", "denied", "no")))
    with pytest.raises(GrammarError, match="at the end call c runs"):
        check_grammar([*WRITTEN, STARTED, asked, answered], pending=["c"])
