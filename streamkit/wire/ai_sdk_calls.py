"""Calls in an AI SDK UI message stream: parts of the message, whose state changes as they are written, asked about and
run.

A chunk about a call that is no part of the message breaks the client. So what the client was not told of is announced
before anything else is said of it: it was written in a response that this client has not seen.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from ..tool_events import ApprovalRequested, Failure, Intermediate, Output, ToolInputField, ToolStarted, Value
from ..turns import ToolInputAbandoned, ToolInputAvailable, ToolInputDelta, ToolInputStart
from .ai_sdk_chunks import DELTA_END, chunk, delta_head, own_metadata
from .ai_sdk_seals import Asked, as_json
from .encoding import Values, json_of
from .open_calls import OpenCall, Phase, Seen

WHY_DROPPED = {
    "incomplete": "the call was cut off before it was whole",
    "discarded": "the call was not kept",
    "malformed": "the arguments are not one JSON object",
    "retried": "the answer was begun anew",
}
CUT = b'{"truncated":true,'
"""So `Values` begins what stands for a value that is too long."""


class WrittenCall:
    """A call that the model writes. head: of the chunk for its next piece."""

    __slots__ = ("head", "pieces", "wire_id")

    def __init__(self, wire_id: str) -> None:
        self.wire_id = wire_id
        self.head = delta_head("tool-input-delta", toolCallId=wire_id, field="inputTextDelta")
        self.pieces: list[str] = []


class CallChunks:
    """The chunks of the calls of the outer run.

    known_calls: the ids of those that the client has in its messages; those of this run get others. begin: gives what
    has to be sent before a new part. seal: signs a question.
    written: by the id that the run knows, the calls that are being written. wire_ids: by the same, those of all.
    """

    def __init__(
        self,
        values: Values,
        begin: Callable[[], bytes],
        *,
        known_calls: Iterable[str],
        dynamic: bool,
        seal: Callable[[Asked], str] | None,
    ) -> None:
        self.written: dict[str, WrittenCall] = {}
        self.wire_ids: dict[str, str] = {}
        self.hidden: set[str] = set()
        self._values = values
        self._begin = begin
        self._known = frozenset(known_calls)
        self._taken = set(self._known)
        self._dynamic: dict[str, Any] = {"dynamic": True} if dynamic else {}
        self._seal = seal
        self._undecided: dict[str, str] = {}  # the arguments of calls that may be asked about, by the id on the wire
        self._asked: dict[str, str] = {}  # the ids of the questions, by the same
        self._waiting: set[str] = set()  # for a verdict, or for the answer of the client

    @property
    def are_waiting(self) -> bool:
        return bool(self._waiting)

    def free_id(self, wanted: str) -> str:
        """An id that no call in the messages of the client has."""
        free, number = wanted, 1
        while free in self._taken:
            number += 1
            free = f"{wanted}~{number}"
        self._taken.add(free)
        return free

    def of(self, seen: Seen, call: OpenCall) -> bytes:
        return _CHUNKS[type(seen.event)](self, seen.event, call, seen.before)

    def drop(self, call: OpenCall, why: str) -> bytes:
        """Of a call that nobody will run any more."""
        reason = "incomplete" if call.phase is Phase.WRITING else "discarded"
        return self._dropped(call, call.phase, f"{reason}: {why}")

    # While the model writes

    def _started_input(self, event: ToolInputStart, call: OpenCall, _: Phase) -> bytes:
        call.id = self.wire_ids[event.call_id] = self.free_id(call.id)
        self.written[event.call_id] = WrittenCall(call.id)
        return self._begin() + self._input("tool-input-start", call)

    def _delta(self, event: ToolInputDelta, call: OpenCall, _: Phase) -> bytes:
        written = self.written.get(event.call_id)
        if written is None:
            return b""
        written.pieces.append(event.delta)
        return written.head + json_of(event.delta) + DELTA_END

    def _field(self, event: ToolInputField, call: OpenCall, _: Phase) -> bytes:
        """The client parses what is half written by itself."""
        return b""

    def _available(self, event: ToolInputAvailable, call: OpenCall, _: Phase) -> bytes:
        self._pieces_of(call)
        self._undecided[call.id] = event.arguments
        shown = self._values.of_json(event.arguments)
        if call.id in self.hidden or bytes(shown).startswith(CUT):
            # What comes back is not what the model wrote, so it must not run.
            return self._input("tool-input-available", call, input=shown, providerMetadata=own_metadata(partial=True))
        return self._input("tool-input-available", call, input=shown)

    def _abandoned(self, event: ToolInputAbandoned, call: OpenCall, before: Phase) -> bytes:
        return self._dropped(call, before, f"{event.reason}: {event.detail or WHY_DROPPED[event.reason]}")

    def _dropped(self, call: OpenCall, before: Phase, why: str) -> bytes:
        pieces = self._pieces_of(call)
        self._undecided.pop(call.id, None)
        if before is Phase.UNTOLD:
            return b""  # nobody has heard of it, so nobody misses it
        if before is not Phase.WRITING:
            return self._output("tool-output-error", call, errorText=why)
        shown = self._values.of("".join(pieces) if pieces else None)
        return self._input("tool-input-error", call, input=shown, errorText=why)

    def _pieces_of(self, call: OpenCall) -> list[str]:
        """Of a call that is written no more."""
        for call_id, written in self.written.items():
            if written.wire_id == call.id:
                del self.written[call_id]
                return written.pieces
        return []

    # Asking

    def _asks(self, event: ApprovalRequested, call: OpenCall, before: Phase) -> bytes:
        written = self._undecided.pop(call.id, None)
        self._waiting.add(call.id)
        if before is Phase.UNTOLD and call.id in self._known:
            return b""  # asked again: the client still has the question, signed
        announced = self._announced(call, before, event.arguments)
        if _wants_value(event.card):
            return announced  # a call that the client answers by itself: whoever it asks, it asks them in its own way
        self._asked[call.id] = event.execution_id
        fields: dict[str, Any] = {} if event.card is None else {"approvalDescriptor": self._values.of(event.card)}
        if self._seal is not None:
            arguments = event.arguments if written is None else as_json(written)
            fields["signature"] = self._seal(Asked(event.execution_id, call.id, call.tool, arguments))
        return announced + chunk("tool-approval-request", approvalId=event.execution_id, toolCallId=call.id, **fields)

    def _decided(self, call: OpenCall, *, approved: bool, **fields: Any) -> bytes:
        """Where the question was asked in this response: what became of it."""
        approval_id = self._asked.pop(call.id, None)
        if approval_id is None:
            return b""
        return chunk("tool-approval-response", approvalId=approval_id, approved=approved, **fields)

    # Running

    def _starts(self, event: ToolStarted, call: OpenCall, before: Phase) -> bytes:
        self._settle(call)
        return self._announced(call, before, event.arguments) + self._decided(call, approved=True)

    def _shows(self, event: Intermediate, call: OpenCall, before: Phase) -> bytes:
        shown = self._output("tool-output-available", call, output=self._values.of(event.data), preliminary=True)
        return self._announced(call, before) + shown

    def _ended(self, event: Output, call: OpenCall, before: Phase) -> bytes:
        self._settle(call)
        announced = self._announced(call, before)
        match event.result:
            case Value() as value:
                return announced + self._decided(call, approved=True) + self._value(value, call)
            case Failure(kind="denied", message=message):
                return announced + self._denied(message, call)
            case Failure(message=message):
                return announced + self._output("tool-output-error", call, errorText=self._values.text(message))
        return announced

    def _value(self, value: Value, call: OpenCall) -> bytes:
        shown = self._values.of(value.value)
        is_text = isinstance(value.value, str)
        same = value.value == value.text if is_text else bytes(shown) == value.text.encode(errors="replace")
        fields: dict[str, Any] = {} if same else {"providerMetadata": own_metadata(text=self._values.text(value.text))}
        return self._output("tool-output-available", call, output=shown, **fields)

    def _denied(self, message: str, call: OpenCall) -> bytes:
        """The client shows the reason of a verdict, so there has to be one, with a question before it."""
        reason = self._values.text(message.removeprefix(f"The call of {call.tool} was denied: "))
        said = b""
        if call.id not in self._known and call.id not in self._asked:
            approval_id = self._asked[call.id] = f"denied-{call.id}"
            said = chunk("tool-approval-request", approvalId=approval_id, toolCallId=call.id, isAutomatic=True)
        said += self._decided(call, approved=False, reason=reason)
        return said + self._output("tool-output-denied", call)

    def _settle(self, call: OpenCall) -> None:
        self._undecided.pop(call.id, None)
        self._waiting.discard(call.id)

    def _announced(self, call: OpenCall, before: Phase, arguments: Any = None) -> bytes:
        if before is not Phase.UNTOLD or call.id in self._known:
            return b""
        return self._begin() + self._input("tool-input-available", call, input=self._values.of(arguments))

    def _input(self, kind: str, call: OpenCall, **fields: Any) -> bytes:
        return chunk(kind, toolCallId=call.id, toolName=call.tool or "unnamed", **self._dynamic, **fields)

    def _output(self, kind: str, call: OpenCall, **fields: Any) -> bytes:
        return chunk(kind, toolCallId=call.id, **fields)


_CHUNKS: dict[type, Callable[..., bytes]] = {
    ToolInputStart: CallChunks._started_input,
    ToolInputDelta: CallChunks._delta,
    ToolInputField: CallChunks._field,
    ToolInputAvailable: CallChunks._available,
    ToolInputAbandoned: CallChunks._abandoned,
    ApprovalRequested: CallChunks._asks,
    ToolStarted: CallChunks._starts,
    Intermediate: CallChunks._shows,
    Output: CallChunks._ended,
}


def _wants_value(card: Any) -> bool:
    """Also of a card that was written down and read again."""
    return (card.get("wantsValue") if isinstance(card, dict) else getattr(card, "wants_value", False)) is True
