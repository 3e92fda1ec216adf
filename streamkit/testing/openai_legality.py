"""What servers of OpenAI's two dialects refuse in a request, told by the bodies alone.

Sources: the API reference of OpenAI, "Create chat completion" and "Create a model response"; the refusals that users
report ("messages with role 'tool' must be a response to a preceding message with 'tool_calls'", "No tool output found
for function call", "was provided without its required following item", "Duplicate item found with id", "string does
not match pattern '^[a-zA-Z0-9_-]+$'", "string too long. Expected a string with maximum length 40"); for Mistral the
validation of its package mistral-common, and "Unexpected role 'user' after role 'tool'" (code 3230); for DeepSeek and
Moonshot "The `reasoning_content` in the thinking mode must be passed back to the API", also where it is empty.
"""

from __future__ import annotations

import re
from typing import Any

import msgspec

from ..items import History
from .legality import NAME, JsonObject, check_kept, demand, is_object, is_said, opaque_of


class ChatRules(msgspec.Struct, frozen=True):
    """What a server of chat completions refuses beyond what most do.

    ids: those of calls that it takes. each_id_once: in the whole request. answers_first: the model speaks before the
    person does, behind results. reasoning: the field without which no message of the model is taken.
    """

    ids: str = r".+"
    each_id_once: bool = False
    answers_first: bool = False
    reasoning: str | None = None


MOST = ChatRules()
OPENAI = ChatRules(r".{1,40}")
MISTRAL = ChatRules(r"[a-zA-Z0-9]{9}", each_id_once=True, answers_first=True)
THINKING = ChatRules(reasoning="reasoning_content")


# Chat completions


def check_chat(body: JsonObject, rules: ChatRules = MOST) -> None:
    """Raise IllegalHistory where a server refuses the messages.

    Results stand right behind their calls, one for each. A message of the model has text or calls; arguments are the
    text of a JSON object.
    """
    waiting: list[str] = []
    used: set[str] = set()
    before = ""
    for number, message in enumerate(body["messages"]):
        place, role = f"messages[{number}]", message.get("role")
        demand(role in ("system", "user", "assistant", "tool"), place, f"{role!r} is not a role")
        if role == "tool":
            demand(message["tool_call_id"] in waiting, place, "a result of no call of the message before")
            waiting.remove(message["tool_call_id"])
            demand(isinstance(message.get("content"), str | list), place, "a result has content")
        else:
            demand(not waiting, place, f"the calls {waiting} have no result right after them")
        if role in ("user", "system"):
            demand(isinstance(message.get("content"), str | list), place, "a message has content")
            is_early = rules.answers_first and before == "tool"
            demand(not is_early, place, f"the role {role} after a result: the model speaks first")
        if role == "assistant":
            waiting = _check_answer(message, place, rules)
            demand(not (rules.each_id_once and used & set(waiting)), place, "an id that an earlier call has")
            used.update(waiting)
        before = role
    demand(not waiting, "the end", f"the calls {waiting} have no result")


def _check_answer(message: JsonObject, place: str, rules: ChatRules) -> list[str]:
    """The ids of the calls of a message of the model."""
    calls, content = message.get("tool_calls"), message.get("content")
    demand(calls is None or calls, place, "tool_calls is empty")
    says = is_said(content) or (isinstance(content, list) and content)
    demand(says or calls, place, "the model says nothing, and calls nothing")
    is_told = rules.reasoning is None or message.get(rules.reasoning)
    demand(is_told, place, f"a message of the model without {rules.reasoning}")
    for call in calls or ():
        demand(re.fullmatch(rules.ids, call["id"], re.DOTALL), place, f"the id {call['id']!r} is not taken")
        called = call[call["type"]]
        demand(NAME.fullmatch(called["name"]), place, f"the name {called['name']!r} is not taken")
        if call["type"] == "function":
            demand(is_object(called["arguments"]), place, f"the arguments of {call['id']} are not a JSON object")
    ids = [call["id"] for call in calls or ()]
    demand(len(set(ids)) == len(ids), place, "two calls have one id")
    return ids


# Responses

_CALLS = {"function_call": "function_call_output", "custom_tool_call": "custom_tool_call_output"}
_STARTS_OF_IDS = {"message": "msg", "function_call": "fc", "custom_tool_call": "ctc"}
_TEXTS = ("input_text", "output_text", "text", "refusal")
_CALL_ID_LENGTH = 64


def check_responses(body: JsonObject) -> None:
    """Raise IllegalHistory where OpenAI refuses the input.

    Each call has one output behind it, before anything else is said; reasoning is followed by what it led to; nothing
    is empty; an item comes once.
    """
    items = body["input"]
    demand(items, "input", "there is nothing in it")
    waiting: dict[str, str] = {}
    called: set[str] = set()
    reasons = False  # something of the model must follow
    for number, item in enumerate(items):
        place, kind = f"input[{number}]", item.get("type", "message")
        is_output = kind in _CALLS.values()
        is_of_model = not is_output and item.get("role") not in ("user", "system", "developer")
        demand(is_of_model or not reasons, place, "reasoning before it is not followed by what it led to")
        reasons = kind == "reasoning" or (reasons and not is_of_model)
        if is_output:
            demand(waiting.pop(item["call_id"], None) == kind, place, "an output of no call, or of one of another kind")
            demand(isinstance(item["output"], str | list), place, "an output is a text or a list of parts")
        elif kind in _CALLS:
            _check_call(item, place)
            demand(item["call_id"] not in called, place, "a call_id that an earlier call has")
            called.add(item["call_id"])
            waiting[item["call_id"]] = _CALLS[kind]
        elif kind == "message":
            demand(is_of_model or not waiting, place, f"the calls {list(waiting)} have no output")
            _check_content(item["content"], place)
        elif kind == "reasoning":
            demand(isinstance(item.get("summary"), list), place, "reasoning has a summary, be it an empty list")
    demand(not waiting, "the end", f"the calls {list(waiting)} have no output")
    demand(not reasons, "the end", "reasoning is not followed by what it led to")
    _check_item_ids(items)


def _check_call(item: JsonObject, place: str) -> None:
    demand(0 < len(item["call_id"]) <= _CALL_ID_LENGTH, place, f"a call_id has 1 to {_CALL_ID_LENGTH} characters")
    demand(NAME.fullmatch(item["name"]), place, f"the name {item['name']!r} is not taken")
    if item["type"] == "function_call":
        demand(is_object(item["arguments"]), place, "the arguments are not a JSON object")


def _check_content(content: Any, place: str) -> None:
    parts = [{"type": "text", "text": content}] if isinstance(content, str) else content
    demand(parts, place, "a message without content")
    for part in parts:
        text = part.get("refusal" if part["type"] == "refusal" else "text")
        demand(part["type"] not in _TEXTS or text, place, "a text that is empty")


def _check_item_ids(items: list[JsonObject]) -> None:
    ids: set[str] = set()
    for number, item in enumerate(items):
        place, start = f"input[{number}]", _STARTS_OF_IDS.get(item.get("type", "message"), "")
        if item.get("id") is not None:
            demand(item["id"].startswith(start), place, f"the id {item['id']!r} does not begin with {start}")
            demand(item["id"] not in ids, place, f"a second item with the id {item['id']!r}")
            ids.add(item["id"])


def check_responses_kept(history: History, body: JsonObject) -> None:
    """Encrypted reasoning goes back as it came."""
    came = [known for item in history if (known := opaque_of(item, "openai_responses").get("encrypted_content"))]
    sent = [item["encrypted_content"] for item in body["input"] if item.get("encrypted_content")]
    check_kept("reasoning", sent, came)
