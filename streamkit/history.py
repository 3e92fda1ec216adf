"""Histories in which calls and results pair up, whatever happened: appending turns, cancelling calls, cutting.

A provider refuses a request with a call that has no result, or a result that has no call. So a turn goes into a history
together with its results or not at all, and everything here gives a history that the next request may use.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import msgspec

from .errors import HistoryError
from .items import History, Item, Message, Reasoning, ToolCall, ToolOutput, TurnItem
from .tool_events import Failure, Pending, ToolResult, Value
from .turns import Turn

WHY_DROPPED = {
    "incomplete": "This call did not run: it was cut off, or its turn was, before it was whole.",
    "discarded": "This call did not run: its turn kept no such call.",
}
"""What the model reads as the result of a call that went nowhere."""


def append_turn(history: History, turn: Turn, results: Sequence[ToolResult] = ()) -> History:
    """The history after a turn and the results of its calls.

    results: one for each of `turn.calls`, in any order; they are put in the order of the calls. Calls that were
    abandoned, or cannot run, are written with `{}` as arguments, and the former are answered with a failure. Of a
    cancelled turn only text and reasoning stay; a blank turn leaves nothing. Raises HistoryError if a call has no
    result or a pending one, a result belongs to no call, or two calls share an id.
    """
    if turn.stop_reason == "cancelled":
        return history + tuple(item for item in turn.items if _is_finished(item))
    by_id = {result.call_id: result for result in results}
    calls = {item.call_id: item for item in turn.items if type(item) is ToolCall}
    if len(calls) < len(turn.calls) + len(turn.dropped):
        raise HistoryError(f"turn {turn.turn_id} has two calls with one id")
    if len(by_id) < len(results):
        raise HistoryError(f"two results for one call of turn {turn.turn_id}")
    if strange := by_id.keys() - {call.call_id for call in turn.calls}:
        raise HistoryError(f"results without a call in turn {turn.turn_id}: {', '.join(sorted(strange))}")
    if all(map(_is_blank, turn.items)):
        return history
    items = tuple(_as_sendable(item) if type(item) is ToolCall else item for item in turn.items)
    return history + items + tuple(_output(call, by_id.get(call.call_id)) for call in calls.values())


def _is_finished(item: TurnItem) -> bool:
    return bool(item.text.strip()) if isinstance(item, Message | Reasoning) else type(item) is not ToolCall


def _is_blank(item: TurnItem) -> bool:
    """Without words, and nothing goes back with it."""
    return type(item) is Message and not item.text.strip() and item.opaque is None


def _as_sendable(call: ToolCall) -> ToolCall:
    if call.problem is None and call.abandoned is None:
        return call
    return msgspec.structs.replace(call, name=call.name or "unnamed", arguments="{}")


def _output(call: ToolCall, result: ToolResult | None) -> ToolOutput:
    name = call.name or "unnamed"
    match result:
        case Value(text=text, images=images):
            return ToolOutput(call.call_id, name, text, images=images, custom=call.custom)
        case Failure(message=message, partial=partial):
            saved = "" if partial is None else f" What came before: {msgspec.json.encode(partial).decode()}"
            return ToolOutput(call.call_id, name, message + saved, failed=True, custom=call.custom)
        case None if call.abandoned is not None:
            return ToolOutput(call.call_id, name, WHY_DROPPED[call.abandoned], failed=True, custom=call.custom)
        case None:
            raise HistoryError(f"call {call.call_id} of {name} has no result")
        case Pending():
            raise HistoryError(f"call {call.call_id} of {name} is pending: nobody has decided it yet")


def unanswered(history: History) -> tuple[ToolCall, ...]:
    """The calls without a result, in the order in which they began."""
    return tuple(call for group in _groups(history) for call in _open_calls(group))


def cancel_pending(history: History, reason: str) -> History:
    """The same history, in which each call without a result is answered with a failure that gives the reason."""
    whole: list[Item] = []
    for group in _groups(history):
        outputs = {item.call_id: item for item in group if type(item) is ToolOutput}
        whole.extend(item for item in group if type(item) is not ToolOutput)
        for call in (item for item in group if type(item) is ToolCall):
            answer = outputs.get(call.call_id)
            whole.append(answer or ToolOutput(call.call_id, call.name, reason, failed=True, custom=call.custom))
    return tuple(whole)


def recent(history: History, count: int) -> History:
    """The last items, at most count of them, never a call without its result or a result without its call.

    A turn that does not fit is left out whole; the last one is kept even if it is longer than count.
    """
    starts = []
    position = 0
    for group in _groups(history):
        starts.append(position)
        position += len(group)
    if not starts or count <= 0:
        return ()
    return history[next((start for start in starts if len(history) - start <= count), starts[-1]) :]


def _groups(history: History) -> Iterator[Sequence[Item]]:
    """A message of the person, or what the model said up to and with the results of its calls."""
    group: list[Item] = []
    for item in history:
        from_user = type(item) is Message and item.role == "user"
        if group and (from_user or _ends_before(group[-1], item)):
            yield group
            group = []
        group.append(item)
    if group:
        yield group


def _ends_before(last: Item, item: Item) -> bool:
    if type(last) is Message and last.role == "user":
        return True
    return type(last) is ToolOutput and type(item) is not ToolOutput


def _open_calls(group: Sequence[Item]) -> list[ToolCall]:
    answered = {item.call_id for item in group if type(item) is ToolOutput}
    return [item for item in group if type(item) is ToolCall and item.call_id not in answered]
