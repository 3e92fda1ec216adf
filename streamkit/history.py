"""Histories in which calls and results pair up, whatever happened: appending turns, transcripts, and the ready-made
state of a loop.

A provider refuses a request with a call that has no result, or a result that has no call. So a turn goes into a history
together with its results or not at all, and everything here gives a history that the next request may use.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Literal

import msgspec

from .errors import HistoryError
from .items import History, Item, Message, Reasoning, StopReason, Tagged, ToolCall, ToolOutput, TurnItem, Usage
from .tool_events import Failure, Output, Pending, RunEvent, ToolResult, Value
from .turns import TextDelta, Turn, TurnEnded, TurnRestarted, TurnStarted

Ended = Literal[
    "answer", "pending", "turn_limit", "length", "content_filter", "refusal", "unknown", "repair_limit", "budget"
]

WHY_DROPPED = {
    "incomplete": "This call did not run: it was cut off, or its turn was, before it was whole.",
    "discarded": "This call did not run: its turn kept no such call.",
}
"""What the model reads as the result of a call that went nowhere."""
_ENDED: dict[StopReason, Ended] = {
    "stop": "answer",
    "length": "length",
    "content_filter": "content_filter",
    "refusal": "refusal",
}


def append_turn(history: History, turn: Turn, results: Sequence[ToolResult] = ()) -> History:
    """The history after a turn and the results of its calls.

    results: one for each of `turn.calls`, in any order; they are put in the order of the calls. Calls that went
    nowhere, or cannot run, are written with `{}` for arguments, and the former answered with a failure; of a cancelled
    turn only text and reasoning stay, and nothing of one that is blank. Raises HistoryError where a call has no result
    or a pending one, a result no call, or two calls one id.
    """
    if turn.stop_reason == "cancelled":
        return history + tuple(item for item in turn.items if _is_finished(item))
    by_id = {result.call_id: result for result in results}
    calls = {item.call_id: item for item in turn.items if type(item) is ToolCall}
    if len(calls) < len(turn.calls) + len(turn.dropped):
        raise HistoryError(f"turn {turn.turn_id} has two calls with one id")
    if len(by_id) < len(results):
        raise HistoryError(f"two results for one call of turn {turn.turn_id}")
    if strange := by_id.keys() - {call.call_id for call in turn.calls}:
        raise HistoryError(f"results without a call in turn {turn.turn_id}: {', '.join(sorted(strange))}")
    if all(map(_is_blank, turn.items)):
        return history
    items = tuple(_as_sendable(item) if type(item) is ToolCall else item for item in turn.items)
    return history + items + tuple(_output(call, by_id.get(call.call_id)) for call in calls.values())


def _is_finished(item: TurnItem) -> bool:
    return bool(item.text.strip()) if isinstance(item, Message | Reasoning) else type(item) is not ToolCall


def _is_blank(item: TurnItem) -> bool:
    """Without words, and nothing goes back with it."""
    return type(item) is Message and not item.text.strip() and item.opaque is None


def _as_sendable(call: ToolCall) -> ToolCall:
    if call.problem is None and call.abandoned is None:
        return call
    return msgspec.structs.replace(call, name=call.name or "unnamed", arguments="{}")


def _output(call: ToolCall, result: ToolResult | None) -> ToolOutput:
    name = call.name or "unnamed"
    match result:
        case Value(text=text, images=images):
            return ToolOutput(call.call_id, name, text, images=images, custom=call.custom)
        case Failure(message=message, partial=partial):
            saved = "" if partial is None else f" What came before: {msgspec.json.encode(partial).decode()}"
            return ToolOutput(call.call_id, name, message + saved, failed=True, custom=call.custom)
        case None if call.abandoned is not None:
            return ToolOutput(call.call_id, name, WHY_DROPPED[call.abandoned], failed=True, custom=call.custom)
        case None:
            raise HistoryError(f"call {call.call_id} of {name} has no result")
        case Pending():
            raise HistoryError(f"call {call.call_id} of {name} is pending: nobody has decided it yet")


def unanswered(history: History) -> tuple[ToolCall, ...]:
    """The calls without a result, in the order in which they began."""
    return tuple(call for group in _groups(history) for call in _open_calls(group))


def cancel_pending(history: History, reason: str) -> History:
    """The same history, in which each call without a result is answered with a failure that gives the reason."""
    whole: list[Item] = []
    for group in _groups(history):
        outputs = {item.call_id: item for item in group if type(item) is ToolOutput}
        whole.extend(item for item in group if type(item) is not ToolOutput)
        for call in (item for item in group if type(item) is ToolCall):
            answer = outputs.get(call.call_id)
            whole.append(answer or ToolOutput(call.call_id, call.name, reason, failed=True, custom=call.custom))
    return tuple(whole)


def recent(history: History, count: int) -> History:
    """The last items, at most count of them, never a call without its result or a result without its call.

    A turn that does not fit is left out whole; the last one is kept even where it is longer than count.
    """
    starts = []
    position = 0
    for group in _groups(history):
        starts.append(position)
        position += len(group)
    fitting = [start for start in starts if len(history) - start <= count]
    return history[fitting[0] :] if fitting else history[starts[-1] :] if starts and count > 0 else ()


def _groups(history: History) -> Iterator[Sequence[Item]]:
    """A message of the person, or what the model said up to and with the results of its calls."""
    group: list[Item] = []
    for item in history:
        from_user = type(item) is Message and item.role == "user"
        if group and (from_user or _ends_before(group[-1], item)):
            yield group
            group = []
        group.append(item)
    if group:
        yield group


def _ends_before(last: Item, item: Item) -> bool:
    if type(last) is Message and last.role == "user":
        return True
    return type(last) is ToolOutput and type(item) is not ToolOutput


def _open_calls(group: Sequence[Item]) -> list[ToolCall]:
    answered = {item.call_id for item in group if type(item) is ToolOutput}
    return [item for item in group if type(item) is ToolCall and item.call_id not in answered]


class Transcript:
    """The reducer from the events of a run to its history: `flow.tap(transcript.feed)`.

    start: what the run is given, a history or a Conversation; calls that wait in it are run first, without a turn.
    `history(reason)` is legal at every moment, so an exception or a cancellation loses no work: it has the whole turns
    with their results, the text of the turn under way but no half call, and a failure with the reason for each call
    without a result. A turn that is told twice is one.
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
        """Take note of an event. Those of inner runs, and those that leave nothing in a history, change nothing."""
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
        """The history as it may be sent to a model now.

        reason: what it reads as the result of the calls that have none.
        """
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


