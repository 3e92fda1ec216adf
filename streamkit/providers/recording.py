"""Turns recorded once, and replayed without a network: transports for `openai_chat(…, transport=…)` and its siblings.

    transport = RecordingTransport("fixtures/turn.json")  # asks the provider, and writes down what it says
    transport = ReplayTransport("fixtures/turn.json")     # says it again

A recording is a JSON file to be read, and kept beside the test. It has every exchange in the order in which they were
asked for: failures, answers of any status, and bodies as far as they were read, line by line. Of a request it has
method, path and body, never a header; where an answer, or a query, repeats a key, there is `[hidden]` instead. A replay
gives to each request the first answer to the same request that was not given yet, so neither turns that run at the same
time nor those that ask the same again need anything special. It says the body line by line. A turn that was asked for
again waits in a replay as it did then.
"""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import anyio.lowlevel
import msgspec

from ..errors import RecordingError
from .client import client_of_this_loop, httpx2
from .exchange import NAMES_A_KEY, without_secrets
from .failures import parsed
from .recorded import (
    Exchange,
    RecordedAnswer,
    RecordedFailure,
    RecordedRequest,
    difference,
    pieces_of,
    with_body,
    with_texts,
    write,
)

KEPT_HEADERS = (
    "content-type", "retry-after", "retry-after-ms", "x-request-id", "request-id", "x-amzn-requestid", "cf-ray"
)  # fmt: skip
"""What is kept of the headers of an answer: what a turn reads. Others name accounts, or are cookies."""


class RecordingTransport(httpx2.AsyncBaseTransport):
    """Sends requests, and writes each exchange down when it has ended; a body is passed on while it comes.

    path: of the file; it is made anew, and is whole at every moment. transport: sends the requests, and is closed with
    this one; None uses the connections that all models of an event loop share.
    """

    def __init__(self, path: str | os.PathLike[str], transport: httpx2.AsyncBaseTransport | None = None) -> None:
        self._path = Path(path)
        self._transport = transport
        self._exchanges: list[Exchange | None] = []  # None for one that has not ended

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        asked = _recorded_request(request, await request.aread())
        named = [*request.headers.items(), *request.url.params.multi_items()]
        secrets = [value for name, value in named if NAMES_A_KEY.search(name)]
        place = len(self._exchanges)
        self._exchanges.append(None)

        def note(answer: RecordedAnswer | None, failure: RecordedFailure | None) -> None:
            exchange = with_texts(Exchange(asked, answer, failure), lambda text: without_secrets(text, secrets))
            self._exchanges[place] = exchange
            write(self._path, [each for each in self._exchanges if each is not None])

        try:
            response = await self._send(request)
        except httpx2.TransportError as error:
            note(None, RecordedFailure(type(error).__name__, str(error)))
            raise
        stream = _RecordedStream(response, note)
        return _response(stream.answer, stream)

    async def _send(self, request: httpx2.Request) -> httpx2.Response:
        if self._transport is not None:
            return await self._transport.handle_async_request(request)
        client = await client_of_this_loop()
        return await client.send(request, stream=True)

    async def aclose(self) -> None:
        if self._transport is not None:
            await self._transport.aclose()


class _RecordedStream(httpx2.AsyncByteStream):
    """The body of an answer, noted when it has ended, in whatever way."""

    def __init__(
        self, response: httpx2.Response, note: Callable[[RecordedAnswer | None, RecordedFailure | None], None]
    ) -> None:
        headers = {name: response.headers[name] for name in KEPT_HEADERS if name in response.headers}
        self.answer = RecordedAnswer(response.status_code, response.reason_phrase, headers)
        self._response = response
        self._note = note
        self._pieces: list[bytes] = []
        self._is_noted = False

    async def __aiter__(self) -> AsyncIterator[bytes]:
        try:
            async for piece in self._response.aiter_bytes():
                self._pieces.append(piece)
                yield piece
        except httpx2.RequestError as error:
            self._end(RecordedFailure(type(error).__name__, str(error)))
            raise
        else:
            self._end(None)

    async def aclose(self) -> None:
        self._end(RecordedFailure("ReadError", "the recording ends here: whoever made it read no further"))
        await self._response.aclose()

    def _end(self, failure: RecordedFailure | None) -> None:
        if not self._is_noted:
            self._is_noted = True
            self._note(with_body(self.answer, b"".join(self._pieces)), failure)


# Replaying


class ReplayTransport(httpx2.AsyncBaseTransport):
    """Answers requests from a file that RecordingTransport made, and never asks anybody.

    Raises RecordingError where the file cannot be read, and for a request to which it has no answer left; the message
    names the first difference.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self._path = Path(path)
        try:
            self._waiting = msgspec.json.decode(self._path.read_bytes(), type=list[Exchange])
        except (OSError, msgspec.DecodeError) as error:
            raise RecordingError(f"there is no recording to replay in {self._path}: {error}") from error

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        asked = _recorded_request(request, await request.aread())
        exchange = next((each for each in self._waiting if each.request == asked), None)
        if exchange is None:
            raise RecordingError(self._why_not(asked))
        self._waiting.remove(exchange)
        await anyio.lowlevel.checkpoint()
        if exchange.answer is None:
            raise _error(exchange.failure)
        return _response(exchange.answer, _ReplayedStream(exchange.answer, exchange.failure))

    def _why_not(self, asked: RecordedRequest) -> str:
        told = f"{self._path} holds no answer to {asked.method} {asked.path}"
        if not self._waiting:
            return f"{told}: all that it holds has been replayed"
        return f"{told}: {difference(msgspec.to_builtins(self._waiting[0].request), msgspec.to_builtins(asked))}"


class _ReplayedStream(httpx2.AsyncByteStream):
    def __init__(self, answer: RecordedAnswer, failure: RecordedFailure | None) -> None:
        self._answer = answer
        self._failure = failure

    async def __aiter__(self) -> AsyncIterator[bytes]:
        for piece in pieces_of(self._answer):
            await anyio.lowlevel.checkpoint()
            yield piece
        if self._failure is not None:
            raise _error(self._failure)


def _error(failure: RecordedFailure | None) -> Exception:
    kind = getattr(httpx2, failure.name, None) if failure else None
    if failure is None or not isinstance(kind, type) or not issubclass(kind, httpx2.RequestError):
        return RecordingError(f"a recorded exchange has neither an answer nor an error of httpx2: {failure}")
    return kind(failure.message)


def _recorded_request(request: httpx2.Request, content: bytes) -> RecordedRequest:
    url = request.url
    for name in url.params:
        if NAMES_A_KEY.search(name):
            url = url.copy_set_param(name, "hidden")
    body = parsed(content.decode(errors="replace")) if content else None
    return RecordedRequest(request.method, url.raw_path.decode(), body)


def _response(answer: RecordedAnswer, stream: httpx2.AsyncByteStream) -> httpx2.Response:
    reason = {"reason_phrase": answer.reason.encode()}
    return httpx2.Response(answer.status, headers=answer.headers, stream=stream, extensions=reason)
