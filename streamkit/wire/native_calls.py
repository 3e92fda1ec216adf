"""Calls of the native protocol: how one is written, run, and what becomes of it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..input_fields import FieldReader
from ..items import Usage
from ..tool_events import ApprovalRequested, Failure, Intermediate, Output, ToolInputField, ToolStarted, Value
from ..turns import ToolInputAbandoned, ToolInputAvailable, ToolInputDelta, ToolInputStart, Turn
from . import native_frames as frames
from .encoding import Values
from .native_frames import Frame
from .native_parts import Path, head_of
from .open_calls import OpenCall, Phase, Seen


class CallFrames:
    """The frames of the events of calls. has_deltas: what the model writes may be shown piece by piece. has_fields: so
    are the fields of its arguments, and those that the run told of itself are left out.

    strides, runs: by the id that the run knows, the calls of the outer run that are being written, and `head_of` the
    progress of those that run: the encoder writes their frames itself, since there are very many.
    """

    def __init__(self, values: Values, *, has_deltas: bool, has_fields: bool) -> None:
        self.strides: dict[str, Input] = {}
        self.runs: dict[str, bytes] = {}
        self._values = values
        self._has_deltas = has_deltas
        self._has_fields = has_fields
        self._inputs: dict[str, Input] = {}  # all calls that are being written, by their ids on the wire
        self._malformed: dict[str, tuple[OpenCall, str]] = {}  # whose failure is to come; with the ids of the run

    def of(self, seen: Seen, call: OpenCall) -> list[Frame]:
        if type(seen.event) is ToolInputAbandoned:
            return self._abandoned(seen.event, call, seen.before)
        return _FRAMES[type(seen.event)](self, seen.event, call)

    def dropped(self, call: OpenCall, detail: str) -> list[Frame]:
        """Of a call that nobody will run any more."""
        reason = "incomplete" if call.phase is Phase.WRITING else "discarded"
        return self._dropped(call, call.phase, reason, detail)

    def lost(self, path: Path, turn: Turn) -> list[Frame]:
        """Of the malformed calls that a turn does not keep, so that nobody answers them."""
        if not self._malformed:
            return []
        kept = {call.call_id for call in turn.calls}
        lost = [call for call, call_id in self._malformed.values() if call.path == path and call_id not in kept]
        return [self._unanswered(call, "discarded", "the turn kept no such call") for call in lost]

    def unanswered(self, detail: str, around: str | None = None) -> list[Frame]:
        """Of all malformed calls that have no failure, or of those inside a call."""
        lost = [call for call, _ in self._malformed.values() if around is None or around in call.path]
        return [self._unanswered(call, "malformed", detail) for call in lost]

    def _unanswered(self, call: OpenCall, reason: str, detail: str) -> Frame:
        del self._malformed[call.id]
        return _result(call, call.tool, dropped=True, reason=reason, detail=detail)

    # While the model writes

    def _started_input(self, event: ToolInputStart, call: OpenCall) -> list[Frame]:
        written = self._inputs[call.id] = Input(head_of(frames.ToolCallDelta(call.id, "")))
        if self._has_fields:
            written.reader = FieldReader()
            written.reader.read(event)
        elif not call.path and self._has_deltas:
            self.strides[event.call_id] = written
        return [frames.ToolCallStart(call.id, event.tool, path=call.path)]

    def _delta(self, event: ToolInputDelta, call: OpenCall) -> list[Frame]:
        said: list[Frame] = [frames.ToolCallDelta(call.id, event.delta, path=call.path)]
        if (written := self._inputs.get(call.id)) is not None:
            written.pieces.append(event.delta)
            if written.reader is not None:
                said += [self._piece(field, call) for field in written.reader.read(event)]
        return said

    def _field(self, event: ToolInputField, call: OpenCall) -> list[Frame]:
        return [] if self._has_fields else [self._piece(event, call)]

    def _piece(self, field: ToolInputField, call: OpenCall) -> Frame:
        return frames.ToolField(call.id, field.path, field.text, path=call.path)

    def _available(self, event: ToolInputAvailable, call: OpenCall) -> list[Frame]:
        comes_whole = bool(event.arguments) and not self._sent(call)
        said = self._delta(ToolInputDelta(event.call_id, event.arguments), call) if comes_whole else []
        truth = None if comes_whole or self._sent(call) == event.arguments else event.arguments
        self._forget_input(event.call_id, call)
        return [*said, frames.ToolCallEnd(call.id, truth, path=call.path)]

    def _abandoned(self, event: ToolInputAbandoned, call: OpenCall, before: Phase) -> list[Frame]:
        self._forget_input(event.call_id, call)
        if event.reason == "malformed":
            self._malformed[call.id] = call, event.call_id
        return self._dropped(call, before, event.reason, event.detail)

    def _sent(self, call: OpenCall) -> str:
        """What the deltas of a call join to."""
        written = self._inputs.get(call.id)
        return "" if written is None else "".join(written.pieces)

    def _forget_input(self, call_id: str, call: OpenCall) -> None:
        if not call.path:
            self.strides.pop(call_id, None)
        self._inputs.pop(call.id, None)

    def _dropped(self, call: OpenCall, before: Phase, reason: str, detail: str) -> list[Frame]:
        said: list[Frame] = []
        if before is Phase.WRITING:
            end = frames.ToolCallEnd(call.id, dropped=True, reason=reason, detail=detail, path=call.path)
            said.append(end)
        if reason != "malformed":
            said.append(_result(call, call.tool, dropped=True, reason=reason, detail=detail))
        return said

    # While it runs

    def _asked(self, event: ApprovalRequested, call: OpenCall) -> list[Frame]:
        given, card = self._values.of(event.arguments), self._values.of(event.card)
        return [frames.ApprovalRequest(call.id, event.execution_id, event.tool, given, card, path=call.path)]

    def _started(self, event: ToolStarted, call: OpenCall) -> list[Frame]:
        given = self._values.of(event.arguments)
        if not call.path and self._has_deltas:
            self.runs[event.call_id] = head_of(frames.ToolProgress(call.id, ""))
        return [frames.ToolStart(call.id, event.execution_id, event.tool, given, event.attempt, path=call.path)]

    def _progress(self, event: Intermediate, call: OpenCall) -> list[Frame]:
        return [frames.ToolProgress(call.id, self._values.of(event.data), path=call.path)]

    def _ended(self, event: Output, call: OpenCall) -> list[Frame]:
        if not call.path:
            self.runs.pop(event.call_id, None)
        self._malformed.pop(call.id, None)
        match event.result:
            case Value(value=value, text=text, usage=usage):
                shown, read = self._values.of(value), self._values.text(text)
                return [_result(call, event.tool, result=shown, text=read, seconds=event.seconds, usage=_spent(usage))]
            case Failure(kind=kind, message=message, partial=partial, usage=usage):
                saved = None if partial is None else self._values.of(partial)
                error = frames.CallError(kind, message, saved)
                return [_result(call, event.tool, error=error, seconds=event.seconds, usage=_spent(usage))]
        return []


class Input:
    """A call that is being written. head: see `head_of`. reader: of its fields, where they are shown."""

    __slots__ = ("head", "pieces", "reader")

    def __init__(self, head: bytes) -> None:
        self.head = head
        self.pieces: list[str] = []
        self.reader: FieldReader | None = None


def _result(call: OpenCall, tool: str, *, result: Any = "", **fields: Any) -> frames.ToolResult:
    return frames.ToolResult(f"r-{call.id}", call.id, tool, result, **fields, path=call.path)


def _spent(usage: Usage) -> frames.Tokens | None:
    return None if usage == Usage() else frames.tokens(usage)


_FRAMES: dict[type, Callable[..., list[Frame]]] = {
    ToolInputStart: CallFrames._started_input,
    ToolInputDelta: CallFrames._delta,
    ToolInputField: CallFrames._field,
    ToolInputAvailable: CallFrames._available,
    ApprovalRequested: CallFrames._asked,
    ToolStarted: CallFrames._started,
    Intermediate: CallFrames._progress,
    Output: CallFrames._ended,
}
