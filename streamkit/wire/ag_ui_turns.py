"""Turns that a client keeps for us: what a provider wants back unread (signatures, encrypted reasoning) goes with them.

AG-UI has a place for such things: `encryptedValue` of a message, told in REASONING_ENCRYPTED_VALUE, which the client
sends back with the message. It holds the items of the turn under a seal: a request to a provider is made of them.
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from ..items import ToolCall, TurnItem
from ..turns import Turn
from .seals import Seal


def kept_turn(turn: Turn, wire_ids: Mapping[str, str], seal: Seal, thread_id: str, *, limit_bytes: int) -> str | None:
    """The items of a turn, for the client to keep; None where they hold nothing that the messages do not have.

    wire_ids: the ids of its calls, as the client knows them. limit_bytes: a turn that is longer is not kept.
    """
    if all(getattr(item, "opaque", None) is None for item in turn.items):
        return None
    items = [_told(item, wire_ids) if isinstance(item, ToolCall) else item for item in turn.items]
    try:
        kept = seal.close(thread_id, msgspec.to_builtins(items))
    except (TypeError, ValueError, RecursionError, OverflowError):
        return None
    return kept if len(kept) <= limit_bytes else None


def items_of(kept: str, seal: Seal, thread_id: str) -> tuple[TurnItem, ...] | None:
    """The items that a client has kept; None for what is not ours, or of another thread."""
    opened = seal.open(thread_id, kept)
    if opened is None:
        return None
    try:
        return msgspec.convert(opened, tuple[TurnItem, ...])
    except msgspec.ValidationError:
        return None  # of an older version


def _told(call: ToolCall, wire_ids: Mapping[str, str]) -> ToolCall:
    """As it may stand in a history: what could not run has no arguments there."""
    is_whole = call.problem is None and call.abandoned is None
    return msgspec.structs.replace(
        call,
        call_id=wire_ids.get(call.call_id, call.call_id),
        name=call.name or "unnamed",
        arguments=call.arguments if is_whole else "{}",
        problem=None,
        abandoned=None,
    )
