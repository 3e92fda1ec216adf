"""Dialect: the Responses API of OpenAI, and of the servers that speak like it. Requests, and the model.

Nothing is stored with the provider: each request holds the whole history, and the items of the model go back as they
came. Reasoning can only do so encrypted (or as plain text, with servers that give it), so that is asked for.
Source: the API reference of OpenAI, "Create a model response".
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, Unpack

from ..items import History, Image, Item, Message, ProviderTool, Reasoning, ToolCall, ToolOutput, ToolSpec, UnknownItem
from ..turns import TurnRequest
from .model import Model
from .openai_responses_decoder import OpenAIResponsesDecoder
from .openai_responses_items import CALLS, DIALECT
from .openai_schema import schema_name, strict_schema
from .options import HttpOptions
from .requests import CallIds, bearer, endpoint, image_url, in_order, legal_id, legal_name, say_once
from .tool_schema import openai_parameters

OPENAI_URL = "https://api.openai.com/v1"
OPENAI_KEY = "OPENAI_API_KEY"

_LEGAL_ID = re.compile(r"[a-zA-Z0-9_-]{1,64}")
_STARTS_OF_IDS = {"message": "msg", "function_call": "fc", "custom_tool_call": "ctc"}
"""Servers that give their items other ids can do without; OpenAI refuses those that begin in another way."""
_NEVER_REASON = re.compile(r"(^|[/:.])(gpt-3\.5|gpt-4|chatgpt-4o|gpt-5-chat)")
"""Models that refuse to be asked for encrypted reasoning: all of OpenAI's that do not reason. No new ones are made."""


def encode_request(request: TurnRequest, model: str) -> dict[str, Any]:
    """The body that asks a model for one streamed turn.

    `stop` is left out, which a log line says once: this API has no such thing. A summary of the reasoning is not asked
    for, since OpenAI gives one only to those who are verified: `extra={"reasoning": {"summary": "auto"}}` does it.
    """
    if request.stop:
        say_once("openai_responses has no stop texts: the answer goes on behind them")
    wishes = {
        "instructions": request.instructions or None,
        "include": None if _NEVER_REASON.search(model) else ["reasoning.encrypted_content"],
        "max_output_tokens": request.max_output_tokens,
        "temperature": request.temperature,
        "reasoning": None if request.reasoning_effort is None else {"effort": request.reasoning_effort},
        "text": None if request.output is None else {"format": _answer_format(request.output)},
    }
    return {
        "model": model,
        "input": _input(request.history),
        "stream": True,
        "store": False,
        **{key: wish for key, wish in wishes.items() if wish is not None},
        **_tools(request),
        **(request.extra or {}),
    }


def _answer_format(schema: dict[str, Any]) -> dict[str, Any]:
    strict = strict_schema(schema)
    return {
        "type": "json_schema",
        "name": schema_name(schema),
        "schema": strict or schema,
        "strict": strict is not None,
    }


def _tools(request: TurnRequest) -> dict[str, Any]:
    if not request.tools:
        return {}
    told: dict[str, Any] = {"tools": [_tool(spec) for spec in request.tools]}
    if request.tool_choice in ("none", "required"):
        told["tool_choice"] = request.tool_choice
    elif request.tool_choice != "auto":
        told["tool_choice"] = {"type": "function", "name": request.tool_choice}
    if request.parallel_calls is not None:
        told["parallel_tool_calls"] = request.parallel_calls
    return told


def _tool(spec: ToolSpec) -> dict[str, Any]:
    """`strict` is always said: this API takes a tool that does not say it for a strict one."""
    parameters = openai_parameters(spec.parameters)
    strict = strict_schema(spec.parameters) if spec.strict else None
    if spec.strict and strict is None:
        say_once(f"the parameters of {spec.name} cannot be a strict schema: the model may get them wrong")
    return {
        "type": "function",
        "name": spec.name,
        "description": spec.description,
        "parameters": strict or parameters,
        "strict": strict is not None,
    }


# The history


def _input(history: History) -> list[dict[str, Any]]:
    ids = CallIds(lambda call_id: legal_id(call_id, _LEGAL_ID))
    callers = {item.call_id: _known(item).get("caller") for item in history if type(item) is ToolCall}
    written: list[dict[str, Any]] = []
    for speaker, items in in_order(history):
        if speaker == "user":
            written += [_said_by_user(item) for item in items if type(item) is Message and (item.text or item.images)]
        elif speaker == "results":
            outputs = [item for item in items if type(item) is ToolOutput]
            written += [_result(item, ids, callers.get(item.call_id)) for item in outputs]
        else:
            written += _said_by_model(items, ids)
    return list(_each_once(written))


