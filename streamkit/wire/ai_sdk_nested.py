"""Inner runs in an AI SDK UI message stream: what a sub-agent says and does while the call around it runs.

It is no part of the answer, so it is no part of the message as such: each text and each call of an inner run is a data
part, which the client keeps in the message, and which goes into no history. Its `data` is what a part of the outer run
would be, and `path`: the ids of the calls around it, outermost first.

    {"type": "data-nested", "id": …, "data": {"path": […], "type": "text", "text": …, "state": "streaming" | "done"}}
    {"type": "data-nested", "id": …, "data": {"path": […], "type": "tool-NAME", "toolCallId": …, "state": …, …}}
    {"type": "data-nested-delta", "transient": true, "data": {"id": …, "path": […], "delta": …}}

A data part is replaced whole. So the pieces of a text, or of a call that is written, come as transient parts, for who
listens to them (`onData`), and the whole when it is there.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..items import ProviderTool
from ..tool_events import ApprovalRequested, Failure, Intermediate, Output, ToolStarted, Value
from ..turns import (
    ReasoningDelta,
    RefusalDelta,
    TextDelta,
    ToolInputAbandoned,
    ToolInputAvailable,
    ToolInputDelta,
    ToolInputStart,
    TurnEnded,
    TurnRestarted,
    TurnStarted,
)
from .ai_sdk_calls import WHY_DROPPED
from .ai_sdk_chunks import chunk, tool_part
from .encoding import Values
from .open_calls import OpenCall, Phase, Seen

Path = tuple[str, ...]


class NestedParts:
    """The parts of all inner runs. values: with a small limit, since a part is sent anew for each change of it.

    dynamic: as for the calls of the outer run.
    """

    def __init__(self, values: Values, *, dynamic: bool) -> None:
        self._values = values
        self._dynamic = dynamic
        self._texts: dict[Path, _Text] = {}  # what is open, in each run one at most
        self._calls: dict[str, dict[str, Any]] = {}  # the open ones, as they were last told, by the ids of their parts
        self._shown: dict[Path, list[str]] = {}  # the ids of the texts of the turns under way
        self._begun = 0

    def of(self, seen: Seen) -> bytes:
        event, path, call, before = seen
        if call is None:
            handle = _OF_A_TURN.get(type(event))
            return b"" if handle is None else handle(self, event, path)
        if type(event) is ToolInputDelta:
            return _delta(_part_id(call), path, event.delta)
        change = _CHANGES.get(type(event))
        if change is None or (type(event) is ToolInputAbandoned and before is Phase.UNTOLD):
            return b""
        said = self._end_text(path) if type(event) is ToolInputStart else b""
        return said + self._tell(call, **change(self._values, event))

    def drop(self, call: OpenCall, why: str) -> bytes:
        """Of a call that nobody will run any more."""
        reason = "incomplete" if call.phase is Phase.WRITING else "discarded"
        return self._tell(call, state="output-error", errorText=f"{reason}: {why}")

    def leave(self, around: str, why: str) -> bytes:
        """What is still open inside a call that has ended."""
        said = b"".join([self._end_text(path) for path in list(self._texts) if around in path])
        for part_id, call in list(self._calls.items()):
            if around in call["path"]:
                del self._calls[part_id]
                said += _part(part_id, call | {"state": "output-error", "errorText": why})
        return said

    def end(self) -> bytes:
        return b"".join([self._end_text(path) for path in list(self._texts)])

    # Text

    def _text(self, event: TextDelta | RefusalDelta, path: Path) -> bytes:
        return self._piece("text", event.text, path)

    def _reasoning(self, event: ReasoningDelta, path: Path) -> bytes:
        return self._piece("reasoning", event.text, path)

    def _turn_started(self, event: TurnStarted, path: Path) -> bytes:
        self._shown[path] = []
        return self._end_text(path)

    def _turn_ended(self, event: TurnEnded, path: Path) -> bytes:
        return self._end_text(path)

    def _turn_restarted(self, event: TurnRestarted, path: Path) -> bytes:
        empty = {"path": path, "type": "text", "text": "", "state": "done"}
        return self._end_text(path) + b"".join([_part(part_id, empty) for part_id in self._shown.pop(path, [])])

    def _piece(self, kind: str, text: str, path: Path) -> bytes:
        said = b""
        block = self._texts.get(path)
        if block is None or block.kind != kind:
            said = self._end_text(path)
            self._begun += 1
            block = self._texts[path] = _Text("/".join((*path, f"{kind}-{self._begun}")), kind)
            self._shown.setdefault(path, []).append(block.part_id)
            said += _part(block.part_id, {"path": path, "type": kind, "text": "", "state": "streaming"})
        block.pieces.append(text)
        return said + _delta(block.part_id, path, text)

    def _end_text(self, path: Path) -> bytes:
        block = self._texts.pop(path, None)
        if block is None:
            return b""
        text = self._values.text("".join(block.pieces))
        return _part(block.part_id, {"path": path, "type": block.kind, "text": text, "state": "done"})

    # Calls

    def _tell(self, call: OpenCall, **change: Any) -> bytes:
        part_id = _part_id(call)
        told = self._calls.get(part_id) or {
            "path": call.path,
            **tool_part(call.tool or "unnamed", dynamic=self._dynamic),
            "toolCallId": call.id,
        }
        told = self._calls[part_id] = told | change
        if change["state"] in ("output-error", "output-denied") or change.get("preliminary") is False:
            del self._calls[part_id]
        return _part(part_id, told)

    def _provider_tool(self, tool: ProviderTool, path: Path) -> bytes:
        said = self._end_text(path)
        part_id = "/".join((*path, tool.call_id or tool.name))
        told = {"path": path, **tool_part(tool.name, dynamic=self._dynamic), "toolCallId": tool.call_id}
        has_output = tool.output is not None
        state = {"state": "output-available" if has_output else "input-available", "providerExecuted": True}
        shown = {"input": self._values.of(tool.input), "output": self._values.of(tool.output)}
        return said + _part(part_id, told | state | shown)


class _Text:
    __slots__ = ("kind", "part_id", "pieces")

    def __init__(self, part_id: str, kind: str) -> None:
        self.part_id = part_id
        self.kind = kind
        self.pieces: list[str] = []


def _part_id(call: OpenCall) -> str:
    return "/".join((*call.path, call.id))


def _part(part_id: str, data: dict[str, Any]) -> bytes:
    return chunk("data-nested", id=part_id, data=data)


def _delta(part_id: str, path: Path, delta: str) -> bytes:
    return chunk("data-nested-delta", transient=True, data={"id": part_id, "path": path, "delta": delta})


def _dropped(_: Values, event: ToolInputAbandoned) -> dict[str, Any]:
    return {"state": "output-error", "errorText": f"{event.reason}: {event.detail or WHY_DROPPED[event.reason]}"}


def _asked(values: Values, event: ApprovalRequested) -> dict[str, Any]:
    given = {"input": values.of(event.arguments), "approval": {"id": event.execution_id}}
    return {"state": "approval-requested", **given}


def _ended(values: Values, event: Output) -> dict[str, Any]:
    match event.result:
        case Failure(kind=kind, message=message):
            state = "output-denied" if kind == "denied" else "output-error"
            return {"state": state, "errorText": values.text(message)}
        case Value(value=value):
            return {"state": "output-available", "output": values.of(value), "preliminary": False}
    return {"state": "input-available"}


_OF_A_TURN: dict[type, Callable[..., bytes]] = {
    TextDelta: NestedParts._text,
    RefusalDelta: NestedParts._text,
    ReasoningDelta: NestedParts._reasoning,
    TurnStarted: NestedParts._turn_started,
    TurnEnded: NestedParts._turn_ended,
    TurnRestarted: NestedParts._turn_restarted,
    ProviderTool: NestedParts._provider_tool,
}
_CHANGES: dict[type, Callable[..., dict[str, Any]]] = {
    ToolInputStart: lambda values, event: {"state": "input-streaming"},
    ToolInputAvailable: lambda values, event: {"state": "input-available", "input": values.of_json(event.arguments)},
    ToolInputAbandoned: _dropped,
    ApprovalRequested: _asked,
    ToolStarted: lambda values, event: {"state": "input-available", "input": values.of(event.arguments)},
    Intermediate: lambda values, event: {
        "state": "output-available",
        "output": values.of(event.data),
        "preliminary": True,
    },
    Output: _ended,
}
"""What is new of a call."""
