"""The tool-input layer: what decoders say of calls in, tool-input events out, whatever the habits of the provider.

A decoder names what it reads: a call begins (`InputStart`), goes on (`InputDelta`), is whole (`InputEnd`), or came
whole (`WholeCall`). Here the pieces find their call; what a call does with them is said in `call_input`.

Which call a piece belongs to. That of its index; without an index that of its id; without both the one begun last. A
new index begins a call. A used one does so only by a new id that comes with a name, by a new id or name after a whole
object, or by the name of another known tool; a changed id alone is a repeat. First id and first name win. A piece that
says nothing at all begins no call.

When a call is whole. When the provider says so, never because its text parses. Of a call that began with an
`InputDelta` nobody says it: the next call ends it, or the good end of the turn. A turn that is cut leaves it
incomplete.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from typing import Any

import msgspec

from .call_input import LIMIT_CHARS, CallInput, CustomCallInput, Phase
from .codec.json_object import tells_nothing
from .errors import BadPayload
from .parts import InputDelta, InputEnd, InputOpaque, InputPart, InputStart, WholeCall
from .turns import ToolInputEvent


class Bounds(msgspec.Struct, frozen=True):
    """How much one turn of a model may make us keep in memory.

    calls: in a turn; one more fails the turn as BadPayload. argument_chars: of a call; a longer one does not run, and
    the model is told. body_bytes: of the whole answer; a longer one fails the turn as BadPayload. (One event of a
    stream may have 64 MiB: see the codecs. How deep arguments may be nested: see `inputs`.)
    """

    calls: int = 256
    argument_chars: int = LIMIT_CHARS
    body_bytes: int = 256 * 1024 * 1024


BOUNDS = Bounds()


class ToolInput:
    """The calls of one turn while the model writes them.

    feed(part) -> its events. end() -> the events of a good end: what is open becomes available, or malformed. cut() ->
    the events of a bad end: every call is abandoned; also after end(). calls: in the order in which they began.

    by_index: the call that a piece with this index belongs to. tool_names: the known tools; they decide whether pieces
    of a name are joined.
    """

    def __init__(self, turn_id: str, tool_names: Iterable[str] = (), bounds: Bounds = BOUNDS) -> None:
        self.calls: list[CallInput] = []
        self._bounds = bounds
        self._turn_id = turn_id
        self._tool_names = frozenset(tool_names)
        self.by_index: dict[int | None, CallInput] = {}
        self._by_provider_id: dict[str, CallInput] = {}

    def feed(self, part: InputPart) -> Sequence[ToolInputEvent]:
        if type(part) is InputDelta:
            return self._feed_piece(part)
        if type(part) is InputStart:
            return self._feed_start(part)
        if type(part) is InputEnd:
            return self._feed_end(part)
        if type(part) is InputOpaque:
            return self._feed_opaque(part)
        assert type(part) is WholeCall
        return self._feed_whole(part)

    def end(self) -> list[ToolInputEvent]:
        events: list[ToolInputEvent] = []
        for call in self.calls:
            if call.phase is Phase.READY:
                events += call.check_late_text()
                continue
            events += self._end(call)
            if call.phase is Phase.COLLECTING:
                events += call.abandon("malformed", call.problem or "")
        return events

    def cut(self, detail: str = "") -> list[ToolInputEvent]:
        events: list[ToolInputEvent] = []
        for call in self.calls:
            if call.phase is Phase.WAITING:
                events += self._start(call)
            if call.phase is Phase.COLLECTING or call.phase is Phase.READY:
                was_ended = not call.has_end_marker and call is not self.calls[-1]  # by the call after it
                whole = call.phase is Phase.READY or (was_ended and call.is_whole)
                events += call.abandon("discarded" if whole else "incomplete", detail)
            elif call.abandoned is None:  # nameless, or malformed: nobody has to be told
                call.abandoned = "discarded" if call.problem else "incomplete"
        return events

    # What each kind of part does

    def _feed_piece(self, part: InputDelta) -> list[ToolInputEvent]:
        events: list[ToolInputEvent] = []
        call = self._call_of(part.index, part.call_id) or self._late_index(part)
        if call is None and not (part.text or part.call_id or part.name):
            return events
        if call is None or _begins_another(call, part) or self._names_another_tool(call, part):
            call = self._begin(part.index, events, has_end_marker=False, custom=part.custom)
        self._name(call, part.call_id, part.name)
        if _can_start(call) and (part.text or call.has_text or not self._name_may_grow(call)):
            events += call.start()
        events += call.take_text(part.text)
        return events

    def _feed_start(self, part: InputStart) -> list[ToolInputEvent]:
        events: list[ToolInputEvent] = []
        call = self._call_of(part.index, part.call_id)
        if call is None or call.phase is Phase.READY or not part.call_id or call.provider_id != part.call_id:
            call = self._begin(part.index, events, has_end_marker=True, custom=part.custom)
        self._name(call, part.call_id, part.name)
        if part.without_id:
            call.call_id = call.call_id or self._own_id(call)
        if _can_start(call):
            events += call.start()
        return events

    def _feed_end(self, part: InputEnd) -> list[ToolInputEvent]:
        call = self._call_of(part.index, part.call_id)
        if call is None:
            return []
        told = as_text(part.arguments)
        if not call.custom and (tells_nothing(told) or told.strip() == "{}"):  # it takes nothing back
            told = ""
        if call.phase is Phase.READY:
            return list(call.take_text(told))
        return self._end(call, told)

    def _feed_opaque(self, part: InputOpaque) -> list[ToolInputEvent]:
        call = self._call_of(part.index, part.call_id)
        if call is not None:
            known = call.opaque or {}
            call.opaque = {**known, part.dialect: {**known.get(part.dialect, {}), **part.opaque}}
        return []

    def _feed_whole(self, part: WholeCall) -> list[ToolInputEvent]:
        """One that is told twice, its id too, is one call: two of them have ids of their own."""
        events: list[ToolInputEvent] = []
        text = as_text(part.arguments)
        known = self._by_provider_id.get(part.call_id or "")
        if known is not None and known.is_same(part.name, text):
            return events
        call = self._begin(None, events, has_end_marker=True, custom=part.custom)
        call.opaque = part.opaque
        self._name(call, part.call_id, part.name)
        call.take_text(text)
        events += self._end(call)
        return events

    def _start(self, call: CallInput) -> list[ToolInputEvent]:
        """Announce a call whose id will not come any more. One without a name cannot be announced."""
        call.call_id = call.call_id or self._own_id(call)
        return call.start() if call.name else []

    def _end(self, call: CallInput, told: str = "") -> list[ToolInputEvent]:
        events = self._start(call) if call.phase is Phase.WAITING else []
        if call.phase is Phase.COLLECTING:
            events += call.end(told)
        elif call.phase is Phase.WAITING:
            if not call.has_text:
                call.take_text(told)
            call.problem = "the call has no name"
        return events

    # Which call, and how it is called

    def _call_of(self, index: int | None, call_id: str | None) -> CallInput | None:
        if index is not None:
            return self.by_index.get(index)
        if call_id and call_id in self._by_provider_id:
            return self._by_provider_id[call_id]
        return self.calls[-1] if self.calls else None

    def _late_index(self, part: InputDelta) -> CallInput | None:
        """The call begun last, where its first piece had no index yet, or that of another call, and this one says
        nothing of another call.
        """
        last = self.calls[-1] if self.calls else None
        if last is None or last.has_end_marker or last.is_whole or last.has_own_index:
            return None
        has_its_id = bool(part.call_id) and part.call_id == last.provider_id
        is_nameless = not part.name and not (part.call_id and last.provider_id)
        if not has_its_id and not is_nameless:
            return None
        self.by_index[part.index] = last
        last.has_own_index = True
        return last

    def _begin(
        self, index: int | None, events: list[ToolInputEvent], *, has_end_marker: bool, custom: bool
    ) -> CallInput:
        """A new call. It ends the one before, unless that is not whole: some servers write several at the same time."""
        last = self.calls[-1] if self.calls else None
        if last is not None and not last.has_end_marker and last.phase is not Phase.READY and last.is_whole:
            events += self._end(last)
        if len(self.calls) == self._bounds.calls:
            raise BadPayload(f"the turn has more than {self._bounds.calls} calls")
        kind = CustomCallInput if custom else CallInput
        call = kind(len(self.calls), has_end_marker=has_end_marker, limit_chars=self._bounds.argument_chars)
        self.calls.append(call)
        if index is not None:
            call.has_own_index = index not in self.by_index
            self.by_index[index] = call
        return call

    def _name(self, call: CallInput, call_id: str | None, name: str | None) -> None:
        """First id and first name win; but pieces of a name are joined when only the joined name is a known tool."""
        if call_id and call.provider_id is None:
            taken = call_id in self._by_provider_id or self._is_taken(call_id)
            call.provider_id = call_id
            self._by_provider_id[call_id] = call
            call.call_id = call.call_id or (self._own_id(call) if taken else call_id)
        if not name or call.has_text or call.phase is not Phase.WAITING:
            call.name = call.name or name or ""
            return
        call.name_so_far += name
        if not call.name or (call.name_so_far in self._tool_names and call.name not in self._tool_names):
            call.name = call.name_so_far

    def _own_id(self, call: CallInput) -> str:
        """Unique in the conversation, as the id of the turn is; a model that has read such ids may write one itself."""
        own = f"call_{self._turn_id.removeprefix('turn_')}_{call.place}"
        while self._is_taken(own):
            own += "_"
        return own

    def _is_taken(self, call_id: str) -> bool:
        return any(call.call_id == call_id for call in self.calls)

    def _names_another_tool(self, call: CallInput, part: InputDelta) -> bool:
        """Whether it names another known tool than the call does: then it is no piece of the same name.

        A server without ids may send a call without arguments in this way, and the next one behind it.
        """
        if part.name == call.name or call.has_end_marker or (part.call_id and part.call_id == call.provider_id):
            return False
        return part.name in self._tool_names and call.name in self._tool_names

    def _name_may_grow(self, call: CallInput) -> bool:
        names = self._tool_names
        return call.name not in names and any(name.startswith(call.name_so_far) for name in names)


def _can_start(call: CallInput) -> bool:
    return call.phase is Phase.WAITING and bool(call.name and call.call_id)


def _begins_another(call: CallInput, part: InputDelta) -> bool:
    """Whether a piece that would go to this call begins another one."""
    new_id = part.call_id and call.provider_id and part.call_id != call.provider_id
    if new_id and part.name:
        return True
    # Servers without ids send two calls of one tool with the same name, and its text.
    new_name = part.name and call.name and (part.name != call.name or (part.text and not call.provider_id))
    return bool(new_id or new_name) and call.is_whole


_compact = json.JSONEncoder(ensure_ascii=False, separators=(",", ":")).encode  # made once: that costs half of a use


def as_text(arguments: str | dict[str, Any] | None) -> str:
    """Arguments as the text that a call has: those that came as an object as compact JSON."""
    if arguments is None:
        return ""
    return arguments if isinstance(arguments, str) else _compact(arguments)
