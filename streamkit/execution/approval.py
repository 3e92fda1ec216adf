"""Asking before a call runs: the question, what may be answered to it, and which calls a person is asked about.

One function decides about the calls of an execution: `authorize: async (Question) -> Verdict`.
"""

from __future__ import annotations

import inspect
import logging
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

import msgspec
from msgspec import UNSET

from ..items import ToolCall
from ..tools.toolkit import ValidCall

logger = logging.getLogger("streamkit")


class Allow(msgspec.Struct, frozen=True, tag=True, omit_defaults=True):
    """The call may run. arguments: what it runs with instead of its own; they are validated again.

    value: the result of the call, which then does not run. This is how a tool without a body is answered.
    """

    arguments: dict[str, Any] | None = None
    value: Any = UNSET


class Deny(msgspec.Struct, frozen=True, tag=True):
    """The call does not run. reason: the model reads it."""

    reason: str


class Undecided(msgspec.Struct, frozen=True, tag=True):
    """Nobody has decided yet: the call is `Pending`, and the others run."""


Verdict = Allow | Deny | Undecided


class Card(msgspec.Struct, frozen=True, rename="camel"):
    """What a person is shown about a tool before a call of it runs, beside its name and the arguments.

    origin: whose tool it is, such as an account or a server. effects: what the tool says a call does, see `Tool`.
    wants_value: the tool has no body, so whoever allows the call has to give its value.
    """

    description: str
    origin: str | None
    effects: str
    wants_value: bool = False


class Question(msgspec.Struct, frozen=True):
    """May this call run? context: what was given to `execute_all`."""

    call: ValidCall
    execution_id: str
    context: Any
    announce: Callable[[Any], Awaitable[None]]
    """`await question.announce(card)` tells the consumer that somebody has to decide (ApprovalRequested); once."""
    problem_with: Callable[[Mapping[str, Any]], str | None]
    """Why the call cannot run with these arguments instead of its own; None where it can."""
    is_cancelled: Callable[[], bool]
    """Whether somebody has cancelled the call, so that no verdict counts any more."""


Authorize = Callable[[Question], Awaitable[Verdict]]


def check_authorize_given(authorize: object) -> None:
    """Raise TypeError for what is given as `authorize=` and cannot be called, such as a desk."""
    if authorize is not None and not callable(authorize):
        raise TypeError(f"authorize= is a function, such as desk.authorize, not {type(authorize).__name__}")


async def allow_all(question: Question) -> Verdict:
    """Every valid call runs, those of tools with `approval=True` too."""
    return Allow()


# For those who ask people

Needs = Callable[[ValidCall], bool]
"""Whether somebody has to decide about a call."""


def asks_for_marked(call: ValidCall) -> bool:
    """The default: calls of tools that were made with `approval=True`."""
    return call.tool.approval


def plain_rule(needs: Needs) -> Needs:
    """The rule itself. Raises TypeError for a coroutine function."""
    if inspect.iscoroutinefunction(needs):
        raise TypeError("needs= is a plain function of a ValidCall; if it has to wait, use authorize=")
    return needs


def must_ask(needs: Needs, call: ValidCall) -> bool:
    """Whether somebody has to decide about a call; also where that cannot be told, and of tools without a body."""
    if not call.tool.has_body:
        return True
    try:
        return needs(call) is not False
    except Exception:
        logger.warning("needs= raised for a call of %s, so it is asked about", call.name, exc_info=True)
        return True


def problem_of(question: Question, verdict: Verdict) -> str | None:
    """Why the verdict does not fit its question; None where it does."""
    if not isinstance(verdict, Allow):
        return None
    call = question.call
    if verdict.value is UNSET and not call.tool.has_body:
        return f"{call.name} does nothing by itself: give the value of {question.execution_id}"
    if verdict.arguments is not None and (problem := question.problem_with(verdict.arguments)) is not None:
        return f"{call.name} cannot run with these: {problem}"
    return None


def meant_instead(given: str, calls: Mapping[str, ToolCall]) -> str:
    """What else to say if no call has this execution id: which one is meant, if it is a call_id.

    calls: those that it could be, by execution id.
    """
    meant = next((execution_id for execution_id, call in calls.items() if call.call_id == given), None)
    return "" if meant is None else f": that is a call_id, the execution id is {meant}"


def card_of(call: ValidCall) -> Card:
    """What a person should be shown beside the name and the arguments of a call."""
    tool = call.tool
    return Card(tool.description, tool.origin, tool.effects, not tool.has_body)
