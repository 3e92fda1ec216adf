"""The native protocol: everything that a run tells, as server-sent events (see `native_frames`).

Each frame has the next number as its `id:`, from 1. A client that lost its connection comes back with the last one that
it has; since the same events give the same bytes, whoever has the events can go on behind it.
"""

from __future__ import annotations

from collections.abc import Callable, Collection

from ..conversation import Conversation
from ..items import ProviderTool, UnknownItem
from ..redaction import Redact, Redaction
from ..tool_events import ApprovalRequested, Intermediate, Output, RunEvent, ToolStarted
from ..turns import (
    ReasoningDelta,
    RefusalDelta,
    TextDelta,
    ToolInputDelta,
    ToolInputStart,
    TurnEnded,
    TurnRestarted,
    TurnStarted,
)
from . import native_frames as frames
from .encoding import EVENT_STREAM, STREAM_HEADERS, VALUE_LIMIT_BYTES, Values, frame, json_of, told
from .native_calls import CallFrames
from .native_frames import Frame
from .native_parts import Parts, Path
from .open_calls import OpenCalls, Seen


class NativeEncoder:
    """See `Encoder`. run_id: what the client calls the message. value_limit_bytes: of each value of a user.

    redact: what is to be seen instead of arguments and values; the arguments of a call then come whole. fields: the
    pieces of the fields of arguments are told as well, so that the client parses nothing; those of inner runs, too.
    """

    media_type = EVENT_STREAM
    headers = STREAM_HEADERS

    def __init__(
        self,
        *,
        run_id: str,
        redact: Redact | None = None,
        fields: bool = False,
        value_limit_bytes: int = VALUE_LIMIT_BYTES,
    ) -> None:
        self._run_id = run_id
        self._redaction = None if redact is None else Redaction(redact)
        self._values = Values(value_limit_bytes)
        self._parts = Parts()
        self._calls = OpenCalls()
        self._call_frames = CallFrames(self._values, has_deltas=redact is None, has_fields=fields)
        self._number = 0
        self._has_ended = False

    def open(self) -> bytes:
        return self._written([frames.Start(self._run_id, frames.PROTOCOL)])

    def event(self, event: RunEvent) -> bytes:
        # Most events are pieces of the text or of a call of the outer run, or what a call shows: they make no records.
        if type(event) is TextDelta and (head := self._parts.text_head) is not None:
            self._number += 1
            return b"id: %d\ndata: %b%b}\n\n" % (self._number, head, json_of(event.text))
        if type(event) is ToolInputDelta and (written := self._call_frames.strides.get(event.call_id)) is not None:
            written.pieces.append(event.delta)
            self._number += 1
            return b"id: %d\ndata: %b%b}\n\n" % (self._number, written.head, json_of(event.delta))
        if type(event) is Intermediate and event.event is None:
            running = self._call_frames.runs.get(event.call_id)
            if running is not None:
                self._number += 1
                return b"id: %d\ndata: %b%b}\n\n" % (self._number, running, self._values.written(event.data))
        seen = event if self._redaction is None else self._redaction.event(event)
        return b"" if seen is None else self._written(self._frames(self._calls.see(seen)))

    def end(self, state: object) -> bytes:
        if not isinstance(state, Conversation):
            return self._close(frames.Finish(self._run_id), "the run has ended")
        waiting, asked = (state.waiting, state.undecided) if state.ended == "pending" else ({}, {})
        usage = frames.tokens(state.usage)
        finish = frames.Finish(self._run_id, state.ended, state.turns, usage, tuple(asked))
        return self._close(finish, "the run has ended", [call.call_id for call in waiting.values()])

    def error(self, error: BaseException) -> bytes:
        code, message = told(error)
        if code == "stopped":
            return self._close(frames.Stopped(message), "the run was stopped")
        return self._close(frames.Error(message, code), "the run failed")

    def _close(self, last: Frame, detail: str, pending: Collection[str] = ()) -> bytes:
        """End what is open, drop what nobody will run, and say the last word; there is only one."""
        if self._has_ended:
            return b""
        self._has_ended = True
        said = self._parts.end_all()
        for call in self._calls.never_ran(pending):
            said += self._call_frames.dropped(call, detail)
        said += self._call_frames.unanswered(detail)
        return self._written([*said, last])

    def _written(self, said: list[Frame]) -> bytes:
        first = self._number + 1
        self._number += len(said)
        return b"".join([frame(each, number) for number, each in enumerate(said, first)])

    def _frames(self, seen: Seen) -> list[Frame]:
        event, path, call, _ = seen
        said = self._parts.end(path) if type(event) in _BEGINS_SOMETHING_ELSE else []
        if call is None:
            return said + _FRAMES[type(event)](self, event, path)
        if type(event) is Output:  # what was cut off inside it has no end of its own
            said += self._parts.end_inside(call.id)
            for inner in self._calls.leave(call):
                said += self._call_frames.dropped(inner, _AROUND_HAS_ENDED)
            said += self._call_frames.unanswered(_AROUND_HAS_ENDED, call.id)
        return said + self._call_frames.of(seen, call)

    def _text(self, event: TextDelta, path: Path) -> list[Frame]:
        return self._parts.piece("text", event.text, path)

    def _refusal(self, event: RefusalDelta, path: Path) -> list[Frame]:
        return self._parts.piece("refusal", event.text, path)

    def _reasoning(self, event: ReasoningDelta, path: Path) -> list[Frame]:
        return self._parts.piece(event.kind, event.text, path)

    def _turn_started(self, event: TurnStarted, path: Path) -> list[Frame]:
        return [frames.TurnStart(event.turn_id, event.model, path=path)]

    def _turn_ended(self, event: TurnEnded, path: Path) -> list[Frame]:
        turn, usage = event.turn, frames.tokens(event.turn.usage)
        end = frames.TurnEnd(turn.turn_id, turn.stop_reason, turn.stop_word, usage, path=path)
        return [*self._call_frames.lost(path, turn), end]

    def _turn_restarted(self, event: TurnRestarted, path: Path) -> list[Frame]:
        return [frames.TurnRestart(event.reason, path=path)]

    def _provider_tool(self, event: ProviderTool, path: Path) -> list[Frame]:
        given, gave = self._values.of(event.input), self._values.of(event.output)
        return [frames.ProviderTool(event.call_id, event.name, given, gave, event.kind, path=path)]

    def _unknown(self, event: UnknownItem, path: Path) -> list[Frame]:
        return [frames.Unknown(self._values.of(event.item), event.dialect, path=path)]


_AROUND_HAS_ENDED = "the call around it has ended"
_FRAMES: dict[type, Callable[..., list[Frame]]] = {
    TextDelta: NativeEncoder._text,
    RefusalDelta: NativeEncoder._refusal,
    ReasoningDelta: NativeEncoder._reasoning,
    TurnStarted: NativeEncoder._turn_started,
    TurnEnded: NativeEncoder._turn_ended,
    TurnRestarted: NativeEncoder._turn_restarted,
    ProviderTool: NativeEncoder._provider_tool,
    UnknownItem: NativeEncoder._unknown,
}
_BEGINS_SOMETHING_ELSE = {
    TurnStarted, TurnEnded, TurnRestarted, ToolInputStart, ProviderTool, ApprovalRequested, ToolStarted, Output,
}  # fmt: skip
"""What ends the text or reasoning that is open in the same run; a piece of another kind does so, too."""
