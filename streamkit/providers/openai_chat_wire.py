"""What servers of chat completions send: the fields that are read, and what their words and counts mean.

Source: the API reference of OpenAI, "Chat Completions, streaming events"; streams recorded of two dozen servers.
"""

from __future__ import annotations

from typing import Any

import msgspec

from ..items import Usage
from .odd_fields import token_count_in

DIALECT = "openai_chat"
"""The name under which it keeps what goes back unread."""

# The fields that are needed, the rest is skipped in C. Fields that servers fill in different ways are Any, so that an
# odd one does not cost the whole chunk. Those that come most often stand first, as they come: msgspec looks for each
# from behind the one before. gc=False: they live for a moment, and hold no cycles.


class Function(msgspec.Struct, gc=False):
    name: Any = None
    arguments: Any = None  # text; some send the object itself
    parameters: Any = None  # as some call them


class CallPiece(msgspec.Struct, gc=False):
    index: int | None = None
    function: Function | None = None
    id: Any = None
    custom: Any = None  # name, and plain text as input
    extra_content: Any = None
    name: Any = None  # from servers that put no function around these two
    arguments: Any = None


class Delta(msgspec.Struct, gc=False):
    content: Any = None  # text, or a list of parts
    tool_calls: list[CallPiece] | None = None
    reasoning_content: Any = None
    reasoning: Any = None
    reasoning_text: Any = None
    reasoning_opaque: Any = None
    reasoning_details: Any = None
    thinking: Any = None
    thinking_blocks: Any = None
    refusal: Any = None
    function_call: Any = None  # what a call was before there could be several: name and arguments
    extra_content: Any = None
    annotations: Any = None
    audio: Any = None
    images: Any = None
    executed_tools: Any = None


class Choice(msgspec.Struct, gc=False):
    index: int | None = None
    delta: Delta | None = None
    finish_reason: str | None = None
    native_finish_reason: Any = None  # the word of the server behind this one
    message: Any = None  # instead of a delta: from servers that put the whole answer into one event
    usage: Any = None
    error: Any = None  # beside the word for it


class Groq(msgspec.Struct, gc=False):
    usage: Any = None
    error: Any = None


class Chunk(msgspec.Struct, gc=False):
    choices: list[Choice] | None = None
    usage: Any = None
    error: Any = None
    x_groq: Groq | None = None
    base_resp: Any = None  # of MiniMax, which tells its failures here


NO_DELTA = Delta()
REASONING = ("reasoning_content", "reasoning", "reasoning_text", "thinking")
"""Where servers put the text of it. Those that send two of them send it twice."""
REASONING_DETAILS = ("reasoning_details", "thinking_blocks")
"""What OpenRouter and LiteLLM want back of it."""
STREAMED = ("content", "refusal", *REASONING)
KEPT_UNREAD = ("annotations", "audio", "images", "executed_tools")


def with_lists_of_calls(told: Any) -> Any:
    """A chunk as it should be, of a server that sends the one call there is without a list around it."""
    match told:
        case {"choices": list(choices)}:
            deltas = [choice["delta"] for choice in choices if isinstance(choice, dict) and choice.get("delta")]
            for delta in deltas:
                if isinstance(delta, dict) and isinstance(delta.get("tool_calls"), dict):
                    delta["tool_calls"] = [delta["tool_calls"]]
    return told


def usage_of(told: dict[str, Any]) -> Usage:
    """The tokens, counted as we do, of an object of any of the servers."""
    prompt = told.get("prompt_tokens_details") or {}
    completion = told.get("completion_tokens_details") or {}
    read, written = token_count_in(told, "prompt_tokens"), token_count_in(told, "completion_tokens")
    reasoning = token_count_in(completion, "reasoning_tokens") or token_count_in(told, "reasoning_tokens")
    if token_count_in(told, "total_tokens") == read + written + reasoning:
        written += reasoning  # most count reasoning as part of what is written, some beside it
    cached = token_count_in(prompt, "cached_tokens") or token_count_in(told, "prompt_cache_hit_tokens")
    return Usage(read, written, cached, reasoning)
