"""Calls on the wire of AG-UI: how one is written, what it shows, and what becomes of it.

TOOL_CALL_START, ARGS and END are what the model writes. A result is the text that the model reads: a client sends it
back with the next run. A call that never ran has a result, too, or else the client would take it for one that it has to
answer itself.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec

from ..history import WHY_DROPPED
from ..items import Image
from ..providers.requests import base64_of
from ..tool_events import ApprovalRequested, Failure, Intermediate, Output, RunEvent, ToolStarted, Value
from ..turns import ToolInputAbandoned, ToolInputAvailable, ToolInputStart
from .ag_ui_scopes import Scope, ours, sse
from .encoding import Values, frame, json_of
from .open_calls import OpenCall

WHY_IT_DID_NOT_RUN = {
    **WHY_DROPPED,
    "retried": "This call did not run: its turn began anew.",
    "malformed": "This call did not run: its arguments are not a JSON object.",
}


class CallFrames:
    """The frames of calls. has_deltas: what the model writes may be shown piece by piece.

    Each method gives the frames to send. heads: by the id that the run knows, the calls of the outer run that are being
    written, and how each frame with a piece of theirs begins: the encoder writes those itself.
    """

    def __init__(self, values: Values, *, has_deltas: bool) -> None:
        self.heads: dict[str, _Written] = {}
        self._values = values
        self._has_deltas = has_deltas
        self._written: dict[str, _Written] = {}  # all that are open, by their ids on the wire
        self._progress: set[str] = set()
        self._malformed: dict[str, tuple[OpenCall, Scope]] = {}  # their failure is still to come

    def of(self, event: RunEvent, call: OpenCall, scope: Scope) -> bytes:
        """Of an event of a call; nothing of a field of its arguments, which a client of AG-UI finds itself."""
        make = _FRAMES.get(type(event))
        return b"" if make is None else make(self, event, call, scope)

    # What the model writes

    def start(self, event: ToolInputStart, call: OpenCall, scope: Scope) -> bytes:
        written = self._written[call.id] = _Written(call, scope)
        if not call.path and self._has_deltas:
            self.heads[event.call_id] = written
        return scope.close() + sse(
            "TOOL_CALL_START",
            scope.tag,
            toolCallId=call.id,
            toolCallName=event.tool,
            parentMessageId=scope.main_message(),
        )

    def delta(self, delta: str, call: OpenCall) -> bytes:
        written = self._written.get(call.id)
        return b"" if written is None else written.delta(delta)

    def available(self, event: ToolInputAvailable, call: OpenCall, scope: Scope) -> bytes:
        """Arguments that were not sent piece by piece go out at once; where the pieces joined to something else, the
        call carries what is true."""
        written = self._forget(event.call_id, call)
        if written is None:
            return b""
        sent = "".join(written.pieces)
        if sent == event.arguments:
            return written.end()
        if not sent:
            return written.delta(self._told_arguments(event.arguments)) + written.end()
        return written.end(**ours(arguments=self._told_arguments(event.arguments)))

    def abandoned(self, event: ToolInputAbandoned, call: OpenCall, scope: Scope) -> bytes:
        """The end of what was written, where it had none, and a result: of a malformed call that is still to come."""
        written = self._forget(event.call_id, call)
        ended = b"" if written is None else written.end()
        if event.reason == "malformed":
            self._malformed[call.id] = (call, scope)
            return ended
        return ended + self.dropped(call, scope, event.reason, event.detail)

    def announce(self, call: OpenCall, tool: str, arguments: Any, scope: Scope) -> bytes:
        """A call that nobody saw being written."""
        begun = self.start(ToolInputStart("", tool), call, scope)
        self.heads.pop("", None)
        written = self._written.pop(call.id)
        return begun + written.delta(bytes(self._values.of(arguments)).decode()) + written.end()

    def end_all(self, scope: Scope) -> bytes:
        """The ends of all that is still being written in a run, and the results of what is malformed."""
        ended = [(call_id, written) for call_id, written in self._written.items() if written.scope is scope]
        for call_id, _ in ended:
            del self._written[call_id]
        if not scope.path:
            self.heads.clear()
        lost = [call for call, its_scope in self._malformed.values() if its_scope is scope]
        for call in lost:
            del self._malformed[call.id]
        return b"".join(
            [*(written.end() for _, written in ended), *(self.dropped(call, scope, "malformed") for call in lost)]
        )

    def _forget(self, call_id: str, call: OpenCall) -> _Written | None:
        written = self._written.pop(call.id, None)
        if self.heads.get(call_id) is written:
            self.heads.pop(call_id, None)
        return written

    def _told_arguments(self, arguments: str) -> str:
        return arguments if self._has_deltas else bytes(self._values.of_json(arguments)).decode()

    # What it does

    def asked(self, event: ApprovalRequested, call: OpenCall, scope: Scope) -> bytes:
        value = {
            "executionId": event.execution_id,
            "toolCallId": call.id,
            "toolName": event.tool,
            "args": self._values.of(event.arguments),
            "card": self._values.of(event.card),
        }
        return sse("CUSTOM", scope.tag, name="streamkit.approval-request", value=value)

    def started(self, event: ToolStarted, call: OpenCall, scope: Scope) -> bytes:
        value = {
            "executionId": event.execution_id,
            "toolCallId": call.id,
            "toolName": event.tool,
            "args": self._values.of(event.arguments),
            "attempt": event.attempt,
        }
        return sse("CUSTOM", scope.tag, name="streamkit.tool-start", value=value)

    def progress(self, event: Intermediate, call: OpenCall, scope: Scope) -> bytes:
        """An activity beside the call, which holds what it showed last."""
        shown = self._values.of(event.data)
        about = {"messageId": f"a-{call.id}", "activityType": "streamkit.progress"}
        if call.id in self._progress:
            patch = [{"op": "replace", "path": "/data", "value": shown}]
            return sse("ACTIVITY_DELTA", scope.tag, **about, patch=patch)
        self._progress.add(call.id)
        content = {"toolCallId": call.id, "toolName": event.tool, "data": shown}
        return sse("ACTIVITY_SNAPSHOT", scope.tag, **about, content=content, replace=True)

    # What becomes of it

    def result(self, event: Output, call: OpenCall, scope: Scope) -> bytes:
        self._malformed.pop(call.id, None)
        match event.result:
            case Value(text=text, images=images):
                return self._answer(call, scope, self._content(text, images), seconds=event.seconds)
            case Failure(kind=kind, message=message, partial=partial):
                if partial is not None:
                    message += f" What came before: {bytes(self._values.of(partial)).decode()}"
                return self._answer(call, scope, self._content(message), error=kind, seconds=event.seconds)
            case _:
                return b""  # it is pending

    def dropped(self, call: OpenCall, scope: Scope, reason: str, detail: str = "") -> bytes:
        scope.note(_result_id(call))
        return self._answer(call, scope, WHY_IT_DID_NOT_RUN[reason], dropped=True, reason=reason, detail=detail)

    def _answer(self, call: OpenCall, scope: Scope, content: Any, **about: Any) -> bytes:
        return scope.close() + sse(
            "TOOL_CALL_RESULT",
            scope.tag,
            messageId=_result_id(call),
            toolCallId=call.id,
            role="tool",
            content=content,
            **ours(**about),
        )

    def _content(self, text: str, images: tuple[Image, ...] = ()) -> Any:
        """Text, or parts of it and images. What is too long is told as such, still as text."""
        told: str = msgspec.json.decode(self._values.of(text)) if not images else text
        shown = told if isinstance(told, str) else bytes(self._values.of(text)).decode()
        return [_text_part(shown), *map(self._image_part, images)] if images else shown

    def _image_part(self, image: Image) -> Any:
        if image.url is not None:
            source = {"type": "url", "value": image.url}
        else:
            encoded = base64_of(image)
            if not isinstance(msgspec.json.decode(self._values.of(encoded)), str):
                return _text_part(f"(An image of {len(image.data)} bytes is left out.)")
            source = {"type": "data", "value": encoded, "mimeType": image.media_type}
        return {"type": "image", "source": source}


class _Written:
    """A call that is being written."""

    __slots__ = ("_call_id", "head", "pieces", "scope")

    def __init__(self, call: OpenCall, scope: Scope) -> None:
        self._call_id = call.id
        self.scope = scope
        whole = frame({"type": "TOOL_CALL_ARGS", "toolCallId": call.id, **scope.tag})
        self.head = whole.removesuffix(b"}\n\n") + b',"delta":'
        self.pieces: list[str] = []

    def delta(self, delta: str) -> bytes:
        self.pieces.append(delta)
        return self.head + json_of(delta) + b"}\n\n"

    def end(self, **about: Any) -> bytes:
        return sse("TOOL_CALL_END", self.scope.tag, toolCallId=self._call_id, **about)


_FRAMES: dict[type, Callable[[CallFrames, Any, OpenCall, Scope], bytes]] = {
    ToolInputStart: CallFrames.start,
    ToolInputAvailable: CallFrames.available,
    ToolInputAbandoned: CallFrames.abandoned,
    ToolStarted: CallFrames.started,
    Intermediate: CallFrames.progress,
}


def _result_id(call: OpenCall) -> str:
    return f"r-{call.id}"


def _text_part(text: str) -> dict[str, str]:
    return {"type": "text", "text": text}
