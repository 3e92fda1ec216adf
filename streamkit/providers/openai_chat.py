"""Dialect: chat completions of OpenAI, and of the many servers that speak like it. Requests, and the model.

Source: the API reference of OpenAI, "Create chat completion".
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, Unpack
from urllib.parse import urlsplit

from ..items import ToolSpec
from ..turns import TurnRequest
from .model import Model
from .openai_chat_decoder import OpenAIChatDecoder
from .openai_chat_messages import MISTRAL, MOST, ONLY_ITS_OWN, OPENAI, THINKING, Server, messages_of
from .openai_schema import schema_name, strict_schema
from .options import HttpOptions
from .requests import bearer, endpoint, say_once
from .tool_schema import openai_parameters

OPENAI_URL = "https://api.openai.com/v1"
OPENAI_KEY = "OPENAI_API_KEY"
THINKING_HOSTS = ("api.deepseek.com", "api.moonshot.ai", "api.moonshot.cn")

Encode = Callable[[TurnRequest, str], dict[str, Any]]


def encode_request(request: TurnRequest, model: str) -> dict[str, Any]:
    """The body that asks a model for one streamed turn.

    Reasoning goes back only into the field that it came from: other servers refuse it. The token limit is `max_tokens`,
    which everybody but OpenAI understands.
    """
    return _encode(request, model, MOST)


def encode_openai_request(request: TurnRequest, model: str) -> dict[str, Any]:
    """The same for OpenAI itself, whose newer models refuse `max_tokens`, and which refuses long ids and odd fields."""
    return _encode(request, model, OPENAI)


def encode_mistral_request(request: TurnRequest, model: str) -> dict[str, Any]:
    """The same for Mistral, whose ids have nine characters, and which refuses every field that it does not know."""
    return _encode(request, model, MISTRAL)


def encode_thinking_request(request: TurnRequest, model: str) -> dict[str, Any]:
    """The same for DeepSeek and Moonshot, which refuse what the model has said without what it thought."""
    return _encode(request, model, THINKING)


def encode_for(base_url: str) -> Encode:
    """What makes the requests to a server at this address."""
    address = urlsplit(base_url)
    host = address.hostname or ""
    is_openai = f".{host}".endswith(".api.openai.com")  # of a region, too
    is_azure = host.endswith(".openai.azure.com") or (host.endswith(".azure.com") and "/openai" in address.path)
    if is_openai or is_azure:
        return encode_openai_request
    if host in THINKING_HOSTS:
        return encode_thinking_request
    if host in ONLY_ITS_OWN:
        return partial(_encode, server=ONLY_ITS_OWN[host])
    return encode_mistral_request if host == "api.mistral.ai" else encode_request


def _encode(request: TurnRequest, model: str, server: Server) -> dict[str, Any]:
    extra = request.extra or {}
    wishes = {
        server.token_limit: None if "max_tokens" in extra else request.max_output_tokens,
        "temperature": request.temperature,
        "stop": list(request.stop) or None,
        "reasoning_effort": request.reasoning_effort,
        "response_format": None if request.output is None else _answer_format(request.output),
        "stream_options": {"include_usage": True} if server.asks_for_usage else None,
    }
    return {
        "model": model,
        "messages": messages_of(request, server),
        "stream": True,
        **{key: wish for key, wish in wishes.items() if wish is not None},
        **_tools(request),
        **extra,
    }


def _tools(request: TurnRequest) -> dict[str, Any]:
    if not request.tools:
        return {}
    told: dict[str, Any] = {"tools": [_tool(spec) for spec in request.tools]}
    if request.tool_choice in ("none", "required"):
        told["tool_choice"] = request.tool_choice
    elif request.tool_choice != "auto":
        told["tool_choice"] = {"type": "function", "function": {"name": request.tool_choice}}
    if request.parallel_calls is not None:
        told["parallel_tool_calls"] = request.parallel_calls
    return told


def _tool(spec: ToolSpec) -> dict[str, Any]:
    parameters = openai_parameters(spec.parameters)
    function: dict[str, Any] = {"name": spec.name, "description": spec.description, "parameters": parameters}
    if spec.strict:
        strict = strict_schema(spec.parameters)
        if strict is None:
            say_once(f"the parameters of {spec.name} cannot be a strict schema: the model may get them wrong")
        else:
            function |= {"parameters": strict, "strict": True}
    return {"type": "function", "function": function}


def _answer_format(schema: dict[str, Any]) -> dict[str, Any]:
    strict = strict_schema(schema)
    wish = {"name": schema_name(schema), "schema": strict or schema, "strict": strict is not None}
    return {"type": "json_schema", "json_schema": wish}


def openai_chat(
    name: str,
    *,
    base_url: str = OPENAI_URL,
    api_key: str | None = None,
    key_variable: str = OPENAI_KEY,
    encode: Encode | None = None,
    **options: Unpack[HttpOptions],
) -> Model:
    """A model of a server that speaks chat completions. May be used from any event loop; there is nothing to close.

    base_url: of the server, up to the part before `/chat/completions`. api_key: None takes it from the environment,
    when a turn is run, where it is called key_variable; a server on this machine may need none. encode: makes the body
    of a request; None takes what fits the server: `encode_openai_request` for OpenAI itself, `encode_mistral_request`
    for Mistral, `encode_thinking_request` for DeepSeek and Moonshot, else `encode_request`. options: see HttpOptions.

    A turn that fails raises a ModelError; `errors` says which there are.
    """
    from .http import HttpModel  # noqa: PLC0415 - it needs httpx2, and only who makes a model does

    return HttpModel(
        name,
        endpoint(base_url, "/chat/completions"),
        headers=bearer(api_key, key_variable),
        encode=encode or encode_for(base_url),
        decoder=OpenAIChatDecoder,
        key_hint=f"no key was sent: give api_key=…, or set {key_variable}",
        options=options,
    )
