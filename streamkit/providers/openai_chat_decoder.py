"""What servers of chat completions send: the fields that are read, and the decoder.

What is known of these servers: most send a `finish_reason` and then `[DONE]`, some only one of them; usage comes with
any chunk, in a choice, or in `x_groq`; reasoning has three fields, and some send two of them; errors come as an object
in the stream, as an event or a field of their own, or as a bare body.
Source: the API reference of OpenAI, "Chat Completions, streaming events"; streams recorded of two dozen servers.
"""

from __future__ import annotations

import itertools
from typing import Any, Literal

import msgspec

from ..codec.surrogates import whole
from ..items import StopReason, UnknownItem, Usage
from ..tool_input import InputDelta, as_text
from ..turn_builder import Part, ReasoningOpaque, UsageReported
from ..turns import ReasoningDelta, RefusalDelta, TextDelta
from .dialect import DialectDecoder
from .failures import parsed, provider_error

# What is read of the wire: the fields that are needed, the rest is skipped in C. Fields that servers fill in different
# ways are Any, so that an odd one does not cost the whole chunk. gc=False: they live for a moment, and hold no cycles.


class _Function(msgspec.Struct, gc=False):
    name: Any = None
    arguments: Any = None  # text; some send the object itself


class _CallPiece(msgspec.Struct, gc=False):
    index: int | None = None
    id: Any = None
    function: _Function | None = None


class _Delta(msgspec.Struct, gc=False):
    content: Any = None  # text, or a list of parts
    reasoning_content: Any = None
    reasoning: Any = None
    reasoning_details: Any = None
    refusal: Any = None
    tool_calls: list[_CallPiece] | None = None
    annotations: Any = None
    audio: Any = None
    images: Any = None
    executed_tools: Any = None


class _Choice(msgspec.Struct, gc=False):
    delta: _Delta | None = None
    finish_reason: str | None = None
    index: int | None = None
    usage: Any = None


class _Groq(msgspec.Struct, gc=False):
    usage: Any = None


class _Chunk(msgspec.Struct, gc=False):
    choices: list[_Choice] | None = None
    usage: Any = None
    error: Any = None
    x_groq: _Groq | None = None


_NO_DELTA = _Delta()
_STREAMED = ("content", "reasoning_content", "reasoning", "refusal")
_KEPT_UNREAD = ("annotations", "audio", "images", "executed_tools")
_STOP_REASONS: dict[str, StopReason] = {
    "stop": "stop",
    "eos": "stop",
    "end_turn": "stop",
    "stop_sequence": "stop",
    "tool_calls": "tool_calls",
    "function_call": "tool_calls",
    "tool_use": "tool_calls",
    "length": "length",
    "max_tokens": "length",
    "model_length": "length",
    "content_filter": "content_filter",
    "refusal": "refusal",
    "pause_turn": "pause",
}
_WORDS_OF_FAILURE = ("error", "insufficient_system_resource")
_REASONS_OF_CUTS = ("length", "content_filter", "refusal")


