"""Turns as the decoders of each dialect give them, with what the provider wants back unread; each sends a mail."""

from typing import Any

from streamkit import ReasoningDelta
from streamkit.items import ProviderTool, UnknownItem
from streamkit.parts import InputDelta, InputEnd, InputOpaque, InputStart, NextItem, ReasoningOpaque, TextOpaque


def send_call(dialect: str | None = None, **opaque: Any) -> list[Any]:
    """A call of `send`, written as no encoder of ours would write it."""
    signed = [InputOpaque(opaque, dialect, 0)] if dialect is not None else []
    return [InputStart(0, "call_1", "send"), InputDelta('{ "to":', 0), InputDelta(' "Ann"}', 0), *signed, InputEnd(0)]


SIGNED: dict[str, list[Any]] = {
    "anthropic": [
        ReasoningDelta("Shall I?"),
        ReasoningOpaque({"signature": "sig-1"}, "anthropic"),
        NextItem(),
        ReasoningOpaque({"data": "not to be read"}, "anthropic"),
        NextItem(),
        ProviderTool(
            "srvtoolu_1",
            "web_search",
            {"query": "Ann"},
            kind="server_tool_use",
            opaque={
                "anthropic": {
                    "type": "server_tool_use",
                    "id": "srvtoolu_1",
                    "name": "web_search",
                    "input": {"query": "Ann"},
                }
            },
        ),
        ProviderTool(
            "srvtoolu_1",
            "web_search",
            None,
            [{"type": "web_search_result", "encrypted_content": "e"}],
            kind="web_search_tool_result",
            opaque={
                "anthropic": {
                    "type": "web_search_tool_result",
                    "tool_use_id": "srvtoolu_1",
                    "content": [{"type": "web_search_result", "encrypted_content": "e"}],
                }
            },
        ),
        "I send it.",
        *send_call(),
    ],
    "openai-responses": [
        ReasoningOpaque(
            {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "enc-1"}, "openai_responses"
        ),
        NextItem(),
        "I send ",
        "it.",
        TextOpaque({"id": "msg_1", "status": "completed"}, "openai_responses"),
        UnknownItem({"type": "compaction", "id": "cmp_1", "data": "enc-2"}, "openai_responses"),
        *send_call("openai_responses", id="fc_1", status="completed"),
    ],
    "gemini": [
        ReasoningDelta("Shall I?"),
        NextItem(),
        "I send it.",
        TextOpaque({"thoughtSignature": "sig-1"}, "gemini"),
        TextOpaque({"thoughtSignature": "sig-2"}, "gemini"),
        *send_call("gemini", id="c-1", thoughtSignature="sig-3"),
    ],
    "openai-chat": [
        ReasoningOpaque({"field": "reasoning"}, "openai_chat"),
        ReasoningDelta("Shall I?"),
        ReasoningOpaque({"reasoning_details": [{"type": "reasoning.encrypted", "data": "enc-1"}]}, "openai_chat"),
        *send_call(),
    ],
}  # fmt: skip
