"""Asking before a call runs: the question, and what may be answered to it.

One function decides about the calls of an execution: `authorize: async (Question) -> Verdict`.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any

import msgspec
from msgspec import UNSET

from .toolkit import ValidCall


class Allow(msgspec.Struct, frozen=True, tag=True, omit_defaults=True):
    """The call may run. arguments: what it runs with instead of its own; validated again.

    value: what it gives: then it does not run. A tool without a body is answered so.
    """

    arguments: dict[str, Any] | None = None
    value: Any = UNSET


class Deny(msgspec.Struct, frozen=True, tag=True):
    """The call does not run. reason: the model reads it."""

    reason: str


class Undecided(msgspec.Struct, frozen=True, tag=True):
    """Nobody has decided yet: the call is `Pending`, and the others go on."""


Verdict = Allow | Deny | Undecided


class Card(msgspec.Struct, frozen=True):
    """What a person is shown of a tool before a call of it runs, beside its name and the arguments.

    origin: whose tool it is: an account, a server. effects: what it says of what it does, see `Tool`.
    wants_value: the tool does nothing by itself, so who allows the call gives its value, too.
    """

    description: str
    origin: str | None
    effects: str
    wants_value: bool = False


@dataclass(frozen=True, slots=True)
class Question:
    """May this call run? context: what was given to `execute_all`."""

    call: ValidCall
    execution_id: str
    context: Any
    announce: Callable[[Any], Awaitable[None]]
    """`await question.announce(card)` tells the consumer that somebody has to decide (ApprovalRequested); once."""
    problem_with: Callable[[Mapping[str, Any]], str | None]
    """Why the call cannot run with these arguments instead of its own; None where it can."""


Authorize = Callable[[Question], Awaitable[Verdict]]


async def allow_all(question: Question) -> Verdict:
    """Every valid call runs, those of tools with `approval=True` too."""
    return Allow()
