"""The native protocol: frames → the events of the run."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast, get_args

from ..items import ProviderTool, StopReason, UnknownItem, Usage
from ..tool_events import (
    ApprovalRequested,
    Failure,
    FailureKind,
    Intermediate,
    Output,
    RunEvent,
    ToolInputField,
    ToolResult,
    ToolStarted,
    Value,
)
from ..turns import (
    AbandonedReason,
    ReasoningDelta,
    RefusalDelta,
    TextDelta,
    ToolInputAbandoned,
    ToolInputAvailable,
    ToolInputDelta,
    ToolInputStart,
    TurnEnded,
    TurnEvent,
    TurnRestarted,
    TurnStarted,
)
from . import native_frames as frames
from .native_frames import Frame
from .turn_so_far import TurnSoFar

Path = tuple[str, ...]


class FrameEvents:
    """of(frame) -> its event, or none; in order. A `Turn` is made of the events before its end."""

    def __init__(self) -> None:
        self._tools: dict[str, str] = {}  # by the ids of calls that have no result yet
        self._inputs: dict[str, list[str]] = {}  # the calls that are being written
        self._dropped: set[str] = set()  # the calls that were said to be dropped, and will be once more
        self._kinds: dict[str, str] = {}  # of reasoning that is open
        self._turns: dict[Path, TurnSoFar] = {}

    def of(self, frame: Frame) -> RunEvent | None:
        read = _EVENTS.get(type(frame))
        event = read(self, frame) if read is not None else None
        if event is None:
            return None
        if type(event) in _OF_A_TURN:
            self._turns.setdefault(frame.path, TurnSoFar()).take(cast(TurnEvent, event))
        for call_id in reversed(frame.path):
            event = Intermediate(call_id, self._tools.get(call_id, ""), event=event)
        return event

    # A turn

    def _turn_start(self, frame: frames.TurnStart) -> RunEvent | None:
        self._turns[frame.path] = TurnSoFar(frame.model)
        return TurnStarted(frame.id, frame.model)

    def _turn_end(self, frame: frames.TurnEnd) -> RunEvent | None:
        turn = self._turns.pop(frame.path, TurnSoFar())
        reason = cast(StopReason, frame.stop_reason if frame.stop_reason in get_args(StopReason) else "unknown")
        return TurnEnded(turn.turn(frame.id, reason, frame.stop_word, frames.usage(frame.usage)))

    def _turn_restart(self, frame: frames.TurnRestart) -> RunEvent | None:
        return TurnRestarted(frame.reason)

    def _text(self, frame: frames.TextDelta) -> RunEvent | None:
        return TextDelta(frame.delta)

    def _refusal(self, frame: frames.RefusalDelta) -> RunEvent | None:
        return RefusalDelta(frame.delta)

    def _reasoning_start(self, frame: frames.ReasoningStart) -> RunEvent | None:
        self._kinds[frame.id] = frame.kind
        return None

    def _reasoning(self, frame: frames.ReasoningDelta) -> RunEvent | None:
        return ReasoningDelta(frame.delta, "summary" if self._kinds.get(frame.id) == "summary" else "trace")

    def _reasoning_end(self, frame: frames.ReasoningEnd) -> RunEvent | None:
        self._kinds.pop(frame.id, None)
        return None

    def _provider_tool(self, frame: frames.ProviderTool) -> RunEvent | None:
        return ProviderTool(frame.id, frame.tool_name, frame.input, frame.output, frame.kind)

    def _unknown(self, frame: frames.Unknown) -> RunEvent | None:
        return UnknownItem(frame.item, frame.dialect)

    # Calls

    def _call_start(self, frame: frames.ToolCallStart) -> RunEvent | None:
        self._tools[frame.id] = frame.tool_name
        self._inputs[frame.id] = []
        return ToolInputStart(frame.id, frame.tool_name)

    def _call_delta(self, frame: frames.ToolCallDelta) -> RunEvent | None:
        self._inputs.setdefault(frame.id, []).append(frame.args_text_delta)
        return ToolInputDelta(frame.id, frame.args_text_delta)

    def _call_end(self, frame: frames.ToolCallEnd) -> RunEvent | None:
        sent = "".join(self._inputs.pop(frame.id, ()))
        if not frame.dropped:
            return ToolInputAvailable(frame.id, sent if frame.args_text is None else frame.args_text)
        self._dropped.add(frame.id)
        return ToolInputAbandoned(frame.id, cast(AbandonedReason, frame.reason), frame.detail)

    def _field(self, frame: frames.ToolField) -> RunEvent | None:
        return ToolInputField(frame.id, frame.field, frame.text)

    def _approval(self, frame: frames.ApprovalRequest) -> RunEvent | None:
        return ApprovalRequested(frame.execution_id, frame.id, frame.tool_name, frame.args, frame.card)

    def _started(self, frame: frames.ToolStart) -> RunEvent | None:
        self._tools[frame.id] = frame.tool_name
        return ToolStarted(frame.execution_id, frame.id, frame.tool_name, frame.args, frame.attempt)

    def _progress(self, frame: frames.ToolProgress) -> RunEvent | None:
        return Intermediate(frame.id, self._tools.get(frame.id, ""), frame.data)

    def _result(self, frame: frames.ToolResult) -> RunEvent | None:
        call_id = frame.tool_call_id
        was_told = call_id in self._dropped
        self._dropped.discard(call_id)
        self._tools.pop(call_id, None)
        for path in [path for path in self._turns if call_id in path]:
            del self._turns[path]
        if not frame.dropped:
            return Output(call_id, frame.tool_name, _result_of(frame), frame.seconds or 0.0)
        abandoned = ToolInputAbandoned(call_id, cast(AbandonedReason, frame.reason), frame.detail)
        if not was_told:
            return abandoned
        self._turns.setdefault(frame.path, TurnSoFar()).take(abandoned)  # a malformed call that the turn did not keep
        return None


def _result_of(frame: frames.ToolResult) -> ToolResult:
    call_id, tool, error = frame.tool_call_id, frame.tool_name, frame.error
    spent = Usage() if frame.usage is None else frames.usage(frame.usage)
    if error is not None:
        return Failure(call_id, tool, cast(FailureKind, error.kind), error.message, error.partial, spent)
    return Value(call_id, tool, frame.result, frame.text or "", spent)


_OF_A_TURN = frozenset(get_args(TurnEvent)) - {TurnStarted, TurnEnded}
_EVENTS: dict[type, Callable[[FrameEvents, Any], RunEvent | None]] = {
    frames.TurnStart: FrameEvents._turn_start,
    frames.TurnEnd: FrameEvents._turn_end,
    frames.TurnRestart: FrameEvents._turn_restart,
    frames.TextDelta: FrameEvents._text,
    frames.ReasoningStart: FrameEvents._reasoning_start,
    frames.ReasoningDelta: FrameEvents._reasoning,
    frames.ReasoningEnd: FrameEvents._reasoning_end,
    frames.RefusalDelta: FrameEvents._refusal,
    frames.ProviderTool: FrameEvents._provider_tool,
    frames.Unknown: FrameEvents._unknown,
    frames.ToolCallStart: FrameEvents._call_start,
    frames.ToolCallDelta: FrameEvents._call_delta,
    frames.ToolCallEnd: FrameEvents._call_end,
    frames.ToolField: FrameEvents._field,
    frames.ApprovalRequest: FrameEvents._approval,
    frames.ToolStart: FrameEvents._started,
    frames.ToolProgress: FrameEvents._progress,
    frames.ToolResult: FrameEvents._result,
}
