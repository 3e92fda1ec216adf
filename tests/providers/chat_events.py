"""Chunks of chat completions, and what a decoder or a request makes of them."""

import json
from typing import Any

from streamkit.providers.openai_chat import encode_request
from streamkit.providers.openai_chat_decoder import OpenAIChatDecoder
from streamkit.turns import TurnRequest

from ..streams import Outcome, outcome


def sse(*events: object) -> bytes:
    return b"".join(b"data: " + json.dumps(event).encode() + b"\n\n" for event in events)


def delta(**fields: Any) -> dict[str, Any]:
    return {"choices": [{"index": 0, "delta": fields}]}


STOP = {"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]}


def read(*events: object, tail: bytes = b"") -> Outcome:
    return outcome(OpenAIChatDecoder(), [sse(*events) + tail])


def called(**fields: Any) -> dict[str, Any]:
    return delta(tool_calls=[{"index": 0, "id": "a", "function": {"name": "f", "arguments": "{}"}, **fields}])


def body_of(request: TurnRequest) -> dict[str, Any]:
    return encode_request(request, "m")


def messages(*history: Any) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = body_of(TurnRequest(tuple(history)))["messages"]
    return found


def written_call(call_id: str, arguments: str = "{}") -> dict[str, Any]:
    return {"id": call_id, "type": "function", "function": {"name": "f", "arguments": arguments}}
