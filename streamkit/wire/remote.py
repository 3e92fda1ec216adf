"""Runs in another program, over our own protocol: a run there is a flow here, with the same events.

    steering = Steering()
    async with open_remote("http://127.0.0.1:8000", "Delete the old report", steering=steering).open() as events:
        async for event in events:
            match event:
                case ApprovalRequested(execution_id=execution_id):
                    await steering.allow(execution_id)

A connection that breaks is made anew behind the last frame that came, where the server keeps its runs (a journal, and
`resumable=True`). Leaving the block closes the connection; a run that is not resumable is cancelled by it.
"""

from __future__ import annotations

import logging
import random
from collections.abc import Sequence
from typing import Any, Unpack

import anyio
import msgspec

from ..errors import ConnectionFailed, IdleTimeout, RemoteError, RunStopped
from ..flows.flow import Flow, Sink
from ..items import Item, Message, Usage
from ..tool_events import RunEvent
from ..turns import TurnEnded
from . import native_frames as frames
from .native_decoder import NativeDecoder
from .remote_http import NO_CONTENT, RemoteOptions, Server
from .steering import Steering

FIRST_WAIT_SECONDS = 0.25
LONGEST_WAIT_SECONDS = 8.0

logger = logging.getLogger("streamkit")


class RemoteRun(msgspec.Struct, frozen=True):
    """How a run ended that was driven elsewhere.

    run_id: names it at its server; what is said next may go on after it. ended, turns, usage: as in `Conversation`.
    text: of the last turn. pending: the execution ids of the calls that wait for a verdict. number: of the last frame.
    """

    run_id: str
    ended: str | None
    turns: int
    usage: Usage
    text: str
    pending: tuple[str, ...]
    number: int


def open_remote(
    url: str,
    message: str | Message | None = None,
    *,
    history: Sequence[Item] | None = None,
    after: str | None = None,
    data: Any = None,
    steering: Steering | None = None,
    **options: Unpack[RemoteOptions],
) -> Flow[RunEvent, RemoteRun]:
    """A run that the server at this address starts when the flow is opened, or awaited.

    message: what the person says. history: what was said before; or after: the id of a run whose conversation goes on,
    also without a message, where its calls have their verdicts by now. data: for the server's own use.

    Raises RemoteError where the run fails, or the server says no; RunStopped where somebody stopped it;
    ConnectionFailed where the server is not reached, or the connection is lost for good, IdleTimeout where it says
    nothing; DecodeError for what is no such stream.
    """
    said = {"text": message.text, "images": message.images} if isinstance(message, Message) else message
    body = {"message": said, "history": history, "after": after, "data": data}
    server = Server(url, options)
    return Flow(lambda out: _Watching(server, steering).run(out, body))


def watch_remote(
    url: str,
    run_id: str,
    *,
    number: int = 0,
    resume: bool = False,
    steering: Steering | None = None,
    **options: Unpack[RemoteOptions],
) -> Flow[RunEvent, RemoteRun]:
    """A run that the server knows already, from its start on, or behind the frame with this number.

    resume: let it go on where it was cut off, with its process. Raises as `open_remote` does; RemoteError also where
    the server keeps no such run, or there is nothing behind the number.
    """
    server = Server(url, options)
    body = {"resume": run_id} if resume else None
    return Flow(lambda out: _Watching(server, steering, run_id, number).run(out, body))


class _Watching:
    """One opening: the frames of a run, over as many connections as it takes."""

    def __init__(self, server: Server, steering: Steering | None, run_id: str | None = None, number: int = 0) -> None:
        self._server = server
        self._steering = steering
        self._decoder = NativeDecoder(after=number)
        self._run_id: str | None = None
        self._text = ""
        self._name(run_id)

    async def run(self, out: Sink[RunEvent], body: Any = None) -> RemoteRun:
        """body: lets the run begin, or go on; it is sent once."""
        failures = 0
        lost: Lost | None = None
        while True:
            number = self._decoder.number
            try:
                reason = await self._read(out, body)
            except RemoteError as error:
                if lost is None or error.status not in (*_PASSING, *_NOT_KEPT):
                    raise
                if error.status in _NOT_KEPT:
                    raise lost from error
                reason = error
            if reason is None:
                return self._outcome()
            lost = reason
            failures = 1 if self._decoder.number > number else failures + 1
            if self._run_id is None or failures > self._server.reconnects:
                raise lost
            logger.warning("connecting again to a run, lost after frame %d: %s", self._decoder.number, lost)
            await _wait(failures)
            self._decoder.next_body()
            body = None

    async def _read(self, out: Sink[RunEvent], body: Any) -> Lost | None:
        """Send the events of one connection. What the connection was lost by; None where the run has ended."""
        path = f"/runs/{self._run_id}/stream" if body is None else "/runs"
        try:
            answer = await self._server.ask("GET" if body is None else "POST", path, body, behind=self._decoder.number)
        except ConnectionFailed as error:
            return error
        try:
            self._name(answer.response.headers.get("x-run-id"))
            if answer.response.status_code == NO_CONTENT:
                raise RemoteError(
                    f"the run has nothing after frame {self._decoder.number}; to continue one that was cut off, use "
                    "watch_remote(…, resume=True)",
                    status=NO_CONTENT,
                )
            await self._server.check_stream(answer)
            while self._decoder.last is None:
                try:
                    piece = await anext(answer)
                except StopAsyncIteration:
                    return ConnectionFailed("the answer ended before the run did")
                except (ConnectionFailed, IdleTimeout) as error:
                    return error
                await self._send(out, self._decoder.feed(piece))
            await answer.read_rest()
        finally:
            await answer.close()
        return None

    async def _send(self, out: Sink[RunEvent], events: list[RunEvent]) -> None:
        self._name(self._decoder.message_id)
        if self._steering is not None:
            self._steering.number = self._decoder.number
        for event in events:
            if type(event) is TurnEnded:
                self._text = event.turn.text
            await out.send(event)

    def _name(self, run_id: str | None) -> None:
        """The server has said which run it is."""
        if self._run_id is None and run_id:
            self._run_id = run_id
            if self._steering is not None:
                self._steering.take(self._server, run_id)

    def _outcome(self) -> RemoteRun:
        match self._decoder.last:
            case frames.Error(message=message, code=code):
                raise RemoteError(message, code=code)
            case frames.Stopped(reason=reason):
                raise RunStopped(reason)
            case frames.Finish(ended=ended, turns=turns, usage=tokens, pending=pending):
                usage = frames.usage(tokens or frames.Tokens())
                run_id, number = self._run_id or "", self._decoder.number
                return RemoteRun(run_id, ended, turns or 0, usage, self._text, pending or (), number)
        raise AssertionError("the run has not ended")


Lost = ConnectionFailed | IdleTimeout | RemoteError

_PASSING = (429, 502, 503, 504)
"""What is answered for a server that is being restarted, or has too much to do."""
_NOT_KEPT = (404, 409)
"""What is answered for a run that cannot be watched again."""


async def _wait(failures: int) -> None:
    """Not at all before the first try, then longer each time; so that who was lost together returns one by one."""
    if failures > 1:
        longest = min(FIRST_WAIT_SECONDS * 2.0 ** (failures - 2), LONGEST_WAIT_SECONDS)
        await anyio.sleep(longest * random.uniform(0.5, 1))
