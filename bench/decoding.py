"""Bytes of a provider to neutral events, and the turn that is built of them.

The floor splits the bytes and decodes each event with msgspec into just the fields that are needed; it makes no events,
and knows nothing of cuts inside of a character, of errors, or of calls.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import msgspec

from streamkit.providers.anthropic_decoder import AnthropicDecoder
from streamkit.providers.gemini_decoder import GeminiDecoder
from streamkit.providers.model import Decoder
from streamkit.providers.ollama_decoder import OllamaDecoder
from streamkit.providers.openai_chat_decoder import OpenAIChatDecoder
from streamkit.providers.openai_responses_decoder import OpenAIResponsesDecoder
from streamkit.turn_builder import TurnBuilder

from .measure import Figure, Goal, race

CHUNK_BYTES = 4096
EVENTS = 2_000
DONE = b"data: [DONE]\n\n"


def figures() -> Iterator[Figure]:
    for name, delta in (("text", text_delta), ("arguments", arguments_delta)):
        chunks = cut(body_of(delta, EVENTS), CHUNK_BYTES)

        def decoded(chunks: Sequence[bytes] = chunks) -> None:
            decoder = OpenAIChatDecoder()
            for chunk in chunks:
                decoder.feed(chunk)
            decoder.end()

        def built(chunks: Sequence[bytes] = chunks) -> None:
            build_turn(chunks)

        def floor(chunks: Sequence[bytes] = chunks) -> None:
            split_and_decode(chunks)

        yield race(f"decoding.{name}", decoded, floor, count=EVENTS, goal=Goal(2, must=True))
        yield race(f"decoding.{name}_to_turn", built, floor, count=EVENTS)
    for dialect, make, events, wire in OTHERS:
        yield of_another(dialect, make, events, wire)


def of_another(dialect: str, make: Callable[[], Decoder], events: list[dict[str, Any]], wire: type) -> Figure:
    """The deltas of text of another dialect, one after the other."""
    body = b"".join(framed(dialect, event) for event in events)
    chunks, separator = cut(body, CHUNK_BYTES), b"\n" if dialect == "ollama" else b"\n\n"
    decode_event: Callable[[bytes], object] = msgspec.json.Decoder(wire).decode

    def decoded() -> None:
        decoder = make()
        for chunk in chunks:
            decoder.feed(chunk)

    def floor() -> None:
        rest = b""
        for chunk in chunks:
            *blocks, rest = (rest + chunk).split(separator)
            for block in blocks:
                decode_event(block[block.index(b"{") :])

    return race(f"decoding.{dialect}", decoded, floor, count=EVENTS, goal=Goal(2))


def framed(dialect: str, event: dict[str, Any]) -> bytes:
    data = msgspec.json.encode(event)
    if dialect == "ollama":
        return data + b"\n"
    return (f"event: {event['type']}\n".encode() if "type" in event else b"") + b"data: " + data + b"\n\n"


def build_turn(
    chunks: Iterator[bytes] | Sequence[bytes], make_decoder: Callable[[], Decoder] = OpenAIChatDecoder
) -> None:
    """What a provider's pump does, without its channel."""
    decoder, builder = make_decoder(), TurnBuilder("turn_1", "a-model", ["write_file"])
    for chunk in chunks:
        for part in decoder.feed(chunk):
            builder.add(part)
    builder.end()
    builder.turn()


class Function(msgspec.Struct, gc=False):
    name: str | None = None
    arguments: str | None = None


class CallPiece(msgspec.Struct, gc=False):
    index: int
    id: str | None = None
    function: Function | None = None


class Delta(msgspec.Struct, gc=False):
    content: str | None = None
    tool_calls: list[CallPiece] | None = None


class Choice(msgspec.Struct, gc=False):
    delta: Delta
    finish_reason: str | None = None


class Chunk(msgspec.Struct, gc=False):
    choices: list[Choice]


decode_chunk = msgspec.json.Decoder(Chunk).decode


def split_and_decode(chunks: Sequence[bytes]) -> None:
    rest = b""
    for chunk in chunks:
        *blocks, rest = (rest + chunk).split(b"\n\n")
        for block in blocks:
            data = block[6:]
            if data != b"[DONE]":
                decode_chunk(data)


