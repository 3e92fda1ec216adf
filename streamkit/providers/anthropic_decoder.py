"""What servers of the Messages API send: the fields that are read, and the decoder.

An answer is a list of content blocks. Each begins, goes on in deltas and ends; several may be open at the same time,
so everything goes by the index of its block. What a block holds besides its text goes back in the next request as it
came: the server checks it, and refuses a turn in which a block is missing, has changed, or has another place.
Source: the API reference of Anthropic, "Messages, streaming", and the types of its Python SDK.
"""

from __future__ import annotations

import json
from typing import Any

import msgspec

from ..codec.surrogates import whole
from ..errors import BadPayload
from ..items import ProviderTool, UnknownItem, Usage
from ..parts import (
    InputDelta,
    InputEnd,
    InputOpaque,
    InputStart,
    NextItem,
    Part,
    ReasoningOpaque,
    TextOpaque,
    UsageReported,
)
from ..tool_input import as_text
from ..turns import ReasoningDelta, TextDelta
from .anthropic_blocks import Block
from .dialect import DialectDecoder
from .failures import parsed
from .stop_words import graver, gravity

DIALECT = "anthropic"
"""The name under which it keeps what goes back unread."""

THOUGHT_KINDS = ("thinking", "redacted_thinking")

# What is read of the wire: the fields of all events and of all deltas, since one record is decoded faster than one of
# many kinds. What servers fill in different ways is Any. gc=False: they live for a moment, and hold no cycles.


class _Delta(msgspec.Struct, gc=False):
    type: str = ""
    text: str | None = None
    partial_json: Any = None  # text; some send the object itself
    thinking: str | None = None
    signature: Any = None
    citation: Any = None
    stop_reason: Any = None
    stop_details: Any = None
    container: Any = None


class _Event(msgspec.Struct, gc=False):
    type: str = ""
    index: int | None = None
    delta: _Delta | None = None
    content_block: Any = None
    message: Any = None
    usage: Any = None


_READ_KINDS = ("text", "tool_use", *THOUGHT_KINDS)
_COUNTS = ("input_tokens", "output_tokens", "cache_read_input_tokens", "cache_creation_input_tokens")


