"""What has happened in a run, and what is under way: for the last line, and for the line after an interruption."""

from __future__ import annotations

from typing import Any

from streamkit import Output, RunEvent, ToolStarted, TurnEnded, TurnStarted, walk


class Tally:
    """Counts the events of a run: `flow.tap(tally.feed)`. Those of inner runs count, too."""

    def __init__(self) -> None:
        self.questions = 0
        self._calls = 0
        self._turns = 0
        self._tokens = 0
        self._writing = 0  # turns that have started and not ended
        self._running: dict[str, str] = {}  # the outer calls, by id

    def feed(self, event: RunEvent) -> None:
        path, innermost = walk(event)
        match innermost:
            case TurnStarted():
                self._writing += 1
            case TurnEnded(turn=turn):
                self._writing -= 1
                self._turns += 1
                self._tokens += turn.usage.input_tokens + turn.usage.output_tokens
            case ToolStarted(call_id=call_id, tool=tool, arguments=arguments):
                self._calls += 1
                if not path:
                    self._running[call_id] = described(tool, arguments)
            case Output(call_id=call_id) if not path:
                self._running.pop(call_id, None)

    def summary(self, seconds: float) -> tuple[str, ...]:
        """The counts, each with its word."""
        counts = [(self.questions, "question"), (self._calls, "call"), (self._turns, "model turn")]
        if self._tokens:  # not every model counts them
            counts.append((self._tokens, "token"))
        return (*(counted(number, what) for number, what in counts), f"{seconds:.1f} seconds")

    def under_way(self) -> str:
        """What an interruption cuts off, as the rest of a sentence that begins with "cancelled"."""
        if self._running:
            return f"while {listed(list(self._running.values()))} ran"
        if self._writing:
            return "while the model was writing"
        return "while the model was asked" if self.questions else "before the first question"


def described(tool: str, arguments: dict[str, Any]) -> str:
    """A call in a few words."""
    said = " ".join(str(value) for value in arguments.values())
    return f"{tool} {said if len(said) <= 40 else said[:39] + '…'}".strip()


def listed(things: list[str]) -> str:
    return " and ".join([", ".join(things[:-1]), things[-1]] if things[1:] else things)


def counted(number: int, what: str) -> str:
    return f"{number:,} {what}{'' if number == 1 else 's'}"
