"""Bytes of a provider to neutral events, and the turn that is built of them.

The floor splits the bytes and decodes each event with msgspec into just the fields that are needed; it makes no events,
and knows nothing of cuts inside of a character, of errors, or of calls.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import msgspec

from streamkit.providers.openai_chat_decoder import OpenAIChatDecoder
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


def build_turn(chunks: Iterator[bytes] | Sequence[bytes]) -> None:
    """What a provider's pump does, without its channel."""
    decoder, builder = OpenAIChatDecoder(), TurnBuilder("turn_1", "a-model", ["write_file"])
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
