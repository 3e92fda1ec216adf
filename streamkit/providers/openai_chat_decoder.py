"""The decoder of streamed chat completions.

What is known of these servers: most send a `finish_reason` and then `[DONE]`, some only one of them; usage comes with
any chunk, in a choice, or in `x_groq`; errors come as an object in the stream, in a choice, as an event or a field of
their own, or as a bare body. Gemini, which also speaks like this, puts what it wants back with a call or a text beside
it, into `extra_content`.
Source: the API reference of OpenAI, "Chat Completions, streaming events"; streams recorded of two dozen servers.
"""

from __future__ import annotations

from typing import Any

import msgspec

from ..codec.surrogates import whole
from ..items import UnknownItem
from ..parts import InputDelta, InputOpaque, Part, TextOpaque, UsageReported
from ..tool_input import as_text
from ..turns import ReasoningDelta, RefusalDelta, TextDelta
from .dialect import DialectDecoder
from .failures import parsed, provider_error, tells_a_fault
from .odd_fields import text_or_none
from .openai_chat_reasoning import ReasoningReader
from .openai_chat_wire import (
    DIALECT,
    KEPT_UNREAD,
    NO_DELTA,
    STREAMED,
    CallPiece,
    Choice,
    Chunk,
    Delta,
    Function,
    usage_of,
    with_lists_of_calls,
)
from .stop_words import graver, gravity

_MARK_OF_THOUGHT = {"google": {"thought": True}}
_OPENS_THOUGHT, _CLOSES_THOUGHT = "<thought>", "</thought>"


