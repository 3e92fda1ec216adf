"""What a run that was cut off owes to those who follow it."""

from collections.abc import Sequence

from streamkit.items import ToolCall
from streamkit.journal.entry import CallFinished
from streamkit.journal.unclosed import GONE, Unclosed
from streamkit.tool_events import Failure, Output, RunEvent
from streamkit.turns import (
    ToolInputAbandoned,
    ToolInputAvailable,
    ToolInputStart,
    Turn,
    TurnEnded,
    TurnRestarted,
    TurnStarted,
)

CALL = ToolCall("c", "pay", "{}", "turn_2", 0)
DENIED = Failure("c", "pay", "denied", "no")
CANCELLED: Sequence[RunEvent] = (
    TurnStarted("turn_1", "m"),
    ToolInputStart("c", "pay"),
    ToolInputAvailable("c", "{}"),
    ToolInputAbandoned("c", "discarded", "the turn was cancelled"),
)
"""What was shown before its model was asked again, and called by the same id."""


def fed(*events: RunEvent) -> Unclosed:
    unclosed = Unclosed()
    for event in (*CANCELLED, TurnRestarted(GONE), *events):
        unclosed.feed(event)
    return unclosed


def test_a_result_is_owed_though_a_turn_was_cancelled_that_had_a_call_by_its_id() -> None:
    turn = Turn("turn_2", items=(CALL,), stop_reason="tool_calls")
    asked_again = (TurnStarted("turn_2", "m"), ToolInputStart("c", "pay"), ToolInputAvailable("c", "{}"))
    unclosed = fed(*asked_again, TurnEnded(turn))
    owed = list(unclosed.ends(turn, {}, {"turn_2.0": CallFinished("turn_2.0", DENIED)}))
    assert owed == [Output("c", "pay", DENIED, 0.0)]


def test_a_call_that_was_cut_off_is_taken_back_though_one_by_its_id_was_cancelled() -> None:
    unclosed = fed(TurnStarted("turn_2", "m"), ToolInputStart("c", "pay"))
    assert list(unclosed.ends(None, {}, {})) == [ToolInputAbandoned("c", "retried", GONE), TurnRestarted(GONE)]
