"""What a history is made of: messages, reasoning, calls and their outputs; and what a model is told and charged.

A history is a flat tuple of items in the order in which they were said. Items are plain data: they encode to JSON and
back unchanged, and belong to no provider. What a provider wants back unread (signatures, encrypted reasoning) rides in
`opaque`, under the name of its dialect, and goes back to that dialect alone.
"""

from __future__ import annotations

from typing import Any, Literal

import msgspec


def snake_case(name: str) -> str:
    """The tag of a record: `ToolInputDelta` is `tool_input_delta`."""
    return "".join("_" + letter.lower() if letter.isupper() else letter for letter in name).lstrip("_")


class Tagged(msgspec.Struct, frozen=True, tag_field="type", tag=snake_case):
    """Plain data that carries its kind in `type`."""


class Image(Tagged, frozen=True):
    """A picture for the model: its bytes with their media type, or the http(s) address of one. Made by `image`.

    Nothing else may be an address: a provider reads it with rights that whoever sent it need not have.
    """

    data: bytes = b""
    media_type: str = ""
    url: str | None = None

    def __post_init__(self) -> None:
        if self.url is not None and not self.url.startswith(("https://", "http://")):
            raise ValueError("an image is given as bytes, or as an address that begins with https:// or http://")

    def __repr__(self) -> str:
        return f"Image({self.url or f'{len(self.data)} bytes of {self.media_type}'})"


class Message(Tagged, frozen=True):
    """Text that a person or the model said. Instructions are not a message: they stand in the request.

    images: what the text speaks of; they come before it. Only a person sends some.
    """

    role: Literal["user", "assistant"]
    text: str
    images: tuple[Image, ...] = ()
    opaque: Opaque | None = None


Opaque = dict[str, dict[str, Any]]
"""By dialect (`anthropic`, `gemini`, `openai_chat`, `openai_responses`): what it wants back with an item, unchanged."""


class Reasoning(Tagged, frozen=True):
    """What the model thought before it answered. kind: the trace itself, or a summary of it."""

    text: str
    kind: Literal["trace", "summary"] = "trace"
    opaque: Opaque | None = None


class ToolCall(Tagged, frozen=True):
    """The model's request to run a tool.

    arguments: the text as the model wrote it; not validated, and JSON only where `problem` and `abandoned` are None.
    turn_id, place: the turn that holds the call and its place among that turn's calls, from 0.
    problem: why a call that ended cannot run (no name, or text that is not one JSON object); it is answered with a
    failure. abandoned: the call goes nowhere: it never became whole, or its turn kept no such call.
    custom: the arguments are plain text, for the one parameter of the tool.
    """

    call_id: str
    name: str
    arguments: str
    turn_id: str = ""
    place: int = 0
    problem: str | None = None
    abandoned: Literal["incomplete", "discarded"] | None = None
    custom: bool = False
    opaque: Opaque | None = None

    @property
    def local_id(self) -> str:
        """Its execution id within its own run; inside another call, the id of that call stands before it."""
        return f"{self.turn_id}.{self.place}"


class ToolOutput(Tagged, frozen=True):
    """What the model is told of one of its calls. failed: the text says what went wrong.

    custom: the call had plain text for arguments, and some providers answer such calls in another way.
    """

    call_id: str
    tool: str
    text: str
    failed: bool = False
    images: tuple[Image, ...] = ()
    custom: bool = False


class ProviderTool(Tagged, frozen=True):
    """A tool that the provider runs itself: nobody has to answer it.

    A provider that tells of it twice gives two of these with one call_id: the first with the input, the other with the
    output. kind: the provider's word for such an item; it is the name, too, where the tool has none.
    """

    call_id: str
    name: str
    input: Any = None
    output: Any = None
    kind: str = ""
    opaque: Opaque | None = None


class UnknownItem(Tagged, frozen=True):
    """What a provider sent that we do not know, as it came.

    dialect: the one whose next request holds the item again, in its place; None where none does.
    """

    item: Any
    dialect: str | None = None


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


def user(text: str, *images: Image) -> Message:
    """A message of the person. TypeError for what is no text, or no image."""
    if not isinstance(text, str):
        raise TypeError(f"a message is text, such as user('Hi'), not a {type(text).__name__}")
    for picture in images:
        if not isinstance(picture, Image):
            raise TypeError(f"a picture is image(data) or image('https://…'), not a {type(picture).__name__}")
    return Message("user", text, images)


def assistant(text: str) -> Message:
    """A message of the model."""
    return Message("assistant", text)


def image(source: bytes | str, media_type: str | None = None) -> Image:
    """A picture from its bytes, or from its http(s) address.

    media_type: None tells it from the first bytes, and raises ValueError where they are of no PNG, JPEG, GIF or WebP,
    the formats that all providers read.
    """
    if isinstance(source, str):
        return Image(url=source, media_type=media_type or "")
    found = media_type or next((kind for start, kind in _FIRST_BYTES.items() if source.startswith(start)), None)
    if source.startswith(b"RIFF") and source[8:12] == b"WEBP":
        found = media_type or "image/webp"
    if found is None:
        raise ValueError("these bytes are not a PNG, JPEG, GIF or WebP: give media_type=, if the provider takes them")
    return Image(bytes(source), found)


_FIRST_BYTES = {
    b"\x89PNG\r\n\x1a\n": "image/png",
    b"\xff\xd8\xff": "image/jpeg",
    b"GIF87a": "image/gif",
    b"GIF89a": "image/gif",
}  # fmt: skip