class AnthropicDelta(msgspec.Struct, gc=False):
    text: str | None = None


class AnthropicEvent(msgspec.Struct, gc=False):
    type: str
    index: int | None = None
    delta: AnthropicDelta | None = None


class ResponsesEvent(msgspec.Struct, gc=False):
    type: str
    output_index: int | None = None
    delta: str | None = None


class GeminiPart(msgspec.Struct, gc=False):
    text: str | None = None


class GeminiContent(msgspec.Struct, gc=False):
    parts: list[GeminiPart]


class GeminiCandidate(msgspec.Struct, gc=False):
    content: GeminiContent


class GeminiChunk(msgspec.Struct, gc=False):
    candidates: list[GeminiCandidate]


class OllamaMessage(msgspec.Struct, gc=False):
    content: str


class OllamaLine(msgspec.Struct, gc=False):
    message: OllamaMessage
    done: bool


def words() -> Iterator[str]:
    return (f" word{number}" for number in range(EVENTS))


ANTHROPIC = [
    {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": word}} for word in words()
]
RESPONSES: list[dict[str, Any]] = [
    {
        "type": "response.output_text.delta",
        "sequence_number": number,
        "item_id": "msg_68da7fd99b3c8194bd624b18c0c0851b",
        "output_index": 0,
        "content_index": 0,
        "delta": word,
        "logprobs": [],
        "obfuscation": "0123456789",
    }
    for number, word in enumerate(words())
]
GEMINI: list[dict[str, Any]] = [
    {
        "candidates": [{"content": {"parts": [{"text": word}], "role": "model"}, "index": 0}],
        "usageMetadata": {"promptTokenCount": 10, "totalTokenCount": 10},
        "modelVersion": "a-model",
        "responseId": "0123456789abcdef",
    }
    for word in words()
]
OLLAMA: list[dict[str, Any]] = [
    {
        "model": "a-model",
        "created_at": "2026-11-01T00:00:00.000000Z",
        "message": {"role": "assistant", "content": word},
        "done": False,
    }
    for word in words()
]
OTHERS: tuple[tuple[str, Callable[[], Decoder], list[dict[str, Any]], type], ...] = (
    ("anthropic", AnthropicDecoder, ANTHROPIC, AnthropicEvent),
    ("openai_responses", OpenAIResponsesDecoder, RESPONSES, ResponsesEvent),
    ("gemini", GeminiDecoder, GEMINI, GeminiChunk),
    ("ollama", OllamaDecoder, OLLAMA, OllamaLine),
)


def body_of(delta: Callable[[int], dict[str, Any]], events: int) -> bytes:
    """A stream as servers write it; its events are some 250 bytes long."""
    return b"".join(event_of(delta(number)) for number in range(events)) + event_of({}, "stop") + DONE


def event_of(delta: dict[str, Any], finish_reason: str | None = None) -> bytes:
    chunk = {
        "id": "chatcmpl-BUdTuwuo1H4Pu2o2bZbZbZbZbZbZb",
        "object": "chat.completion.chunk",
        "created": 1746594630,
        "model": "a-model-2025-04-14",
        "service_tier": "default",
        "system_fingerprint": "fp_62a23a81ef",
        "choices": [{"index": 0, "delta": delta, "logprobs": None, "finish_reason": finish_reason}],
    }
    return b"data: " + msgspec.json.encode(chunk) + b"\n\n"


def text_delta(number: int) -> dict[str, Any]:
    return {"content": f" word{number}"} if number else {"role": "assistant", "content": ""}


def arguments_delta(number: int) -> dict[str, Any]:
    if number == 0:
        function = {"name": "write_file", "arguments": ""}
        return {
            "role": "assistant",
            "tool_calls": [{"index": 0, "id": "call_1", "type": "function", "function": function}],
        }
    piece = '{"text": "' if number == 1 else '"}' if number == EVENTS - 1 else f" word{number}"
    return {"tool_calls": [{"index": 0, "function": {"arguments": piece}}]}


def cut(body: bytes, width: int) -> list[bytes]:
    return [body[start : start + width] for start in range(0, len(body), width)]
