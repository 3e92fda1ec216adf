"""Which calls a client was told of, under which ids, and how far each of them is.

Providers number calls as they like, and an inner run knows nothing of the outer one: one id may name several calls of a
run. On the wire each call has an id of its own.
"""

from __future__ import annotations

from collections.abc import Collection
from enum import Enum, auto
from typing import NamedTuple, cast, get_args

from ..codec.surrogates import whole
from ..tool_events import ApprovalRequested, Intermediate, Output, RunEvent, ToolEvent, ToolInputField, ToolStarted
from ..turns import ToolInputAbandoned, ToolInputAvailable, ToolInputEvent, ToolInputStart


class Phase(Enum):
    """How far a call is. UNTOLD: the client has not heard of it."""

    UNTOLD = auto()
    WRITING = auto()
    WRITTEN = auto()
    WAITING = auto()
    RUNNING = auto()
    OVER = auto()


NEVER_RAN = (Phase.WRITING, Phase.WRITTEN)
"""What is dropped when the run ends: no one will run these. Those that wait or run are kept."""


class OpenCall:
    """A call on the wire. id: its own. path: the ids of the calls around it, outermost first."""

    __slots__ = ("has_inner_events", "id", "path", "phase", "tool")

    def __init__(self, wire_id: str, tool: str, path: tuple[str, ...]) -> None:
        self.id = wire_id
        self.tool = tool
        self.path = path
        self.phase = Phase.UNTOLD
        self.has_inner_events = False


class Seen(NamedTuple):
    """The innermost event, the ids of the calls around it, and the call that it is about, with its phase before."""

    event: RunEvent
    path: tuple[str, ...]
    call: OpenCall | None
    before: Phase


_AFTER: dict[type, Phase] = {
    ToolInputStart: Phase.WRITING,
    ToolInputAvailable: Phase.WRITTEN,
    ToolInputAbandoned: Phase.OVER,
    ApprovalRequested: Phase.WAITING,
    ToolStarted: Phase.RUNNING,
    Output: Phase.OVER,
}
_OF_A_CALL = frozenset(get_args(ToolInputEvent | ToolInputField | ToolEvent))


class OpenCalls:
    """The calls of one run. see(event): in order; gives what an encoder has to know of it."""

    def __init__(self) -> None:
        self._calls: dict[tuple[str, str], OpenCall] = {}  # by the id on the wire of the call around it, and its own id
        self._taken: dict[str, int] = {}  # the ids that were given, with the last number behind each

    def see(self, event: RunEvent) -> Seen:
        path: tuple[str, ...] = ()
        while type(event) is Intermediate and event.event is not None:
            around = self._find(path, event.call_id, event.tool)
            around.has_inner_events = True
            path = (*path, around.id)
            event = event.event
        if type(event) not in _OF_A_CALL:
            return Seen(event, path, None, Phase.UNTOLD)
        event = cast(ToolInputEvent | ToolInputField | ToolEvent, event)
        if type(event) is ToolInputStart:
            call = self._begin(path, event.call_id, event.tool)
        else:
            call = self._find(path, event.call_id, getattr(event, "tool", ""))
        before = call.phase
        call.phase = _AFTER.get(type(event), before)
        if type(event) is Output or (type(event) is ToolInputAbandoned and event.reason != "malformed"):
            del self._calls[_key(path, event.call_id)]  # nothing follows
        return Seen(event, path, call, before)

    def never_ran(self, pending: Collection[str] = ()) -> list[OpenCall]:
        """The calls that a client was told of and nobody will run any more, in the order in which they began.

        pending: the ids, as the run knows them, of those that still wait for a verdict.
        """
        kept = {_key((), call_id) for call_id in pending}
        return [call for key, call in self._calls.items() if call.phase in NEVER_RAN and key not in kept]

    def leave(self, around: OpenCall) -> list[OpenCall]:
        """Forget what a call that has ended left open inside it; those of them that never ran."""
        if not around.has_inner_events:
            return []
        inside = {key: call for key, call in self._calls.items() if around.id in call.path}
        for key in inside:
            del self._calls[key]
        return [call for call in inside.values() if call.phase in NEVER_RAN]

    def _find(self, path: tuple[str, ...], call_id: str, tool: str) -> OpenCall:
        return self._calls.get(_key(path, call_id)) or self._begin(path, call_id, tool)

    def _begin(self, path: tuple[str, ...], call_id: str, tool: str) -> OpenCall:
        told = wire_id = whole(call_id)
        while wire_id in self._taken:
            self._taken[told] += 1
            wire_id = f"{told}~{self._taken[told]}"
        self._taken[wire_id] = 1
        call = OpenCall(wire_id, tool, path)
        self._calls.pop(_key(path, call_id), None)  # so that it stands where it begins
        self._calls[_key(path, call_id)] = call
        return call


def _key(path: tuple[str, ...], call_id: str) -> tuple[str, str]:
    return (path[-1] if path else "", call_id)
