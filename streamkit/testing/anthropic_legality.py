"""What the Messages API refuses in a request, told by the body alone.

Sources: the API reference of Anthropic, "Messages", "Tool use", "Extended thinking", "Prompt caching"; the refusals
that users report ("`tool_use` ids were found without `tool_result` blocks immediately after", "each tool_use must have
a single result", "Requests which include `tool_use` or `tool_result` blocks must define tools", "text content blocks
must contain non-whitespace text", "final assistant content cannot end with trailing whitespace", "If an assistant
message contains any thinking blocks, the first block must be thinking or redacted_thinking", "The final block in an
assistant message cannot be `thinking`").
"""

from __future__ import annotations

import re
from typing import Any

from ..items import History, Reasoning
from .legality import JsonObject, check_kept, demand, is_said, opaque_of

_ID = re.compile(r"[a-zA-Z0-9_-]+")
_NAME = re.compile(r"[a-zA-Z0-9_-]{1,128}")
_THOUGHTS = ("thinking", "redacted_thinking")
_SIDES = {"user": ("tool_result",), "assistant": ("tool_use", *_THOUGHTS)}
"""The blocks that only one of the two may have."""
_MARKS = 4


def check_messages(body: JsonObject) -> None:
    """Raise IllegalHistory where the server refuses the conversation.

    The two speak in turn, the person first. Each call is answered once, in the next message, before anything else.
    """
    messages = body["messages"]
    demand(messages, "messages", "there is none")
    calls: list[str] = []  # of the message before
    used: set[str] = set()
    for number, message in enumerate(messages):
        place, role = f"messages[{number}]", message["role"]
        demand(role == ("assistant" if number % 2 else "user"), place, "user and assistant speak in turn, user first")
        demand(message["content"], place, "a message without content")
        blocks = _blocks(message["content"])
        for block in blocks:
            _check_block(block, role, place)
        if role == "user":
            _check_results(blocks, calls, place)
            calls = []
        else:
            _check_order(blocks, place)
            calls = [block["id"] for block in blocks if block["type"] == "tool_use"]
            demand(len(set(calls)) == len(calls) and not used & set(calls), place, "two calls with one id")
            used.update(calls)
    demand(not calls, "the end", f"the calls {calls} have no result")
    last = _blocks(messages[-1]["content"])[-1]
    is_cut = messages[-1]["role"] == "user" or last["type"] != "text" or last["text"] == last["text"].rstrip()
    demand(is_cut, "the end", "the last text of the model ends in white space")
    _check_tools(body)
    _check_own_tools(messages)
    marks = str(body).count("'cache_control':")
    demand(marks <= _MARKS, "cache_control", f"there are {marks} marks, and at most {_MARKS} may be")


def _blocks(content: Any) -> list[JsonObject]:
    return [{"type": "text", "text": content}] if isinstance(content, str) else content


def _check_block(block: JsonObject, role: str, place: str) -> None:
    other = "assistant" if role == "user" else "user"
    demand(block["type"] not in _SIDES[other], place, f"a {block['type']} of the {role}")
    match block["type"]:
        case "text":
            demand(is_said(block["text"]), place, "a text that is blank")
        case "tool_use":
            demand(_ID.fullmatch(block["id"]), place, f"the id {block['id']!r} is not taken")
            demand(_NAME.fullmatch(block["name"]), place, f"the name {block['name']!r} is not taken")
            demand(isinstance(block["input"], dict), place, "the input of a call is not an object")
        case "thinking":
            demand(block.get("signature"), place, "thinking without a signature")
            demand("cache_control" not in block, place, "thinking cannot be marked for the cache")
        case "redacted_thinking":
            demand(block.get("data"), place, "redacted thinking without its data")
        case "tool_result":
            _check_result(block, place)


def _check_result(block: JsonObject, place: str) -> None:
    inside = _blocks(block.get("content", []))
    for part in inside:
        demand(part["type"] != "text" or is_said(part["text"]), place, "a text that is blank, in a result")
    if block.get("is_error"):
        is_text = bool(inside) and all(part["type"] == "text" for part in inside)
        demand(is_text, place, "a result that is an error has text, and nothing else")


def _check_results(blocks: list[JsonObject], calls: list[str], place: str) -> None:
    results = [block["tool_use_id"] for block in blocks if block["type"] == "tool_result"]
    demand(sorted(results) == sorted(calls), place, f"one result for each of the calls {calls}, not {results}")
    first = [block["type"] for block in blocks[: len(results)]]
    demand(set(first) <= {"tool_result"}, place, "results come first in their message")


def _check_order(blocks: list[JsonObject], place: str) -> None:
    kinds = [block["type"] for block in blocks]
    thinks = any(kind in _THOUGHTS for kind in kinds)
    demand(not thinks or kinds[0] in _THOUGHTS, place, "a message with thinking begins with it")
    demand(kinds[-1] not in _THOUGHTS, place, "a message cannot end in thinking")


def _check_tools(body: JsonObject) -> None:
    kinds = {block["type"] for message in body["messages"] for block in _blocks(message["content"])}
    calls = kinds & {"tool_use", "tool_result"}
    demand(not calls or body.get("tools"), "tools", "a conversation with calls must define tools")
    for tool in body.get("tools", ()):
        demand(_NAME.fullmatch(tool["name"]), "tools", f"the name {tool['name']!r} is not taken")


def _check_own_tools(messages: list[JsonObject]) -> None:
    """The server's own calls have their results behind them; one may be open where the server goes on with it."""
    waiting: dict[str, int] = {}
    for number, message in enumerate(messages):
        for block in _blocks(message["content"]):
            kind, place = block["type"], f"messages[{number}]"
            if kind.endswith("_tool_use"):
                waiting[block["id"]] = number
            elif kind.endswith("_tool_result") and kind != "tool_result":
                demand(waiting.pop(block["tool_use_id"], None) is not None, place, f"a {kind} without its call")
    is_left = [
        number for number in waiting.values() if number < len(messages) - 1 and not _results_in(messages, number)
    ]
    demand(not is_left, "messages", f"calls of the server's own tools without a result, in {is_left}")


def _results_in(messages: list[JsonObject], number: int) -> bool:
    """Whether the message behind this one holds results: then the server goes on with what it had begun."""
    return any(block["type"] == "tool_result" for block in _blocks(messages[number + 1]["content"]))


def check_thoughts_kept(history: History, body: JsonObject) -> None:
    """Thinking goes back as it came; and all of it, unless another model took over."""
    came = [
        known.get("signature") or known.get("data")
        for item in history
        if type(item) is Reasoning and (known := opaque_of(item, "anthropic"))
    ]
    blocks = [block for message in body["messages"] for block in _blocks(message["content"])]
    sent = [block.get("signature") or block["data"] for block in blocks if block["type"] in _THOUGHTS]
    check_kept("thinking", sent, [each for each in came if each is not None])
