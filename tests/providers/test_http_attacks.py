"""A turn over HTTP that is refused, breaks and begins anew, cut off at every moment there is."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import anyio
import anyio.lowlevel
import httpx2
import pytest

from streamkit.errors import ConnectionFailed, ProviderError, TurnTimeout
from streamkit.providers.openai_chat import openai_chat
from streamkit.testing.grammar import check_grammar
from streamkit.turns import TurnEvent

from ..attacks import in_ticks, repeat
from .asking import HALF_A_CALL, HI, KEY, REQUEST, STOP


class Restless(httpx2.AsyncBaseTransport):
    """Refuses, then breaks in the middle of a turn, then answers; each step takes a moment."""

    def __init__(self) -> None:
        self.asked = 0
        self.open = 0

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        self.asked += 1
        await anyio.lowlevel.checkpoint()
        headers = {"content-type": "text/event-stream", "retry-after": "0"}
        if self.asked == 1:
            return httpx2.Response(503, headers=headers)
        self.open += 1
        pieces = (HI, HALF_A_CALL, STOP)
        return httpx2.Response(200, headers=headers, stream=RestlessStream(self, pieces, breaks=self.asked == 2))


class RestlessStream(httpx2.AsyncByteStream):
    def __init__(self, transport: Restless, pieces: tuple[bytes, ...], *, breaks: bool) -> None:
        self._transport = transport
        self._pieces = pieces
        self._breaks = breaks
        self._is_closed = False

    async def __aiter__(self) -> AsyncIterator[bytes]:
        for piece in self._pieces[:-1] if self._breaks else self._pieces:
            await anyio.lowlevel.checkpoint()
            yield piece
        if self._breaks:
            raise httpx2.ReadError("reset by peer")

    async def aclose(self) -> None:
        self._transport.open -= not self._is_closed
        self._is_closed = True


@pytest.mark.parametrize("backend", ["asyncio", "trio"])
@pytest.mark.parametrize("by_limit", [False, True])
def test_wherever_a_turn_is_cut_off_nothing_is_left_open(backend: str, *, by_limit: bool) -> None:
    struck: list[int] = []  # how often was asked until then

    async def attack(ticks: int) -> bool:
        transport, events = Restless(), list[TurnEvent]()
        limits: Any = {"total_timeout_seconds": ticks + 1} if by_limit else {}
        model = openai_chat(
            "m", base_url="http://h", api_key=KEY, transport=transport, retries=2, restart=True, **limits
        )
        is_late = False
        with anyio.move_on_after(1e6 if by_limit else ticks) as scope:
            try:
                await model.stream_turn(REQUEST).tap(events.append)
            except (TurnTimeout, ProviderError, ConnectionFailed):
                is_late = True
        check_grammar(events)
        assert transport.open == 0
        struck.append(transport.asked)
        return scope.cancelled_caught or is_late

    async def main() -> None:
        await repeat(attack)
        assert set(struck) >= {1, 2, 3}

    in_ticks(backend, main)
