"""`Conversation`: the ready-made state of a loop, and where inner runs stand of calls that wait in it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Literal

import msgspec

from .errors import HistoryError
from .history import append_turn
from .items import History, Item, Message, StopReason, Tagged, ToolCall, ToolOutput, Usage
from .tool_events import Failure, Pending, ToolResult
from .turns import Turn

Ended = Literal[
    "answer", "pending", "turn_limit", "length", "content_filter", "refusal", "unknown", "repair_limit", "budget"
]

_ENDED: dict[StopReason, Ended] = {
    "stop": "answer",
    "length": "length",
    "content_filter": "content_filter",
    "refusal": "refusal",
}


class InnerRun(msgspec.Struct, frozen=True):
    """Where a run stands inside a call that waits.

    begun_with, asked: digests of the history it started with, and of the model, instructions and tools.
    """

    begun_with: str
    state: Conversation
    asked: str = ""


class Paused(msgspec.Struct, frozen=True):
    """A call that ran, and waits because calls of its inner runs do. Once they are decided it runs again from its
    beginning, and its inner runs continue where they stand.

    waits: the calls to be decided, by execution id. runs: in the order in which they began. attempt: the one that was
    paused. arguments: what the call runs with, if somebody has allowed it with other arguments than its own; else None.
    usage: of the model turns so far.
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
    """What a run has used since the person spoke: turns of the model, calls that have results, and tokens, including
    those of inner runs. invalid: for each tool, how many turns in a row now none of its calls was valid.
    """

    turns: int = 0
    calls: int = 0
    tokens: int = 0
    invalid: dict[str, int] = {}


class Conversation(msgspec.Struct, frozen=True):
    """The ready-made state of a loop; it round-trips through JSON.

    turn, results: a turn that is not settled, because a call of it is pending, and the results that it has. turns: how
    many turns the model was asked for. usage: of all turns, including those of inner runs. ended: why the loop is over;
    None while it is not. paused: the pending calls that wait for calls of their inner runs, by execution id. used: what
    counts toward the limits of a run; `say` resets it.
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
        return {call.local_id: call for call in self.turn.calls if call.call_id not in done}

    @property
    def undecided(self) -> dict[str, ToolCall]:
        """The calls that somebody may decide about, by execution id: those that wait, but in place of a paused call the
        calls inside it, whose ids begin with its own.
        """
        found: dict[str, ToolCall] = {}
        for execution_id, call in self.waiting.items():
            paused = self.paused.get(execution_id)
            found |= {execution_id: call} if paused is None else paused.waits
        return found

    @property
    def text(self) -> str:
        """What the model said last, if nothing came after it: usually its answer. Empty otherwise."""
        said: list[str] = []
        for item in reversed(self.history):
            if isinstance(item, Message) and item.role == "assistant":
                said.append(item.text)
            elif isinstance(item, Message | ToolCall | ToolOutput):
                break
        return "".join(reversed(said))

    def take(self, turn: Turn) -> Conversation:
        """The state in which the calls of a turn are about to run: it is unsettled until all of them have results.

        Raises HistoryError while another turn is unsettled.
        """
        self._check_settled()
        used = msgspec.structs.replace(
            self.used, turns=self.used.turns + 1, tokens=self.used.tokens + _tokens(turn.usage)
        )
        return Conversation(self.history, turn, (), self.turns + 1, self.usage + turn.usage, used=used)

    def _check_settled(self) -> None:
        if self.turn is not None:
            names = ", ".join(call.name for call in self.waiting.values())
            raise HistoryError(
                f"turn {self.turn.turn_id} is not settled: its calls of {names} wait; go on with from_verdicts(…), or"
                " give their results to settle"
            )

    def settle(self, results: Sequence[ToolResult]) -> Conversation:
        """The state after results for calls that wait; the turn stays unsettled while one of its calls has none.

        Raises HistoryError if no turn is unsettled, or for the result of a call that does not wait.
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
        """The state with these items added, usually a message of the person, so that the loop can continue.

        Raises HistoryError while a turn is unsettled.
        """
        self._check_settled()
        if strange := [type(item).__name__ for item in items if not isinstance(item, Tagged)]:
            raise TypeError(f"say takes items, such as user('…'), not a {strange[0]}")
        return msgspec.structs.replace(self, history=self.history + items, ended=None, used=Used())


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


def paused_in(result: Pending) -> Paused | None:
    """What stands beside the result of a call that is paused."""
    return result.__dict__.get("paused")
