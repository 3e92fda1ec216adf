"""Turns and states as they are written down before all calls have their results, where something may be hidden.

A call of which something is hidden cannot run later: what it would run with is not what was meant.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import TypeVar

import msgspec

from ..conversation import Conversation, Paused
from ..items import ToolCall, TurnItem
from ..redaction import Redaction
from ..turns import Turn

T = TypeVar("T", bound=TurnItem)

HIDDEN = "its arguments were hidden when they were written down, so it cannot run any more"


def redacted_turn(turn: Turn, redaction: Redaction | None) -> Turn:
    """A turn as it is written while its calls have no results. One of which something is hidden cannot run later."""
    if redaction is None:
        return turn
    return msgspec.structs.replace(turn, items=tuple(_redacted_item(item, redaction) for item in turn.items))


def redacted_state(state: Conversation, redaction: Redaction) -> Conversation:
    waiting = state.waiting
    seen = {key: redacted_pause(paused, waiting[key], redaction) for key, paused in state.paused.items()}
    return msgspec.structs.replace(
        state,
        history=tuple(redaction.item(item) for item in state.history),
        turn=state.turn and redacted_turn(state.turn, redaction),
        results=tuple(redaction.result(result) for result in state.results),
        paused={key: paused for key, paused in seen.items() if paused is not None},
    )


def redacted_pause(paused: Paused, call: ToolCall, redaction: Redaction) -> Paused | None:
    """None where something is hidden of the call: then it cannot go on, and its inner runs may tell what it was."""
    given = paused.arguments
    if redaction.item(call) is not call or (given is not None and redaction.arguments(call.name, given) != given):
        return None
    return msgspec.structs.replace(
        paused,
        waits={execution_id: _redacted_item(each, redaction) for execution_id, each in paused.waits.items()},
        runs=tuple(msgspec.structs.replace(run, state=redacted_state(run.state, redaction)) for run in paused.runs),
    )


def _redacted_item(item: T, redaction: Redaction) -> T:
    seen = redaction.item(item)
    if isinstance(seen, ToolCall) and seen is not item and seen.problem is None:
        return msgspec.structs.replace(seen, problem=HIDDEN)
    return seen


def as_it_ran(call: ToolCall, waits: Collection[str]) -> ToolCall:
    """A call of a turn that was found again: what was hidden stops none that has run. waits: those that have not."""
    if call.problem == HIDDEN and call.local_id not in waits:
        return msgspec.structs.replace(call, problem=None)
    return call
