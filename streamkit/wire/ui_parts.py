"""The messages of an AI SDK client as they come: nothing of them is believed before it was read here.

Source: `ui-messages.ts` and `validate-ui-messages.ts` of `ai` 7. Parts that say nothing to a model (`data-…`, sources,
files of the assistant) are left out; a part of a type that is not known there is refused.
"""

from __future__ import annotations

import base64
import binascii
import urllib.parse
from collections.abc import Iterator, Sequence
from typing import Any, Literal, NamedTuple

import msgspec

from ..errors import MessagesRefused
from ..items import Image, Message, image, user

MAX_MESSAGES = 1_000
MAX_PARTS = 10_000
MAX_ID_CHARS = 256

State = Literal[
    "input-streaming", "input-available", "approval-requested", "approval-responded",
    "output-available", "output-error", "output-denied",
]  # fmt: skip
Metadata = dict[str, Any] | None


class Approval(msgspec.Struct, rename="camel"):
    """id: of the question. signature: what we gave with it."""

    id: str
    approved: bool | None = None
    reason: str | None = None
    signature: str | None = None


class Part(msgspec.Struct, rename="camel"):
    """A part of any type, with what we read of it."""

    type: str
    text: str | None = None
    tool_call_id: str | None = None
    tool_name: str | None = None
    state: str | None = None
    input: Any = None
    output: Any = None
    error_text: str | None = None
    approval: Approval | None = None
    preliminary: bool | None = None
    provider_executed: bool | None = None
    provider_metadata: Metadata = None
    call_provider_metadata: Metadata = None
    result_provider_metadata: Metadata = None
    media_type: str | None = None
    url: str | None = None
    id: str | None = None

    @property
    def is_refusal(self) -> bool:
        return _own(self.provider_metadata, "refusal") is True

    @property
    def is_partial(self) -> bool:
        """The arguments went out cut, or with something hidden."""
        return _own(self.call_provider_metadata, "partial") is True

    @property
    def kept(self) -> str | None:
        """The turn that the client has kept for us."""
        kept = _own(self.provider_metadata, "turn") if self.type == "custom" else None
        return kept if isinstance(kept, str) else None

    @property
    def model_text(self) -> str | None:
        """What the model had read of the output, where it was not the output itself."""
        text = _own(self.result_provider_metadata, "text")
        return text if isinstance(text, str) else None


def _own(metadata: Metadata, name: str) -> Any:
    """What we gave with a part, to come back."""
    given = (metadata or {}).get("streamkit")
    return given.get(name) if isinstance(given, dict) else None


class UiMessage(msgspec.Struct):
    id: str
    role: Literal["user", "assistant", "system"]
    parts: list[Part]


class CallPart(msgspec.Struct, frozen=True):
    """A part that is a call, of which the rest is known to be there."""

    call_id: str
    tool: str
    state: State
    part: Part


def messages_in(body: object) -> list[UiMessage]:
    """Raises MessagesRefused, with the place and what was expected there."""
    if isinstance(body, list) and len(body) > MAX_MESSAGES:
        raise MessagesRefused(f"{len(body)} messages are more than {MAX_MESSAGES}")
    try:
        messages = msgspec.convert(body, list[UiMessage])
    except (msgspec.ValidationError, RecursionError) as error:
        raise MessagesRefused(f"these are not messages: {error}") from error
    if (count := sum(len(message.parts) for message in messages)) > MAX_PARTS:
        raise MessagesRefused(f"{count} parts are more than {MAX_PARTS}")
    if not messages:
        raise MessagesRefused("there is no message to answer")
    for message in messages:
        if message.role == "system":
            raise MessagesRefused("instructions belong to the server: a message of the role system is not taken")
        _check_id(message.id, "a message")
    return messages


def said_by_person(message: UiMessage) -> Message:
    """A message of the person. Raises MessagesRefused for one that says nothing, and for files that are no images."""
    texts, images = [], []
    for part in message.parts:
        if part.type == "text":
            texts.append(_text_of(part))
        elif part.type == "file":
            images.append(_image_in(part))
        elif not is_for_the_screen(part):
            raise MessagesRefused(f"a message of the person has no part of the type {part.type[:MAX_ID_CHARS]!r}")
    text = "\n".join(texts)
    if not text.strip() and not images:
        raise MessagesRefused(f"message {message.id} says nothing")
    return user(text, *images)


class Step(NamedTuple):
    """A turn of the model, as it was told. kept: what the client has kept of it for us, as it came."""

    parts: Sequence[Part | CallPart]
    kept: str | None


def steps_of(message: UiMessage) -> Iterator[Step]:
    """What the assistant said and did, turn by turn. Calls that the provider ran itself are left out."""
    step: list[Part | CallPart] = []
    kept: str | None = None
    for part in message.parts:
        if part.type == "step-start":
            if step or kept:
                yield Step(step, kept)
            step, kept = [], None
        elif part.kept is not None:
            kept = part.kept
        elif part.type in ("text", "reasoning"):
            _text_of(part)
            step.append(part)
        elif part.type == "dynamic-tool" or part.type.startswith("tool-"):
            call = _call_in(part)
            if not part.provider_executed:
                step.append(call)
        elif part.type != "file" and not is_for_the_screen(part):
            raise MessagesRefused(f"a message of the assistant has no part of the type {part.type[:MAX_ID_CHARS]!r}")
    if step or kept:
        yield Step(step, kept)


def is_for_the_screen(part: Part) -> bool:
    return part.type.startswith("data-") or part.type in _FOR_THE_SCREEN


_FOR_THE_SCREEN = {"source-url", "source-document", "custom", "reasoning-file", "step-start"}


def _text_of(part: Part) -> str:
    if part.text is None:
        raise MessagesRefused(f"a part of the type {part.type} has no text")
    return part.text


def _call_in(part: Part) -> CallPart:
    name = part.tool_name if part.type == "dynamic-tool" else part.type.removeprefix("tool-")
    call_id = _check_id(part.tool_call_id, "a call")
    name = _check_id(name, f"the tool of call {call_id}")
    try:
        state = msgspec.convert(part.state, State)
    except msgspec.ValidationError as error:
        raise MessagesRefused(f"call {call_id} has no state that is known") from error
    asks = state in ("approval-requested", "approval-responded")
    if asks and part.approval is None:
        raise MessagesRefused(f"call {call_id} is {state}, and has no approval")
    if state == "approval-responded" and part.approval is not None and part.approval.approved is None:
        raise MessagesRefused(f"the answer about call {call_id} says neither yes nor no")
    return CallPart(call_id, name, state, part)


def _check_id(given: str | None, what: str) -> str:
    if not given or len(given) > MAX_ID_CHARS:
        raise MessagesRefused(f"{what} needs a name of 1 to {MAX_ID_CHARS} characters")
    return given


def _image_in(part: Part) -> Image:
    url, kind = part.url or "", part.media_type or ""
    if kind.partition("/")[0] != "image":
        raise MessagesRefused(f"a file of the type {kind[:MAX_ID_CHARS]!r} cannot be read: only images can")
    try:
        return image(_data_of(url)) if url.startswith("data:") else image(url)
    except ValueError as error:
        raise MessagesRefused(f"an image cannot be read: {error}") from error


def _data_of(url: str) -> bytes:
    head, comma, data = url.partition(",")
    if not comma:
        raise ValueError("its data URL has no data")
    if not head.endswith(";base64"):
        return urllib.parse.unquote_to_bytes(data)
    try:
        return base64.b64decode(data, validate=True)
    except (binascii.Error, ValueError):
        raise ValueError("its data is not base64") from None
