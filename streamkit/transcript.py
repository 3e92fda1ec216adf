"""`Transcript`: the history of a run from its events, legal at every moment of it."""

from __future__ import annotations

from .conversation import Conversation
from .history import append_turn
from .items import History, Message
from .tool_events import Failure, Output, Pending, RunEvent, ToolResult
from .turns import TextDelta, Turn, TurnEnded, TurnRestarted, TurnStarted


class Transcript:
    """The reducer from the events of a run to its history: `flow.tap(transcript.feed)`.

    start: what the run was given, a history or a Conversation. `history(reason)` is one that a provider accepts, at any
    moment, so an exception or a cancellation loses no work: it has the whole turns with their results, the text of the
    turn under way but no half call, and a failure with the reason for each call without a result. A turn whose end is
    reported twice counts once.
    """

    def __init__(self, start: History | Conversation = ()) -> None:
        state = start if isinstance(start, Conversation) else Conversation(start)
        self._settled = state.history
        self._turn = state.turn  # ended, its calls not all answered
        self._ended: Turn | None = None  # the last that ended, until another begins
        known = (result for result in state.results if not isinstance(result, Pending))
        self._results: dict[str, ToolResult] = {result.call_id: result for result in known}
        self._text: list[str] = []  # of the turn under way

    def feed(self, event: RunEvent) -> None:
        """Take note of an event. Events of inner runs, and those that leave nothing in a history, change nothing."""
        match event:
            case TurnStarted():
                self._settled = self._with_turn("This call did not run: the model was asked again without its result.")
                self._turn, self._results, self._text, self._ended = None, {}, [], None
            case TextDelta(text=text):
                self._text.append(text)
            case TurnRestarted():
                self._text = []
            case TurnEnded(turn=turn) if turn != self._ended:
                self._turn, self._text, self._ended = turn, [], turn
                self._settle()
            case Output(result=result) if not isinstance(result, Pending):
                self._results[result.call_id] = result
                self._settle()

    def history(self, reason: str = "This call was cancelled.") -> History:
        """The history as it could be sent to a model now. reason: what it reads as the result of calls without one."""
        text = "".join(self._text)
        return self._with_turn(reason) + ((Message("assistant", text),) if text.strip() else ())

    def _settle(self) -> None:
        if self._turn is not None and all(call.call_id in self._results for call in self._turn.calls):
            self._settled = self._with_turn("")
            self._turn, self._results = None, {}

    def _with_turn(self, reason: str) -> History:
        if self._turn is None:
            return self._settled
        results = [
            self._results.get(call.call_id) or Failure(call.call_id, call.name, "cancelled", reason)
            for call in self._turn.calls
        ]
        return append_turn(self._settled, self._turn, results)
