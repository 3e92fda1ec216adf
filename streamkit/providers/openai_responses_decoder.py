"""What servers of the Responses API send: the fields that are read, and the decoder.

An answer is a list of items: messages, reasoning, calls, tools of the provider. Each is added, written in pieces, and
done; in the end the response repeats all of them. Of servers is known: ids of items change from event to event, only
`output_index` and `call_id` stay; some leave out `output_index`, the pieces, the events that say what is done, or the
items of the last response. So whatever is told again is compared with what was read, and what is missing is added.
Source: the API reference of OpenAI, "Responses, streaming events"; streams recorded of eight servers.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import Any

import msgspec

from ..codec.surrogates import whole
from ..errors import BadPayload, ModelError, ProviderError
from ..items import StopReason, Usage
from ..parts import InputDelta, Part, UsageReported
from ..tool_input import as_text
from ..turns import TextDelta
from .dialect import DialectDecoder
from .failures import provider_error
from .odd_fields import token_count_in
from .openai_responses_items import PART_OF, PARTS, Place, is_item, scalar, text_of
from .openai_responses_output import Output

# Frequent events are read into this, the others once more as plain JSON. gc=False: they live for a moment.


class _Event(msgspec.Struct, gc=False):
    type: str = ""
    delta: Any = None
    output_index: Place = None
    item_id: Place = None
    call_id: Place = None
    content_index: Place = None
    summary_index: Place = None


_TEXT_DELTAS = {
    "response.output_text.delta": ("message", "output_text"),
    "response.refusal.delta": ("message", "refusal"),
    "response.reasoning_text.delta": ("reasoning", "reasoning_text"),
    "response.reasoning_summary_text.delta": ("reasoning", "summary_text"),
    "response.reasoning.delta": ("reasoning", "reasoning_text"),  # as these two were called at first
    "response.reasoning_summary.delta": ("reasoning", "summary_text"),
}
"""By event: the kind of the item that goes on, and of the part of it."""
_CALL_DELTAS = {
    "response.function_call_arguments.delta": "function_call",
    "response.custom_tool_call_input.delta": "custom_tool_call",
}
_WHOLE_TEXTS = {
    "response.output_text.done": "output_text",
    "response.refusal.done": "refusal",
    "response.reasoning_text.done": "reasoning_text",
    "response.reasoning_summary_text.done": "summary_text",
    "response.reasoning.done": "reasoning_text",
    "response.reasoning_summary.done": "summary_text",
}
"""By event: the kind of the part that is told whole."""
_WHOLE_CALLS = {
    "response.function_call_arguments.done": ("function_call", "arguments"),
    "response.custom_tool_call_input.done": ("custom_tool_call", "input"),
}
_WHOLE_INPUTS = {
    "response.code_interpreter_call_code.done": ("code_interpreter_call", "code"),
    "response.mcp_call_arguments.done": ("mcp_call", "arguments"),
}
_STOP_REASONS: dict[str, StopReason] = {
    "completed": "stop",
    "incomplete": "length",  # or as its details say
    "failed": "error",
    "cancelled": "cancelled",
}
"""By status of the response. Events that end the turn are called `response.` and one of these, or `response.done`."""
_TELL_NOTHING = re.compile(
    r"ping|keepalive|response\.(created|queued|in_progress|(content|reasoning|reasoning_summary)_part\.(added|done)"
    r"|(\w+_call(_\w+)?|mcp_list_tools)"
    r"\.(added|in_progress|searching|interpreting|generating|delta|done|completed|failed))"
)
"""Events of which nothing is lost: they announce what comes, or are pieces of what is told whole with its item."""


class OpenAIResponsesDecoder(DialectDecoder[_Event]):
    """The bytes of a streamed response to parts."""

    def __init__(self) -> None:
        super().__init__(_Event)
        self._output = Output()
        self._error: ModelError | None = None  # told, but the response that failed may follow
        self._stream: object = None  # which text or call the last event went on with
        self._pieces: list[str] | None = None  # of that text
        self._part_of: Callable[[str], Part] = TextDelta
        self._number = 0  # of that call

    def read(self, event: _Event, data: str, parts: list[Part]) -> None:
        delta = event.delta
        stream = (event.type, event.output_index, event.content_index, event.summary_index)
        if stream == self._stream and type(delta) is str and delta:  # most of the events
            if self._pieces is None:
                parts.append(InputDelta(delta, self._number))
            else:
                self._pieces.append(delta)
                parts.append(self._part_of(delta))
            return
        self._stream = None
        kind = event.type
        if self._error is not None and kind not in ("error", "", "response.failed"):
            super().fail(self._error, parts)
        elif type(delta) is not str or (kind not in _TEXT_DELTAS and kind not in _CALL_DELTAS):
            self._read_rare(kind, data, parts)
        elif delta:
            self._read_piece(event, delta, parts)
            self._stream = None if event.output_index is None else stream

    def _read_piece(self, event: _Event, delta: str, parts: list[Part]) -> None:
        """A piece of another text or call than the piece before; the next one may go on with it."""
        kind = event.type
        if kind in _CALL_DELTAS:
            item_id = event.item_id if event.call_id is None else event.call_id
            item = self._output.written(_CALL_DELTAS[kind], event.output_index, item_id, parts)
            item.has_pieces = True
            self._pieces, self._number = None, item.number
            parts.append(InputDelta(delta, item.number))
            return
        item_kind, part = _TEXT_DELTAS[kind]
        item = self._output.written(item_kind, event.output_index, event.item_id, parts)
        index = event.summary_index if part == "summary_text" else event.content_index
        self._pieces = self._output.write(item, part, index, delta, parts)
        self._part_of = PART_OF[part]

    def mend(self, event: _Event) -> None:
        for field in ("output_index", "item_id", "call_id"):
            setattr(event, field, whole(getattr(event, field)))
        if event.type in _TEXT_DELTAS or event.type in _CALL_DELTAS:
            where = (event.type, event.output_index, event.content_index, event.summary_index)
            event.delta = self.mended(where, event.delta)

    def _read_rare(self, kind: str, data: str, parts: list[Part]) -> None:
        try:
            told = _plain(data)
        except ValueError as error:  # json refuses numbers that are very long
            self.fail(BadPayload(f"an event of the stream cannot be read: {error}"), parts)
            return
        index, item_id, call_id = (scalar(told.get(key)) for key in ("output_index", "item_id", "call_id"))
        match told:
            case {"type": "response.output_item.added", "item": item} if is_item(item):
                self._output.add(index, item, parts)
            case {"type": "response.output_item.done", "item": item} if is_item(item):
                self._output.read_done(index, item, parts)
            case {"type": "response.content_part.done" | "response.reasoning_summary_part.done", "part": dict(part)}:
                self._read_whole_text(told, part, parts)
            case {"delta": delta} if kind in _CALL_DELTAS and delta and type(delta) is not str:
                call = self._output.written(_CALL_DELTAS[kind], index, item_id if call_id is None else call_id, parts)
                call.has_pieces = True
                parts.append(InputDelta(as_text(delta), call.number))
            case _ if kind in _WHOLE_TEXTS:
                self._read_whole_text(told, {**told, "type": _WHOLE_TEXTS[kind]}, parts)
            case _ if kind in _WHOLE_CALLS:
                item_kind, field = _WHOLE_CALLS[kind]
                call = self._output.written(item_kind, index, item_id if call_id is None else call_id, parts)
                self._output.name_call(call, told, parts)
                self._output.tell_arguments(call, told.get(field), parts)
            case _ if kind in _WHOLE_INPUTS:
                item_kind, field = _WHOLE_INPUTS[kind]
                self._output.tell_input(item_kind, index, item_id, told.get(field), parts)
            case {"type": "response.output_text.annotation.added", "annotation": annotation}:
                message = self._output.written("message", index, item_id, parts)
                self._output.annotate(message, annotation, parts)
            case _ if (end := kind.removeprefix("response.")) in _STOP_REASONS or kind == "response.done":
                self._read_end(end, told.get("response", told), parts)  # some put it beside the type
            case {"object": "response", "status": str(end), "output": list()} if not kind and end in _STOP_REASONS:
                self._read_end(end, told, parts)  # all of it, from servers that do not stream
            case _ if not _TELL_NOTHING.fullmatch(kind):
                self.read_unknown(told, parts)

    def _read_whole_text(self, told: dict[str, Any], part: dict[str, Any], parts: list[Part]) -> None:
        kind, text = text_of(part)
        if not text:
            return
        item_kind = "message" if kind in PARTS["message"] else "reasoning"
        item = self._output.written(item_kind, scalar(told.get("output_index")), scalar(told.get("item_id")), parts)
        index = told.get("summary_index" if kind == "summary_text" else "content_index")
        self._output.complete(item, kind, scalar(index), text, parts)

    # Ends

    def _read_end(self, status: str, told: object, parts: list[Part]) -> None:
        response = told if isinstance(told, dict) else {}
        _report_usage(response.get("usage"), parts)
        own_status = response.get("status")
        known = [each for each in (own_status, status) if isinstance(each, str) and each in _STOP_REASONS]
        word = known[0] if known else "completed"
        output = response.get("output")
        self._output.read_all(output if isinstance(output, list) else [], parts)
        if word == "failed" or response.get("error"):
            self.fail(provider_error(response.get("error") or "the response failed"), parts, word)
            return
        if word == "completed":
            self._output.read_added(parts)
        details = response.get("incomplete_details")
        is_filtered = isinstance(details, dict) and details.get("reason") == "content_filter"
        reason = "content_filter" if is_filtered else _STOP_REASONS[word]
        self.finish("length" if reason == "stop" and self._output.has_cut_calls else reason, word, parts)

    def fail(self, error: ModelError, parts: list[Part], word: str | None = None) -> None:
        """What an event calls an error comes once more with the response that failed, which knows the usage, too."""
        if word is None and type(error) is ProviderError:
            self._error = self._error or error
        else:
            super().fail(self._error or error, parts, word)

    def read_end_mark(self, data: str, parts: list[Part]) -> bool:
        """Some servers send `[DONE]`. Where nothing else tells of the end, it does, unless a call is not whole."""
        if data != "[DONE]":
            return False
        if self._error is None and self._output.has_whole_calls and not self.ended:
            self._output.read_added(parts)
            self.finish("length" if self._output.has_cut_calls else "unknown", None, parts)
        return True

    def close(self, parts: list[Part]) -> None:
        if self._error is not None:
            super().fail(self._error, parts)


def _plain(data: str) -> dict[str, Any]:
    """An event as plain JSON. It is an object, as it was read before."""
    try:
        told = msgspec.json.decode(data)
    except msgspec.DecodeError:
        told = whole(json.loads(data))
    return told if isinstance(told, dict) else {}


def _report_usage(told: object, parts: list[Part]) -> None:
    if isinstance(told, dict):
        read, written = token_count_in(told, "input_tokens"), token_count_in(told, "output_tokens")
        cached = token_count_in(told.get("input_tokens_details"), "cached_tokens")
        reasoning = token_count_in(told.get("output_tokens_details"), "reasoning_tokens")
        parts.append(UsageReported(Usage(read, written, cached, reasoning)))
