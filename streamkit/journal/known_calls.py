"""What is written down of the calls of a turn whose results are not all there."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeVar

import msgspec

from ..conversation import Conversation, Paused
from ..errors import JournalMismatch
from ..items import ToolCall
from ..tool_events import ToolResult
from ..turns import Turn
from .entry import CallFinished, CallPaused, CallStarted, Decided, Entry
from .hidden_calls import HIDDEN, as_it_ran

R = TypeVar("R")


class KnownCalls:
    """The calls by execution id, those inside other calls too.

    started: their last attempts. paused: those that did not start again since.
    """

    def __init__(self) -> None:
        self.verdicts: dict[str, Decided] = {}
        self.started: dict[str, CallStarted] = {}
        self.paused: dict[str, Paused] = {}
        self.finished: dict[str, CallFinished] = {}

    def take_in(self, entry: Entry) -> None:
        """Learn from an entry; those that are not about one call say nothing here."""
        match entry:
            case Decided() if entry.reason != HIDDEN:  # else somebody has to decide again
                self.verdicts[entry.execution_id] = entry
            case CallStarted():
                self.started[entry.execution_id] = entry
                self.paused.pop(entry.execution_id, None)
            case CallPaused(execution_id=execution_id, paused=paused):
                self.paused[execution_id] = paused
            case CallFinished():
                self.finished[entry.execution_id] = entry

    def forget(self) -> None:
        """The calls of a turn that is settled are asked for no more."""
        self.verdicts.clear()
        self.started.clear()
        self.paused.clear()
        self.finished.clear()

    def check_same(self, call: ToolCall, execution_id: str) -> None:
        """Raise JournalMismatch for a call that began as a call of something else."""
        started = self.started.get(execution_id)
        if started is not None and started.tool != call.name:
            raise JournalMismatch(f"call {execution_id} is written down as one of {started.tool}, not of {call.name}")
        if started is not None and started.digest not in ("", digest(call.arguments)):
            raise JournalMismatch(f"call {execution_id} of {call.name} is written down with other arguments")

    def settle(self, state: Conversation, turn: Turn) -> Conversation:
        """The state with the results that the calls of its unsettled turn have already."""
        waits = {key for key in state.waiting if _of(self.finished, key) is None}
        items = tuple(as_it_ran(item, waits) if isinstance(item, ToolCall) else item for item in turn.items)
        state = msgspec.structs.replace(state, turn=msgspec.structs.replace(turn, items=items))
        results: list[ToolResult] = []
        for key, call in state.waiting.items():
            if key in self.finished:
                results.append(self.finished[key].result)
            elif (paused := _of(self.paused, key)) is not None and paused != state.paused.get(key):
                results.append(paused.result(call))
        return state.settle(results)


def digest(arguments: str) -> str:
    """Tells whether the arguments of two calls are the same text, and nothing of what it is."""
    from hashlib import sha256  # noqa: PLC0415 - it loads OpenSSL, and only who writes a run down needs it

    return sha256(arguments.encode(errors="surrogatepass")).hexdigest()


def _of(records: Mapping[str, R], key: str) -> R | None:
    """What is known of a call of the turn, which inside another call is named with the path to it."""
    path = f"/{key}"
    return records.get(key) or next((of for named, of in records.items() if named.endswith(path)), None)