def _each_once(items: list[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    """No id comes twice, which is refused: the second message or call goes without, anything else not at all."""
    used: set[str] = set()
    for item in items:
        item_id = item.get("id")
        if not isinstance(item_id, str) or item_id not in used:
            yield item
        elif item.get("type", "message") in _STARTS_OF_IDS:
            yield _without_id(item)
        if isinstance(item_id, str):
            used.add(item_id)


def _said_by_user(message: Message) -> dict[str, Any]:
    content = [_image(image) for image in message.images] + _text(message.text) if message.images else message.text
    return {"type": "message", "role": "user", "content": content}


def _result(output: ToolOutput, ids: CallIds, caller: object) -> dict[str, Any]:
    """caller: of the call, where that was a program of the model and not the model itself; the result names it, too."""
    content = _text(output.text) + [_image(image) for image in output.images] if output.images else output.text
    return {
        "type": "custom_tool_call_output" if output.custom else "function_call_output",
        "call_id": ids.of_output(output.call_id),
        "output": content,
        **({"caller": caller} if caller is not None else {}),
    }


def _text(text: str) -> list[dict[str, Any]]:
    return [{"type": "input_text", "text": text}] if text else []


def _image(image: Image) -> dict[str, Any]:
    return {"type": "input_image", "image_url": image_url(image), "detail": "auto"}


def _said_by_model(items: list[Item], ids: CallIds) -> list[dict[str, Any]]:
    """The items of the model; without ids where reasoning is missing, since OpenAI would look for it.

    Reasoning that nothing follows is left out, and so are its status and what of it is null: OpenAI refuses them.
    """
    written: list[dict[str, Any]] = []
    keeps_ids = True
    for item in items:
        known = _known(item)
        match item:
            case Message(text=text) if text.strip():
                written.append(_message(text, known))
            case ToolCall():
                written.append(_call(item, ids, known))
            case Reasoning() if known.get("encrypted_content") or known.get("content"):
                told = {key: value for key, value in known.items() if key != "status" and value is not None}
                written.append({"summary": [], **told})
            case Reasoning() if known:
                keeps_ids = False
            case ProviderTool() if known:
                written.append(known)
            case UnknownItem(item=dict(unknown), dialect="openai_responses"):
                written.append(unknown)
    while written and written[-1].get("type") == "reasoning":
        written.pop()
    return written if keeps_ids else [_without_id(item) for item in written]


def _known(item: Item) -> dict[str, Any]:
    """What this dialect wants back with an item."""
    opaque = None if isinstance(item, ToolOutput | UnknownItem) else item.opaque
    return opaque.get(DIALECT, {}) if opaque else {}


def _message(text: str, known: dict[str, Any]) -> dict[str, Any]:
    content = [{"type": "output_text", "text": text, "annotations": []}]
    said = {"type": "message", "role": "assistant", "content": content, **_fitting("message", known)}
    return {**said, "status": "completed"} if "id" in said else said


def _call(call: ToolCall, ids: CallIds, known: dict[str, Any]) -> dict[str, Any]:
    kind = "custom_tool_call" if call.custom else "function_call"
    return {
        "type": kind,
        **_fitting(kind, known),
        "call_id": ids.of_call(call.call_id),
        "name": legal_name(call.name),
        CALLS[kind]: call.arguments if call.custom else call.arguments or "{}",
    }


def _fitting(kind: str, known: dict[str, Any]) -> dict[str, Any]:
    """What goes back with an item of this kind: not an id that is refused."""
    fields = {key: value for key, value in known.items() if value is not None}
    return fields if str(fields.get("id", "")).startswith(_STARTS_OF_IDS[kind]) else _without_id(fields)


def _without_id(item: dict[str, Any]) -> dict[str, Any]:
    if item.get("type", "message") not in _STARTS_OF_IDS:
        return item
    return {key: value for key, value in item.items() if key != "id"}


# The model


def openai_responses(
    name: str, *, base_url: str = OPENAI_URL, api_key: str | None = None, **options: Unpack[HttpOptions]
) -> Model:
    """A model of a server that speaks like the Responses API. May be used from any event loop; nothing is to close.

    base_url: of the server, up to the part before `/responses`. api_key: None takes OPENAI_API_KEY from the
    environment, when a turn is run; a server on this machine may need none. options: see HttpOptions.

    A turn that fails raises a ModelError; `errors` says which there are.
    """
    from .http import HttpModel  # noqa: PLC0415 - it needs httpx2, and only who makes a model does

    return HttpModel(
        name,
        endpoint(base_url, "/responses"),
        headers=bearer(api_key, OPENAI_KEY),
        encode=encode_request,
        decoder=OpenAIResponsesDecoder,
        key_hint=f"no key was sent: give api_key=…, or set {OPENAI_KEY}",
        options=options,
    )
