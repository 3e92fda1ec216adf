"""Events of the Messages API as they are sent, and what is read of them."""

import json
from typing import Any

from streamkit.providers.anthropic_decoder import AnthropicDecoder

from ..streams import Outcome, outcome


def sse(*events: object) -> bytes:
    """As the API sends it: each event has a name, which its data repeats."""
    return b"".join(b"event: %b\ndata: %b\n\n" % (name_of(event), json.dumps(event).encode()) for event in events)


def name_of(event: object) -> bytes:
    name = str(event.get("type")) if isinstance(event, dict) else "odd"
    return name.encode() if name.isidentifier() else b"odd"


def begin(index: int | None, kind: str, **fields: Any) -> dict[str, Any]:
    return {"type": "content_block_start", "index": index, "content_block": {"type": kind, **fields}}


def delta(index: int | None, kind: str, **fields: Any) -> dict[str, Any]:
    return {"type": "content_block_delta", "index": index, "delta": {"type": f"{kind}_delta", **fields}}


def text(piece: str, index: int = 0) -> dict[str, Any]:
    return delta(index, "text", text=piece)


def arguments(piece: Any, index: int = 0) -> dict[str, Any]:
    return delta(index, "input_json", partial_json=piece)


def stop(index: int | None = 0) -> dict[str, Any]:
    return {"type": "content_block_stop", "index": index}


def end(word: Any = "end_turn", **usage: Any) -> tuple[dict[str, Any], dict[str, Any]]:
    return {"type": "message_delta", "delta": {"stop_reason": word}, "usage": usage}, {"type": "message_stop"}


def call(index: int = 0, call_id: str = "a", name: str = "f", **fields: Any) -> dict[str, Any]:
    return begin(index, "tool_use", id=call_id, name=name, **fields)


def whole_call(index: int = 0, call_id: str = "a") -> tuple[dict[str, Any], ...]:
    return call(index, call_id), arguments('{"x":1}', index), stop(index)


def read(*events: object, tail: bytes = b"") -> Outcome:
    return outcome(AnthropicDecoder(), [sse(*events) + tail])


def items(*events: object) -> tuple[Any, ...]:
    return read(*events, *end()).turn.items
