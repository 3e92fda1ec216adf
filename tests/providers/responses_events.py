"""Events of the Responses API, and what a decoder or a request makes of them."""

import json
from typing import Any

from streamkit.providers.openai_responses import encode_request
from streamkit.providers.openai_responses_decoder import OpenAIResponsesDecoder
from streamkit.turns import ToolInputAvailable, ToolInputDelta, TurnRequest

from ..streams import Outcome, assert_consistent, outcome


def sse(*events: dict[str, Any]) -> bytes:
    return b"".join(b"data: " + json.dumps(event).encode() + b"\n\n" for event in events)


def read(*events: dict[str, Any], tail: bytes = b"") -> Outcome:
    found = outcome(OpenAIResponsesDecoder(), [sse(*events) + tail])
    check(found)
    return found


def check(found: Outcome) -> None:
    """Where the closing words on a call contradict its pieces, they count; what was sent cannot be taken back."""
    deltas: dict[str, str] = {}
    for event in found.events:
        if isinstance(event, ToolInputDelta):
            deltas[event.call_id] = deltas.get(event.call_id, "") + event.delta
    told = [event for event in found.events if isinstance(event, ToolInputAvailable)]
    if all(event.arguments == deltas.get(event.call_id, "") for event in told):
        assert_consistent(found)


def event(kind: str, index: int | None = 0, **fields: Any) -> dict[str, Any]:
    place = {} if index is None else {"output_index": index}
    return {"type": f"response.{kind}", **place, **fields}


def added(item: dict[str, Any], index: int | None = 0) -> dict[str, Any]:
    return event("output_item.added", index, item=item)


def done(item: dict[str, Any], index: int | None = 0) -> dict[str, Any]:
    return event("output_item.done", index, item=item)


def text(delta: str, index: int | None = 0, **fields: Any) -> dict[str, Any]:
    return event("output_text.delta", index, delta=delta, **{"content_index": 0, **fields})


def arguments(delta: str, index: int | None = 0, **fields: Any) -> dict[str, Any]:
    return event("function_call_arguments.delta", index, delta=delta, **fields)


def message(*texts: str, **fields: Any) -> dict[str, Any]:
    return {"type": "message", "content": [{"type": "output_text", "text": each} for each in texts], **fields}


def call(written: Any = "", **fields: Any) -> dict[str, Any]:
    return {"type": "function_call", "call_id": "a", "name": "f", "arguments": written, **fields}


def completed(*output: Any, **fields: Any) -> dict[str, Any]:
    return {"type": "response.completed", "response": {"status": "completed", "output": list(output), **fields}}


def incomplete(reason: object, *output: Any) -> dict[str, Any]:
    details = {"status": "incomplete", "incomplete_details": reason, "output": list(output)}
    return {"type": "response.incomplete", "response": details}


OBJECT = '{"k":1}'
WHOLE_CALL = (added(call(id="fc_1")), arguments(OBJECT), done(call(OBJECT, id="fc_1")))


def reasoning(*summaries: str, **fields: Any) -> dict[str, Any]:
    return {"type": "reasoning", "summary": [{"type": "summary_text", "text": each} for each in summaries], **fields}


def custom(written: str = "", **fields: Any) -> dict[str, Any]:
    return {"type": "custom_tool_call", "call_id": "a", "name": "sql", "input": written, **fields}


def sent(*history: Any) -> list[dict[str, Any]]:
    written: list[dict[str, Any]] = encode_request(TurnRequest(tuple(history)), "m")["input"]
    return written


def kept(item: dict[str, Any]) -> dict[str, Any]:
    return {"openai_responses": item}


FAILED = {
    "type": "response.failed",
    "response": {
        "status": "failed",
        "error": {"code": "rate_limit_exceeded", "message": "slow down"},
        "usage": {"input_tokens": 3},
        "output": [message("a b")],
    },
}
ERROR = {"type": "error", "code": "server_error", "message": "no", "param": None}
