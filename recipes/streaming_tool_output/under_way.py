"""What is under way in a run: for the line after an interruption."""

from __future__ import annotations

from typing import Any

from streamkit import Output, RunEvent, ToolStarted, TurnEnded, TurnStarted, walk


class UnderWay:
    """Follows the events of runs: `flow.tap(under_way.feed)`."""

    def __init__(self) -> None:
        self.questions = 0
        self._writing = 0  # turns that have started and not ended
        self._running: dict[str, str] = {}  # the outer calls, by id

    def feed(self, event: RunEvent) -> None:
        path, innermost = walk(event)
        match innermost:
            case TurnStarted():
                self._writing += 1
            case TurnEnded():
                self._writing -= 1
            case ToolStarted(call_id=call_id, tool=tool, arguments=arguments) if not path:
                self._running[call_id] = described(tool, arguments)
            case Output(call_id=call_id) if not path:
                self._running.pop(call_id, None)

    def told(self) -> str:
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
