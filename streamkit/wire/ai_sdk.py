"""The AI SDK's UI message stream, version 1: what `useChat` and `readUIMessageStream` of `ai` 7 read.

A run is one message of the assistant, a turn with what its calls gave is one step of it. What the client has on its
screen it sends back with the next request, where `from_ui_messages` reads it: an approval, or the output of a call that
the client answers, goes on with the same message.

A call is a `tool-NAME` part. What its tool shows is a preliminary output, a call that goes nowhere an error with its
reason. What a provider wants back unread (signatures, encrypted reasoning) stays with the client in a `custom` part of
the step, and comes back unchanged or not at all; it is signed, not hidden.

What an inner run does is told in data parts, see `ai_sdk_nested`. What a provider sends that nobody knows is left out.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from functools import partial
from types import MappingProxyType
from typing import Any

from ..conversation import Conversation
from ..items import ProviderTool
from ..redaction import Redact, Redaction
from ..tool_events import Output, RunEvent
from ..turns import (
    ReasoningDelta,
    RefusalDelta,
    TextDelta,
    ToolInputAvailable,
    ToolInputDelta,
    ToolInputStart,
    TurnEnded,
    TurnRestarted,
    TurnStarted,
)
from .ai_sdk_calls import CallChunks
from .ai_sdk_chunks import DELTA_END, DONE, chunk, delta_head, kept_part, own_metadata
from .ai_sdk_nested import NestedParts
from .ai_sdk_replay import replayed
from .ai_sdk_seals import sealed
from .encoding import EVENT_STREAM, STREAM_HEADERS, VALUE_LIMIT_BYTES, Values, frame, json_of, told
from .kept_turns import kept_turn
from .open_calls import OpenCalls, Seen
from .seals import Seal

NESTED_LIMIT_BYTES = 16 * 1024

INTERRUPTED = "interrupted"
"""The reason of a finish behind which a client sends nothing by itself."""


class AiSdkEncoder:
    """See `Encoder`. run_id: the id of the message; for one that goes on, the id that the client knows it by.

    known_calls: the ids of the calls in the messages of the client (`UiChat.known_calls`). earlier: where a client has
    to build a message anew that had begun before this run, its parts (`UiChat.parts`): they are told first.
    dynamic: calls are `dynamic-tool` parts, as of tools that a client knows nothing of, instead of `tool-NAME` parts.
    seal, chat_id: sign what the client is asked to approve, see `from_ui_messages`. With them turns that hold what a
    provider wants back unread go out whole, for the client to keep: who takes that apart can read all of the turn,
    reasoning included. Where something is hidden (`redact`) none is kept.
    redact: what is to be seen instead of arguments and values; the arguments of a call then come whole.
    value_limit_bytes: of each value of a user.
    """

    media_type = EVENT_STREAM
    headers: Mapping[str, str] = MappingProxyType({**STREAM_HEADERS, "x-vercel-ai-ui-message-stream": "v1"})

    def __init__(
        self,
        *,
        run_id: str,
        known_calls: Iterable[str] = (),
        earlier: Iterable[dict[str, Any]] = (),
        dynamic: bool = False,
        seal: Seal | None = None,
        chat_id: str = "",
        redact: Redact | None = None,
        value_limit_bytes: int = VALUE_LIMIT_BYTES,
    ) -> None:
        self._run_id = run_id
        self._earlier = earlier
        self._keep = None
        if seal is not None and redact is None:
            self._keep = partial(kept_turn, seal=seal, thread_id=chat_id, limit_bytes=value_limit_bytes)
        self._redaction = None if redact is None else Redaction(redact)
        self._values = Values(value_limit_bytes)
        self._calls = OpenCalls()
        self._chunks = CallChunks(
            self._values,
            self._begin_part,
            known_calls=known_calls,
            dynamic=dynamic,
            seal=None if seal is None else partial(sealed, seal, chat_id),
        )
        self._nested = NestedParts(Values(min(value_limit_bytes, NESTED_LIMIT_BYTES)), dynamic=dynamic)
        self._dynamic: dict[str, Any] = {"dynamic": True} if dynamic else {}
        self._provider_calls: dict[str, str] = {}  # the ids on the wire, by those of the provider
        self._block = ""  # the kind of text that is open
        self._block_id = ""
        self._delta_head = b""
        self._begun = 0
        self._is_in_step = False
        self._step_has_calls = self._step_has_results = False
        self._stop_reason = ""
        self._has_ended = False

    def open(self) -> bytes:
        return chunk("start", messageId=self._run_id) + replayed(self._earlier)

    def event(self, event: RunEvent) -> bytes:
        # Most events are pieces of the text, or of a call, of the outer run.
        if type(event) is TextDelta and self._block == "text":
            return self._delta_head + json_of(event.text) + DELTA_END
        if self._redaction is None:
            if type(event) is ToolInputDelta and (written := self._chunks.written.get(event.call_id)) is not None:
                written.pieces.append(event.delta)
                return written.head + json_of(event.delta) + DELTA_END
            return self._told(self._calls.see(event))
        visible = self._redaction.event(event)
        if visible is None:
            return b""
        seen = self._calls.see(visible)
        if type(event) is ToolInputAvailable and seen.call is not None and visible != event:
            self._chunks.hidden.add(seen.call.id)
        return self._told(seen)

    def end(self, state: object) -> bytes:
        if not isinstance(state, Conversation):
            reason = self._finish_reason(_REASON_OF_STOP.get(self._stop_reason), is_pending=self._chunks.are_waiting)
            return self._close(chunk("finish", **({"finishReason": reason} if reason else {})), "the run has ended")
        is_pending = state.ended == "pending"
        waiting = state.waiting if is_pending else {}
        metadata = own_metadata(
            ended=state.ended, turns=state.turns, usage=state.usage, pending=list(state.undecided) if is_pending else []
        )
        reason = self._finish_reason(_REASON_OF_END.get(state.ended or "", "other"), is_pending=is_pending)
        last = chunk("finish", finishReason=reason, messageMetadata=metadata)
        return self._close(last, "the run has ended", [call.call_id for call in waiting.values()])

    def error(self, error: BaseException) -> bytes:
        kind, message = told(error)
        if kind == "stopped":
            ends = chunk("abort", reason=message) + chunk("finish", finishReason=INTERRUPTED)
            return self._close(ends, "the run was stopped")
        return self._close(chunk("error", errorText=message, code=kind), "the run failed")

    def _finish_reason(self, reason: str | None, *, is_pending: bool) -> str | None:
        """A client that finds all calls of the last step complete sends them back, to be answered; it must not where
        the run is over."""
        return INTERRUPTED if self._step_has_calls and not is_pending else reason

    def _close(self, last: bytes, why: str, pending: Collection[str] = ()) -> bytes:
        """End what is open, drop what nobody will run, and say the last word; there is only one."""
        if self._has_ended:
            return b""
        self._has_ended = True
        said = self._end_block() + self._nested.end()
        for call in self._calls.never_ran(pending):
            said += self._nested.drop(call, why) if call.path else self._chunks.drop(call, why)
        return said + self._end_step() + last + DONE

    def _told(self, seen: Seen) -> bytes:
        event, path, call, _ = seen
        if path:
            return self._nested.of(seen)
        if call is None:
            handle = _CHUNKS.get(type(event))
            return b"" if handle is None else handle(self, event)
        said = self._end_block() + self._leave_step() if type(event) is ToolInputStart else b""
        self._step_has_calls = True
        if type(event) is Output:  # what was cut off inside it has no end of its own
            self._calls.leave(call)
            self._step_has_results = True
            said += self._nested.leave(call.id, "the call around it has ended")
        return said + self._chunks.of(seen, call)

    def _turn_started(self, event: TurnStarted) -> bytes:
        return self._end_block() + self._end_step() + self._begin_part()

    def _turn_ended(self, event: TurnEnded) -> bytes:
        self._stop_reason = event.turn.stop_reason
        kept = None if self._keep is None else self._keep(event.turn.items, self._chunks.wire_ids)
        return self._end_block() + (b"" if kept is None else self._begin_part() + frame(kept_part(kept)))

    def _turn_restarted(self, event: TurnRestarted) -> bytes:
        """What was begun in an earlier response has left nothing here that could be taken back."""
        return self._end_block() + (chunk("reset-step") if self._is_in_step else b"")

    # Steps

    def _begin_part(self) -> bytes:
        """A part belongs to a step; the parts of an earlier response are in steps that are over."""
        if self._is_in_step:
            return b""
        self._is_in_step = True
        return chunk("start-step")

    def _end_step(self) -> bytes:
        was_in_step, self._is_in_step = self._is_in_step, False
        self._step_has_calls = self._step_has_results = False
        return chunk("finish-step") if was_in_step else b""

    def _leave_step(self) -> bytes:
        """What the model says when it has results belongs to its next turn, also where nobody told of its beginning."""
        return self._end_step() if self._step_has_results else b""

    # Text

    def _text(self, event: TextDelta) -> bytes:
        return self._piece("text", event.text)

    def _refusal(self, event: RefusalDelta) -> bytes:
        return self._piece("refusal", event.text)

    def _reasoning(self, event: ReasoningDelta) -> bytes:
        return self._piece(event.kind, event.text)

    def _piece(self, kind: str, text: str) -> bytes:
        said = b""
        if self._block != kind:
            said = self._end_block() + self._leave_step() + self._begin_part() + self._begin_block(kind)
        return said + self._delta_head + json_of(text) + DELTA_END

    def _begin_block(self, kind: str) -> bytes:
        self._begun += 1
        word = _PART_OF[kind]
        self._block, self._block_id = kind, f"{word}-{self._begun}"
        self._delta_head = delta_head(f"{word}-delta", id=self._block_id, field="delta")
        marks = {"providerMetadata": own_metadata(refusal=True)} if kind == "refusal" else {}
        return chunk(f"{word}-start", id=self._block_id, **marks)

    def _end_block(self) -> bytes:
        kind, self._block = self._block, ""
        return chunk(f"{_PART_OF[kind]}-end", id=self._block_id) if kind else b""

    # What the provider runs itself

    def _provider_tool(self, tool: ProviderTool) -> bytes:
        said = self._end_block()
        wire_id = self._provider_calls.get(tool.call_id)
        shown: dict[str, Any] = {"providerExecuted": True, **self._dynamic}
        if wire_id is None:
            wire_id = self._provider_calls[tool.call_id] = self._chunks.free_id(tool.call_id or tool.name)
            given = {"toolName": tool.name or "unnamed", "input": self._values.of(tool.input)}
            said += self._begin_part() + chunk("tool-input-available", toolCallId=wire_id, **given, **shown)
        if tool.output is not None:
            del self._provider_calls[tool.call_id]
            gave = {"output": self._values.of(tool.output)}
            said += chunk("tool-output-available", toolCallId=wire_id, **gave, **shown)
        return said


_CHUNKS: dict[type, Callable[..., bytes]] = {
    TextDelta: AiSdkEncoder._text,
    RefusalDelta: AiSdkEncoder._refusal,
    ReasoningDelta: AiSdkEncoder._reasoning,
    TurnStarted: AiSdkEncoder._turn_started,
    TurnEnded: AiSdkEncoder._turn_ended,
    TurnRestarted: AiSdkEncoder._turn_restarted,
    ProviderTool: AiSdkEncoder._provider_tool,
}
_PART_OF = {"text": "text", "refusal": "text", "trace": "reasoning", "summary": "reasoning"}
_REASON_OF_END = {
    "answer": "stop",
    "pending": "tool-calls",
    "length": "length",
    "content_filter": "content-filter",
    "refusal": "content-filter",
}
_REASON_OF_STOP = {
    "stop": "stop",
    "tool_calls": "tool-calls",
    "length": "length",
    "content_filter": "content-filter",
    "refusal": "content-filter",
    "error": "error",
    "pause": "other",
    "cancelled": "other",
    "unknown": "other",
}
