"""Dialect: chat completions of OpenAI, and of the many servers that speak like it. Requests, and the model.

Source: the API reference of OpenAI, "Create chat completion".
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any, Unpack
from urllib.parse import urlsplit

from ..items import Item, Message, Reasoning, ToolCall, ToolOutput, ToolSpec
from ..turns import TurnRequest
from .model import Model
from .openai_chat_decoder import OpenAIChatDecoder
from .options import HttpOptions

OPENAI_URL = "https://api.openai.com/v1"


def encode_request(request: TurnRequest, model: str) -> dict[str, Any]:
    """The body that asks a model for one streamed turn.

    Reasoning goes back only into the field that it came from: other servers refuse it. The token limit is `max_tokens`,
    which everybody but OpenAI understands.
    """
    body: dict[str, Any] = {
        "model": model,
        "messages": _messages(request),
        "stream": True,
        "stream_options": {"include_usage": True},
    }
    if request.tools:
        body["tools"] = [_tool(spec) for spec in request.tools]
        if request.tool_choice in ("none", "required"):
            body["tool_choice"] = request.tool_choice
        elif request.tool_choice != "auto":
            body["tool_choice"] = {"type": "function", "function": {"name": request.tool_choice}}
        if request.parallel_calls is not None:
            body["parallel_tool_calls"] = request.parallel_calls
    wishes = {
        "max_tokens": request.max_output_tokens,
        "temperature": request.temperature,
        "stop": list(request.stop) or None,
        "reasoning_effort": request.reasoning_effort,
    }
    body.update((key, wish) for key, wish in wishes.items() if wish is not None)
    body.update(request.extra or {})
    return body


def encode_openai_request(request: TurnRequest, model: str) -> dict[str, Any]:
    """The same for OpenAI itself, whose newer models refuse `max_tokens`."""
    body = encode_request(request, model)
    if request.max_output_tokens is not None and "max_tokens" not in (request.extra or {}):
        body.setdefault("max_completion_tokens", body.pop("max_tokens"))
    return body


def _tool(spec: ToolSpec) -> dict[str, Any]:
    function: dict[str, Any] = {
        "name": spec.name,
        "description": spec.description,
        "parameters": spec.parameters,
    }
    if spec.strict:
        function["strict"] = True
    return {"type": "function", "function": function}


def _messages(request: TurnRequest) -> list[dict[str, Any]]:
    messages: list[dict[str, Any]] = []
    if request.instructions is not None:
        messages.append({"role": "system", "content": request.instructions})
    said: list[Item] = []  # by the model, in a row: one message
    for item in request.history:
        if type(item) is ToolOutput:
            messages += _said_by_model(said)
            messages.append({"role": "tool", "tool_call_id": item.call_id, "content": item.text})
        elif type(item) is Message and item.role == "user":
            messages += _said_by_model(said)
            messages.append({"role": "user", "content": item.text})
        else:
            said.append(item)
    messages += _said_by_model(said)
    return messages


def _said_by_model(items: list[Item]) -> list[dict[str, Any]]:
    """One message of all items, which are taken out of the list; none where it would be blank."""
    if not items:
        return []
    texts: list[str] = []
    calls: list[dict[str, Any]] = []
    reasoning: list[Reasoning] = []
    for item in items:
        if type(item) is ToolCall:
            function = {"name": item.name, "arguments": item.arguments}
            calls.append({"id": item.call_id, "type": "function", "function": function})
        elif type(item) is Message:
            texts.append(item.text)
        elif type(item) is Reasoning:
            reasoning.append(item)
    items.clear()
    text = "".join(texts)
    if not calls and not text.strip():
        return []  # servers refuse it, and reasoning alone is blank to them
    message: dict[str, Any] = {"role": "assistant", "content": text or None}
    if reasoning:
        _put_reasoning_back(reasoning, message)
    if calls:
        message["tool_calls"] = calls
    return [message]


def _put_reasoning_back(items: list[Reasoning], message: dict[str, Any]) -> None:
    opaque = [item.opaque["openai_chat"] for item in items if item.opaque and "openai_chat" in item.opaque]
    field = next((known["field"] for known in opaque if "field" in known), None)
    text = "".join(item.text for item in items)
    if field in ("reasoning_content", "reasoning"):
        message[field] = text
    elif field == "content":
        thinking = {"type": "thinking", "thinking": [{"type": "text", "text": text}]}
        message["content"] = [thinking, *([{"type": "text", "text": message["content"]}] if message["content"] else [])]
    details = [detail for known in opaque for detail in known.get("reasoning_details", ())]
    if details:
        message["reasoning_details"] = details


def openai_chat(
    name: str,
    *,
    base_url: str = OPENAI_URL,
    api_key: str | None = None,
    encode: Callable[[TurnRequest, str], dict[str, Any]] | None = None,
    **options: Unpack[HttpOptions],
) -> Model:
    """A model of a server that speaks chat completions. May be used from any event loop; there is nothing to close.

    base_url: of the server, up to the part before `/chat/completions`. api_key: None takes OPENAI_API_KEY from the
    environment, when a turn is run; a server on this machine may need none. encode: makes the body of a request; None
    takes `encode_openai_request` for OpenAI itself, else `encode_request`. options: see HttpOptions.

    A turn raises a ModelError: ConnectionFailed, ProviderError, IncompleteStream, BadPayload or NotAStream.
    """
    from .http import HttpModel  # noqa: PLC0415 - it needs httpx2, and only who makes a model does

    def request_headers() -> dict[str, str]:
        key = os.environ.get("OPENAI_API_KEY") if api_key is None else api_key
        return {"authorization": f"Bearer {key}"} if key else {}

    address, mark, query = base_url.partition("?")
    is_openai = urlsplit(base_url).hostname == urlsplit(OPENAI_URL).hostname
    return HttpModel(
        name,
        f"{address.rstrip('/')}/chat/completions{mark}{query}",
        headers=request_headers,
        encode=encode or (encode_openai_request if is_openai else encode_request),
        decoder=OpenAIChatDecoder,
        key_hint="no key was sent: give api_key=…, or set OPENAI_API_KEY",
        options=options,
    )
