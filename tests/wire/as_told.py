"""The events of a run as a client of the native protocol hears of them.

Calls have the ids that they have on the wire, values are JSON, a turn has nothing that only its provider reads, and
what nobody will run is abandoned when the run ends, or the call around it.
"""

import json
from collections.abc import Iterable
from typing import Any, cast

import msgspec

from streamkit.codec.surrogates import whole
from streamkit.items import Message, ProviderTool, Reasoning, ToolCall, TurnItem, UnknownItem
from streamkit.journal.entry import plain
from streamkit.tool_events import (
    ApprovalRequested,
    Failure,
    Intermediate,
    Output,
    RunEvent,
    ToolStarted,
    Value,
)
from streamkit.turns import ToolInputAbandoned, Turn, TurnEnded
from streamkit.wire.open_calls import OpenCall, OpenCalls, Phase

Path = tuple[str, ...]


def as_told(events: Iterable[RunEvent], why: str, pending: Iterable[str] = ()) -> list[RunEvent]:
    """why: the detail of what is dropped at the end. pending: the calls that wait for a verdict then."""
    return _Telling().all(events, why, tuple(pending))


class _Telling:
    def __init__(self) -> None:
        self.calls = OpenCalls()
        self.ids: dict[tuple[Path, str], str] = {}
        self.tools: dict[str, str] = {}
        self.malformed: set[str] = set()

    def all(self, events: Iterable[RunEvent], why: str, pending: tuple[str, ...]) -> list[RunEvent]:
        told = [each for event in events for each in self.one(event)]
        return told + [self.drop(call, why) for call in self.calls.never_ran(pending)]

    def one(self, event: RunEvent) -> list[RunEvent]:
        seen = self.calls.see(event)
        if seen.call is None:
            return [self.inside(seen.path, self.without_call(seen.event, seen.path))]
        inner = cast(Any, seen.event)
        self.ids[seen.path, inner.call_id] = seen.call.id
        self.tools[seen.call.id] = seen.call.tool
        if isinstance(inner, ToolInputAbandoned) and inner.reason == "malformed":
            self.malformed.add(seen.call.id)
        told = self.inside(seen.path, cast(RunEvent, _json_values(_with_id(inner, seen.call.id))))
        dropped = self.calls.leave(seen.call) if isinstance(inner, Output) else []
        return [*(self.drop(call, "the call around it has ended") for call in dropped), told]

    def inside(self, path: Path, event: RunEvent) -> RunEvent:
        for call_id in reversed(path):
            event = Intermediate(call_id, self.tools[call_id], event=event)
        return event

    def drop(self, call: OpenCall, why: str) -> RunEvent:
        reason = "incomplete" if call.phase is Phase.WRITING else "discarded"
        return self.inside(call.path, ToolInputAbandoned(call.id, cast(Any, reason), why))

    def without_call(self, event: RunEvent, path: Path) -> RunEvent:
        match event:
            case TurnEnded(turn=turn):
                return TurnEnded(self.turn(turn, path))
            case ProviderTool():
                return _shown_item(event)
            case UnknownItem():
                return _shown_item(event)
        return cast(RunEvent, _json(event))

    def turn(self, turn: Turn, path: Path) -> Turn:
        items: list[TurnItem] = []
        for item in turn.items:
            match item:
                case Message(text=text):
                    _append_text(items, Message("assistant", text))
                case Reasoning(text=text, kind=kind):
                    _append_text(items, Reasoning(text, kind))
                case ToolCall(name=""):
                    pass  # nobody was told of it
                case ToolCall():
                    place = sum(isinstance(before, ToolCall) for before in items)
                    call_id = self.ids.get((path, item.call_id), item.call_id)
                    problem = item.problem if call_id in self.malformed else None
                    changes: dict[str, Any] = {"call_id": call_id, "place": place, "problem": problem}
                    items.append(msgspec.structs.replace(item, **changes, custom=False, opaque=None))
                case _:
                    items.append(cast(TurnItem, _shown_item(item)))
        return cast(Turn, _json(msgspec.structs.replace(turn, items=tuple(items))))


def _append_text(items: list[TurnItem], item: Message | Reasoning) -> None:
    """Two texts without anything between them are one; without text there is none."""
    before = items[-1] if items else None
    if type(before) is type(item) and getattr(before, "kind", "") == getattr(item, "kind", ""):
        items[-1] = msgspec.structs.replace(before, text=cast(Any, before).text + item.text)
    elif item.text:
        items.append(item)


def _shown_item(item: ProviderTool | UnknownItem) -> ProviderTool | UnknownItem:
    if isinstance(item, ProviderTool):
        item = msgspec.structs.replace(item, opaque=None, input=_shown(item.input))
        return msgspec.structs.replace(item, output=_shown(item.output))
    return msgspec.structs.replace(item, item=_shown(item.item))


def _with_id(event: Any, call_id: str) -> Any:
    changes: dict[str, Any] = {"call_id": call_id}
    if isinstance(event, Output):
        changes["result"] = msgspec.structs.replace(event.result, call_id=call_id)
    return msgspec.structs.replace(event, **changes)


def _json_values(event: Any) -> Any:
    """What users gave as JSON knows it, and text without halves of characters."""
    match event:
        case Output(result=Value(value=value) as result):
            shown = msgspec.structs.replace(result, value=_shown(value), images=())
            return msgspec.structs.replace(event, result=shown)
        case Output(result=Failure(partial=partial) as result):
            return msgspec.structs.replace(event, result=msgspec.structs.replace(result, partial=_shown(partial)))
        case Intermediate(data=data):
            return msgspec.structs.replace(event, data=_shown(data))
        case ApprovalRequested(arguments=arguments, card=card):
            return msgspec.structs.replace(event, arguments=_shown(arguments), card=_shown(card))
        case ToolStarted(arguments=arguments):
            return msgspec.structs.replace(event, arguments=_shown(arguments))
    return _json(event)


def _shown(value: Any) -> Any:
    return whole(json.loads(json.dumps(plain(value))))


def _json(event: Any) -> Any:
    """The record, all of whose text can be encoded."""
    changes = {name: whole(value) for name in event.__struct_fields__ if isinstance(value := getattr(event, name), str)}
    if isinstance(event, Turn):
        changes["items"] = tuple(_json(item) for item in event.items)
    return msgspec.structs.replace(event, **changes)
