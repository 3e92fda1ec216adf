"""Dialect: Gemini, `streamGenerateContent`. Requests, and the model.

Source: the API reference of Gemini, "models.generateContent", "Content", "FunctionResponse"; its guides "Function
calling", "Thought signatures" and "Thinking".
"""

from __future__ import annotations

import os
import re
from typing import Any, Unpack, cast

import msgspec

from ..items import Image, Item, Message, ProviderTool, Reasoning, ToolCall, ToolOutput, ToolSpec, UnknownItem
from ..turns import TurnRequest
from .gemini_decoder import GeminiDecoder
from .gemini_schema import gemini_schema
from .model import Model
from .options import HttpOptions
from .requests import arguments_object, ask_for_json, base64_of, images_of_results, in_order, say_once

GEMINI_URL = "https://generativelanguage.googleapis.com/v1beta"
NO_SIGNATURE = "skip_thought_signature_validator"
"""What the provider wants where its model did not make a call, and so did not sign it."""

_BEFORE_GEMINI_3 = re.compile(r"(?:.*/)?(?:gemini-[12]\b|gemma).*")
_TOKENS = re.compile(r"-?\d+")

JsonObject = dict[str, Any]


def encode_request(request: TurnRequest, model: str) -> JsonObject:
    """The body that asks a model for one turn; the name of the model decides what is put in.

    Of reasoning only what is signed goes back. `reasoning_effort` is a level such as "low", or the number of tokens
    that older models want. `extra` is joined to the body: objects key by key, and its tools stand beside ours, since
    that is how tools that the provider runs itself are asked for. output: older models refuse a schema beside tools;
    they are told of it.
    """
    is_old = _BEFORE_GEMINI_3.fullmatch(model) is not None
    is_schema_refused = is_old and bool(request.tools or (request.extra or {}).get("tools"))
    body: JsonObject = {"contents": _contents(request, is_old=is_old)}
    said = [request.instructions] if request.instructions else []
    if request.output is not None and is_schema_refused:
        said.append(ask_for_json(request.output))
    if said:
        body["systemInstruction"] = {"parts": [{"text": text} for text in said]}
    if request.tools:
        body["tools"] = [{"functionDeclarations": [_tool(spec) for spec in request.tools]}]
        if choice := _tool_choice(request):
            body["toolConfig"] = {"functionCallingConfig": choice}
        if request.parallel_calls is False:
            say_once("Gemini cannot be told to make one call at a time: parallel_calls=False has no effect")
    if config := _generation_config(request, None if is_schema_refused else request.output):
        body["generationConfig"] = config
    return _joined(body, request.extra or {})


def _joined(body: JsonObject, extra: JsonObject) -> JsonObject:
    joined = {**body, **extra}
    for key in body.keys() & extra.keys():
        ours, theirs = body[key], extra[key]
        if isinstance(ours, dict) and isinstance(theirs, dict):
            joined[key] = _joined(ours, theirs)
        elif key == "tools" and isinstance(theirs, list):
            joined[key] = ours + theirs
    return joined


# What may be called, and how to answer


def _tool(spec: ToolSpec) -> JsonObject:
    declaration: JsonObject = {"name": spec.name, "description": spec.description}
    schema = gemini_schema(spec.parameters)
    if any(schema.get(keyword) for keyword in ("properties", "additionalProperties", "anyOf", "oneOf")):
        declaration["parametersJsonSchema"] = schema  # an object without any is refused
    return declaration


def _tool_choice(request: TurnRequest) -> JsonObject:
    match request.tool_choice:
        case "auto":  # left to the provider; but only this mode keeps to the schemas
            return {"mode": "VALIDATED"} if any(spec.strict for spec in request.tools) else {}
        case "none":
            return {"mode": "NONE"}
        case "required":
            return {"mode": "ANY"}
    return {"mode": "ANY", "allowedFunctionNames": [request.tool_choice]}


def _generation_config(request: TurnRequest, output: JsonObject | None) -> JsonObject:
    wishes: JsonObject = {
        "maxOutputTokens": request.max_output_tokens,
        "temperature": request.temperature,
        "stopSequences": list(request.stop) or None,
        "thinkingConfig": None if request.reasoning_effort is None else _thinking(request.reasoning_effort),
    }
    config = {key: wish for key, wish in wishes.items() if wish is not None}
    if output is not None:
        config["responseMimeType"] = "application/json"
        config["responseJsonSchema"] = gemini_schema(output)
    return config


def _thinking(effort: str) -> JsonObject:
    """Who asks for thinking wants to see it. Without any thinking that is refused."""
    if not _TOKENS.fullmatch(effort):
        return {"thinkingLevel": effort, "includeThoughts": True}
    budget = int(effort)
    return {"thinkingBudget": budget, "includeThoughts": True} if budget else {"thinkingBudget": 0}


# What was said


