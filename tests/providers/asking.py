"""Turns of a model over loopback: what a server says, and what becomes of it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import anyio
import pytest
from anyio.abc import SocketStream

from streamkit.errors import IncompleteStream, ModelError, ProviderError
from streamkit.items import user
from streamkit.parts import Failed, Finished, Part, WholeCall
from streamkit.providers.http import HttpModel
from streamkit.providers.model import Model
from streamkit.providers.openai_chat import openai_chat
from streamkit.providers.options import HttpOptions
from streamkit.turns import TextDelta, Turn, TurnRequest

from .loopback import CHUNKED, Loopback, Say, chunk, head, hold, serve

KEY = "sk-very-secret-key"
REQUEST = TurnRequest((user("hi"),))


def event(delta: str, finish: str = "null") -> bytes:
    return b'data: {"choices":[{"index":0,"delta":%b,"finish_reason":%b}]}\n\n' % (delta.encode(), finish.encode())


HI = event('{"content":"Hi"}')
STOP = event("{}", '"stop"')
DONE = b"data: [DONE]\n\n"
HALF_A_CALL = event('{"tool_calls":[{"index":0,"id":"a","function":{"name":"f","arguments":"{"}}]}')


def model_at(server: Loopback, **options: Any) -> Model:
    """One that asks only once, unless it is told otherwise."""
    return openai_chat("m", base_url=server.url, api_key=KEY, **{"retries": 0, **options})


def say(*pieces: bytes) -> Say:
    """Send the pieces one by one, then close the connection."""

    async def send(stream: SocketStream) -> None:
        for piece in pieces:
            await stream.send(piece)

    return send


def say_and_hold(*pieces: bytes) -> Say:
    """The beginning of a stream, and then nothing for ever."""

    async def send(stream: SocketStream) -> None:
        await stream.send(head(CHUNKED) + b"".join(map(chunk, pieces)))
        await hold(stream)

    return send


async def run(*answers: bytes | Say, **options: Any) -> Turn:
    async with serve(*answers) as server:
        return await model_at(server, **options).stream_turn(REQUEST)


async def failure_of(*answers: bytes | Say, **options: Any) -> ModelError:
    with pytest.raises(ModelError) as raised:
        await run(*answers, **options)
    return raised.value


# A dialect of our own


class Words:
    """A decoder: a line is a piece of text, `!…` an error, `f` a call, an empty line nothing, a dot the end."""

    def __init__(self) -> None:
        self._rest = b""

    def feed(self, data: bytes) -> Sequence[Part]:
        *lines, self._rest = (self._rest + data).split(b"\n")
        parts: list[Part] = []
        for line in lines:
            if line == b".":
                return [*parts, Finished("stop")]
            if line.startswith(b"!"):
                return [*parts, Failed(ProviderError(line[1:].decode()))]
            if line:
                parts.append(WholeCall("f", "{}", "a") if line == b"f" else TextDelta(line.decode()))
        return parts

    def end(self) -> Sequence[Part]:
        return [Failed(IncompleteStream("no dot"))]


def words_at(server: Loopback, **options: Any) -> HttpModel:
    """A model that speaks in words. Its key is in no header that the server would know."""
    typed: HttpOptions = {"retries": 0, **options}  # type: ignore[typeddict-item]
    return HttpModel(
        "w",
        f"{server.url}/words",
        headers=lambda: {"x-goog-api-key": KEY},
        encode=lambda request, name: {"model": name, "asked": len(request.history)},
        decoder=Words,
        key_hint="set WORDS_KEY",
        options=typed,
    )


def words(text: str) -> bytes:
    """What such a model says, a whole answer."""
    body = text.encode()
    return head(f"content-length: {len(body)}", kind="text/plain") + body


async def eventually(*, asked: int, server: Loopback) -> None:
    """Wait until a server was asked so often."""
    while len(server.asked) < asked:
        await anyio.wait_all_tasks_blocked()
