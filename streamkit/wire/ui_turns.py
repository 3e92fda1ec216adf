"""A step of an AI SDK message as a turn of ours: its items, the results of its calls, and the calls that still wait."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import msgspec

from ..errors import MessagesRefused
from ..execution.approval import Allow, Deny, Verdict
from ..items import Image, Message, Reasoning, ToolCall, TurnItem
from ..tool_events import Failure, FailureKind, ToolResult, Value
from ..tools.values import model_text
from ..turns import Turn
from .ai_sdk_seals import Asked, as_json, is_signed
from .seals import Seal
from .ui_parts import CallPart, Part

NOT_WHOLE = "its arguments did not come back whole, so it cannot run"
NOT_DECIDED = "This call did not run: nobody decided about it."
CUT_OFF = "This call was cut off: it may have happened, or a part of it."
SAID_NO = "the person said no"
NO_REASON = "This call failed, and did not say why."


class StepTaken:
    """A step that was read. is_last: nothing has followed it, so calls that somebody was asked about may still run.

    turn_id: its name, unless the questions name the turn that they were asked in: then the calls keep their execution
    ids. kept: the items of the turn as they were, where the client has kept them. They count as long as the calls are
    still those: whatever else its parts say now, a provider takes back only what it has signed.
    waiting: the calls that somebody was asked about, by execution id. results: of the others.
    """

    def __init__(
        self, turn_id: str, parts: Sequence[Part | CallPart], *, is_last: bool, kept: Sequence[TurnItem] | None = None
    ) -> None:
        calls = [part for part in parts if isinstance(part, CallPart)]
        if len({call.call_id for call in calls}) < len(calls):
            raise MessagesRefused("two calls of one step have one id")
        asked = [call for call in calls if is_last and call.state in ("approval-requested", "approval-responded")]
        items = _kept_items(kept or (), calls, asked) or _items(parts, calls, asked, turn_id)
        self.results = [result for call in calls if call not in asked for result in _results(call)]
        self.turn = Turn(turn_id, items=items, stop_reason="tool_calls" if calls else "stop")
        self._calls = {item.call_id: item for item in items if isinstance(item, ToolCall)}
        if calls:
            self.turn = msgspec.structs.replace(self.turn, turn_id=self._calls[calls[0].call_id].turn_id)
        self.waiting = {self._calls[call.call_id].local_id: call for call in asked}

    def verdicts(self, seal: Seal | None, chat_id: str) -> dict[str, Verdict]:
        """What was decided about the calls that wait. Raises MessagesRefused for one that was not asked about."""
        decided = {}
        for execution_id, part in self.waiting.items():
            is_whole = not part.part.is_partial
            if seal is not None and is_whole:
                _check_signature(part, self._calls[part.call_id], seal, chat_id)
            verdict = _verdict(part)
            if verdict is not None:
                decided[execution_id] = verdict if is_whole or isinstance(verdict, Deny) else Deny(NOT_WHOLE)
        return decided


def _kept_items(
    kept: Sequence[TurnItem], calls: Sequence[CallPart], asked: Sequence[CallPart]
) -> tuple[TurnItem, ...] | None:
    """What was kept, where it has these calls, and the questions were asked about them."""
    known = {item.call_id: item for item in kept if isinstance(item, ToolCall)}
    told = {call.call_id: call.tool for call in calls if call.state != "input-streaming"}
    if told != {call_id: call.name for call_id, call in known.items()} or len(told) < len(calls):
        return None
    if any(known[call.call_id].local_id != _question_of(call) for call in asked):
        return None
    return tuple(kept)


def _items(
    parts: Sequence[Part | CallPart], calls: Sequence[CallPart], asked: Sequence[CallPart], turn_id: str
) -> tuple[TurnItem, ...]:
    """What the parts say that the turn was."""
    turn_id = _turn_asked_in(asked) or turn_id
    places = _places(calls, asked, turn_id)
    items = [
        _call(part, turn_id, places[part.call_id]) if isinstance(part, CallPart) else _said(part) for part in parts
    ]
    return tuple(item for item in items if item is not None)


def _question_of(call: CallPart) -> str:
    return call.part.approval.id if call.part.approval is not None else ""


def _execution(call: CallPart) -> tuple[str, int]:
    """The turn and the place that a question was about, as its id says; an id of another kind names no turn."""
    turn_id, _, place = _question_of(call).rpartition(".")
    if turn_id and place.isascii() and place.isdigit() and len(place) < 6:
        return turn_id, int(place)
    return "", 0


def _turn_asked_in(asked: Iterable[CallPart]) -> str:
    turns = {turn_id for turn_id, _ in map(_execution, asked)}
    return turns.pop() if len(turns) == 1 else ""


def _places(calls: Iterable[CallPart], asked: Iterable[CallPart], turn_id: str) -> dict[str, int]:
    """The place of each call among those of its turn, by its id: the one in its execution id, where that is known."""
    places: dict[str, int] = {}
    for call in asked:
        asked_in, place = _execution(call)
        if asked_in == turn_id:
            if place in places.values():
                raise MessagesRefused(f"two calls wait for one answer: {turn_id}.{place}")
            places[call.call_id] = place
    taken = set(places.values())
    free = (number for number in itertools.count() if number not in taken)
    return {call.call_id: places[call.call_id] if call.call_id in places else next(free) for call in calls}


def _said(part: Part) -> TurnItem | None:
    text = part.text or ""
    if not text.strip() or part.is_refusal:  # what was said instead of an answer stands in no history
        return None
    return Reasoning(text) if part.type == "reasoning" else Message("assistant", text)


def _call(call: CallPart, turn_id: str, place: int) -> ToolCall:
    given = call.part.input
    made = ToolCall(call.call_id, call.tool, "{}", turn_id, place)
    if call.state == "input-streaming":
        return msgspec.structs.replace(made, abandoned="incomplete")
    if isinstance(given, dict):
        return msgspec.structs.replace(made, arguments=_json(given, call))
    if given is None:
        return made
    if call.state == "output-error":  # what the model wrote was no object
        return msgspec.structs.replace(made, arguments=str(given)[:1000], problem="its arguments are not a JSON object")
    if isinstance(given, str):
        return msgspec.structs.replace(made, arguments=given, custom=True)
    raise MessagesRefused(f"the input of call {call.call_id} is not an object")


def _json(given: Any, call: CallPart) -> str:
    try:
        return model_text(given)
    except Exception as error:
        raise MessagesRefused(f"call {call.call_id} holds what cannot be written as JSON") from error


def _results(call: CallPart) -> Iterator[ToolResult]:
    """The result of a call that does not wait; none of one that was never whole."""
    part, failed = call.part, _failure_of(call)
    if call.state == "input-streaming":
        return
    if failed is not None:
        yield failed
    else:
        images = tuple(_images_in(part.output))
        text = part.model_text
        if text is None:
            text = "" if images else _json(part.output, call)
        yield Value(call.call_id, call.tool, part.output, text, images=images)


def _failure_of(call: CallPart) -> Failure | None:
    part, approval = call.part, call.part.approval
    kind, message = _WITHOUT_RESULT.get(call.state, ("failed", part.error_text or NO_REASON))
    if call.state == "output-available" and not part.preliminary:
        return None
    if call.state == "output-denied" or (call.state == "approval-responded" and not (approval and approval.approved)):
        reason = (approval.reason if approval is not None else None) or SAID_NO
        kind, message = "denied", f"The call of {call.tool} was denied: {reason}"
    return Failure(call.call_id, call.tool, kind, message)


_WITHOUT_RESULT: dict[str, tuple[FailureKind, str]] = {
    "output-available": ("interrupted", CUT_OFF),  # a preliminary one, and the last did not come
    "input-available": ("interrupted", CUT_OFF),
    "approval-responded": ("interrupted", CUT_OFF),
    "approval-requested": ("cancelled", NOT_DECIDED),
}


def _images_in(output: Any) -> Iterator[Image]:
    """Those that a tool gave, alone or in a list: the model looks at them, and does not read their bytes."""
    for item in output if isinstance(output, list) else [output]:
        if isinstance(item, dict) and item.get("type") == "image":
            try:
                yield msgspec.convert(item, Image)
            except (msgspec.ValidationError, ValueError):
                return


def _verdict(call: CallPart) -> Verdict | None:
    approval = call.part.approval
    if call.state != "approval-responded" or approval is None:
        return None
    return Allow() if approval.approved else Deny(approval.reason or SAID_NO)


def _check_signature(part: CallPart, call: ToolCall, seal: Seal, chat_id: str) -> None:
    """Of the question about a call: what the client shows of it, and what would run, are what was asked about."""
    approval = part.part.approval
    if approval is None or approval.signature is None:
        raise MessagesRefused(f"nobody was asked about call {part.call_id} here")
    shown = part.part.input
    for arguments in (shown, shown if call.arguments == shown else as_json(call.arguments)):
        asked = Asked(approval.id, part.call_id, part.tool, arguments)
        if not is_signed(approval.signature, seal, chat_id, asked):
            raise MessagesRefused(f"call {part.call_id} is not the one that somebody was asked about here")
