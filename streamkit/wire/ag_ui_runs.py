"""The runs of one response of AG-UI: the outer one, and a sub-agent for each call in which another one runs."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from ..tool_events import Intermediate, RunEvent
from .ag_ui_calls import CallFrames
from .ag_ui_scopes import MessageIds, Scope, sse
from .encoding import Values
from .open_calls import OpenCalls, Phase

Ended = tuple[str, str]
"""With which error a run has ended: its kind, and a sentence."""


class Runs:
    """Each method gives the frames to send. outer: the scope of the outer run."""

    def __init__(self, run_id: str, values: Values, calls: OpenCalls, frames: CallFrames) -> None:
        self._ids = MessageIds()
        self._values = values
        self._calls = calls
        self._frames = frames
        self.outer = Scope(self._ids, values, run_id)
        self._inner: dict[str, Scope] = {}  # by the call around it, the outer ones first

    def scope_of(self, event: RunEvent, path: tuple[str, ...]) -> tuple[bytes, Scope]:
        """The scope of an event, and the frames that tell of runs which begin with it."""
        begun, scope = b"", self.outer
        for depth, call_id in enumerate(path):
            assert isinstance(event, Intermediate)
            assert event.event is not None
            known = self._inner.get(call_id)
            if known is None:
                begun += self._begin(event.tool, path[: depth + 1])
            scope = self._inner[call_id]
            event = event.event
        return begun, scope

    def _begin(self, tool: str, path: tuple[str, ...]) -> bytes:
        scope = self._inner[path[-1]] = Scope(self._ids, self._values, path[-1], path)
        about: dict[str, Any] = {"name": tool, "parentToolCallId": path[-1]}
        if len(path) > 1:
            about["parentSubagentRunId"] = path[-2]
        return sse("SUBAGENT_STARTED", scope.tag, **about)

    def close_inner(self, call_id: str, failure: Ended | None) -> bytes:
        """The call around a run has ended, and so have the runs in it, the innermost first."""
        if call_id not in self._inner:
            return b""
        scopes = [scope for scope in self._inner.values() if call_id in scope.path]
        for scope in scopes:
            del self._inner[scope.path[-1]]
        return b"".join(self._end(scope, failure) for scope in scopes[::-1])

    def close_all(self, *, kept: Collection[str] = (), failure: Ended | None = None, suspended: bool = False) -> bytes:
        """End all that is open. kept: calls that wait for the client. failure: what the run ends with, if not well."""
        scopes = [*self._inner.values()]
        self._inner.clear()
        inner = b"".join(self._end(scope, failure, suspended=suspended) for scope in scopes[::-1])
        return inner + self._close(self.outer, kept)

    def _end(self, scope: Scope, failure: Ended | None, *, suspended: bool = False) -> bytes:
        closed = self._close(scope)
        if failure is not None:
            return closed + sse("SUBAGENT_ERROR", scope.tag, code=failure[0], message=failure[1])
        about = {"outcome": {"type": "suspended"}} if suspended else {}
        return closed + sse("SUBAGENT_FINISHED", scope.tag, **about)

    def _close(self, scope: Scope, kept: Collection[str] = ()) -> bytes:
        """What is open in a run ends, and the calls that nobody will run any more are dropped."""
        closed = scope.close() + self._frames.end_all(scope)
        for call in self._calls.never_ran():
            if call.path == scope.path and call.id not in kept:
                reason = "incomplete" if call.phase is Phase.WRITING else "discarded"
                call.phase = Phase.OVER
                closed += self._frames.dropped(call, scope, reason)
        return closed + scope.finish()
