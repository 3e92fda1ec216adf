"""Runs that are cut off when their time is up."""

from __future__ import annotations

from .conversation import Conversation
from .execution.limits import LimitedSink, Limits, TimedOut
from .flows.flow import Flow, Sink
from .flows.sinks import TappedSink
from .journal.log import RunLog
from .journal.recorded_sink import RecordedSink
from .metering import Meter
from .tool_events import Failure, Output, RunEvent, ToolStarted
from .toolkit import Toolkit
from .transcript import Transcript
from .turns import ToolInputAbandoned, TurnEnded


async def run_within(
    limits: Limits,
    run: Flow[RunEvent, Conversation],
    out: Sink[RunEvent],
    *,
    start: Conversation,
    toolkit: Toolkit,
    journal: RunLog | None,
) -> Conversation:
    """The run, cut off by its limits: then the history has all that was whole by then, and no call stays open."""
    transcript = Transcript(start)
    open_calls = {call.call_id: call for call in start.waiting.values()}
    left_behind: set[str] = set()
    turns = 0

    def note(event: RunEvent) -> None:
        nonlocal turns
        match event:
            case TurnEnded(turn=turn):
                turns += 1
                open_calls.update((call.call_id, call) for call in turn.calls)
            case ToolStarted(call_id=call_id, tool=tool) if tool in toolkit and toolkit[tool].in_thread:
                left_behind.add(call_id)
            case Output(call_id=call_id) | ToolInputAbandoned(call_id=call_id):
                open_calls.pop(call_id, None)
                left_behind.discard(call_id)
        transcript.feed(event)

    with Meter() as meter:
        try:
            return await limits.run(LimitedSink(TappedSink(out, note), limits).forward(run))
        except TimedOut as timed_out:
            reason = f"This call was cancelled: the run {timed_out}."
            to = out if journal is None else RecordedSink(out, journal)
            for call in open_calls.values():
                still = " It may still be running." if call.call_id in left_behind else ""
                failure = Failure(call.call_id, call.name or "unnamed", "cancelled", reason + still)
                output = Output(call.call_id, failure.tool, failure, 0.0)
                transcript.feed(output)
                await to.send(output)
            history = transcript.history(reason)
            state = Conversation(history, None, (), start.turns + turns, start.usage + meter.total, "budget")
            if journal is not None:
                await journal.save(state)
            return state
