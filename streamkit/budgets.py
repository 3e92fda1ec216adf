"""`Budget`: what a run may use of turns, calls, tokens and repairs. (`timed_runs` counts its time.)"""

from __future__ import annotations

import msgspec

from .conversation import Conversation, Ended
from .items import ToolCall


class Budget(msgspec.Struct, frozen=True):
    """What a run may use. A state tells what it has used, also before it went on with it."""

    max_turns: int
    max_calls: int | None
    max_tokens: int | None
    max_repairs: int

    def __post_init__(self) -> None:
        if not isinstance(self.max_turns, int) or self.max_turns < 1:
            raise ValueError(f"max_turns must be at least 1, not {self.max_turns!r}")
        for name in ("max_repairs", "max_calls", "max_tokens"):
            limit = getattr(self, name)
            if limit is not None and limit < 0:
                raise ValueError(f"{name} must not be negative, but is {limit}")

    def has_no_repairs_left(self, state: Conversation) -> bool:
        """Whether the model has got one tool wrong too often."""
        return any(turns > self.max_repairs for turns in state.used.invalid.values())

    def used_up(self, state: Conversation) -> Ended | None:
        """Why the next turn has to be the last."""
        used = state.used
        if used.turns + 1 >= self.max_turns:
            return "turn_limit"
        if self.max_calls is not None and used.calls >= self.max_calls:
            return "budget"
        return "budget" if self.max_tokens is not None and used.tokens >= self.max_tokens else None

    def share(
        self, state: Conversation, calls: tuple[ToolCall, ...]
    ) -> tuple[tuple[ToolCall, ...], tuple[ToolCall, ...]]:
        """The calls that may run, and those for which nothing is left."""
        left = len(calls) if self.max_calls is None else self.max_calls - state.used.calls
        return calls[:left], calls[left:]