class OpenAIChatDecoder(DialectDecoder[Chunk]):
    """The bytes of a streamed chat completion to parts. Of several choices only the first is read."""

    def __init__(self) -> None:
        super().__init__(Chunk)
        self._stop_word: str | None = None
        self._called_late = False  # behind the reason to stop, so that it may have been cut
        self._reasoning = ReasoningReader(self.halves)
        self._in_thought = False
        self._has_text = False  # in deltas

    def read(self, chunk: Chunk, data: str, parts: list[Part]) -> None:
        for choice in chunk.choices or ():
            if choice.index:
                continue
            delta = choice.delta or self._message_of(choice, parts)
            if (
                delta.reasoning_content or delta.reasoning or delta.reasoning_text or delta.reasoning_opaque
                or delta.reasoning_details or delta.thinking or delta.thinking_blocks or self._in_thought
                or delta.refusal or delta.function_call or delta.extra_content
                or delta.annotations or delta.audio or delta.images or delta.executed_tools
            ):  # fmt: skip
                self._read_more_of_delta(delta, parts)
            content = delta.content
            if content:
                if type(content) is str:
                    parts.append(TextDelta(content))
                    self._has_text = choice.delta is not None
                else:
                    self._read_content_parts(content, parts)
            if delta.tool_calls:
                self._called_late = self._stop_word is not None
                for piece in delta.tool_calls:
                    call = piece.function
                    if call is None or call.name or piece.id or piece.extra_content or type(call.arguments) is not str:
                        _read_odd_piece(piece, parts)
                    else:
                        parts.append(InputDelta(call.arguments, piece.index))
            if choice.finish_reason or choice.usage or choice.error:
                self._read_end_of_choice(choice, parts)
        if chunk.usage or chunk.error or not chunk.choices or chunk.x_groq is not None or chunk.base_resp is not None:
            self._read_rest_of_chunk(chunk, data, parts)

    def _message_of(self, choice: Choice, parts: list[Part]) -> Delta:
        """What stands instead of a delta. Behind deltas with text it repeats them, and is shown as it came."""
        if choice.message is None:
            return NO_DELTA
        try:
            delta = msgspec.convert(choice.message, Delta, strict=False)
        except msgspec.ValidationError:
            delta = NO_DELTA
        if delta is NO_DELTA or self._has_text:
            parts.append(UnknownItem({"message": choice.message}))
            return Delta(tool_calls=delta.tool_calls)
        return delta

    def _read_end_of_choice(self, choice: Choice, parts: list[Part]) -> None:
        word, native = choice.finish_reason, choice.native_finish_reason
        if word and word != "null":
            if isinstance(native, str) and gravity(native) > gravity(word):  # what is between calls it an end
                word = native
            self._stop_word = graver(self._stop_word, word)
            self._called_late = False
        _report_usage(choice.usage, parts)
        if choice.error:
            self.fail(provider_error(choice.error), parts, word)

    def _read_rest_of_chunk(self, chunk: Chunk, data: str, parts: list[Part]) -> None:
        _report_usage(chunk.usage, parts)
        if chunk.x_groq is not None:
            _report_usage(chunk.x_groq.usage, parts)
        error = chunk.error or (chunk.x_groq is not None and chunk.x_groq.error)
        if error:
            self.fail(provider_error(error), parts)
        elif tells_a_fault(chunk.base_resp) or (chunk.choices is None and not chunk.usage and chunk.x_groq is None):
            self.read_unknown(parsed(data), parts)

    def _read_more_of_delta(self, delta: Delta, parts: list[Part]) -> None:
        """What is not text or calls; takes out of the delta the content that it has read."""
        self._reasoning.read(delta, parts)
        if delta.refusal:
            parts.append(RefusalDelta(str(delta.refusal)))
        for field in KEPT_UNREAD:
            if value := getattr(delta, field):
                parts.append(UnknownItem({field: value}))
        call = delta.function_call
        if isinstance(call, dict) and not delta.tool_calls:  # some send the same call in both
            delta.tool_calls = [CallPiece(function=Function(call.get("name"), call.get("arguments")))]
        if delta.content and type(delta.content) is str:
            self._read_thought(delta.content, delta, parts)
        if delta.extra_content and delta.extra_content != _MARK_OF_THOUGHT:
            self._read_content_parts(delta.content or [], parts)
            delta.content = None
            parts.append(TextOpaque({"extra_content": delta.extra_content}, DIALECT))

    def _read_thought(self, content: str, delta: Delta, parts: list[Part]) -> None:
        """Gemini marks content that is a thought, and puts tags around it besides."""
        match delta.extra_content:
            case {"google": {"thought": True}}:
                self._in_thought = True
            case _ if not content.startswith(_CLOSES_THOUGHT):  # which comes with what is not marked any more
                self._in_thought = False
        if self._in_thought:
            thought, closes, delta.content = content.removeprefix(_OPENS_THOUGHT).partition(_CLOSES_THOUGHT)
            self._in_thought = not closes
            if thought:
                parts.append(ReasoningDelta(thought))

    def _read_content_parts(self, content: object, parts: list[Part]) -> None:
        """Content as a list: text, and reasoning."""
        for part in content if isinstance(content, list) else [content]:
            match part:
                case str(text) | {"type": "text" | "output_text", "text": str(text)}:
                    parts.append(TextDelta(text))
                case {"text": str(text), **rest} if "type" not in rest:
                    parts.append(TextDelta(text))
                case _ if not self._reasoning.read_content_part(part, parts):
                    parts.append(UnknownItem(part))

    def straighten(self, told: Any) -> Any:
        return with_lists_of_calls(told)

    def mend(self, chunk: Chunk) -> None:
        for choice in chunk.choices or ():
            choice.finish_reason = whole(choice.finish_reason)
            choice.native_finish_reason = whole(choice.native_finish_reason)
            choice.message = whole(choice.message)
            if choice.delta is not None and not choice.index:
                self._mend_delta(choice.delta)

    def _mend_delta(self, delta: Delta) -> None:
        for field in STREAMED:
            setattr(delta, field, self.mended(field, getattr(delta, field)))
        for field in KEPT_UNREAD:
            setattr(delta, field, whole(getattr(delta, field)))
        delta.extra_content = whole(delta.extra_content)
        delta.reasoning_opaque = whole(delta.reasoning_opaque)
        if isinstance(delta.function_call, dict):
            delta.function_call = self._mended_text("arguments", "function_call", delta.function_call)
        for piece in delta.tool_calls or ():
            piece.id = whole(piece.id)
            piece.extra_content = whole(piece.extra_content)
            call: CallPiece | Function = piece.function or piece
            call.name, call.arguments = whole(call.name), self.mended(piece.index, call.arguments)
            if piece.function is not None:
                piece.function.parameters = whole(piece.function.parameters)
            if isinstance(piece.custom, dict):
                piece.custom = self._mended_text("input", piece.index, piece.custom)

    def _mended_text(self, key: str, where: object, call: dict[str, Any]) -> Any:
        return whole({**call, key: self.mended(where, call.get(key))})

    # Ends

    def read_end_mark(self, data: str, parts: list[Part]) -> bool:
        if data == "[DONE]":
            self._finish(parts)
        return self.ended

    def close(self, parts: list[Part]) -> None:
        if self._stop_word is not None and not self._called_late:
            self._finish(parts)

    def _finish(self, parts: list[Part]) -> None:
        if "refusal" in self.halves.waiting:  # it may be all that came, and a refusal is no answer
            parts.append(RefusalDelta("\ufffd"))
        self._reasoning.finish(parts)
        self.finish_with(self._stop_word, parts)


def _read_odd_piece(piece: CallPiece, parts: list[Part]) -> None:
    """A piece that begins a call, or is of plain text, or says what goes back with the call."""
    call_id = None if piece.id == "null" else text_or_none(piece.id)  # Mistral wrote so where there was none
    if isinstance(piece.custom, dict):
        text, name = piece.custom.get("input"), piece.custom.get("name")
        parts.append(InputDelta(as_text(text), piece.index, call_id, text_or_none(name), custom=True))
    else:
        function = piece.function or Function(piece.name, piece.arguments)
        arguments = function.parameters if function.arguments is None else function.arguments
        parts.append(InputDelta(as_text(arguments), piece.index, call_id, text_or_none(function.name)))
    if piece.extra_content:
        parts.append(InputOpaque({"extra_content": piece.extra_content}, DIALECT, piece.index, call_id))


def _report_usage(told: object, parts: list[Part]) -> None:
    if isinstance(told, dict):
        parts.append(UsageReported(usage_of(told)))