class OpenAIChatDecoder(DialectDecoder[_Chunk]):
    """The bytes of a streamed chat completion to parts. Of several choices only the first is read."""

    def __init__(self) -> None:
        super().__init__(_Chunk)
        self._stop_word: str | None = None
        self._reasoning_field: str | None = None  # where reasoning came from, once that is noted
        self._details: list[dict[str, Any]] = []

    def read(self, chunk: _Chunk, data: str, parts: list[Part]) -> None:
        for choice in chunk.choices or ():
            if choice.index:
                continue
            delta = choice.delta or _NO_DELTA
            if delta.reasoning_content or delta.reasoning or delta.reasoning_details:
                self._read_reasoning(delta, parts)
            if delta.refusal or delta.annotations or delta.audio or delta.images or delta.executed_tools:
                self._read_rare_fields(delta, parts)
            content = delta.content
            if content:
                if type(content) is str:
                    parts.append(TextDelta(content))
                else:
                    self._read_content_parts(content, parts)
            if delta.tool_calls:
                for piece in delta.tool_calls:
                    call = piece.function
                    parts.append(
                        InputDelta(call.arguments, piece.index)
                        if call is not None and not call.name and not piece.id and type(call.arguments) is str
                        else _opening_piece(piece)
                    )
            if choice.finish_reason:
                self._stop_word = _graver(self._stop_word, choice.finish_reason)
                _report_usage(choice.usage, parts)
        if chunk.usage or chunk.error or not chunk.choices or chunk.x_groq is not None:
            self._read_rest_of_chunk(chunk, data, parts)

    def _read_rest_of_chunk(self, chunk: _Chunk, data: str, parts: list[Part]) -> None:
        _report_usage(chunk.usage, parts)
        if chunk.x_groq is not None:
            _report_usage(chunk.x_groq.usage, parts)
        if chunk.error:
            self.fail(provider_error(chunk.error), parts)
        elif chunk.choices is None and not chunk.usage and chunk.x_groq is None:
            self.read_unknown(parsed(data), parts)

    def _read_reasoning(self, delta: _Delta, parts: list[Part]) -> None:
        """The same text in two fields counts once."""
        text = delta.reasoning_content or delta.reasoning
        if text and type(text) is str:
            parts.append(ReasoningDelta(text))
            self._note_field("reasoning_content" if delta.reasoning_content else "reasoning", parts)
        if isinstance(delta.reasoning_details, list):
            details = [detail for detail in delta.reasoning_details if isinstance(detail, dict)]
            self._details += details
            for detail in () if text else details:
                self._show_detail(detail, parts)

    def _show_detail(self, detail: dict[str, Any], parts: list[Part]) -> None:
        kind: Literal["trace", "summary"] = "trace" if isinstance(detail.get("text"), str) else "summary"
        text = detail.get("text" if kind == "trace" else "summary")
        if isinstance(text, str) and (text := self.halves.mend(kind, text)):
            parts.append(ReasoningDelta(text, kind))

    def _note_field(self, field: str, parts: list[Part]) -> None:
        """Reasoning goes back into the field that it came from."""
        if self._reasoning_field is None:
            self._reasoning_field = field
            parts.append(ReasoningOpaque({"field": field}, "openai_chat"))

    def _read_rare_fields(self, delta: _Delta, parts: list[Part]) -> None:
        if delta.refusal:
            parts.append(RefusalDelta(str(delta.refusal)))
        for field in _KEPT_UNREAD:
            if value := getattr(delta, field):
                parts.append(UnknownItem({field: value}))

    def _read_content_parts(self, content: object, parts: list[Part]) -> None:
        """Content as a list: text, and thinking that is a list of text itself."""
        for part in content if isinstance(content, list) else [content]:
            match part:
                case {"type": "text", "text": str(text)}:
                    parts.append(TextDelta(text))
                case {"type": "thinking", "thinking": list(thoughts)}:
                    for thought in thoughts:
                        if isinstance(thought, dict) and thought.get("text"):
                            parts.append(ReasoningDelta(str(thought["text"])))
                            self._note_field("content", parts)
                case _:
                    parts.append(UnknownItem(part))

    def mend(self, chunk: _Chunk) -> None:
        for choice in chunk.choices or ():
            delta = choice.delta
            choice.finish_reason = whole(choice.finish_reason)
            if choice.index or delta is None:
                continue
            for field in _STREAMED:
                setattr(delta, field, self.mended(field, getattr(delta, field)))
            for field in _KEPT_UNREAD:
                setattr(delta, field, whole(getattr(delta, field)))
            for piece in delta.tool_calls or ():
                piece.id = whole(piece.id)
                if piece.function is not None:
                    piece.function.name = whole(piece.function.name)
                    piece.function.arguments = self.mended(piece.index, piece.function.arguments)

    # Ends

    def read_end_mark(self, data: str, parts: list[Part]) -> bool:
        if data == "[DONE]":
            self._finish(parts)
        return self.ended

    def close(self, parts: list[Part]) -> None:
        if self._stop_word is not None:
            self._finish(parts)

    def _finish(self, parts: list[Part]) -> None:
        word = self._stop_word
        if word in _WORDS_OF_FAILURE:
            self.fail(provider_error(f"the provider ended the turn with the word {word}"), parts)
            return
        if "refusal" in self.halves.waiting:  # it may be all that came, and a refusal is no answer
            parts.append(RefusalDelta("\ufffd"))
        if self._details:
            parts.append(ReasoningOpaque({"reasoning_details": whole(_joined(self._details))}, "openai_chat"))
        self.finish(_STOP_REASONS.get(word or "", "unknown"), word, parts)


def _graver(word: str | None, later: str) -> str:
    """Which of two reasons to stop counts: the later, unless the one before was worse. What was cut stays cut."""
    return later if word is None or _gravity(later) >= _gravity(word) else word


def _gravity(word: str) -> int:
    return 2 if word in _WORDS_OF_FAILURE else int(_STOP_REASONS.get(word) in _REASONS_OF_CUTS)


def _opening_piece(piece: _CallPiece) -> InputDelta:
    function = piece.function or _Function()
    return InputDelta(as_text(function.arguments), piece.index, _text(piece.id), _text(function.name))


def _text(value: Any) -> str | None:
    """An id or a name; servers repeat it as an empty text, and some ids are numbers."""
    return None if value is None or value == "" else str(value)


def _joined(pieces: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The details of reasoning of which these are the pieces: their texts grow, everything else is as it came."""
    details: list[dict[str, Any]] = []
    for _, same in itertools.groupby(
        pieces, lambda piece: (piece.get("type"), piece.get("index"), piece.get("format"))
    ):
        detail: dict[str, Any] = {}
        texts: dict[str, list[str]] = {}
        for piece in same:
            detail.update((key, value) for key, value in piece.items() if value is not None or key not in detail)
            for key in ("text", "summary", "data"):
                if isinstance(piece.get(key), str):
                    texts.setdefault(key, []).append(piece[key])
        details.append({**detail, **{key: "".join(text) for key, text in texts.items()}})
    return details


def _report_usage(told: object, parts: list[Part]) -> None:
    if not isinstance(told, dict):
        return
    prompt = told.get("prompt_tokens_details") or {}
    completion = told.get("completion_tokens_details") or {}
    read, written = _count(told, "prompt_tokens"), _count(told, "completion_tokens")
    reasoning = _count(completion, "reasoning_tokens") or _count(told, "reasoning_tokens")
    if _count(told, "total_tokens") == read + written + reasoning:
        written += reasoning  # most count reasoning as part of what is written, some beside it
    cached = _count(prompt, "cached_tokens") or _count(told, "prompt_cache_hit_tokens")
    parts.append(UsageReported(Usage(read, written, cached, reasoning)))


def _count(told: object, key: str) -> int:
    value = told.get(key) if isinstance(told, dict) else None
    return value if isinstance(value, int) else 0