class InnerRun(msgspec.Struct, frozen=True):
    """A run inside of a call that waits: where it stands.

    begun_with, asked: tell the history with which it began, and who is asked what besides.
    """

    begun_with: str
    state: Conversation
    asked: str = ""


class Paused(msgspec.Struct, frozen=True):
    """A call that ran, and waits since calls of its inner runs do. Once they are decided it runs again, from its
    beginning, and its inner runs go on where they stand.

    waits: the calls to be decided, by execution id. runs: in the order in which they began. attempt: that was paused.
    arguments: that it runs with, where somebody has allowed it with other ones. usage: of the model turns until now.
    """

    waits: dict[str, ToolCall]
    runs: tuple[InnerRun, ...] = ()
    attempt: int = 1
    arguments: dict[str, Any] | None = None
    usage: Usage = Usage()

    def result(self, call: ToolCall) -> Pending:
        """The result of the call; what is paused stands beside the record, and goes into the state with it."""
        pending = Pending(call.call_id, call.name)
        pending.__dict__["paused"] = self
        return pending


class Used(msgspec.Struct, frozen=True):
    """What a run has used since the person spoke: turns of the model, calls that have their results, tokens with those
    of inner runs. invalid: for each tool the turns in a row, until now, in which none of its calls was valid.
    """

    turns: int = 0
    calls: int = 0
    tokens: int = 0
    invalid: dict[str, int] = {}


