"""Others that do the same, where they are installed: here the floor is the peer, and a ratio under 1 is in our favour.

Each is used as its own pages say, on the same bytes or against the same server. They do more than is measured here, and
less; the figures tell what their users wait for.
"""

from __future__ import annotations

import importlib
from collections.abc import Iterator, Sequence
from importlib.metadata import version
from types import ModuleType
from typing import Any

import httpx2
import msgspec

from streamkit import Toolkit, converse, user
from streamkit.providers.anthropic_decoder import AnthropicDecoder
from streamkit.providers.openai_chat import openai_chat

from .channel import consume
from .decoding import ANTHROPIC, CHUNK_BYTES, EVENTS, body_of, build_turn, cut, framed, text_delta
from .execution import double
from .measure import ROUNDS_TO_REPORT, Figure, Goal, Skipped, race, race_async
from .server import running_server
from .turns import MODEL, QUESTION

LOOP_TURNS = 20
MESSAGES = [{"role": "user", "content": QUESTION}]
ANTHROPIC_START: list[dict[str, Any]] = [
    {
        "type": "message_start",
        "message": {
            "id": "msg_01EcyWo6m4hyW8KHs2y2pei5",
            "type": "message",
            "role": "assistant",
            "model": MODEL,
            "content": [],
            "stop_reason": None,
            "stop_sequence": None,
            "usage": {"input_tokens": 10, "output_tokens": 1},
        },
    },
    {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}},
]
ANTHROPIC_END: list[dict[str, Any]] = [
    {"type": "content_block_stop", "index": 0},
    {
        "type": "message_delta",
        "delta": {"stop_reason": "end_turn", "stop_sequence": None},
        "usage": {"output_tokens": EVENTS},
    },
    {"type": "message_stop"},
]


def figures() -> Iterator[Figure | Skipped]:
    for name, package, measure in (
        ("peers.openai_decoding", "openai", openai_decoding),
        ("peers.anthropic_decoding", "anthropic", anthropic_decoding),
        ("peers.pydantic_ai_loop", "pydantic_ai", pydantic_ai_loop),
    ):
        try:
            peer = importlib.import_module(package)
        except ImportError:
            yield Skipped(name, f"{package} is not installed")
        else:
            yield measure(name, peer)


def openai_decoding(name: str, openai: ModuleType) -> Figure:
    """A stream of text: to its chunks there, to the events of a whole turn here. The request there goes nowhere."""
    chunks = cut(body_of(text_delta, EVENTS), CHUNK_BYTES)
    client = openai.OpenAI(api_key="a-key", http_client=answering(chunks))

    def theirs() -> None:
        stream = client.chat.completions.create(model=MODEL, messages=MESSAGES, stream=True)
        assert sum(1 for _ in stream) == EVENTS + 1

    figure = race(name, lambda: build_turn(chunks), theirs, count=EVENTS, goal=Goal(round(1 / 30, 3)))
    return with_note(figure, "openai")


def anthropic_decoding(name: str, anthropic: ModuleType) -> Figure:
    """The same of the Messages API."""
    events = [*ANTHROPIC_START, *ANTHROPIC, *ANTHROPIC_END]
    chunks = cut(b"".join(framed("anthropic", event) for event in events), CHUNK_BYTES)
    client = anthropic.Anthropic(api_key="a-key", http_client=answering(chunks))

    def theirs() -> None:
        stream = client.messages.create(model=MODEL, messages=MESSAGES, max_tokens=EVENTS, stream=True)
        assert sum(1 for _ in stream) == len(events)

    figure = race(name, lambda: build_turn(chunks, AnthropicDecoder), theirs, count=EVENTS, goal=Goal(1 / 5))
    return with_note(figure, "anthropic")


def answering(chunks: Sequence[bytes]) -> httpx2.Client:
    """A client of HTTP that gets these bytes, whatever it asks for."""

    class Body(httpx2.SyncByteStream):
        def __iter__(self) -> Iterator[bytes]:
            return iter(chunks)

    def answer(request: httpx2.Request) -> httpx2.Response:
        return httpx2.Response(200, headers={"content-type": "text/event-stream"}, stream=Body())

    return httpx2.Client(transport=httpx2.MockTransport(answer))


def pydantic_ai_loop(name: str, pydantic_ai: ModuleType) -> Figure:
    """A conversation of many turns, each but the last with a call of a tool, over HTTP; its events are looked at."""
    models = importlib.import_module("pydantic_ai.models.openai")
    providers = importlib.import_module("pydantic_ai.providers.openai")
    with running_server() as address:
        url = f"{address}/{LOOP_TURNS}"
        model, toolkit = openai_chat(MODEL, base_url=url, api_key="a-key"), Toolkit(double)
        conversation = converse(model, toolkit, (user(QUESTION),), max_turns=LOOP_TURNS)
        provider = providers.OpenAIProvider(base_url=url, api_key="a-key")
        agent = pydantic_ai.Agent(models.OpenAIChatModel(MODEL, provider=provider), tools=[double.function])
        limits = pydantic_ai.UsageLimits(request_limit=None)

        async def ours() -> None:
            await consume(conversation)

        async def theirs() -> None:
            async with agent.run_stream_events(QUESTION, usage_limits=limits) as events:
                async for _ in events:
                    pass

        figure = race_async(name, ours, theirs, count=LOOP_TURNS, backend="asyncio", rounds=ROUNDS_TO_REPORT)
    return with_note(figure, "pydantic-ai-slim")


def with_note(figure: Figure, package: str) -> Figure:
    return msgspec.structs.replace(figure, note=f"to {package} {version(package)}")
