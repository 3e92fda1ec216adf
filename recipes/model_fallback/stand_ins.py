"""Providers that are not there: what they would send, in two dialects. All above the transport is real."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Iterator, Sequence
from typing import Any

import anyio
import httpx2

from streamkit import Model
from streamkit.providers.anthropic import anthropic
from streamkit.providers.openai_chat import openai_chat

Events = Sequence[dict[str, Any]]
"""The events of a stream, one after the other."""

SECONDS_BETWEEN_EVENTS = 0.04


class Answers(httpx2.AsyncBaseTransport):
    """Answers one request after the other. asked: the bodies of the requests."""

    def __init__(self, *answers: Events | httpx2.Response, seconds_between: float = SECONDS_BETWEEN_EVENTS) -> None:
        self.asked: list[Any] = []
        self._answers = list(answers)
        self._seconds_between = seconds_between

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        self.asked.append(json.loads(await request.aread()))
        answer = self._answers.pop(0)
        if isinstance(answer, httpx2.Response):
            return answer
        return httpx2.Response(200, headers={"content-type": "text/event-stream"}, content=self._stream(answer))

    async def _stream(self, events: Events) -> AsyncIterator[bytes]:
        for event in events:
            await anyio.sleep(self._seconds_between)
            yield f"event: {event.get('type', 'message')}\ndata: {json.dumps(event)}\n\n".encode()


def overloaded(retry_after: float) -> httpx2.Response:
    """An answer that says no, and when to come back."""
    body = {"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}}
    return httpx2.Response(529, headers={"retry-after": str(retry_after)}, json=body)


# The Messages API of Anthropic


def claude(answers: Answers, *, retries: int = 1) -> Model:
    url = "http://claude.invalid"
    return anthropic("claude-stand-in", api_key="none", base_url=url, retries=retries, transport=answers)


def claude_says(text: str, *, breaks: bool = False) -> Events:
    """breaks: the provider is overloaded in the middle of it."""
    words = [{"type": "text_delta", "text": word} for word in _words(text)]
    block = _block({"type": "text", "text": ""}, words)
    return _message(block[:-1], "error") if breaks else _message(block, "end_turn")


def claude_calls(tool: str, arguments: dict[str, Any]) -> Events:
    pieces = [{"type": "input_json_delta", "partial_json": json.dumps(arguments)}]
    return _message(_block({"type": "tool_use", "id": "toolu_1", "name": tool, "input": {}}, pieces), "tool_use")


def _message(block: Events, reason: str) -> Events:
    start = {"type": "message_start", "message": {"id": "msg_1", "role": "assistant", "content": [], "usage": {}}}
    if reason == "error":
        return [start, *block, {"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}}]
    return [start, *block, {"type": "message_delta", "delta": {"stop_reason": reason}}, {"type": "message_stop"}]


def _block(begins: dict[str, Any], deltas: Events) -> Events:
    return [
        {"type": "content_block_start", "index": 0, "content_block": begins},
        *({"type": "content_block_delta", "index": 0, "delta": delta} for delta in deltas),
        {"type": "content_block_stop", "index": 0},
    ]


# Chat completions


def chat(answers: Answers) -> Model:
    return openai_chat("chat-stand-in", api_key="none", base_url="http://chat.invalid/v1", transport=answers)


def chat_says(text: str) -> Events:
    deltas = [{"choices": [{"index": 0, "delta": {"content": word}}]} for word in _words(text)]
    return [*deltas, {"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]}]


def _words(text: str) -> Iterator[str]:
    return (f"{word} " for word in text.split())
