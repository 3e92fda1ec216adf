"""Dialect: the chat endpoint of Ollama. Requests, and the model.

Source: the API reference of Ollama, "Generate a chat message".
"""

from __future__ import annotations

import os
from typing import Any, Unpack
from urllib.parse import urlsplit

from ..errors import DefinitionError
from ..items import Item, Message, Reasoning, ToolCall, ToolOutput, ToolSpec
from ..turns import TurnRequest
from .model import Model
from .ollama_decoder import OllamaDecoder
from .options import HttpOptions
from .requests import arguments_object, base64_of, bearer, endpoint, images_of_results, in_order, say_once
from .schema_references import References
from .tool_schema import mapped

OLLAMA_PORT = 11434


def encode_request(request: TurnRequest, model: str) -> dict[str, Any]:
    """The body that asks a model for one streamed turn.

    Ollama lets nobody choose whether the model calls a tool: it is told of none where it must call none, and the other
    wishes are left out, which a log line says once. `options` in extra are added to those that the request makes.
    """
    body: dict[str, Any] = {"model": model, "messages": _messages(request), "stream": True}
    if request.tools and request.tool_choice != "none":
        body["tools"] = [_tool(spec) for spec in request.tools]
        if request.tool_choice != "auto":
            say_once("ollama has no tool_choice: the model may answer without a call, or call another tool")
        if request.parallel_calls is False:
            say_once("ollama has no parallel_calls: the model may call several tools in one turn")
    if request.output is not None:
        body["format"] = request.output
    if request.reasoning_effort is not None:
        body["think"] = _EFFORTS_THAT_ARE_NO_LEVEL.get(request.reasoning_effort, request.reasoning_effort)
    extra = dict(request.extra or {})
    options = {
        "temperature": request.temperature,
        "num_predict": request.max_output_tokens,
        "stop": list(request.stop) or None,
    }
    options = {key: wish for key, wish in options.items() if wish is not None}
    if isinstance(extra.get("options", {}), dict):
        options.update(extra.pop("options", {}))
    if options:
        body["options"] = options
    body.update(extra)
    return body


_EFFORTS_THAT_ARE_NO_LEVEL = {"none": False, "false": False, "true": True}


def _tool(spec: ToolSpec) -> dict[str, Any]:
    parameters = _without_references(spec.parameters, References(spec.parameters))
    return {
        "type": "function",
        "function": {"name": spec.name, "description": spec.description, "parameters": parameters},
    }


def _without_references(schema: dict[str, Any], references: References, inside: tuple[str, ...] = ()) -> dict[str, Any]:
    """The schema with each definition where it is referred to: Ollama tells the model nothing of references.

    inside: those that this is a part of. One that is part of itself is left out there, which allows anything.
    """

    def inlined(part: dict[str, Any]) -> dict[str, Any]:
        own = _without(part, "$ref")
        target = references.target(part.get("$ref"))
        if target is None or not references.may_inline(part["$ref"], inside):
            return own
        return _without_references(target, references, (*inside, part["$ref"])) | own

    written: dict[str, Any] = mapped(_without(schema, "$defs", "definitions"), inlined)
    return written


def _without(schema: dict[str, Any], *keywords: str) -> dict[str, Any]:
    return {key: value for key, value in schema.items() if key not in keywords}


def _messages(request: TurnRequest) -> list[dict[str, Any]]:
    messages: list[dict[str, Any]] = []
    if request.instructions is not None:
        messages.append({"role": "system", "content": request.instructions})
    for speaker, items in in_order(request.history):
        if speaker == "user":
            messages += [_said_by_user(item) for item in items if type(item) is Message]
        elif speaker == "results":
            messages += [_result(item) for item in items if type(item) is ToolOutput]
            messages += [_said_by_user(message) for message in images_of_results(items)]
        else:
            messages += _said_by_model(items)
    return messages


def _said_by_user(message: Message) -> dict[str, Any]:
    said: dict[str, Any] = {"role": "user", "content": message.text}
    images = [base64_of(image) for image in message.images if image.url is None]
    if len(images) < len(message.images):
        say_once("ollama takes images as bytes only: those given by their address are left out")
    if images:
        said["images"] = images
    return said


def _result(output: ToolOutput) -> dict[str, Any]:
    return {"role": "tool", "tool_name": output.tool, "tool_call_id": output.call_id, "content": output.text}


def _said_by_model(items: list[Item]) -> list[dict[str, Any]]:
    """One message of all items; none where it would be blank. Reasoning that came from elsewhere is left out."""
    text = "".join(item.text for item in items if type(item) is Message)
    calls = [_call(item) for item in items if type(item) is ToolCall]
    thinking = "".join(item.text for item in items if type(item) is Reasoning and _is_own(item))
    if not calls and not text.strip():
        return []
    message: dict[str, Any] = {"role": "assistant", "content": text}
    if thinking:
        message["thinking"] = thinking
    if calls:
        message["tool_calls"] = calls
    return [message]


def _is_own(reasoning: Reasoning) -> bool:
    """Ollama wants nothing back with it; others do, or they tell summaries."""
    return reasoning.kind == "trace" and not reasoning.opaque


def _call(call: ToolCall) -> dict[str, Any]:
    return {
        "id": call.call_id,
        "type": "function",
        "function": {"name": call.name, "arguments": arguments_object(call)},
    }


def ollama(
    name: str, *, base_url: str | None = None, api_key: str | None = None, **options: Unpack[HttpOptions]
) -> Model:
    """A model that Ollama runs. May be used from any event loop; there is nothing to close.

    base_url: of the server, up to the part before `/api/chat`. None takes OLLAMA_HOST from the environment, as Ollama
    itself does; without it, http://localhost:11434. api_key: for servers that want one, such as https://ollama.com;
    None takes OLLAMA_API_KEY from the environment, when a turn is run. options: see HttpOptions.

    A turn that fails raises a ModelError; `errors` says which there are.
    """
    from .http import HttpModel  # noqa: PLC0415 - it needs httpx2, and only who makes a model does

    address = base_url or url_of_host(os.environ.get("OLLAMA_HOST", ""))
    return HttpModel(
        name,
        endpoint(address, "/api/chat"),
        headers=bearer(api_key, "OLLAMA_API_KEY"),
        encode=encode_request,
        decoder=OllamaDecoder,
        key_hint="no key was sent: give api_key=…, or set OLLAMA_API_KEY",
        options=options,
    )


def url_of_host(host: str) -> str:
    """The address that OLLAMA_HOST stands for. What is missing of it is filled in as Ollama does.

    It may say where the server listens, on every address of its machine; then this is its own.
    """
    scheme, _, rest = host.strip().rpartition("://")
    try:
        parts = urlsplit(f"//{rest}")
        port = parts.port or {"http": 80, "https": 443}.get(scheme, OLLAMA_PORT)
    except ValueError as error:
        raise DefinitionError(f"OLLAMA_HOST is not an address: {host!r}") from error
    name = _OF_THIS_MACHINE.get(parts.hostname or "", parts.hostname or "")
    return f"{scheme or 'http'}://{f'[{name}]' if ':' in name else name}:{port}{parts.path.rstrip('/')}"


_OF_THIS_MACHINE = {"": "localhost", "0.0.0.0": "127.0.0.1", "::": "::1"}
