"""Dialect: chat completions of OpenAI. A history as messages, and where the servers differ in them.

Source: the API reference of OpenAI, "Create chat completion"; that of Mistral, "Chat Completion".
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import msgspec

from ..items import Image, Item, Message, Reasoning, ToolCall, ToolOutput
from ..turns import TurnRequest
from .openai_chat_wire import DIALECT, REASONING, REASONING_DETAILS
from .requests import CallIds, image_url, images_of_results, in_order, legal_id, legal_name


class Server(msgspec.Struct, frozen=True):
    """What a server wants otherwise than most.

    legal_id: an id that it takes, of any. each_id_once: no two calls of a request have one. takes_back: the fields of a
    message, not known to OpenAI, that it does not refuse. answers_first: it takes images in results, and nothing of the
    person right behind them. asks_for_usage: it must be asked for it. token_limit: its name for that. wants_reasoning:
    the field without which it refuses a message of the model.
    """

    legal_id: Callable[[str], str] = str
    each_id_once: bool = False
    takes_back: tuple[str, ...] = (*REASONING, *REASONING_DETAILS, "reasoning_opaque", "content", "extra_content")
    answers_first: bool = False
    asks_for_usage: bool = True
    token_limit: str = "max_tokens"
    wants_reasoning: str | None = None


OPENAI_ID = re.compile(r".{1,40}", re.DOTALL)
MISTRAL_ID = re.compile(r"[a-zA-Z0-9]{9}")

HEARD = "OK."
"""What the model says to results, where it must say something before the person goes on."""

NOT_TOLD = " "
"""Reasoning of which nothing is known. An empty one is refused, too."""

MOST = Server()
THINKING = Server(wants_reasoning="reasoning_content")
"""DeepSeek and Moonshot."""
ONLY_ITS_OWN = {
    "api.groq.com": Server(takes_back=("reasoning",)),
    "api.cerebras.ai": Server(takes_back=("reasoning",)),
    "api.fireworks.ai": Server(takes_back=("reasoning_content",)),
    "generativelanguage.googleapis.com": Server(takes_back=("extra_content",)),
}
"""By host, servers that refuse what another one wanted back."""
OPENAI = Server(
    lambda call_id: legal_id(call_id, OPENAI_ID), takes_back=(), token_limit="max_completion_tokens"
)  # fmt: skip
MISTRAL = Server(
    lambda call_id: legal_id(call_id, MISTRAL_ID, "{:.9}"),
    each_id_once=True,
    takes_back=("content",),
    answers_first=True,
    asks_for_usage=False,
)


def messages_of(request: TurnRequest, server: Server) -> list[dict[str, Any]]:
    """The instructions and the history. Calls and their results have the same ids, whatever becomes of them."""
    ids = CallIds(server.legal_id, once=server.each_id_once)
    messages: list[dict[str, Any]] = []
    if request.instructions is not None:
        messages.append({"role": "system", "content": request.instructions})
    for speaker, items in in_order(request.history):
        if speaker == "user":
            if server.answers_first and messages and messages[-1]["role"] == "tool":
                messages.append({"role": "assistant", "content": HEARD})
            messages += [_said_by_user(item) for item in items if type(item) is Message]
        elif speaker == "results":
            messages += [_result(item, ids, server) for item in items if type(item) is ToolOutput]
            if not server.answers_first:
                messages += [_said_by_user(message) for message in images_of_results(items)]
        else:
            messages += _said_by_model(items, ids, server)
    return messages


def _said_by_user(message: Message) -> dict[str, Any]:
    return {"role": "user", "content": _content(message.text, message.images)}


def _result(output: ToolOutput, ids: CallIds, server: Server) -> dict[str, Any]:
    images = output.images if server.answers_first else ()
    return {
        "role": "tool",
        "tool_call_id": ids.of_output(output.call_id),
        "content": _content(output.text, images),
    }


def _content(text: str, images: tuple[Image, ...]) -> str | list[dict[str, Any]]:
    if not images:
        return text
    pictures = [{"type": "image_url", "image_url": {"url": image_url(image)}} for image in images]
    return [*pictures, *([{"type": "text", "text": text}] if text else [])]


def _said_by_model(items: list[Item], ids: CallIds, server: Server) -> list[dict[str, Any]]:
    """One message of all items; none where it would be blank."""
    calls = [_call(item, ids, server) for item in items if type(item) is ToolCall]
    text = "".join([item.text for item in items if type(item) is Message])
    if not calls and not text.strip():
        return []  # servers refuse it, and reasoning alone is blank to them
    message: dict[str, Any] = {"role": "assistant", "content": text or None}
    if len(calls) < len(items):
        message |= _taken_back(_kept(items, text), server)
    if server.wants_reasoning is not None:
        told = [message.pop(field) for field in REASONING if field in message]
        message[server.wants_reasoning] = next(filter(None, told), NOT_TOLD)
    if calls:
        message["tool_calls"] = calls
    return [message]


def _call(call: ToolCall, ids: CallIds, server: Server) -> dict[str, Any]:
    kind, text = ("custom", "input") if call.custom else ("function", "arguments")
    written: dict[str, Any] = {
        "id": ids.of_call(call.call_id),
        "type": kind,
        kind: {"name": legal_name(call.name), text: call.arguments},
    }
    if call.opaque:
        written |= _taken_back(call.opaque.get(DIALECT, {}), server)
    return written


def _taken_back(kept: dict[str, Any], server: Server) -> dict[str, Any]:
    return {field: value for field, value in kept.items() if field in server.takes_back}


def _kept(items: list[Item], text: str) -> dict[str, Any]:
    """What the message had besides its text and its calls."""
    kept = _reasoning([item for item in items if type(item) is Reasoning], text)
    for item in items:
        if type(item) is Message and item.opaque:
            kept |= item.opaque.get(DIALECT, {})
    return kept


def _reasoning(items: list[Reasoning], text: str) -> dict[str, Any]:
    """Reasoning as the fields of the message that it came from; other servers refuse them."""
    opaque = [item.opaque[DIALECT] for item in items if item.opaque and DIALECT in item.opaque]
    field = next((known["field"] for known in opaque if "field" in known), None)
    thought = "".join(item.text for item in items)
    fields: dict[str, Any] = {}
    if field == "content":
        thinking = {"type": "thinking", "thinking": [{"type": "text", "text": thought}]}
        fields[field] = [thinking, *([{"type": "text", "text": text}] if text else [])]
    elif field is not None:
        fields[field] = thought
    for name in REASONING_DETAILS:
        if details := [detail for known in opaque for detail in known.get(name, ())]:
            fields[name] = details
    return fields | {name: known[name] for known in opaque for name in ("reasoning_opaque",) if name in known}
