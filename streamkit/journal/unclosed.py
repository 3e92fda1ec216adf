"""What a run that was cut off still owes to whoever watches it: the ends of what was shown as begun."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from ..tool_events import ApprovalRequested, Output, RunEvent, ToolStarted
from ..turns import (
    ToolInputAbandoned,
    ToolInputAvailable,
    ToolInputStart,
    Turn,
    TurnEnded,
    TurnRestarted,
    TurnStarted,
)
from .entry import CallFinished, CallStarted

GONE = "the process that ran it is gone"


class Unclosed:
    """The events shown since a state was saved in which no call waits. feed(event): in order; those of inner runs
    change nothing. asked: the execution ids that somebody was asked about.

    ends(…) -> the events that close what they leave open. taken: the turn whose calls were about to run, if there was
    one; else the model is asked again, and what was shown of its turn is taken back. started, finished: of its calls,
    by execution id.
    """

    def __init__(self) -> None:
        self.asked: set[str] = set()
        self._turn_is_open = False
        self._calls: dict[str, None] = {}  # being written, or available and not run: in the order in which they began
        self._started: set[str] = set()
        self._ended: set[str] = set()

    def feed(self, event: RunEvent) -> None:
        match event:
            case TurnStarted():
                self._turn_is_open = True
            case TurnEnded():
                self._turn_is_open = False
            case ToolInputStart(call_id=call_id) | ToolInputAvailable(call_id=call_id):
                self._calls[call_id] = None
                self._started.discard(call_id)  # in a turn before, in which the model called by the same id
                self._ended.discard(call_id)
            case ToolInputAbandoned(call_id=call_id, reason=reason):
                self._calls.pop(call_id, None)
                if reason == "discarded":
                    self._ended.add(call_id)
            case ApprovalRequested(execution_id=execution_id):
                self.asked.add(execution_id)
            case ToolStarted(call_id=call_id):
                self._started.add(call_id)
            case Output(call_id=call_id):
                self._ended.add(call_id)

    def ends(
        self, taken: Turn | None, started: Mapping[str, CallStarted], finished: Mapping[str, CallFinished]
    ) -> Iterable[RunEvent]:
        if taken is None:
            for call_id in self._calls.keys() - self._ended:
                yield ToolInputAbandoned(call_id, "retried", GONE)
            if self._turn_is_open:
                yield TurnRestarted(GONE)
            return
        for call in taken.calls:
            execution_id = call.local_id
            done, begun = finished.get(execution_id), started.get(execution_id)
            if done is None or call.call_id in self._ended:
                continue
            if begun is not None and call.call_id not in self._started:
                yield ToolStarted(execution_id, call.call_id, call.name, begun.arguments, begun.attempt)
            yield Output(call.call_id, done.result.tool, done.result, done.seconds)
