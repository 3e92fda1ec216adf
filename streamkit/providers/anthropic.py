"""Dialect: the Messages API of Anthropic, and of servers that speak like it. Requests, and the model.

Source: the API reference of Anthropic, "Create a message", "Prompt caching", "Structured outputs", "Effort",
"Fine-grained tool streaming", and the types of its Python SDK.
"""

from __future__ import annotations

import os
from functools import partial
from typing import Any, Unpack
from urllib.parse import urlsplit

from ..items import ToolSpec
from ..turns import TurnRequest
from .anthropic_decoder import AnthropicDecoder
from .anthropic_messages import messages_of
from .anthropic_schema import strict_schema
from .model import Model
from .options import HttpOptions
from .requests import ask_for_json, say_once
from .tool_schema import object_schema

ANTHROPIC_URL = "https://api.anthropic.com"
API_VERSION = "2023-06-01"
OUTPUT_TOKENS = 32_000
"""The limit where a request names none, which this API wants. All its models may write so much, thinking included."""

NOT_THERE = "Was called before, and cannot be called now."
CACHED = {"cache_control": {"type": "ephemeral"}}


def encode_request(
    request: TurnRequest, model: str, *, cache: bool = True, eager_input: bool = False, unsigned: bool = False
) -> dict[str, Any]:
    """The body that asks a model for one streamed turn.

    cache: see `anthropic`. eager_input: asks for arguments as they are written. unsigned: sends thinking without a
    signature back, which Anthropic refuses, but servers want whose models do not sign it. reasoning_effort: the model
    thinks as much as it finds right, with this effort, and a summary is shown. Thinking is refused where a tool must be
    called: there only the effort is asked for; and a temperature beside it: that is left out. Models before 4.6 want
    `extra={"thinking": …}` instead. output: a schema to which the server cannot hold the model is told to the model.
    """
    body: dict[str, Any] = {
        "model": model,
        "max_tokens": OUTPUT_TOKENS if request.max_output_tokens is None else request.max_output_tokens,
        "messages": messages_of(request.history, unsigned=unsigned),
        "stream": True,
    }
    schema = None if request.output is None else strict_schema(request.output)
    if system := _system(request, is_schema_said=schema is None):
        body["system"] = system
    body |= _tools(request, eager_input=eager_input) or _tools_of_calls(body["messages"])
    if request.temperature is not None:
        body["temperature"] = request.temperature
    if request.stop:
        body["stop_sequences"] = list(request.stop)
    wishes = {"effort": request.reasoning_effort, "format": schema and {"type": "json_schema", "schema": schema}}
    if any(wishes.values()):
        body["output_config"] = {key: wish for key, wish in wishes.items() if wish}
    if request.reasoning_effort is not None and body.get("tool_choice", {}).get("type") not in ("any", "tool"):
        body["thinking"] = {"type": "adaptive", "display": "summarized"}
        if body.pop("temperature", 1) != 1:
            say_once("Anthropic refuses a temperature where its model thinks: it is left out")
    if cache:
        _mark_for_cache(body)
    return body | (request.extra or {})


def _system(request: TurnRequest, *, is_schema_said: bool) -> list[dict[str, Any]]:
    said = [request.instructions or ""]
    if request.output is not None and is_schema_said:
        said.append(ask_for_json(request.output))
    return [{"type": "text", "text": text} for text in said if text.strip()]


def _mark_for_cache(body: dict[str, Any]) -> None:
    """Say where what stays the same ends: tools and instructions, and the last two messages of the person.

    The last is where this request is stored, the one before it is where the request before was: from a mark the server
    looks back at twenty blocks only, and one turn with many calls is longer.
    """
    stays = body.get("system") or body.get("tools") or []
    said = [message["content"] for message in body["messages"] if message["role"] == "user"]
    for blocks in (stays, *said[-2:]):
        if blocks:
            blocks[-1] = blocks[-1] | CACHED


# Tools


def _tools(request: TurnRequest, *, eager_input: bool) -> dict[str, Any]:
    if not request.tools:
        return {}
    told: dict[str, Any] = {"tools": [_tool(spec, eager_input=eager_input) for spec in request.tools]}
    choice: dict[str, Any]
    match request.tool_choice:
        case "none":
            return told | {"tool_choice": {"type": "none"}}
        case "auto":
            choice = {"type": "auto"}
        case "required":
            choice = {"type": "any"}
        case name:
            choice = {"type": "tool", "name": name}
    if request.parallel_calls is False:
        choice["disable_parallel_tool_use"] = True
    return told | ({"tool_choice": choice} if choice != {"type": "auto"} else {})


def _tools_of_calls(messages: list[dict[str, Any]]) -> dict[str, Any]:
    """What a conversation with calls needs where there are no tools any more: it is refused without any.

    They are those that were called, and the model must call none.
    """
    blocks = [block for message in messages for block in message["content"]]
    names = dict.fromkeys(block["name"] for block in blocks if block["type"] == "tool_use")
    if not names:
        return {}
    tools = [{"name": name, "description": NOT_THERE, "input_schema": {"type": "object"}} for name in names]
    return {"tools": tools, "tool_choice": {"type": "none"}}


def _tool(spec: ToolSpec, *, eager_input: bool) -> dict[str, Any]:
    schema = object_schema(spec.parameters)
    tool: dict[str, Any] = {"name": spec.name, "description": spec.description, "input_schema": schema}
    if spec.strict and (strict := strict_schema(schema)) is not None:
        tool |= {"input_schema": strict, "strict": True}
    if eager_input:
        tool["eager_input_streaming"] = True
    return tool


# The model


def anthropic(
    name: str,
    *,
    base_url: str = ANTHROPIC_URL,
    api_key: str | None = None,
    cache: bool = True,
    eager_input: bool | None = None,
    **options: Unpack[HttpOptions],
) -> Model:
    """A model that speaks the Messages API. May be used from any event loop; there is nothing to close.

    base_url: of the server, up to the part before `/v1/messages`. api_key: None takes ANTHROPIC_API_KEY from the
    environment, when a turn is run. cache: tools, instructions and the conversation until now are marked to be stored
    by the provider, for five minutes after their last use: storing costs a quarter more than plain input, reading a
    tenth of it. eager_input: arguments come as the model writes them, instead of value by value when each is whole;
    None asks it of Anthropic itself, since other servers may refuse to be asked. options: see HttpOptions.

    A turn that fails raises a ModelError; `errors` says which there are.
    """
    from .http import HttpModel  # noqa: PLC0415 - it needs httpx2, and only who makes a model does

    def request_headers() -> dict[str, str]:
        key = os.environ.get("ANTHROPIC_API_KEY") if api_key is None else api_key
        return {"anthropic-version": API_VERSION, **({"x-api-key": key} if key else {})}

    address, mark, query = base_url.partition("?")
    is_anthropic = urlsplit(base_url).hostname == urlsplit(ANTHROPIC_URL).hostname
    return HttpModel(
        name,
        f"{address.rstrip('/').removesuffix('/v1')}/v1/messages{mark}{query}",
        headers=request_headers,
        encode=partial(
            encode_request,
            cache=cache,
            eager_input=is_anthropic if eager_input is None else eager_input,
            unsigned=not is_anthropic,
        ),
        decoder=AnthropicDecoder,
        key_hint="no key was sent: give api_key=…, or set ANTHROPIC_API_KEY",
        options=options,
    )
