"""Showing the parts of a call while the model writes it: fields of its arguments beside their text."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Collection, Sequence
from typing import Any, TypeVar

from .codec.partial_json import Broken, FieldOpened, FieldPath, FieldText, FieldValue, PartialJson
from .flows.flow import Flow, Sink, flow
from .flows.sinks import SinkAtOnce, SinkBefore
from .tool_events import ToolInputField
from .turns import ToolInputAbandoned, ToolInputAvailable, ToolInputDelta, ToolInputStart

E = TypeVar("E")
R = TypeVar("R")


@flow
async def fields(out: Sink[E | ToolInputField], source: Flow[E, R], *, only: str | Collection[str] | None = None) -> R:
    """The same turn or run, with a ToolInputField for each piece of a field while the model writes it.

    To show one field, such as the `content` of a file, nobody has to parse JSON: the pieces of a field join to its
    text. A string comes piece by piece, an empty one as one empty piece; a number, true, false or null comes as its
    JSON, once it is whole. Objects and arrays have no events of their own, but their parts do: `("edits", 0, "old")`.
    The fields of a delta follow it, before the end of the call.

    only: the tool, or tools, whose calls are read; None for all. Calls of other tools are not parsed, and under
    `await fields(…)`, where nobody watches, none are.

    A call whose text can no longer become JSON, or is plain text (a custom call), gives no more fields; its other
    events go on, and only Available or Abandoned says what becomes of it. What was shown may turn out wrong: if the
    call is abandoned, if Available contradicts the deltas, or if a key comes twice (its pieces follow those of the
    first). Calls of inner runs are not read: whoever starts such a run can ask for its fields.
    """
    if not out.watched:
        return await out.forward(source)
    names = (only,) if isinstance(only, str) else only
    return await _FieldsSink(out, FieldReader(names)).forward(source)


class FieldReader:
    """`fields` without a flow: read(event) -> the fields that follow an event. only: see `fields`."""

    __slots__ = ("_calls", "_only")

    def __init__(self, only: Collection[str] | None = None) -> None:
        self._only = only
        self._calls: dict[str, _CallFields] = {}  # those that are being written, by call id

    def read(self, event: object) -> Sequence[ToolInputField]:
        kind = type(event)
        if kind is ToolInputDelta:
            call = self._calls.get(event.call_id)  # type: ignore[attr-defined]  # isinstance would cost more
            return () if call is None else call.read(event.delta)  # type: ignore[attr-defined]
        if isinstance(event, ToolInputStart):
            if self._only is None or event.tool in self._only:
                self._calls[event.call_id] = _CallFields(event.call_id)
        elif isinstance(event, ToolInputAvailable | ToolInputAbandoned):
            self._calls.pop(event.call_id, None)
        return ()


class _CallFields:
    """The fields of one call."""

    __slots__ = ("_begun", "_call_id", "_parser")

    def __init__(self, call_id: str) -> None:
        self._call_id = call_id
        self._parser: PartialJson | None = PartialJson()
        self._begun: FieldPath | None = None  # of a string that has no text yet

    def read(self, delta: str) -> list[ToolInputField]:
        found: list[ToolInputField] = []
        for event in self._parser.feed(delta) if self._parser is not None else ():
            if isinstance(event, Broken):
                self._parser = None
            elif not event.path:  # the object itself; or a plain text that might be JSON so far
                pass
            elif isinstance(event, FieldText):
                self._begun = None
                found.append(ToolInputField(self._call_id, event.path, event.text))
            elif isinstance(event, FieldOpened):
                self._begun = event.path if event.kind == "string" else None
            elif isinstance(event, FieldValue):
                found.append(ToolInputField(self._call_id, event.path, json.dumps(event.value)))
            elif event.path == self._begun:
                found.append(ToolInputField(self._call_id, event.path, ""))
        return found


class _FieldsSink(SinkBefore[Any], SinkAtOnce[Any]):
    """Passes everything on, in `put`: this stands before every event of a run."""

    __slots__ = ("_reader",)

    def __init__(self, to: Sink[Any], reader: FieldReader) -> None:
        super().__init__(to)
        self._reader = reader

    def put(self, event: Any) -> Awaitable[None] | None:
        left = self._to.put(event)
        found = self._reader.read(event)
        return self._put_fields(left, found) if found else left

    def _put_fields(self, left: Awaitable[None] | None, found: Sequence[ToolInputField]) -> Awaitable[None] | None:
        for place, field in enumerate(found):
            if left is not None:
                return self._send_fields(left, found[place:])
            left = self._to.put(field)
        return left

    async def _send_fields(self, left: Awaitable[None], found: Sequence[ToolInputField]) -> None:
        await left
        for field in found:
            await self._to.send(field)

    def branch(self) -> _FieldsSink:
        return _FieldsSink(self._to.branch(), self._reader)
