"""Items of a conversation, and what the Messages API is sent of them."""

from typing import Any

from streamkit.items import ProviderTool, Reasoning, ToolCall, ToolSpec, UnknownItem
from streamkit.providers.anthropic import encode_request
from streamkit.turns import TurnRequest

SPEC = ToolSpec("search", "Searches.", {"type": "object", "properties": {}})
MARK = {"cache_control": {"type": "ephemeral"}}


def body_of(request: TurnRequest, *, cache: bool = False, **options: bool) -> dict[str, Any]:
    return encode_request(request, "m", cache=cache, **options)


def said(text: str, **fields: Any) -> dict[str, Any]:
    return {"type": "text", "text": text, **fields}


def used(call_id: str, **fields: Any) -> dict[str, Any]:
    return {"type": "tool_use", "id": call_id, "name": "f", "input": {}, **fields}


def thought(text: str = "Hm", **opaque: Any) -> Reasoning:
    return Reasoning(text, "trace", {"anthropic": opaque})


def raw(kind: str, **fields: Any) -> UnknownItem:
    return UnknownItem({"type": kind, **fields}, "anthropic")


def own_tool(call_id: str, kind: str = "server_tool_use") -> ProviderTool:
    return ProviderTool(call_id, "web_search", {}, kind=kind, opaque={"anthropic": {"type": kind, "id": call_id}})


def own_result(call_id: str) -> ProviderTool:
    block = {"type": "web_search_tool_result", "tool_use_id": call_id}
    return ProviderTool(call_id, "web_search", output=[], kind=block["type"], opaque={"anthropic": block})


def call(call_id: str, arguments: str = "{}", **fields: Any) -> ToolCall:
    return ToolCall(call_id, "f", arguments, **fields)
