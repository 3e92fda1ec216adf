"""The runs inside of a call: what they wait for, where they stand, and who decides about their calls.

Where nobody is there to decide, an inner run ends with calls that wait, and so the call around it has no result: it is
paused. When it goes on, it runs again from its beginning. Its inner runs, in the state with which they begin, are known
again by their histories, and go on where they stood: those that have ended are not asked again.

A context variable, since the inner run is the tool's own: it may be awaited instead of forwarded, deep in its helpers.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from threading import get_ident
from types import MappingProxyType
from typing import Any

import msgspec

from ..conversation import Conversation, InnerRun, Paused, paused_in
from ..errors import FlowError
from ..items import ToolCall
from ..tool_events import Pending, ToolResult
from .approval import Authorize


class InnerRuns:
    """Those of one call while it runs.

    paused: where they stood when it ran before. authorize, context: who decides about their calls, unless they are
    told otherwise, and what for.
    """

    def __init__(self, paused: Paused | None, authorize: Authorize | None, context: Any) -> None:
        self._waits: dict[str, Mapping[str, ToolCall]] = {}
        self._stood = [] if paused is None else list(paused.runs)  # and were not begun again
        self._runs: list[InnerRun] = []
        self._places: dict[int, int] = {}  # among them, by the identity of their states
        self._goes_on = not self._stood
        self._decides = authorize, context
        self._thread = get_ident()

    @property
    def runs(self) -> tuple[InnerRun, ...]:
        """In the order in which they began; those that were not begun again come last."""
        return (*self._runs, *self._stood)

    @property
    def waits(self) -> dict[str, ToolCall]:
        """The calls that nobody has decided about, by execution id."""
        return {execution_id: call for waits in self._waits.values() for execution_id, call in waits.items()}

    def tell(self, execution_id: str, waits: Mapping[str, ToolCall]) -> None:
        """What a call of an inner run waits for: itself, calls further inside, or nothing any more."""
        self._waits.pop(execution_id, None)
        if waits:
            self._waits[execution_id] = waits

    @property
    def decides(self) -> tuple[Authorize | None, Any]:
        """Nobody, in the event loop of another thread: a desk is there for its own loop alone."""
        return self._decides if self._thread == get_ident() else (None, None)

    def begin(self, start: Conversation, asked: Sequence[object] = ()) -> Course:
        """A run begins: here, or where it stood. asked: tells it from others that begin with the same history.

        Raises FlowError for a first one that did not begin so before.
        """
        place = self._places.get(id(start))
        if place is not None and self._runs[place].state is start:
            return Course(self._runs, self._places, place)
        run = InnerRun(_digest(start.history), start, _digest(asked))
        same = [each for each in self._stood if each.begun_with == run.begun_with]
        if same:
            run = next((each for each in same if each.asked == run.asked), same[0])
            self._stood.remove(run)
        elif not self._goes_on and any(each.state.ended == "pending" for each in self._stood):
            raise FlowError(
                "this call continues inner runs that waited, but starts with another history than before:"
                " they cannot be told apart"
            )
        self._goes_on = True
        self._runs.append(run)
        course = Course(self._runs, self._places, len(self._runs) - 1)
        course.state = msgspec.structs.replace(run.state)  # or else two that begin with one object would be one
        return course


class Course:
    """One inner run. state: where it stands; set whenever it has come further."""

    def __init__(self, runs: list[InnerRun], places: dict[int, int], place: int) -> None:
        self._runs = runs
        self._places = places
        self._place = place

    @property
    def state(self) -> Conversation:
        return self._runs[self._place].state

    @state.setter
    def state(self, state: Conversation) -> None:
        self._places.pop(id(self.state), None)
        self._runs[self._place] = msgspec.structs.replace(self._runs[self._place], state=state)
        self._places[id(state)] = self._place


_of_call: ContextVar[InnerRuns | None] = ContextVar("streamkit_inner_runs", default=None)
_paused: ContextVar[Mapping[str, Paused]] = ContextVar("streamkit_paused", default=MappingProxyType({}))


def use_inner_runs(runs: InnerRuns | None) -> None:
    """From here on, in this task, runs are inner ones of this call. For whoever gives a call a task of its own."""
    _of_call.set(runs)
    _paused.set({})


def inner_runs() -> InnerRuns | None:
    """Those of the call around us."""
    return _of_call.get()


def tell_what_waits(execution_id: str, call: ToolCall, result: ToolResult | None) -> None:
    """Tell the call around us what of a call of an inner run nobody has decided about."""
    around = inner_runs()
    if around is None:
        return
    waits: Mapping[str, ToolCall] = {}
    if isinstance(result, Pending):
        paused = paused_in(result)
        waits = {execution_id: call} if paused is None else paused.waits
    around.tell(execution_id, waits)


@contextmanager
def going_on(state: object) -> Iterator[None]:
    """In the block, calls that are paused in this state go on."""
    outer = _paused.set(state.paused if isinstance(state, Conversation) else {})
    try:
        yield
    finally:
        _paused.reset(outer)


def paused_call(call: ToolCall) -> Paused | None:
    """Where a call stood when it ran before, if it is one that goes on."""
    return _paused.get().get(call.local_id)


def _digest(told: Sequence[object]) -> str:
    """The same for the same history, also where it is not fit to be sent: that is for others to say."""
    try:
        written = msgspec.json.encode(told, enc_hook=repr)
    except (ValueError, TypeError, RecursionError):
        written = repr(told).encode(errors="backslashreplace")
    from hashlib import sha256  # noqa: PLC0415 - it loads OpenSSL, and only who has inner runs needs it

    return sha256(written).hexdigest()
