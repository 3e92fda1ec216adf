"""The decoder of what Gemini streams: server-sent events, or one JSON array.

What is known of these servers: there is no end mark, and most calls have no id; a `finishReason` may come before the
last parts and the last usage, and more than once; a prompt that is blocked has no candidates, an empty answer no parts;
calls come whole, or (on Vertex AI, where that is asked for) value by value, each with its path. A thought signature
belongs to its part: a part that has one is never joined to others, and goes back as it came.
Source: the API references of Gemini and Vertex AI, "GenerateContentResponse"; "Thought signatures"; recorded streams.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from ..codec.json_array import JsonArrayDecoder
from ..codec.surrogates import whole
from ..items import ProviderTool, UnknownItem
from ..parts import NextItem, Part, ReasoningOpaque, TextOpaque, UsageReported
from ..turns import ReasoningDelta, TextDelta
from .dialect import DialectDecoder, Framing
from .failures import parsed, provider_error
from .gemini_calls import SIGNATURE, Call, CallInPieces, whole_call
from .gemini_wire import KEPT_UNREAD, AnswerPart, Candidate, Chunk, TokensTold, parts_of, usage_of
from .odd_fields import text_or_none
from .stop_words import gravity, reason_of

_NO_REASON = "FINISH_REASON_UNSPECIFIED"
_PROVIDER_TOOLS = {"executableCode": False, "codeExecutionResult": True, "toolCall": False, "toolResponse": True}
"""Parts that tell of a tool of the provider, and whether they are results."""
_ATTRIBUTES = {SIGNATURE, "thought", "videoMetadata", "mediaResolution", "partMetadata"}
"""Of a part. One that has nothing else is refused."""


class GeminiDecoder(DialectDecoder[Chunk]):
    """The bytes of a streamed answer to parts. Of several candidates only the first is read.

    framing: None is server-sent events, as with `alt=sse`. Tokens of prompts for the provider's own tools
    (`toolUsePromptTokenCount`) are in no number of ours.
    """

    calls_at = "functionCall"

    def __init__(self, framing: Framing | None = None) -> None:
        super().__init__(Chunk, framing)
        self._stop_word: str | None = None
        self._stop_message = ""
        self._is_blocked = False  # the prompt
        self._usage: TokensTold | None = None  # told, but not reported
        self._calls = 0  # that came in pieces
        self._written: dict[str | None, CallInPieces] = {}  # those that are not whole, by their ids
        self._provider_call: str | None = None  # the id of the last
        self._provider_calls = 0  # that had no id

    def feed(self, data: bytes) -> Sequence[Part]:
        return self._with_usage(super().feed(data))

    def end(self) -> Sequence[Part]:
        return self._with_usage(super().end())

    def _with_usage(self, parts: Sequence[Part]) -> Sequence[Part]:
        """Nearly every event tells the tokens until now: of those that came together only the last is looked at."""
        told, self._usage = self._usage, None
        return parts if told is None else [UsageReported(usage_of(told)), *parts]

    def read(self, chunk: Chunk, data: str, parts: list[Part]) -> None:
        for candidate in chunk.candidates or ():
            if candidate.index:
                continue
            content = candidate.content
            if content is not None and content.parts:
                raw: list[Any] | None = None  # the parts, read once more: whole
                for place, part in enumerate(content.parts):
                    text, call = part.text, part.function_call
                    if text and type(text) is str and (part.thought_signature is None or call is not None):
                        parts.append(ReasoningDelta(text, "summary") if part.thought else TextDelta(text))
                        if call is None:
                            continue
                    if call is not None:  # some servers between us and the model put it beside a text
                        self._read_call(call, part.thought_signature, parts)
                    elif type(text) is str:
                        _read_signature(part, parts)
                    else:
                        raw = raw or _raw_parts(data, chunk, candidate)
                        self._read_other_part(raw[place], parts)
            if (
                candidate.finish_reason
                or candidate.grounding_metadata
                or candidate.citation_metadata
                or candidate.url_context_metadata
                or candidate.logprobs_result
            ):
                self._read_rest_of_candidate(candidate, parts)
        usage = chunk.usage_metadata
        if usage is not None and (usage.prompt_token_count is not None or usage.candidates_token_count is not None):
            self._usage = usage
        if chunk.prompt_feedback or chunk.error or chunk.candidates is None:
            self._read_rest_of_chunk(chunk, data, parts)

    def _read_rest_of_chunk(self, chunk: Chunk, data: str, parts: list[Part]) -> None:
        feedback = chunk.prompt_feedback
        if chunk.error:
            self.fail(provider_error(chunk.error), parts)
        elif isinstance(feedback, dict) and feedback.get("blockReason"):
            self._is_blocked = True
            parts.append(UnknownItem({"promptFeedback": feedback}))
        elif chunk == Chunk():
            self._read_wrapped(parsed(data), parts)

    def _read_wrapped(self, told: Any, parts: list[Part]) -> None:
        """The servers that Google's own tools for programmers ask put each event into another object."""
        match told:
            case {"response": dict(inner)} if "response" not in inner:  # else each level would be read anew
                self._read_odd_record(inner, json.dumps(inner), parts)
            case _:
                self.read_unknown(told, parts)

    def _read_rest_of_candidate(self, candidate: Candidate, parts: list[Part]) -> None:
        """Of several reasons to stop the last counts, unless one before was worse."""
        for field, name in KEPT_UNREAD.items():
            if value := getattr(candidate, field):
                parts.append(UnknownItem({name: value}))
        word = str(candidate.finish_reason or _NO_REASON)
        if word != _NO_REASON and gravity(word) >= gravity(self._stop_word):
            self._stop_word = word
            self._stop_message = f": {candidate.finish_message}" if candidate.finish_message else ""

    # Parts

    def _read_other_part(self, raw: dict[str, Any], parts: list[Part]) -> None:
        kind = next((kind for kind in _PROVIDER_TOOLS if isinstance(raw.get(kind), dict)), None)
        if kind is not None:
            self._tell_provider_tool(kind, raw, parts)
        elif "functionResponse" in raw:  # of a call that the provider ran; a model cannot say it again
            parts.append(UnknownItem(raw))
        elif raw.keys() == {SIGNATURE} and raw[SIGNATURE]:  # it would be refused without a text
            parts += [NextItem(), TextOpaque(raw, "gemini")]
        elif raw:
            parts += [UnknownItem(raw, "gemini" if raw.keys() - _ATTRIBUTES else None), NextItem()]

    def _tell_provider_tool(self, kind: str, raw: dict[str, Any], parts: list[Part]) -> None:
        """A call or a result. Older servers give no ids; there a result belongs to the call before it."""
        said, is_result = raw[kind], _PROVIDER_TOOLS[kind]
        if kind in ("toolCall", "toolResponse"):
            name, told = said.get("toolType"), said.get("response" if is_result else "args")
        else:
            name, told = "code_execution", {key: value for key, value in said.items() if key != "id"}
        call_id = text_or_none(said.get("id"))
        if call_id is None and not is_result:
            self._provider_calls += 1
            call_id = f"{kind}_{self._provider_calls}"
        self._provider_call = call_id or self._provider_call or kind
        given, came = (None, told) if is_result else (told, None)
        parts.append(ProviderTool(self._provider_call, text_or_none(name) or kind, given, came, kind, {"gemini": raw}))

    # Calls

    def _read_call(self, told: Call, signature: Any, parts: list[Part]) -> None:
        call = self._call_of(told)
        if call is None or (told.name is not None and call.is_followed_by(told)):
            self._end_calls(parts, has_id=told.id is not None)
            if not told.will_continue and not told.partial_args:
                if told.name is not None or told.args:  # else it could only be the end of a call
                    parts.append(whole_call(told, signature))
                return
            call = CallInPieces(self._calls, told, parts)
            self._calls += 1
            self._written[call.call_id] = call
        call.read(told, signature, parts)
        if not told.will_continue:
            call.end(parts)
            del self._written[call.call_id]

    def _call_of(self, told: Call) -> CallInPieces | None:
        """The call that goes on: that of the id, else the one begun last."""
        call_id = text_or_none(told.id)
        if call_id is not None and call_id in self._written:
            return self._written[call_id]
        return next(reversed(self._written.values()), None)

    def _end_calls(self, parts: list[Part], *, has_id: bool) -> None:
        """Another call begins, or the turn has ended well, and nobody said that those before are whole.

        has_id: the other call has one; then pieces of those that have one, too, may still come.
        """
        ending = [None] if has_id else list(self._written)
        for call in [self._written.pop(call_id) for call_id in ending if call_id in self._written]:
            if not call.is_inside_value:
                call.end(parts)

    # The rest

    def read_end_mark(self, data: str, parts: list[Part]) -> bool:
        """Gemini sends none; servers that stand between do."""
        if data == "[DONE]":
            self.close(parts)
        return data == "[DONE]"

    def close(self, parts: list[Part]) -> None:
        word = self._stop_word
        if self._is_blocked and reason_of(word) != "error":
            self.finish("content_filter", word, parts)
        elif word is not None:
            if not gravity(word):
                self._end_calls(parts, has_id=False)
            self.finish_with(word, parts, self._stop_message)

    def mend(self, chunk: Chunk) -> None:
        chunk.prompt_feedback = whole(chunk.prompt_feedback)
        for candidate in chunk.candidates or ():
            if candidate.index:
                continue
            for field in ("finish_reason", "finish_message", *KEPT_UNREAD):
                setattr(candidate, field, whole(getattr(candidate, field)))
            for part in parts_of(candidate):
                part.text = self.mended("thought" if part.thought else "text", part.text)
                part.thought_signature = whole(part.thought_signature)
                if (call := part.function_call) is not None:
                    call.id, call.name, call.args = whole(call.id), whole(call.name), whole(call.args)
                    for value in call.partial_args or ():
                        for field in ("json_path", "number_value", "bool_value", "null_value", "will_continue"):
                            setattr(value, field, whole(getattr(value, field)))
                        value.string_value = self.mended(str(value.json_path), value.string_value)


class GeminiJsonArrayDecoder(GeminiDecoder):
    """The same for an answer without `alt=sse`: one JSON array that arrives in pieces."""

    def __init__(self) -> None:
        super().__init__(JsonArrayDecoder())


def _read_signature(part: AnswerPart, parts: list[Part]) -> None:
    """Text with a signature is an item of its own, also when it is empty."""
    if part.thought_signature is None:
        return
    opaque = {SIGNATURE: part.thought_signature}
    parts.append(NextItem())
    if part.text:
        parts.append(ReasoningDelta(part.text, "summary") if part.thought else TextDelta(part.text))
    if part.thought:
        parts += [ReasoningOpaque(opaque, "gemini"), NextItem()]
    else:
        parts.append(TextOpaque(opaque, "gemini"))


def _raw_parts(data: str, chunk: Chunk, candidate: Candidate) -> list[Any]:
    told = whole(parsed(data))
    if not isinstance(told, dict) or chunk.candidates is None:  # it holds numbers that are too long to be read
        return [{}] * len(parts_of(candidate))
    raw: list[Any] = told["candidates"][chunk.candidates.index(candidate)]["content"]["parts"]
    return raw
