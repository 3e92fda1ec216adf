"""Responses behind which something is left to do."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from starlette.responses import Response
from starlette.types import Receive, Scope, Send


class Afterwards(Response):
    """A response, and what is done when it is over: sent, refused on the way, or left by its client."""

    def __init__(self, response: Response, then: Callable[[], Awaitable[None]]) -> None:
        self._response = response
        self._then = then

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            await self._response(scope, receive, send)
        finally:
            await self._then()