def _contents(request: TurnRequest, *, is_old: bool) -> list[JsonObject]:
    """Contents of user and model in turn, the user first, as the provider wants them.

    Nothing stands beside results: to that the newer models say nothing, or refuse it. So what the person says behind
    them is a content of its own, which is taken.
    """
    runs = list(in_order(request.history))
    asked = max((number for number, (speaker, _) in enumerate(runs) if speaker == "user"), default=-1)
    contents: list[JsonObject] = []
    calls: dict[str, ToolCall] = {}
    for number, (speaker, items) in enumerate(runs):
        if speaker == "model":
            calls.update((item.call_id, item) for item in items if type(item) is ToolCall)
            parts = [part for item in items if (part := _said_by_model(item))]
            if number > asked and not is_old:
                _sign_first_call(parts)
            _append(contents, "model", parts)
        elif speaker == "results":
            results, images = _results(cast("list[ToolOutput]", items), calls, has_images_inside=not is_old)
            _append(contents, "user", results)
            _append(contents, "user", images)
        else:
            _append(contents, "user", [part for item in items for part in _said_by_user(cast("Message", item))])
    if not contents or contents[0]["role"] == "model":
        contents.insert(0, {"role": "user", "parts": [{"text": " "}]})
    return contents


def _append(contents: list[JsonObject], role: str, parts: list[JsonObject]) -> None:
    last = contents[-1]["parts"] if contents and contents[-1]["role"] == role else []
    if last and not any("functionResponse" in part for part in [*last, *parts]):
        last += parts
    elif parts:
        contents.append({"role": role, "parts": parts})


def _said_by_user(message: Message) -> list[JsonObject]:
    return [*map(_image, message.images), *([{"text": message.text}] if message.text else [])]


def _said_by_model(item: Item) -> JsonObject | None:
    """The part that an item was, and goes back as."""
    match item:
        case UnknownItem(item=dict() as part, dialect="gemini") | ProviderTool(opaque={"gemini": part}):
            return part
        case Message(text=text, opaque={"gemini": signature}):
            return {"text": text, **signature}
        case Reasoning(text=text, opaque={"gemini": signature}):
            return {"text": text, "thought": True, **signature}
        case Message(text=text) if text:
            return {"text": text}
        case ToolCall():
            return _call(item)
    return None


def _call(item: ToolCall) -> JsonObject:
    known = (item.opaque or {}).get("gemini", {})
    call = {"id": known["id"]} if "id" in known else {}
    call.update(name=item.name, args=arguments_object(item))
    return {"functionCall": call, **{key: value for key, value in known.items() if key != "id"}}


def _sign_first_call(parts: list[JsonObject]) -> None:
    """Since the person has spoken, the provider refuses calls of which the first in a row is not signed."""
    first = next((part for part in parts if "functionCall" in part), None)
    if first is not None:
        first.setdefault("thoughtSignature", NO_SIGNATURE)


def _results(
    outputs: list[ToolOutput], calls: dict[str, ToolCall], *, has_images_inside: bool
) -> tuple[list[JsonObject], list[JsonObject]]:
    """The results, and the images that cannot be inside of them: of older models all, and those with an address."""
    results: list[JsonObject] = []
    others: list[Item] = []
    for output in outputs:
        call = calls.get(output.call_id)
        response: JsonObject = {
            "name": output.tool if call is None else call.name,
            "response": {"error" if output.failed else "output": output.text},
        }
        known = (call.opaque or {}).get("gemini", {}) if call is not None else {}
        if "id" in known:  # calls without one are told apart by name and order
            response["id"] = known["id"]
        inside = [image for image in output.images if has_images_inside and not image.url]
        if inside:
            response["parts"] = [_image(image) for image in inside]
        outside = tuple(image for image in output.images if image not in inside)
        others.append(msgspec.structs.replace(output, images=outside))
        results.append({"functionResponse": response})
    return results, [part for message in images_of_results(others) for part in _said_by_user(message)]


def _image(image: Image) -> JsonObject:
    kind = {"mimeType": image.media_type} if image.media_type else {}
    if image.url:
        return {"fileData": {**kind, "fileUri": image.url}}
    return {"inlineData": {**kind, "data": base64_of(image)}}


# The model


def gemini(
    name: str,
    *,
    base_url: str = GEMINI_URL,
    api_key: str | None = None,
    **options: Unpack[HttpOptions],
) -> Model:
    """A Gemini model. May be used from any event loop; there is nothing to close.

    base_url: of the server, up to the part before `/models/`. On Vertex AI that names project, location and publisher,
    and the key is a token in a header: `headers={"authorization": …}`. api_key: None takes GEMINI_API_KEY, or
    GOOGLE_API_KEY, from the environment, when a turn is run. options: see HttpOptions.

    A turn that fails raises a ModelError; `errors` says which there are.
    """
    from .http import HttpModel  # noqa: PLC0415 - it needs httpx2, and only who makes a model does

    def request_headers() -> dict[str, str]:
        found = os.environ.get("GEMINI_API_KEY") or os.environ.get("GOOGLE_API_KEY")
        key = found if api_key is None else api_key
        return {"x-goog-api-key": key} if key else {}

    address, _, query = base_url.partition("?")
    path = name if "/" in name else f"models/{name}"
    return HttpModel(
        name,
        f"{address.rstrip('/')}/{path}:streamGenerateContent?{'&'.join(filter(None, ['alt=sse', query]))}",
        headers=request_headers,
        encode=encode_request,
        decoder=GeminiDecoder,
        key_hint="no key was sent: give api_key=…, or set GEMINI_API_KEY",
        options=options,
    )
