"""`check_turn`: do the events of a turn say what the turn holds?"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from ..items import ProviderTool, Reasoning, ToolCall, UnknownItem
from ..turns import (
    ReasoningDelta,
    RefusalDelta,
    TextDelta,
    ToolInputAbandoned,
    ToolInputAvailable,
    ToolInputDelta,
    ToolInputEvent,
    ToolInputStart,
    Turn,
    TurnEnded,
    TurnEvent,
    TurnRestarted,
    TurnStarted,
)
from .grammar import check_grammar
from .legality import is_object

_RUN_NO_CALLS = ("length", "content_filter", "refusal", "error", "cancelled")


def check_turn(events: Sequence[TurnEvent], turn: Turn, *, failed: bool = False) -> None:
    """Raise AssertionError, with the rule that is broken, where the events of one turn and the turn disagree.

    events: all of them, from TurnStarted to TurnEnded. failed: the turn ended in an error, whose `turn` it is, or was
    cancelled here; it has no TurnEnded. One that the provider has cancelled has ended.
    """
    _check_ends(events, turn, failed)
    check_grammar(events, pending=[call.call_id for call in turn.calls])
    restarts = [at for at, event in enumerate(events) if type(event) is TurnRestarted]
    _check_texts(events[restarts[-1] if restarts else 0 :], turn)
    _check_calls(events, turn, failed)
    _check_encodes(events, turn)


def check(holds: object, otherwise: str) -> None:
    """An `assert` that does not go away, and that says which rule was broken."""
    if not holds:
        raise AssertionError(otherwise)


def _check_ends(events: Sequence[TurnEvent], turn: Turn, failed: bool) -> None:
    check(events, "the turn has no events")
    first, last = events[0], events[-1]
    check(type(first) is TurnStarted, f"a turn begins with TurnStarted, not with {type(first).__name__}")
    assert isinstance(first, TurnStarted)
    for kind in (TurnStarted, TurnEnded):
        count = sum(type(event) is kind for event in events)
        check(count <= 1, f"a turn has one {kind.__name__}, not {count}")
    check(first.turn_id, "the id of a turn is empty")
    check(first.turn_id == turn.turn_id, f"TurnStarted has the id {first.turn_id!r}, but the turn has {turn.turn_id!r}")
    if failed:
        ended_badly = turn.stop_reason in ("error", "cancelled")
        check(ended_badly, f"a turn that failed stops as 'error', not as {turn.stop_reason!r}")
        check(TurnEnded not in map(type, events), "a turn that fails has no TurnEnded")
        return
    check(type(last) is TurnEnded, f"a turn that ends well ends with TurnEnded, not with {type(last).__name__}")
    assert isinstance(last, TurnEnded)
    check(last.turn == turn, "TurnEnded carries another turn than the value of the flow")
    check(turn.stop_reason != "error", "a turn that stops as 'error' raises instead of ending")


def _check_texts(events: Sequence[TurnEvent], turn: Turn) -> None:
    reasoning = "".join(item.text for item in turn.items if type(item) is Reasoning)
    for kind, held in ((TextDelta, turn.text), (RefusalDelta, turn.refusal), (ReasoningDelta, reasoning)):
        told = "".join(getattr(event, "text", "") for event in events if type(event) is kind)
        check(told == held, f"the {kind.__name__}s join to {_short(told)}, but the turn holds {_short(held)}")
    for item_kind in (ProviderTool, UnknownItem):
        shown = [event for event in events if type(event) is item_kind]
        items = [item for item in turn.items if type(item) is item_kind]
        check(shown == items, f"the turn holds another {item_kind.__name__} than its events")


def _check_calls(events: Sequence[TurnEvent], turn: Turn, failed: bool) -> None:
    calls = [item for item in turn.items if type(item) is ToolCall]
    ids = [call.call_id for call in calls]
    check(len(set(ids)) == len(ids), f"two calls of the turn have one id: {ids}")
    check(all(ids), "a call has no id")
    places = [call.place for call in calls]
    check(places == list(range(len(calls))), f"the places of the calls count from 0 in their order, not {places}")
    foreign = [call.call_id for call in calls if call.turn_id != turn.turn_id]
    check(not foreign, f"the calls {foreign} name another turn than the one that holds them")
    may_run = turn.stop_reason not in _RUN_NO_CALLS
    check(may_run or not turn.calls, f"a turn that stops as {turn.stop_reason!r} has calls that stand")
    reason = turn.stop_reason
    check(not turn.calls or reason == "tool_calls", f"a turn with calls stops as 'tool_calls', not as {reason!r}")
    told = _last_told(events)
    for call in calls:
        if call.call_id in told or call.name:
            _check_call(call, told.get(call.call_id, []), failed)
    unheld = told.keys() - set(ids)
    check(not unheld, f"the turn does not hold the calls {sorted(unheld)}, which were announced")


def _last_told(events: Sequence[TurnEvent]) -> dict[str, list[ToolInputEvent]]:
    """By call id; where a call began anew, its last events. Calls before a restart are gone."""
    told: dict[str, list[ToolInputEvent]] = {}
    for event in events:
        if type(event) is TurnRestarted:
            told.clear()
        elif type(event) is ToolInputStart:
            told[event.call_id] = [event]
        elif isinstance(event, ToolInputEvent):
            told[event.call_id].append(event)
    return told


def _check_call(call: ToolCall, events: Sequence[ToolInputEvent], failed: bool) -> None:
    which = f"call {call.call_id}"
    check(events, f"{which} of {call.name!r} was never announced")
    names = [event.tool for event in events if type(event) is ToolInputStart]
    check(names == [call.name], f"{which} was announced as {names}, but the turn holds {call.name!r}")
    deltas = "".join(event.delta for event in events if type(event) is ToolInputDelta)
    check(
        deltas == call.arguments,
        f"the deltas of {which} join to {_short(deltas)}, but its arguments are {_short(call.arguments)}",
    )
    available = [event.arguments for event in events if type(event) is ToolInputAvailable]
    check(
        available in ([], [call.arguments]),
        f"{which} became available with other arguments than the turn holds: {_short(str(available))}",
    )
    reasons = [event.reason for event in events if type(event) is ToolInputAbandoned]
    if call.abandoned is None:
        wanted: list[Any] = [["malformed"] if call.problem is not None else []]
    else:  # one that was malformed already, too, where its turn failed in the end
        wanted = [[call.abandoned], ["malformed"]] if failed else [[call.abandoned]]
    check(reasons in wanted, f"{which} was abandoned as {reasons}, but the turn says {wanted[0]}")
    if available and not call.custom:
        check(
            is_object(call.arguments), f"{which} became available, but is not a JSON object: {_short(call.arguments)}"
        )


def _check_encodes(events: Sequence[TurnEvent], turn: Turn) -> None:
    try:
        msgspec.json.encode(events)
        msgspec.json.decode(msgspec.json.encode(turn), type=Turn)
    except (TypeError, ValueError) as error:
        raise AssertionError(f"the turn does not encode to JSON and back: {error}") from error


def _short(text: str) -> str:
    return repr(text) if len(text) <= 80 else f"{text[:40]!r}…{text[-40:]!r}"
