"""Turns that a client keeps for us: what a provider wants back unread (signatures, encrypted reasoning) goes with them.

A request to a provider is made of the items of a turn, and a client that holds the conversation has only what it shows.
So it gets the items, too, under a seal, and sends them back with the rest: AG-UI has `encryptedValue` of a message for
such things, a message of the AI SDK a part of its own.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import msgspec

from ..codec.surrogates import whole
from ..items import Item, ToolCall, TurnItem, UnknownItem
from .seals import Seal


def kept_turn(
    items: Iterable[Item], wire_ids: Mapping[str, str], seal: Seal, thread_id: str, *, limit_bytes: int
) -> str | None:
    """The items of a turn, for the client to keep; None where they hold nothing that the messages do not have.

    wire_ids: the ids of its calls, as the client knows them. limit_bytes: a turn that is longer is not kept.
    """
    items = tuple(items)
    if not any(map(_goes_back, items)):
        return None
    told = [_told(item, wire_ids) if isinstance(item, ToolCall) else item for item in items]
    try:
        kept = seal.close(thread_id, whole(msgspec.to_builtins(told)))
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


def _goes_back(item: Item) -> bool:
    if isinstance(item, UnknownItem):
        return item.dialect is not None
    return getattr(item, "opaque", None) is not None


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
