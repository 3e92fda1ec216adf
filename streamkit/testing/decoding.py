"""`decode`: what is to be read in the body of a streamed answer, as one plain object."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

import msgspec

from ..codec.surrogates import whole
from ..errors import ModelError
from ..items import ProviderTool, Reasoning, ToolCall, UnknownItem
from ..providers.decoders import DECODERS
from ..turns import Turn
from .decoders import outcome


def decode(dialect: str, pieces: Iterable[bytes], tools: Iterable[str] = ()) -> dict[str, Any]:
    """The turn that a body holds, however it is cut into pieces.

    dialect: one of DECODERS. tools: the names of the known tools, which decide whether pieces of a name are joined.

    text, reasoning, refusal: joined; None where nothing came of the last. tool_calls: those that may run, their
    arguments as a tree, or as text that Python cannot read. abandoned: those that were cut or discarded, by id and
    reason. invalid_calls: those that ended, but cannot run, with their raw text. other_items: what the provider ran
    itself, and other items of its own, by id, type and name. stop: our reason; stop_reason: the provider's word. usage:
    tokens. error: None, or its kind and message.
    """
    if dialect not in DECODERS:
        raise ValueError(f"there is no dialect {dialect!r}; known are {', '.join(DECODERS)}")
    _, turn, error = outcome(DECODERS[dialect](), pieces, tools)
    return summary(turn, error)


def summary(turn: Turn, error: ModelError | None) -> dict[str, Any]:
    """The object of `decode` for a turn, and the error that it ended in."""
    return {
        "text": turn.text,
        "reasoning": "".join(item.text for item in turn.items if type(item) is Reasoning),
        "refusal": turn.refusal or None,
        "tool_calls": [_call(call) for call in turn.calls if call.problem is None],
        "abandoned": [
            {"id": call.call_id, "name": call.name, "reason": call.abandoned, "raw": call.arguments}
            for call in turn.dropped
        ],
        "invalid_calls": [
            {"id": call.call_id, "name": call.name or None, "raw": call.arguments, "problem": call.problem}
            for call in turn.calls
            if call.problem is not None
        ],
        "other_items": _other_items(turn),
        "stop": turn.stop_reason,
        "stop_reason": turn.stop_word,
        "usage": msgspec.to_builtins(turn.usage),
        "error": None if error is None else {"kind": error.kind, "message": str(error)},
    }


def _call(call: ToolCall) -> dict[str, Any]:
    if call.custom:
        return {"id": call.call_id, "name": call.name, "kind": "custom", "arguments": call.arguments}
    return {"id": call.call_id, "name": call.name, "arguments": _tree(call.arguments)}


def _tree(arguments: str) -> Any:
    """What the text says; the text, where Python does not read numbers so long, or containers so deep."""
    try:
        tree = json.loads(arguments)
        return whole(tree) if "\\u" in arguments else tree
    except (ValueError, RecursionError):
        return arguments


def _other_items(turn: Turn) -> list[dict[str, Any]]:
    found: dict[str, dict[str, Any]] = {}
    for item in turn.items:
        if type(item) is ProviderTool and item.call_id not in found:  # else it is the output of one
            name = item.name if item.name != item.kind else None
            found[item.call_id] = {"id": item.call_id, "type": item.kind, "name": name, "arguments": item.input}
        elif type(item) is UnknownItem and item.dialect is not None and isinstance(item.item, dict):
            said = item.item
            if said.get("id"):  # a mark without one, such as a change of models, is no item
                known = {"id": said["id"], "type": said.get("type"), "name": said.get("name")}
                found.setdefault(str(said["id"]), known)
    return list(found.values())
