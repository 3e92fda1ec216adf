"""`Running`: the calls of a run while it goes on, each of which may be cancelled."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from threading import get_ident
from types import MappingProxyType

from ..errors import FlowError, NotRunning
from ..items import ToolCall
from ..tool_events import ToolResult
from .approval import meant_instead

Cancel = Callable[[str], None]
"""Cancels a call, for a reason that the model reads."""


class Running:
    """Given to `execute_all(running=…)` or `converse(running=…)`, also of inner runs: what is running, and its results.

    After a cancellation it still has the results that had come by then. Calls are named by execution id.
    """

    def __init__(self) -> None:
        self._calls: dict[str, ToolCall] = {}
        self._cancels: dict[str, tuple[Cancel, int]] = {}  # with the thread in which it may be done
        self._results: dict[str, ToolResult] = {}

    @property
    def calls(self) -> Mapping[str, ToolCall]:
        """The calls that have no result yet, including those that wait for a verdict or for their turn."""
        return MappingProxyType(self._calls)

    @property
    def results(self) -> Mapping[str, ToolResult]:
        """The results so far, of all turns."""
        return MappingProxyType(self._results)

    def cancel(self, execution_id: str, reason: str = "the person stopped it") -> None:
        """Cancel one call: it is cleaned up and answered with Failure(cancelled), and the others go on.

        reason: the model reads it. A value that the tool still returns, from a part that it shields, counts.
        Raises NotRunning if there is no such call, or it has its result already, and FlowError in any thread but that
        of the run.
        """
        if execution_id not in self._cancels:
            if execution_id in self._results:
                raise NotRunning(f"call {execution_id} has ended")
            raise NotRunning(f"call {execution_id} is not known{meant_instead(execution_id, self._calls)}")
        cancel, thread = self._cancels[execution_id]
        if get_ident() != thread:
            raise FlowError(
                "a call is cancelled in the thread of its run: anyio.from_thread.run_sync(running.cancel, …)"
            )
        cancel(reason)

    # For the executor

    def enter(self, execution_id: str, call: ToolCall, cancel: Cancel) -> None:
        """A call has been taken."""
        self._calls[execution_id] = call
        self._cancels[execution_id] = cancel, get_ident()
        self._results.pop(execution_id, None)

    def leave(self, execution_id: str, result: ToolResult | None) -> None:
        """A call has its result, or its execution was left."""
        self._calls.pop(execution_id, None)
        self._cancels.pop(execution_id, None)
        if result is not None:
            self._results[execution_id] = result


def check_running_given(running: object) -> None:
    """Raise TypeError for what is given as `running=` and is none, such as the class itself."""
    if not isinstance(running, Running | None):
        raise TypeError(f"running= is a Running, made by Running(), not {running!r:.100}")
