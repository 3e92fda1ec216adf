"""What one run has open on the wire of AG-UI: its turn, its text, its reasoning. Each sub-agent has a scope of its own.

Ids of messages: those of a turn begin with its id. The first text of a turn and all its calls are one message, whose id
is that of the turn: so a client that sends the messages back tells which turn a call belongs to.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from ..items import ProviderTool, UnknownItem
from ..tool_events import RunEvent
from ..turns import ReasoningDelta, RefusalDelta, TextDelta, Turn, TurnEnded, TurnRestarted, TurnStarted
from .encoding import Values, frame, json_of

Payload = Mapping[str, Any]


def sse(kind: str, tag: Payload, /, **fields: Any) -> bytes:
    """An event of AG-UI as a frame. tag: which sub-agent it belongs to."""
    return frame({"type": kind, **fields, **tag})


def ours(**fields: Any) -> dict[str, Any]:
    """What AG-UI has no field for; it stays with the message or the call that the event makes."""
    return {"metadata": {"streamkit": fields}}


class MessageIds:
    """Ids that are unique in one response. take(wanted) -> that id, or one that begins with it."""

    def __init__(self) -> None:
        self._taken: dict[str, int] = {}

    def take(self, wanted: str) -> str:
        number = self._taken[wanted] = self._taken.get(wanted, 0) + 1
        return wanted if number == 1 else f"{wanted}~{number}"


class Scope:
    """One run: the outer one, or that of a sub-agent, which is named by the call that it runs in.

    Each method gives the frames to send. path: the calls around it. tag: for events that are made elsewhere.
    """

    def __init__(self, ids: MessageIds, values: Values, fallback_id: str, path: tuple[str, ...] = ()) -> None:
        self.path = path
        self.tag: Payload = {"subagentRunId": path[-1]} if path else {}
        self._ids = ids
        self._values = values
        self._turn_id = fallback_id  # where nobody says that a turn begins
        self._turns = 0
        self._step: str | None = None
        self._main: str | None = None  # the message with the calls of the turn
        self._has_text = False  # the main message
        self._shown: list[str] = []
        self._text_id: str | None = None
        self._text_head = b""
        self._is_refusal = False
        self._reasoning: tuple[str, str] | None = None
        self._activities: dict[str, str] = {}  # by the id of what the provider ran itself

    def of(self, event: RunEvent) -> bytes:
        """Of an event of the turn that is about no call."""
        return _FRAMES[type(event)](self, event)

    # Turns

    def begin_turn(self, turn_id: str, model: str) -> bytes:
        closed = self.finish()
        self._turn_id, self._main, self._has_text, self._shown = turn_id, None, False, []
        self._activities = {}
        self._turns += 1
        self._step = f"turn {self._turns}"
        return closed + sse("STEP_STARTED", self.tag, stepName=self._step, **ours(turnId=turn_id, model=model))

    def end_turn(self, turn: Turn) -> bytes:
        ended = self.finish(stopReason=turn.stop_reason, usage=turn.usage)
        self._shown = []  # nothing of it is taken back any more
        return ended

    def restart(self, reason: str) -> bytes:
        """What the turn has shown is taken back.

        AG-UI cannot take a message away. One that is replaced by an activity is no part of the conversation any more:
        its calls are gone with it, and a client does not send it back.
        """
        taken_back = [
            sse(
                "ACTIVITY_SNAPSHOT",
                self.tag,
                messageId=message_id,
                activityType="streamkit.retracted",
                content={"reason": reason},
                replace=True,
            )
            for message_id in self._shown
        ]
        closed = self.close()
        self._main, self._has_text, self._shown = None, False, []
        return closed + b"".join(taken_back)

    def finish(self, **about: Any) -> bytes:
        """The turn is over. about: what is known of it."""
        closed = self.close()
        if self._step is None:
            return closed
        step, self._step = self._step, None
        return closed + sse("STEP_FINISHED", self.tag, stepName=step, **(ours(**about) if about else {}))

    # What the model says

    def text(self, delta: str, *, is_refusal: bool = False) -> bytes:
        if not delta:
            return b""
        begun = b""
        if self._text_id is None or self._is_refusal is not is_refusal:
            begun = self.close() + self._begin_text(is_refusal)
        return begun + self._text_head + json_of(delta) + b"}\n\n"

    def _begin_text(self, is_refusal: bool) -> bytes:
        """The first text of a turn belongs to the message that has its calls, others are messages of their own."""
        if is_refusal or self._has_text:
            message_id = self._take_id()
        else:
            message_id, self._has_text = self.main_message(), True
        self._text_id, self._is_refusal = message_id, is_refusal
        self._text_head = _open_ended("TEXT_MESSAGE_CONTENT", message_id, self.tag)
        about = ours(refusal=True) if is_refusal else {}
        return sse("TEXT_MESSAGE_START", self.tag, messageId=message_id, role="assistant", **about)

    def reasoning(self, delta: str, kind: str) -> bytes:
        if not delta:
            return b""
        begun = b""
        if self._reasoning is None or self._reasoning[1] != kind:
            begun = self.close()
            message_id = self._take_id()
            self._reasoning = (message_id, kind)
            begun += sse("REASONING_START", self.tag, messageId=message_id)
            begun += sse("REASONING_MESSAGE_START", self.tag, messageId=message_id, role="reasoning", **ours(kind=kind))
        return begun + sse("REASONING_MESSAGE_CONTENT", self.tag, messageId=self._reasoning[0], delta=delta)

    def provider_tool(self, event: ProviderTool) -> bytes:
        """Told twice it is one activity, with the input first and then with the output."""
        content = {
            "toolCallId": event.call_id,
            "toolName": event.name,
            "kind": event.kind,
            "input": self._values.of(event.input),
            "output": self._values.of(event.output),
        }
        about = {"messageId": self._activity_of(event.call_id), "activityType": "streamkit.provider-tool"}
        return self.close() + sse("ACTIVITY_SNAPSHOT", self.tag, **about, content=content, replace=True)

    def unknown(self, event: UnknownItem) -> bytes:
        source = {} if event.dialect is None else {"source": event.dialect}
        return self.close() + sse("RAW", self.tag, event=self._values.of(event.item), **source)

    def close(self) -> bytes:
        """End the text or the reasoning that is open."""
        closed = b""
        if self._text_id is not None:
            closed = sse("TEXT_MESSAGE_END", self.tag, messageId=self._text_id)
            self._text_id = None
        if self._reasoning is not None:
            message_id = self._reasoning[0]
            closed += sse("REASONING_MESSAGE_END", self.tag, messageId=message_id)
            closed += sse("REASONING_END", self.tag, messageId=message_id)
            self._reasoning = None
        return closed

    # Messages

    def main_message(self) -> str:
        """The message that has the calls of the turn."""
        if self._main is None:
            self._main = self._take_id()
        return self._main

    @property
    def told_message(self) -> str | None:
        """The same, where the client knows it."""
        return self._main

    def note(self, message_id: str) -> None:
        """A message of the turn was made elsewhere."""
        self._shown.append(message_id)

    def _activity_of(self, call_id: str) -> str:
        """The activity that shows what the provider ran itself in this turn."""
        known = self._activities.get(call_id)
        if known is None:
            known = self._activities[call_id] = self._take_id()
        return known

    def _take_id(self) -> str:
        message_id = self._ids.take(self._turn_id)
        self._shown.append(message_id)
        return message_id


def _open_ended(kind: str, message_id: str, tag: Payload) -> bytes:
    """A frame up to its delta."""
    whole = sse(kind, {}, messageId=message_id, **tag)
    return whole.removesuffix(b"}\n\n") + b',"delta":'


_FRAMES: dict[type, Callable[[Scope, Any], bytes]] = {
    TurnStarted: lambda scope, event: scope.begin_turn(event.turn_id, event.model),
    TurnEnded: lambda scope, event: scope.end_turn(event.turn),
    TurnRestarted: lambda scope, event: scope.restart(event.reason),
    TextDelta: lambda scope, event: scope.text(event.text),
    RefusalDelta: lambda scope, event: scope.text(event.text, is_refusal=True),
    ReasoningDelta: lambda scope, event: scope.reasoning(event.text, event.kind),
    ProviderTool: Scope.provider_tool,
    UnknownItem: Scope.unknown,
}
