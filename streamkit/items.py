"""What a history is made of: messages, reasoning, calls and their outputs; and what a model is told and charged.

A history is a flat tuple of items in the order in which they were said. Items are plain data: they encode to JSON and
back unchanged, and belong to no provider. What a provider wants back unread (signatures, encrypted reasoning) rides in
`opaque`.
"""

from __future__ import annotations

from typing import Any, Literal

import msgspec


def snake_case(name: str) -> str:
    """The tag of a record: `ToolInputDelta` is `tool_input_delta`."""
    return "".join("_" + letter.lower() if letter.isupper() else letter for letter in name).lstrip("_")


class Tagged(msgspec.Struct, frozen=True, tag_field="type", tag=snake_case):
    """Plain data that carries its kind in `type`."""


class Message(Tagged, frozen=True):
    """Text that a person or the model said. Instructions are not a message: they stand in the request."""

    role: Literal["user", "assistant"]
    text: str


class Reasoning(Tagged, frozen=True):
    """What the model thought before it answered. kind: the trace itself, or a summary of it."""

    text: str
    kind: Literal["trace", "summary"] = "trace"
    opaque: dict[str, Any] | None = None


class ToolCall(Tagged, frozen=True):
    """The model's request to run a tool.

    arguments: the text as the model wrote it; not validated, and JSON only where `problem` and `abandoned` are None.
    turn_id, place: the turn that holds the call and its place among that turn's calls, from 0.
    problem: why a call that ended cannot run (no name, or text that is not one JSON object); it is answered with a
    failure. abandoned: the call goes nowhere: it never became whole, or its turn kept no such call.
    """

    call_id: str
    name: str
    arguments: str
    turn_id: str = ""
    place: int = 0
    problem: str | None = None
    abandoned: Literal["incomplete", "discarded"] | None = None
    opaque: dict[str, Any] | None = None


class ToolOutput(Tagged, frozen=True):
    """What the model is told of one of its calls. failed: the text says what went wrong."""

    call_id: str
    tool: str
    text: str
    failed: bool = False


class ProviderTool(Tagged, frozen=True):
    """A tool that the provider ran itself: nobody has to answer it."""

    call_id: str
    name: str
    input: Any = None
    output: Any = None


class UnknownItem(Tagged, frozen=True):
    """What a provider sent that we do not know, as it came."""

    item: Any


TurnItem = Message | Reasoning | ToolCall | ProviderTool | UnknownItem
Item = Message | Reasoning | ToolCall | ToolOutput | ProviderTool | UnknownItem
History = tuple[Item, ...]

StopReason = Literal[
    "stop", "tool_calls", "length", "content_filter", "refusal", "pause", "cancelled", "error", "unknown"
]


class Usage(msgspec.Struct, frozen=True):
    """Tokens, as the provider counted them: cached ones are part of the input, reasoning ones part of the output."""

    input_tokens: int = 0
    output_tokens: int = 0
    cached_tokens: int = 0
    reasoning_tokens: int = 0

    def __add__(self, other: Usage) -> Usage:
        return Usage(
            self.input_tokens + other.input_tokens,
            self.output_tokens + other.output_tokens,
            self.cached_tokens + other.cached_tokens,
            self.reasoning_tokens + other.reasoning_tokens,
        )


class ToolSpec(msgspec.Struct, frozen=True):
    """What a model is told of a tool. parameters: a JSON Schema whose top level is an object."""

    name: str
    description: str
    parameters: dict[str, Any]
    strict: bool = False


def user(text: str) -> Message:
    """A message of the person."""
    return Message("user", text)


def assistant(text: str) -> Message:
    """A message of the model."""
    return Message("assistant", text)
