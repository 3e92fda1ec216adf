"""A run as AG-UI 1.0 tells it: for front ends that speak this protocol, such as those on `@ag-ui/client`.

    turn                  STEP_STARTED … STEP_FINISHED
    text, reasoning       TEXT_MESSAGE_*, REASONING_*; a refusal is text whose metadata says so
    call, its result      TOOL_CALL_START, ARGS, END; TOOL_CALL_RESULT, whose metadata says what failed or was dropped
    what a call shows     ACTIVITY_SNAPSHOT, then ACTIVITY_DELTA: an activity `streamkit.progress` that holds the last
    run in a call         SUBAGENT_STARTED … SUBAGENT_FINISHED or _ERROR, and `subagentRunId` on all between
    question, start       CUSTOM `streamkit.approval-request`, `streamkit.tool-start`
    provider's own        ACTIVITY_SNAPSHOT `streamkit.provider-tool`; RAW for what nobody knows
    end                   RUN_FINISHED, whose outcome is success, with the calls that the client has to answer;
                          interrupt, with those that wait for a verdict; or cancelled. RUN_ERROR where it failed

Pieces of several calls may be mixed: each lies between START and END of its own. Source: the packages
`ag-ui-protocol` and `@ag-ui/client` 1.0.0, and the specification 1.0.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from ..conversation import Conversation
from ..errors import ModelError, RunStopped
from ..items import ToolCall
from ..redaction import Redact, Redaction
from ..tool_events import (
    ApprovalRequested,
    Failure,
    Output,
    RunEvent,
    ToolInputField,
    ToolStarted,
)
from ..turns import (
    TextDelta,
    ToolInputAbandoned,
    ToolInputAvailable,
    ToolInputDelta,
    ToolInputStart,
    Turn,
    TurnEnded,
)
from .ag_ui_calls import CallFrames
from .ag_ui_ends import Asked, UsageByModel, interrupt
from .ag_ui_runs import Runs
from .ag_ui_scopes import Scope, ours, sse
from .encoding import EVENT_STREAM, STREAM_HEADERS, VALUE_LIMIT_BYTES, Values, json_of, told
from .kept_turns import kept_turn
from .open_calls import OpenCall, OpenCalls, Phase, Seen
from .seals import Seal

PROTOCOL_VERSION = "1.0"


class AgUiEncoder:
    """The encoder of one run; see `encoding.Encoder`.

    run_id, thread_id: as the client named them. client_tools: the names of the tools that the client answers.
    conversation: that the run goes on with: its calls are known to the client, so no new one gets an id of theirs, and
    those that wait are not told of again. seal: makes the ids of interrupts, so that a client answers only what it was
    asked, and closes what the client keeps for a provider.
    """

    media_type = EVENT_STREAM
    headers = STREAM_HEADERS

    def __init__(
        self,
        *,
        run_id: str,
        thread_id: str | None = None,
        redact: Redact | None = None,
        value_limit_bytes: int = VALUE_LIMIT_BYTES,
        client_tools: Collection[str] = (),
        conversation: Conversation | None = None,
        seal: Seal | None = None,
    ) -> None:
        self._run = {"threadId": run_id if thread_id is None else thread_id, "runId": run_id}
        self._redaction = None if redact is None else Redaction(redact)
        self._value_limit_bytes = value_limit_bytes
        self._values = Values(value_limit_bytes)
        self._client_tools = frozenset(client_tools)
        self._seal = seal
        self._calls = OpenCalls()
        self._wire_ids: dict[str, str] = {}  # of the calls of the outer run
        self._frames = CallFrames(self._values, has_deltas=redact is None)
        self._runs = Runs(run_id, self._values, self._calls, self._frames)
        self._outer = self._runs.outer
        self._asked: dict[str, Asked] = {}
        self._usage = UsageByModel()
        self._is_over = False
        if conversation is not None:
            self._recall(conversation)

    def open(self) -> bytes:
        return sse("RUN_STARTED", self._run, protocolVersion=PROTOCOL_VERSION)

    def event(self, event: RunEvent) -> bytes:
        if self._is_over:
            return b""
        if type(event) is TextDelta:
            return self._outer.text(event.text)
        if type(event) is ToolInputDelta and (written := self._frames.heads.get(event.call_id)) is not None:
            written.pieces.append(event.delta)
            return written.head + json_of(event.delta) + b"}\n\n"
        if self._redaction is not None:
            seen_event = self._redaction.event(event)
            if seen_event is None:
                return b""
            event = seen_event
        seen = self._calls.see(event)
        begun, scope = self._runs.scope_of(event, seen.path)
        if isinstance(seen.event, TurnEnded):
            self._usage.add(seen.event.turn)
            begun += b"" if seen.path else self._kept(seen.event.turn)
        if seen.call is None:
            return begun + scope.of(seen.event)
        if not seen.path:
            self._wire_ids[seen.event.call_id] = seen.call.id  # type: ignore[union-attr]  # it is of a call
        return begun + self._of_call(seen, seen.call, scope)

    def end(self, state: object) -> bytes:
        if self._is_over:
            return b""
        waiting: dict[str, ToolCall] = {}
        about: dict[str, Any] = {}
        if isinstance(state, Conversation):
            # What is paused cannot go on from messages, which do not tell where it stood.
            waiting = {key: call for key, call in state.waiting.items() if key not in state.paused}
            about["result"] = {"ended": state.ended, "turns": state.turns}
        named = self._named(waiting)
        answers = [wire_id for wire_id, call in named if call.name in self._client_tools]
        asked = {wire_id: call for wire_id, call in named if call.name not in self._client_tools}
        outcome: dict[str, Any] = {"type": "success"}
        if asked:
            questions = [self._interrupt(wire_id, call) for wire_id, call in asked.items()]
            outcome = {"type": "interrupt", "interrupts": questions}
        elif answers:
            outcome["pendingToolCallIds"] = answers
        closed = self._runs.close_all(kept={*asked, *answers}, suspended=bool(asked))
        return closed + self._finished(outcome=outcome, **about)

    def error(self, error: BaseException) -> bytes:
        if self._is_over:
            return b""
        kind, message = told(error)
        closed = self._runs.close_all(failure=(kind, message))
        if isinstance(error, RunStopped):
            return closed + self._finished(outcome={"type": "cancelled"}, **ours(reason=message))
        if isinstance(error, ModelError) and error.turn is not None:
            self._usage.add(error.turn)
        self._is_over = True
        return closed + sse("RUN_ERROR", self._usage.told(), message=message, code=kind)

    # Of the calls

    def _of_call(self, seen: Seen, call: OpenCall, scope: Scope) -> bytes:
        event, frames = seen.event, self._frames
        if seen.before is Phase.UNTOLD and not isinstance(event, ToolInputStart):
            return self._of_untold_call(event, call, scope)
        match event:
            case ToolInputDelta(delta=delta):
                return frames.delta(delta, call)
            case ApprovalRequested():
                return self._ask(event, call, scope)
            case Output(result=result):
                failure = (result.kind, result.message) if isinstance(result, Failure) else None
                inner = self._runs.close_inner(call.id, failure)
                self._calls.leave(call)
                return inner + frames.result(event, call, scope)
        return frames.of(event, call, scope)

    def _of_untold_call(self, event: RunEvent, call: OpenCall, scope: Scope) -> bytes:
        """A call that begins otherwise than by being written; pieces of one that nobody began say nothing."""
        if isinstance(event, ToolInputDelta | ToolInputField | ToolInputAbandoned):
            return b""
        if isinstance(event, ToolInputAvailable):
            begun = self._frames.start(ToolInputStart(event.call_id, call.tool), call, scope)
        else:
            arguments = event.arguments if isinstance(event, ApprovalRequested | ToolStarted) else {}
            begun = self._frames.announce(call, call.tool, arguments, scope)
        if call.phase is Phase.UNTOLD:
            call.phase = Phase.RUNNING
        return begun + self._of_call(Seen(event, call.path, call, Phase.RUNNING), call, scope)

    def _ask(self, event: ApprovalRequested, call: OpenCall, scope: Scope) -> bytes:
        if event.tool in self._client_tools:
            return b""  # the client sees by the name that the call is its own
        if not call.path:
            self._asked[call.id] = Asked(event.execution_id, self._values.of(event.card))
        return self._frames.asked(event, call, scope)

    def _kept(self, turn: Turn) -> bytes:
        """What the client shall keep of a turn; nothing where something is hidden from it."""
        message_id = self._outer.told_message
        if self._seal is None or self._redaction is not None or message_id is None:
            return b""
        thread_id, limit_bytes = self._run["threadId"], self._value_limit_bytes
        kept = kept_turn(turn.items, self._wire_ids, self._seal, thread_id, limit_bytes=limit_bytes)
        if kept is None:
            return b""
        about = {"subtype": "message", "entityId": message_id, "encryptedValue": kept}
        return self._outer.close() + sse("REASONING_ENCRYPTED_VALUE", about)

    def _recall(self, conversation: Conversation) -> None:
        """Take the ids of calls that the client knows."""
        for item in conversation.history:
            if isinstance(item, ToolCall):
                self._calls.see(ToolInputStart(item.call_id, item.name))
                self._calls.see(ToolInputAbandoned(item.call_id, "discarded"))
        waiting = {call.call_id for call in conversation.waiting.values()}
        for call in conversation.turn.calls if conversation.turn is not None else ():
            self._wire_ids[call.call_id] = call.call_id
            self._calls.see(ToolInputStart(call.call_id, call.name))
            if call.call_id in waiting:
                self._calls.see(ApprovalRequested("", call.call_id, call.name, None))
            else:
                self._calls.see(ToolInputAbandoned(call.call_id, "discarded"))

    # The end

    def _named(self, waiting: dict[str, ToolCall]) -> list[tuple[str, ToolCall]]:
        """Calls with their ids on the wire."""
        return [(self._wire_ids.get(call.call_id, call.call_id), call) for call in waiting.values()]

    def _interrupt(self, wire_id: str, call: ToolCall) -> dict[str, Any]:
        sealed = None if self._seal is None else self._seal.of_call(self._run["threadId"], wire_id, call)
        return interrupt(wire_id, call, self._asked.get(wire_id) or Asked(call.local_id), sealed)

    def _finished(self, **about: Any) -> bytes:
        self._is_over = True
        return sse("RUN_FINISHED", self._run, **about, **self._usage.told())
