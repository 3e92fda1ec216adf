"""Turns over HTTP, from a server in a process of its own, against httpx2 and msgspec by hand.

By hand means: one client, the request as plain dicts, the answer split and decoded as in `decoding`, its text and its
calls put together. No events, no cancellation of a tool, no errors told apart, nothing checked but the arguments.
Only the work of this process counts, not the waiting for the server: with that, both sides would look more alike.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any

import httpx2
import msgspec

from streamkit import Toolkit, TurnRequest, converse, user
from streamkit.providers.openai_chat import openai_chat

from .channel import consume
from .decoding import Chunk, decode_chunk
from .execution import double
from .measure import BACKENDS, ROUNDS_TO_REPORT, Backend, Figure, Goal, race_async
from .server import running_server

TURNS = 8
"""Of a round."""
LOOP_TURNS = 200
QUESTION = "How much is twice as much?"
MODEL = "a-model"

decode_number = msgspec.json.Decoder(double.input).decode


def figures() -> Iterator[Figure]:
    with running_server() as address:
        for backend in BACKENDS:
            yield single_turns(backend, f"{address}/text")
            yield whole_loop(backend, f"{address}/{LOOP_TURNS}")


def single_turns(backend: Backend, url: str) -> Figure:
    model = openai_chat(MODEL, base_url=url, api_key="a-key")
    request = TurnRequest((user(QUESTION),))
    client = httpx2.AsyncClient()

    async def ours() -> None:
        for _ in range(TURNS):
            await consume(model.stream_turn(request))

    async def floor() -> None:
        for _ in range(TURNS):
            await ask_by_hand(client, url, [{"role": "user", "content": QUESTION}])

    return race_async("turns.turn", ours, floor, count=TURNS, backend=backend, goal=Goal(1.3), around=client)


def whole_loop(backend: Backend, url: str) -> Figure:
    """A conversation in which each turn but the last has one call."""
    model, toolkit = openai_chat(MODEL, base_url=url, api_key="a-key"), Toolkit(double)

    async def ours() -> None:
        async with converse(model, toolkit, (user(QUESTION),), max_turns=LOOP_TURNS).open() as events:
            async for _ in events:
                pass
        assert events.value.turns == LOOP_TURNS
        assert events.value.ended == "turn_limit"

    client = httpx2.AsyncClient()
    floor = partial(converse_by_hand, client, url)
    name, goal = f"turns.loop_of_{LOOP_TURNS}", Goal(1.5)
    return race_async(
        name, ours, floor, count=LOOP_TURNS, backend=backend, goal=goal, rounds=ROUNDS_TO_REPORT, around=client
    )


async def converse_by_hand(client: httpx2.AsyncClient, url: str) -> None:
    spec = double.spec
    function = {"name": spec.name, "description": spec.description, "parameters": spec.parameters}
    tools = [{"type": "function", "function": function}]
    messages: list[dict[str, Any]] = [{"role": "user", "content": QUESTION}]
    turns = 0
    while True:
        text, calls = await ask_by_hand(client, url, messages, tools)
        turns += 1
        message: dict[str, Any] = {"role": "assistant", "content": text or None}
        messages.append(message)
        if not calls:
            break
        message["tool_calls"] = calls
        for call in calls:
            number = decode_number(call["function"]["arguments"]).number
            result = await double(number)
            messages.append({"role": "tool", "tool_call_id": call["id"], "content": str(result)})
    assert turns == LOOP_TURNS


async def ask_by_hand(
    client: httpx2.AsyncClient,
    url: str,
    messages: list[dict[str, Any]],
    tools: list[dict[str, Any]] | None = None,
) -> tuple[str, list[dict[str, Any]]]:
    """The text and the calls of one turn."""
    body = {"model": MODEL, "messages": messages, "stream": True, "stream_options": {"include_usage": True}}
    if tools is not None:
        body["tools"] = tools
    headers = {"authorization": "Bearer a-key", "content-type": "application/json"}
    content = msgspec.json.encode(body)
    pieces: list[str] = []
    calls: list[dict[str, Any]] = []
    rest = b""
    async with client.stream("POST", f"{url}/chat/completions", content=content, headers=headers) as response:
        response.raise_for_status()
        async for received in response.aiter_raw():
            *blocks, rest = (rest + received).split(b"\n\n")
            for block in blocks:
                data = block[6:]
                if data != b"[DONE]":
                    add_chunk(decode_chunk(data), pieces, calls)
    for call in calls:
        call["function"]["arguments"] = "".join(call["function"]["arguments"])
    return "".join(pieces), calls


def add_chunk(chunk: Chunk, pieces: list[str], calls: list[dict[str, Any]]) -> None:
    delta = chunk.choices[0].delta
    if delta.content:
        pieces.append(delta.content)
    for piece in delta.tool_calls or ():
        if piece.id is not None and piece.function is not None:
            function: dict[str, Any] = {"name": piece.function.name, "arguments": []}
            calls.append({"id": piece.id, "type": "function", "function": function})
        if piece.function is not None and piece.function.arguments:
            calls[piece.index]["function"]["arguments"].append(piece.function.arguments)
