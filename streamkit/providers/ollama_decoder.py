"""What the chat endpoint of Ollama sends: the fields that are read, and the decoder.

One JSON object a line. Calls come whole, in any line, the last one too; most have no id, and their arguments are an
object, where some proxies send its text. The last line says `done`, why, and how many tokens it took. A failure in
mid-stream is a line with `error`.
Source: the API reference of Ollama, "Generate a chat message".
"""

from __future__ import annotations

from typing import Any

import msgspec

from ..codec.jsonl import JsonLinesDecoder
from ..codec.surrogates import whole
from ..errors import BadModelOutput
from ..items import UnknownItem, Usage
from ..parts import Part, UsageReported, WholeCall
from ..tool_input import as_text
from ..turns import ReasoningDelta, TextDelta
from .dialect import DialectDecoder
from .failures import parsed, provider_error, words_of
from .odd_fields import text_or_none, token_count

# What is read of the wire: the fields that are needed, the rest is skipped in C. Fields that servers fill in different
# ways are Any, so that an odd one does not cost the whole line. gc=False: they live for a moment, and hold no cycles.


class _Message(msgspec.Struct, gc=False):
    content: Any = None
    thinking: Any = None
    tool_calls: Any = None
    images: Any = None


class _Line(msgspec.Struct, gc=False):
    message: _Message | None = None
    done: Any = None
    done_reason: Any = None
    prompt_eval_count: Any = None
    eval_count: Any = None
    error: Any = None


# The same line, read once more where it holds calls: their arguments as they were written, since a number that is
# decoded and written again is not always the same.


class _RawFunction(msgspec.Struct, gc=False):
    arguments: msgspec.Raw = msgspec.Raw(b"null")


class _RawCall(msgspec.Struct, gc=False):
    function: _RawFunction


class _RawMessage(msgspec.Struct, gc=False):
    tool_calls: list[msgspec.Raw]  # so that an odd one does not cost the others


class _RawLine(msgspec.Struct, gc=False):
    message: _RawMessage


_decode_raw_line = msgspec.json.Decoder(_RawLine).decode
_decode_raw_call = msgspec.json.Decoder(_RawCall).decode

_STREAMED = ("content", "thinking")
_KEPT_WHOLE = ("tool_calls", "images")
_UNREADABLE_CALL = "error parsing tool call"


class OllamaDecoder(DialectDecoder[_Line]):
    """The bytes of a streamed chat of Ollama to parts."""

    def __init__(self) -> None:
        super().__init__(_Line, JsonLinesDecoder())

    def read(self, line: _Line, data: str, parts: list[Part]) -> None:
        message = line.message
        if message is not None:
            content = message.content
            if message.thinking:
                parts.append(_streamed(ReasoningDelta, "thinking", message.thinking))
            if content:
                parts.append(TextDelta(content) if type(content) is str else _streamed(TextDelta, "content", content))
            if message.tool_calls:
                _read_calls(message.tool_calls, data, parts)
            if message.images:
                parts.append(UnknownItem({"images": message.images}))
        if line.done or line.error or message is None:
            self._read_rest_of_line(line, data, parts)

    def _read_rest_of_line(self, line: _Line, data: str, parts: list[Part]) -> None:
        if line.error:
            words = words_of(parsed(data))
            is_unreadable_call = words.startswith(_UNREADABLE_CALL)
            self.fail(BadModelOutput(words) if is_unreadable_call else provider_error(parsed(data)), parts)
        elif line.done:
            word = line.done_reason if isinstance(line.done_reason, str) else None
            parts.append(UsageReported(Usage(token_count(line.prompt_eval_count), token_count(line.eval_count))))
            self.finish_with(word, parts)  # `load` and `unload` of a model end no answer
        else:
            self.read_unknown(parsed(data), parts)

    def mend(self, line: _Line) -> None:
        line.done_reason = whole(line.done_reason)
        if line.message is not None:
            for field in _STREAMED:
                setattr(line.message, field, self.mended(field, getattr(line.message, field)))
            for field in _KEPT_WHOLE:
                setattr(line.message, field, whole(getattr(line.message, field)))


def _streamed(delta: type[TextDelta | ReasoningDelta], field: str, value: Any) -> Part:
    return delta(value) if type(value) is str else UnknownItem({field: value})


def _read_calls(calls: object, data: str, parts: list[Part]) -> None:
    written = _calls_as_written(data)
    for place, call in enumerate(calls if isinstance(calls, list) else [calls]):
        match call:
            case {"function": dict(function)}:
                told = function.get("arguments")
                arguments = _arguments_as_written(written[place]) if place < len(written) else None
                name, call_id = text_or_none(function.get("name")), text_or_none(call.get("id"))
                parts.append(WholeCall(name or "", as_text(told) if arguments is None else arguments, call_id))
            case _:
                parts.append(UnknownItem(call))


def _calls_as_written(data: str) -> list[msgspec.Raw]:
    """The calls of a line, unread; nothing where msgspec refuses it."""
    try:
        return _decode_raw_line(data).message.tool_calls
    except msgspec.DecodeError:
        return []


def _arguments_as_written(call: msgspec.Raw) -> str | None:
    """An object as compact text, its numbers untouched; or the text that came instead. None where msgspec refuses."""
    try:
        told = msgspec.json.format(bytes(_decode_raw_call(call).function.arguments), indent=-1).decode()
        return str(msgspec.json.decode(told)) if told.startswith('"') else told
    except msgspec.DecodeError:
        return None
