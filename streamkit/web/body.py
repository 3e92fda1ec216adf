"""The body of one response, sent as it comes: heard by one client, who may read slowly, or leave at any moment."""

from __future__ import annotations

import math
from collections.abc import Iterable

import anyio
from starlette.types import Message, Receive, Send

MESSAGE_BYTES = 64 * 1024
"""A message of the body has no more: what is not sent yet waits as events, and a client that takes one long piece
slowly is seen to take it.
"""

COMMENT = b": \n\n"
"""Says nothing, and keeps those in between from closing a connection on which nothing comes."""

KEEPALIVE_SECONDS = 15.0
STALL_SECONDS = 120.0


class Body:
    """Sends the body, and hears that the client has gone: then it cancels the scope that it was given.

    keepalive_seconds: after at most so long without a piece a comment is sent. stall_seconds: a client that takes
    nothing for so long has gone, too. Both may be `math.inf`.
    """

    def __init__(
        self, receive: Receive, send: Send, scope: anyio.CancelScope, *, keepalive_seconds: float, stall_seconds: float
    ) -> None:
        self.client_has_gone = False
        self._receive = receive
        self._send = send
        self._scope = scope
        self._keepalive_seconds = keepalive_seconds
        self._stall_seconds = stall_seconds
        self._messages = 0
        self._is_sending = False
        self._is_cut_off = False
        self._comment: anyio.Event | None = None  # set when the one that is being sent is sent

    async def start(self, status: int, headers: list[tuple[bytes, bytes]]) -> None:
        await self._send_message({"type": "http.response.start", "status": status, "headers": headers})

    async def send_pieces(self, pieces: Iterable[bytes]) -> None:
        """Send pieces, as many as fit in one message; empty ones are none."""
        ready: list[bytes] = []
        size = 0
        for piece in pieces:
            ready.append(piece)
            size += len(piece)
            if size >= MESSAGE_BYTES:
                rest = await self._send_full(b"".join(ready))
                ready, size = [rest], len(rest)
        if size:
            await self._send_message(_part(b"".join(ready)))

    async def _send_full(self, data: bytes) -> bytes:
        """Send what makes full messages; the rest."""
        end = len(data) - len(data) % MESSAGE_BYTES
        for start in range(0, end, MESSAGE_BYTES):
            await self._send_message(_part(data[start : start + MESSAGE_BYTES]))
        return data[end:]

    async def close(self, last: bytes) -> None:
        """Send the last piece, after which the body is whole.

        Nothing is sent where a message was cut off: what follows it would stand in the middle of a frame, or behind a
        gap.
        """
        if self._is_cut_off:
            return
        await self._send_message(_part(await self._send_full(last), more=False))

    async def _send_message(self, message: Message) -> None:
        self._is_cut_off = True  # unless this comes to its end
        if self._comment is not None:
            await self._comment.wait()
        self._messages += 1
        self._is_sending = True
        try:
            await self._send(message)
        except OSError:  # what servers raise since ASGI 2.4 when the connection is gone
            await self._leave()
        finally:
            self._is_sending = False
        self._is_cut_off = False

    async def listen(self) -> None:
        """Wait until the client has gone."""
        while (await self._receive())["type"] != "http.disconnect":
            """Something of the body of the request that nobody wanted to read."""
        await self._leave()

    async def watch(self) -> None:
        """Send a comment where nothing comes, and leave where nothing goes out.

        It looks from time to time, so that sending costs no timer.
        """
        period = min(self._keepalive_seconds, self._stall_seconds) / 2
        seen, still_seconds = self._messages, 0.0
        while True:
            await anyio.sleep(period)
            still_seconds = still_seconds + period if self._messages == seen else 0.0
            seen = self._messages
            if self._is_sending:
                if still_seconds >= self._stall_seconds:
                    await self._leave()
            elif still_seconds + period >= self._keepalive_seconds:
                await self._send_comment()
                still_seconds = -period  # the comment was something

    async def _send_comment(self) -> None:
        self._comment = anyio.Event()  # who sends meanwhile waits: servers expect one message at a time
        try:
            with anyio.move_on_after(self._stall_seconds) as patience:
                await self._send(_part(COMMENT))
            if patience.cancelled_caught:
                await self._leave()
        except OSError:
            await self._leave()
        finally:
            self._comment.set()
            self._comment = None

    async def _leave(self) -> None:
        self.client_has_gone = True
        self._scope.cancel()
        await anyio.sleep(math.inf)  # until the cancellation is heard


def _part(data: bytes, *, more: bool = True) -> Message:
    return {"type": "http.response.body", "body": data, "more_body": more}
