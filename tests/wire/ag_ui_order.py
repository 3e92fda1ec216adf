"""The rules of `@ag-ui/client` for the order of events, and what a front end has at the end: a small client of AG-UI.

The real one is asked in `tests/interop/test_ag_ui.py`; this one is there for many streams. Each event is validated with
the models of `ag-ui-protocol`.
"""

import json
from dataclasses import dataclass, field
from typing import Any

from ag_ui.core import Event
from pydantic import TypeAdapter

MODELS: TypeAdapter[Any] = TypeAdapter(Event)

OPENS = {
    "TEXT_MESSAGE_START": ("text", "messageId"),
    "REASONING_START": ("span", "messageId"),
    "REASONING_MESSAGE_START": ("reasoning", "messageId"),
    "TOOL_CALL_START": ("call", "toolCallId"),
    "STEP_STARTED": ("step", "stepName"),
    "SUBAGENT_STARTED": ("subagent", "subagentRunId"),
}
GOES_ON = {
    "TEXT_MESSAGE_CONTENT": ("text", "messageId"),
    "REASONING_MESSAGE_CONTENT": ("reasoning", "messageId"),
    "TOOL_CALL_ARGS": ("call", "toolCallId"),
}
CLOSES = {
    "TEXT_MESSAGE_END": ("text", "messageId"),
    "REASONING_END": ("span", "messageId"),
    "REASONING_MESSAGE_END": ("reasoning", "messageId"),
    "TOOL_CALL_END": ("call", "toolCallId"),
    "STEP_FINISHED": ("step", "stepName"),
    "SUBAGENT_FINISHED": ("subagent", "subagentRunId"),
    "SUBAGENT_ERROR": ("subagent", "subagentRunId"),
}
TERMINAL = ("RUN_FINISHED", "RUN_ERROR")


def read_events(body: bytes) -> list[dict[str, Any]]:
    """The events of a body: each is one line of data in valid UTF-8, followed by a blank line."""
    frames = body.decode("utf-8").split("\n\n")
    assert frames.pop() == ""
    for frame in frames:
        assert frame.startswith("data: ")
        assert "\n" not in frame
    return [json.loads(frame.removeprefix("data: ")) for frame in frames]


@dataclass
class Client:
    """A front end. texts, arguments: by message and by call. results: by call, each at most once."""

    texts: dict[str, str] = field(default_factory=dict)
    reasoning: dict[str, str] = field(default_factory=dict)
    arguments: dict[str, str] = field(default_factory=dict)
    names: dict[str, str] = field(default_factory=dict)
    results: dict[str, dict[str, Any]] = field(default_factory=dict)
    activities: dict[str, Any] = field(default_factory=dict)
    customs: list[dict[str, Any]] = field(default_factory=list)
    ended: set[str] = field(default_factory=set)
    kept: dict[str, Any] = field(default_factory=dict)
    last: dict[str, Any] = field(default_factory=dict)
    _open: dict[tuple[str, str, str | None], str | None] = field(default_factory=dict)
    _owners: dict[tuple[str, str], str | None] = field(default_factory=dict)
    _subagents: set[str] = field(default_factory=set)

    def read(self, body: bytes) -> "Client":
        events = read_events(body)
        assert events[0]["type"] == "RUN_STARTED"
        for event in events[1:]:
            assert not self.last, f"{event} after {self.last}"
            MODELS.validate_python(event)
            self._take(event)
        return self

    def _take(self, event: dict[str, Any]) -> None:
        kind, owner = event["type"], event.get("subagentRunId")
        assert owner is None or owner in self._subagents or kind == "SUBAGENT_STARTED"
        if kind in OPENS:
            key = self._key(*OPENS[kind], event)
            assert key not in self._open, f"{key} is open"
            self._open[key] = owner
            known = self._owners.setdefault(key[:2], owner)
            assert known == owner or key[0] == "step"
        elif kind in GOES_ON or kind in CLOSES:
            key = self._key(*(GOES_ON.get(kind) or CLOSES[kind]), event)
            assert key in self._open, f"{event}: it is not open"
            assert self._open[key] == owner
            if kind in CLOSES:
                del self._open[key]
        self._build(kind, event)
        if kind in TERMINAL:
            assert not self._open
            self.last = event

    def _key(self, what: str, name: str, event: dict[str, Any]) -> tuple[str, str, str | None]:
        return what, event[name], event.get("subagentRunId") if what == "step" else None

    def _build(self, kind: str, event: dict[str, Any]) -> None:
        match kind:
            case "SUBAGENT_STARTED":
                assert event["subagentRunId"] not in self._subagents, "it comes again"
                assert event.get("parentSubagentRunId") in {None, *self._subagents}
                self._subagents.add(event["subagentRunId"])
            case "CUSTOM":
                self.customs.append(event)
            case "REASONING_ENCRYPTED_VALUE":
                self.kept = event
            case "ACTIVITY_SNAPSHOT":
                for kept in (self.texts, self.reasoning):
                    kept.pop(event["messageId"], None)
                self.activities[event["messageId"]] = event["content"]
            case "ACTIVITY_DELTA":
                assert event["patch"][0]["path"] == "/data"
                self.activities[event["messageId"]]["data"] = event["patch"][0]["value"]
            case _ if kind.startswith("TOOL_CALL"):
                self._build_call(kind, event)
            case _:
                self._build_message(kind, event)

    def _build_message(self, kind: str, event: dict[str, Any]) -> None:
        match kind:
            case "TEXT_MESSAGE_START":
                self.texts.setdefault(event["messageId"], "")
            case "TEXT_MESSAGE_CONTENT":
                self.texts[event["messageId"]] += event["delta"]
            case "REASONING_MESSAGE_START":
                self.reasoning[event["messageId"]] = ""
            case "REASONING_MESSAGE_CONTENT":
                self.reasoning[event["messageId"]] += event["delta"]

    def _build_call(self, kind: str, event: dict[str, Any]) -> None:
        match kind:
            case "TOOL_CALL_START":
                assert event["toolCallId"] not in self.arguments, "the id was used before"
                self.arguments[event["toolCallId"]] = ""
                self.names[event["toolCallId"]] = event["toolCallName"]
            case "TOOL_CALL_ARGS":
                self.arguments[event["toolCallId"]] += event["delta"]
            case "TOOL_CALL_END":
                self.ended.add(event["toolCallId"])
            case "TOOL_CALL_RESULT":
                assert event["toolCallId"] not in self.results, "a second result"
                self.results[event["toolCallId"]] = event
