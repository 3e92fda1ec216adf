"""What a run has cost: turns, calls and tokens, those of inner runs included."""

from __future__ import annotations

from dataclasses import dataclass, field
from time import monotonic

from ..items import Usage
from ..tool_events import RunEvent, ToolStarted
from ..turns import TurnEnded


@dataclass
class Counts:
    turns: int = 0
    calls: int = 0
    usage: Usage = field(default_factory=Usage)
    _began: float = field(default_factory=monotonic)

    def feed(self, innermost: RunEvent) -> None:
        """Take an event, without the Intermediates around it."""
        kind = type(innermost)
        if kind is TurnEnded:
            self.turns += 1
            self.usage += innermost.turn.usage  # type: ignore[union-attr]  # isinstance would cost more
        elif kind is ToolStarted:
            self.calls += 1

    def summary(self) -> str:
        counted = [(self.turns, "turn"), (self.calls, "call")]
        said = [f"{number:,} {what}{'' if number == 1 else 's'}" for number, what in counted if number]
        if self.usage != Usage():  # not every model counts them
            said.append(f"{self.usage.input_tokens:,} tokens in, {self.usage.output_tokens:,} out")
        return " · ".join([*said, f"{monotonic() - self._began:.1f} seconds"]) if said else ""