class AnthropicDecoder(DialectDecoder[_Event]):
    """The bytes of a streamed message to parts."""

    calls_at = "partial_json"

    def __init__(self) -> None:
        super().__init__(_Event)
        self._blocks: dict[int | None, Block] = {}  # those that are open
        self._open_thoughts = 0  # among them
        self._calls_at: set[int | None] = set()  # the indexes whose block is a call, or was one
        self._unread: set[int | None] = set()  # the indexes of those that are told in one piece, when they have ended
        self._tool_names: dict[str, str] = {}  # of the tools that the provider runs, by the id of the call
        self._counts: dict[str, int] = {}
        self._stop_word: str | None = None

    def read(self, event: _Event, data: str, parts: list[Part]) -> None:
        delta = event.delta
        if delta is not None and event.type == "content_block_delta":
            if self._unread and event.index in self._unread:
                self._add_unread(self._blocks[event.index], delta, data)
            elif delta.text and delta.type in ("text_delta", ""):
                parts.append(TextDelta(delta.text))
            elif delta.partial_json:
                piece = delta.partial_json
                if event.index in self._calls_at:
                    parts.append(InputDelta(piece if type(piece) is str else as_text(piece), event.index))
                else:
                    self._miss_piece("of a block that never began, or is none", parts)
            elif delta.thinking and delta.type in ("thinking_delta", ""):
                parts.append(ReasoningDelta(delta.thinking))
            else:
                self._read_rare_delta(self._blocks.get(event.index), delta, data, parts)
        else:
            self._read_rare_event(event, data, parts)

    def _read_rare_event(self, event: _Event, data: str, parts: list[Part]) -> None:
        match event.type:
            case "content_block_start" if isinstance(event.content_block, dict):
                self._start_block(event.index, event.content_block, parts)
            case "content_block_stop":
                self._stop_block(event.index, parts)
            case "message_start":
                if isinstance(event.message, dict):
                    self._start_message(event.message, parts)
            case "message_delta":
                self._report_usage(event.usage, parts)
                if event.delta is not None:
                    self._read_end(event.delta, parts)
            case "message_stop":
                self._finish(parts)
            case "message" if isinstance(message := whole(parsed(data)), dict):  # from servers that do not stream
                self._start_message(message, parts)
            case "ping":
                pass
            case _ if event.delta is not None and event.delta.partial_json:
                self._miss_piece("in an event of another kind", parts)
            case _ if data.strip() != "{}":  # a ping, too, whose name is that of its event
                self.read_unknown(parsed(data), parts)

    def _miss_piece(self, where: str, parts: list[Part]) -> None:
        """The call that lacks it must not run."""
        self.fail(BadPayload(f"a piece of a call is {where}"), parts)

    def _start_message(self, message: dict[str, Any], parts: list[Part]) -> None:
        """Some servers, to whom the answer came whole, put all of it here."""
        self._report_usage(message.get("usage"), parts)
        content = message.get("content")
        for place, block in enumerate(content if isinstance(content, list) else ()):
            if isinstance(block, dict):
                self._start_block(-1 - place, block, parts)  # an index that no other block has
                self._stop_block(-1 - place, parts)
        if content and isinstance(reason := message.get("stop_reason"), str):
            self._stop_word = reason

    # Blocks

    def _start_block(self, index: int | None, raw: dict[str, Any], parts: list[Part]) -> None:
        block, before = Block(raw), self._blocks.get(index)
        if before is not None and before.is_told_again(raw):
            return
        self._stop_block(index, parts)  # some servers count anew
        # Two texts in a row stay two. But the signature of thinking that is still open must find its way back.
        if (block.kind == "text" and not self._open_thoughts) or block.kind in THOUGHT_KINDS:
            parts.append(NextItem())
        self._blocks[index] = block
        self._open_thoughts += block.kind == "thinking"
        if block.kind == "tool_use":
            self._calls_at.add(index)
        else:
            self._calls_at.discard(index)
        if block.kind not in _READ_KINDS:
            self._unread.add(index)
        match raw:
            case {"type": "text", "text": str(text)} if text:
                parts.append(TextDelta(text))
            case {"type": "thinking", "thinking": str(text)} if text:
                parts.append(ReasoningDelta(text))
            case {"type": "tool_use"}:
                _start_call(index, raw, parts)

    def _add_unread(self, block: Block, delta: _Delta, data: str) -> None:
        if delta.type == "input_json_delta":
            block.pieces.append(as_text(delta.partial_json))
            return
        told = whole(parsed(data))  # a field that is not among those of _Delta may be all that matters
        for key, value in told["delta"].items() if isinstance(told, dict) else ():
            if key != "type":
                block.field(key).add(value)

    def _read_rare_delta(self, block: Block | None, delta: _Delta, data: str, parts: list[Part]) -> None:
        if block is not None and delta.type == "signature_delta":
            signature = delta.signature
            if signature is not None and not block.field("signature").is_whole(signature):  # some servers send it twice
                block.field("signature").add(signature)
        elif block is not None and delta.type == "citations_delta":
            block.field("citations").add([delta.citation])
        elif delta.type not in ("text_delta", "input_json_delta", "thinking_delta"):  # these were empty
            self.read_unknown(parsed(data), parts)

    def _stop_block(self, index: int | None, parts: list[Part]) -> None:
        block = self._blocks.pop(index, None)
        self._unread.discard(index)
        if block is None:
            return
        self._open_thoughts -= block.kind == "thinking"
        if block.kind == "tool_use":
            parts.append(InputEnd(index))
        else:
            self._tell_block(block, parts)

    def _tell_block(self, block: Block, parts: list[Part]) -> None:
        """What is known of a block when it has ended."""
        raw = block.whole()
        match block.kind:
            case "thinking" | "redacted_thinking":
                parts.append(ReasoningOpaque(_without(raw, "type", "thinking"), DIALECT))
            case "":
                parts.append(UnknownItem(raw))
            case "text":
                if opaque := {key: value for key, value in _without(raw, "type", "text").items() if value}:
                    parts.append(TextOpaque(opaque, DIALECT))
            case kind if kind.endswith("tool_use"):
                parts.append(self._call_of_provider(block))
            case kind if isinstance(raw.get("tool_use_id"), str):
                call_id = raw["tool_use_id"]
                name = self._tool_names.get(call_id, kind)
                parts.append(ProviderTool(call_id, name, None, raw.get("content"), kind, {DIALECT: raw}))
            case _:
                parts.append(UnknownItem(raw, DIALECT))

    def _call_of_provider(self, block: Block) -> ProviderTool:
        raw, text = block.raw, "".join(block.pieces)
        call_id, name = str(raw.get("id") or ""), str(raw.get("name") or block.kind)
        self._tool_names[call_id] = name
        told = whole(parsed(text)) if text else raw.get("input") or {}
        if not isinstance(told, dict):  # cut: it can be shown, but it would be refused
            return ProviderTool(call_id, name, told, kind=block.kind)
        raw["input"] = told
        return ProviderTool(call_id, name, told, kind=block.kind, opaque={DIALECT: raw})

    # The message around them

    def _report_usage(self, told: object, parts: list[Part]) -> None:
        """Later counts replace earlier ones; what is left out stays as it was, and so does input that is 0 by now."""
        if not isinstance(told, dict):
            return
        details = told.get("output_tokens_details")
        found = {**told, **details} if isinstance(details, dict) else told
        told_now = {key: found[key] for key in (*_COUNTS, "thinking_tokens") if type(found.get(key)) is int}
        for key, tokens in told_now.items():
            if tokens or key == "output_tokens" or key not in self._counts:  # of the output only the last count is true
                self._counts[key] = tokens
        count = self._counts.get
        read, written, cached, stored = (count(key, 0) for key in _COUNTS)
        parts.append(UsageReported(Usage(read + cached + stored, written, cached, count("thinking_tokens", 0))))

    def _read_end(self, delta: _Delta, parts: list[Part]) -> None:
        """The reason to stop: what was cut stays cut. Why, and the container for code, are told, but do not go back."""
        for field in ("stop_details", "container"):
            if value := getattr(delta, field):
                parts.append(UnknownItem({field: value}))
        if delta.stop_reason:
            self._stop_word = graver(self._stop_word, str(delta.stop_reason))

    def mend(self, event: _Event) -> None:
        event.content_block, event.message = whole(event.content_block), whole(event.message)
        delta = event.delta
        if delta is None:
            return
        for field in ("text", "partial_json", "thinking"):
            setattr(delta, field, self.mended((event.index, field), getattr(delta, field)))
        for field in ("signature", "citation", "stop_reason", "stop_details", "container"):
            setattr(delta, field, whole(getattr(delta, field)))

    # Ends

    def read_end_mark(self, data: str, parts: list[Part]) -> bool:
        if data == "[DONE]":  # of a server between us and the model
            self._finish(parts)
        return self.ended

    def close(self, parts: list[Part]) -> None:
        """A body that ends behind its reason to stop. A call that is open there may have been cut; it must not run."""
        if self._stop_word is None:
            return
        if gravity(self._stop_word) or not any(block.kind == "tool_use" for block in self._blocks.values()):
            self._finish(parts)

    def _finish(self, parts: list[Part]) -> None:
        for block in self._blocks.values():
            if block.kind != "tool_use":  # of a call the end of the turn decides
                self._tell_block(block, parts)
        self.finish_with(self._stop_word, parts)


def _start_call(index: int | None, raw: dict[str, Any], parts: list[Part]) -> None:
    call_id, name = raw.get("id"), raw.get("name")
    given = raw.get("input") or raw.get("arguments")  # as others call it
    parts.append(InputStart(index, str(call_id) if call_id else None, str(name) if name else None))
    if opaque := _without(raw, "type", "id", "name", "input", "arguments"):
        parts.append(InputOpaque(opaque, DIALECT, index))
    if given and given != "{}":  # some servers send all of it here, or as a text that it is empty
        parts.append(InputDelta(given if isinstance(given, str) else json.dumps(given, ensure_ascii=False), index))


def _without(raw: dict[str, Any], *keys: str) -> dict[str, Any]:
    return {key: value for key, value in raw.items() if key not in keys}
