"""Runs that are cut off when their time is up: then the history has all that was whole by then, and no call is open."""

from __future__ import annotations

from collections.abc import Iterator

from .conversation import Conversation
from .execution.limits import LimitedSink, Limits, TimedOut
from .flows.flow import Flow, Sink
from .flows.sinks import TappedSink
from .items import ToolCall
from .journal.log import RunLog
from .journal.recorded_sink import RecordedSink
from .metering import Meter
from .tool_events import Failure, Output, RunEvent, ToolStarted
from .tools.toolkit import Toolkit
from .transcript import Transcript
from .turns import ToolInputAbandoned, TurnEnded


def check_times(timeout_seconds: float | None, idle_timeout_seconds: float | None) -> None:
    """Raise ValueError for limits that let no run begin."""
    for name, seconds in (("timeout_seconds", timeout_seconds), ("idle_timeout_seconds", idle_timeout_seconds)):
        if seconds is not None and not seconds > 0:
            raise ValueError(f"{name} must be more than 0, but is {seconds}")


async def run_within(
    limits: Limits,
    run: Flow[RunEvent, Conversation],
    out: Sink[RunEvent],
    *,
    start: Conversation,
    toolkit: Toolkit,
    journal: RunLog | None,
) -> Conversation:
    """The run; where its time is up, the state in which it was cut off, which is written down, too."""
    seen = _Seen(start, toolkit)
    with Meter() as meter:
        try:
            return await limits.run(LimitedSink(TappedSink(out, seen.feed), limits).forward(run))
        except TimedOut as timed_out:
            reason = f"This call was cancelled: the run {timed_out}."
            to = out if journal is None else RecordedSink(out, journal)
            for output in seen.ends(reason):
                await to.send(output)
            history = seen.transcript.history(reason)
            state = Conversation(history, None, (), start.turns + seen.turns, start.usage + meter.total, "budget")
            if journal is not None:
                await journal.save(state)
            return state


class _Seen:
    """What a run has shown. turns: how many have ended."""

    def __init__(self, start: Conversation, toolkit: Toolkit) -> None:
        self.transcript = Transcript(start)
        self.turns = 0
        self._toolkit = toolkit
        self._open: dict[str, ToolCall] = {call.call_id: call for call in start.waiting.values()}
        self._in_threads: set[str] = set()  # of those: nothing stops them

    def feed(self, event: RunEvent) -> None:
        match event:
            case TurnEnded(turn=turn):
                self.turns += 1
                self._open.update((call.call_id, call) for call in turn.calls)
            case ToolStarted(call_id=call_id, tool=tool) if tool in self._toolkit and self._toolkit[tool].in_thread:
                self._in_threads.add(call_id)
            case Output(call_id=call_id) | ToolInputAbandoned(call_id=call_id):
                self._open.pop(call_id, None)
                self._in_threads.discard(call_id)
        self.transcript.feed(event)

    def ends(self, reason: str) -> Iterator[Output]:
        """An Output for each call that has none, in the transcript, too."""
        for call in self._open.values():
            still = " It may still be running." if call.call_id in self._in_threads else ""
            failure = Failure(call.call_id, call.name or "unnamed", "cancelled", reason + still)
            output = Output(call.call_id, failure.tool, failure, 0.0)
            self.transcript.feed(output)
            yield output