class Conversation(msgspec.Struct, frozen=True):
    """The ready-made state of a loop; it round-trips through JSON.

    turn, results: a turn that is not settled, since a call of it is pending. turns: how many the model was asked.
    usage: of all turns, those of inner runs included. ended: why the loop is over, None while it is not. paused: those
    pending calls that wait for calls of their inner runs, by execution id. used: for the limits of a run, also of one
    that goes on elsewhere; `say` begins anew.
    """

    history: History = ()
    turn: Turn | None = None
    results: tuple[ToolResult, ...] = ()
    turns: int = 0
    usage: Usage = Usage()
    ended: Ended | None = None
    paused: dict[str, Paused] = {}
    used: Used = Used()

    @property
    def waiting(self) -> dict[str, ToolCall]:
        """The calls of the unsettled turn that have no result yet, by execution id."""
        if self.turn is None:
            return {}
        done = {result.call_id for result in self.results if not isinstance(result, Pending)}
        return {f"{call.turn_id}.{call.place}": call for call in self.turn.calls if call.call_id not in done}

    @property
    def undecided(self) -> dict[str, ToolCall]:
        """The calls that somebody may decide about, by execution id: those that wait, and in place of those that are
        paused the calls inside, whose ids begin with that of the call around them.
        """
        found: dict[str, ToolCall] = {}
        for execution_id, call in self.waiting.items():
            paused = self.paused.get(execution_id)
            found |= {execution_id: call} if paused is None else paused.waits
        return found

    @property
    def text(self) -> str:
        """What the model has said last, as far as nothing came behind it: mostly its answer."""
        said: list[str] = []
        for item in reversed(self.history):
            if isinstance(item, Message) and item.role == "assistant":
                said.append(item.text)
            elif isinstance(item, Message | ToolCall | ToolOutput):
                break
        return "".join(reversed(said))

    def take(self, turn: Turn) -> Conversation:
        """The state in which the calls of a turn are about to run: it is unsettled until all have their results."""
        if self.turn is not None:
            raise HistoryError(f"turn {self.turn.turn_id} is not settled: it has pending calls")
        used = msgspec.structs.replace(
            self.used, turns=self.used.turns + 1, tokens=self.used.tokens + _tokens(turn.usage)
        )
        return Conversation(self.history, turn, (), self.turns + 1, self.usage + turn.usage, used=used)

    def settle(self, results: Sequence[ToolResult]) -> Conversation:
        """The state after results for calls that wait; the turn stays unsettled while one of its calls has none.

        Raises HistoryError where no turn is unsettled, and for the result of a call that does not wait.
        """
        turn = self.turn
        if turn is None:
            raise HistoryError("no turn is unsettled, so no call waits for a result")
        by_id = {result.call_id: result for result in results}
        if strange := by_id.keys() - {call.call_id for call in self.waiting.values()}:
            raise HistoryError(f"results without a call in turn {turn.turn_id}: {', '.join(sorted(strange))}")
        if len(by_id) < len(results):
            raise HistoryError(f"two results for one call of turn {turn.turn_id}")
        known = {result.call_id: result for result in self.results} | by_id
        more = sum((_usage_of(result) for result in results), Usage())
        calls = self.used.calls + sum(not isinstance(result, Pending) for result in results)
        used = msgspec.structs.replace(self.used, calls=calls, tokens=self.used.tokens + _tokens(more))
        state = msgspec.structs.replace(self, usage=self.usage + more, used=used, ended=None)
        if len(known) < len(turn.calls) or any(isinstance(result, Pending) for result in known.values()):
            ordered = tuple(known[call.call_id] for call in turn.calls if call.call_id in known)
            ended: Ended | None = "pending" if any(isinstance(result, Pending) for result in ordered) else None
            return msgspec.structs.replace(state, results=ordered, ended=ended, paused=self._paused_after(by_id))
        return msgspec.structs.replace(
            state,
            history=append_turn(self.history, turn, tuple(known.values())),
            turn=None,
            results=(),
            ended=None if turn.wants_more else _ENDED.get(turn.stop_reason, "unknown"),
            paused={},
            used=msgspec.structs.replace(used, invalid=_invalid_after(used.invalid, known.values())),
        )

    def _paused_after(self, results: Mapping[str, ToolResult]) -> dict[str, Paused]:
        paused = dict(self.paused)
        for execution_id, call in self.waiting.items():
            result = results.get(call.call_id)
            if isinstance(result, Pending) and (left := paused_in(result)) is not None:
                paused[execution_id] = left
            elif result is not None and not isinstance(result, Pending):
                paused.pop(execution_id, None)
        return paused

    def add(self, turn: Turn, results: Sequence[ToolResult] = ()) -> Conversation:
        """The state after a turn and the results of its calls; with a Pending among them the turn stays unsettled.

        Raises HistoryError as append_turn does.
        """
        if len(results) < len(turn.calls) and not any(isinstance(result, Pending) for result in results):
            append_turn(self.history, turn, results)  # refuses what settle would wait for
        return self.take(turn).settle(results)

    def say(self, *items: Item) -> Conversation:
        """The state in which these items, mostly a message of the person, follow; the loop may go on."""
        if self.turn is not None:
            raise HistoryError(f"turn {self.turn.turn_id} is not settled: it has pending calls")
        if strange := next((item for item in items if not isinstance(item, Tagged)), None):
            raise TypeError(f"say takes items, such as user('…'), not a {type(strange).__name__}")
        return msgspec.structs.replace(self, history=self.history + items, ended=None, used=Used())


def paused_in(result: Pending) -> Paused | None:
    """What stands beside the result of a call that is paused."""
    return result.__dict__.get("paused")


def _usage_of(result: ToolResult) -> Usage:
    if not isinstance(result, Pending):
        return result.usage
    paused = paused_in(result)
    return Usage() if paused is None else paused.usage


def _tokens(usage: Usage) -> int:
    return usage.input_tokens + usage.output_tokens


def _invalid_after(before: Mapping[str, int], results: Iterable[ToolResult]) -> dict[str, int]:
    """Turns and not calls are counted: of several calls side by side none could be mended yet."""
    is_invalid: dict[str, bool] = {}
    for result in results:
        invalid = isinstance(result, Failure) and result.kind == "invalid_input"
        is_invalid[result.tool] = invalid and is_invalid.get(result.tool, True)
    after = dict(before)
    for tool, invalid in is_invalid.items():
        after.pop(tool, None)
        if invalid:
            after[tool] = before.get(tool, 0) + 1
    return after
