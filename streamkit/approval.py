"""Asking before a call runs: the question, and what may be answered to it.

One function decides about the calls of an execution: `authorize: async (Question) -> Verdict`.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

import msgspec

from .toolkit import ValidCall


class Allow(msgspec.Struct, frozen=True, tag=True):
    """The call may run. arguments: what it runs with instead of its own; validated again."""

    arguments: dict[str, Any] | None = None


class Deny(msgspec.Struct, frozen=True, tag=True):
    """The call does not run. reason: the model reads it."""

    reason: str


class Undecided(msgspec.Struct, frozen=True, tag=True):
    """Nobody has decided yet: the call is `Pending`, and the others go on."""


Verdict = Allow | Deny | Undecided


@dataclass(frozen=True, slots=True)
class Question:
    """May this call run? context: what was given to `execute_all`."""

    call: ValidCall
    execution_id: str
    context: Any
    announce: Callable[[Any], Awaitable[None]]
    """`await question.announce(card)` tells the consumer that somebody has to decide (ApprovalRequested); once."""


Authorize = Callable[[Question], Awaitable[Verdict]]


async def allow_all(question: Question) -> Verdict:
    """The default: every valid call runs."""
    return Allow()
