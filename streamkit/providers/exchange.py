"""One request to a provider and its answer: bytes as they come, and errors that say what happened and keep secrets."""

from __future__ import annotations

import contextlib
import math
import re
from collections.abc import AsyncGenerator, AsyncIterable, AsyncIterator, Awaitable, Iterable, Iterator, Mapping
from email.utils import parsedate_to_datetime
from time import time

import anyio

from ..durations import in_seconds
from ..errors import ConnectionFailed, DefinitionError, IdleTimeout, ModelError, NotAStream, ProviderError
from .client import httpx2, proxy_hint
from .failures import parsed, shortened, tells_an_error, words_of
from .retrying import Patience, silence

ERROR_BYTES = 64 * 1024
"""How much is read of an answer that is no stream, to say what it is."""
REST_SECONDS = 0.25
"""How long to wait, after a turn has ended, for the end of its body: then the connection can be used again."""

_BEFORE_EVENTS = b"\xef\xbb\xbf\r\n"
_FIELDS = (b"data:", b"event:", b"id:", b"retry:", b":")
_LONGEST_FIELD = max(_FIELDS, key=len)

NAMES_A_KEY = re.compile("auth|key|token|secret|cookie|password", re.IGNORECASE)
"""The names of what holds one: authorization, x-api-key, x-goog-api-key."""


class Answer:
    """The body of an answer: bytes as they come. Raises ConnectionFailed where it breaks, and what Patience raises."""

    def __init__(self, response: httpx2.Response, patience: Patience) -> None:
        self.response = response
        self._patience = patience
        is_plain = response.headers.get("content-encoding", "identity") == "identity"
        is_raw = is_plain and not response.is_stream_consumed  # as it is where a transport made it of a whole body
        assert isinstance(response.stream, httpx2.AsyncByteStream)  # no other comes from a client that is asynchronous
        # Not aiter_raw(): each piece would go through one more generator.
        self._pieces = self._read(response.stream if is_raw else response.aiter_bytes())

    def __aiter__(self) -> AsyncIterator[bytes]:
        return self

    def __anext__(self) -> Awaitable[bytes]:
        return self._patience.wait_for_piece(anext(self._pieces))

    async def _read(self, pieces: AsyncIterable[bytes]) -> AsyncGenerator[bytes, None]:
        try:
            async for piece in pieces:
                yield piece
        except (httpx2.TransportError, httpx2.DecodingError) as error:
            raise _failure(error, self.response.request) from error
        await self.response.aclose()  # it was read to its end: the connection can be used again

    async def has_events(self) -> bool:
        """Whether it begins as server-sent events do. What was looked at, but for blank lines, is still to be read."""
        start = b""
        while len(start) < len(_LONGEST_FIELD) and (piece := await anext(self, None)) is not None:
            start = (start + piece).lstrip(_BEFORE_EVENTS)  # some send blank lines for as long as the model thinks
        self._pieces = _joined(start, self._pieces)
        return start.startswith(_FIELDS)

    async def text(self) -> str:
        """The beginning of it, as text."""
        pieces: list[bytes] = []
        size = 0
        async for piece in self:
            pieces.append(piece)
            size += len(piece)
            if size >= ERROR_BYTES:
                break
        return b"".join(pieces)[:ERROR_BYTES].decode(errors="replace")

    async def read_rest(self) -> None:
        """Read to the end, if that is near: a connection whose answer was left unread cannot be used again."""
        if self.response.is_closed:  # as it is when it was read to its end
            return
        with contextlib.suppress(ModelError), anyio.move_on_after(REST_SECONDS):
            async for _ in self:
                pass

    async def close(self) -> None:
        if self.response.is_closed:
            return
        with anyio.CancelScope(shield=True):
            await self.response.aclose()
            # Inside of httpx2 one generator drops another that has not ended, which trio warns of. Pulled once more,
            # over a connection that is closed now, all of them end.
            with contextlib.suppress(Exception):
                async for _ in self._pieces:
                    pass


async def _joined(start: bytes, rest: AsyncIterable[bytes]) -> AsyncGenerator[bytes, None]:
    yield start
    async for piece in rest:
        yield piece


@contextlib.asynccontextmanager
async def post(
    client: httpx2.AsyncClient,
    url: httpx2.URL,
    body: bytes,
    headers: Mapping[str, str],
    *,
    limits: httpx2.Timeout,
    patience: Patience,
    key_hint: str = "",
) -> AsyncGenerator[Answer, None]:
    """The answer to a request, for as long as the block is open.

    headers: besides the usual ones; they are secrets. key_hint: said where a request without a key is refused. Raises
    ConnectionFailed where there is no answer, ProviderError for one that says no, NotAStream for a page or a JSON body.
    A ModelError that comes out of the block gets what the answer says of it. No error holds a header.
    """
    headers = {name.lower(): checked_header(name, value) for name, value in headers.items()}
    request = client.build_request("POST", url, content=body, headers=headers, timeout=limits)
    answer: Answer | None = None
    try:
        answer = Answer(await patience.wait(_send(client, request)), patience)
        await _refuse_what_is_no_stream(answer, "" if any(map(NAMES_A_KEY.search, headers)) else key_hint)
        yield answer
        await answer.read_rest()
    except ModelError as error:
        _hide(error, headers.values())
        if answer is not None:
            complete_error(error, answer.response)
        raise
    finally:
        if answer is not None:
            await answer.close()


async def _send(client: httpx2.AsyncClient, request: httpx2.Request) -> httpx2.Response:
    """Send a request, once more if the connection broke before any answer: it may have been open for too long."""
    try:
        try:
            return await client.send(request, stream=True)
        except (httpx2.ReadError, httpx2.WriteError, httpx2.RemoteProtocolError):
            return await client.send(request, stream=True)
    except httpx2.TransportError as error:
        raise _failure(error, request) from error


def _failure(error: httpx2.RequestError, request: httpx2.Request) -> ModelError:
    host, limits = request.url.host, request.extensions["timeout"]
    match error:
        case httpx2.ConnectTimeout():
            hint = proxy_hint(request.url)
            return ConnectionFailed(f"{host} could not be reached in {in_seconds(limits['connect'])}{hint}")
        case httpx2.ReadTimeout():
            return IdleTimeout(silence(host, limits["read"]))
        case httpx2.WriteTimeout():
            return ConnectionFailed(f"{host} took nothing of the request for {in_seconds(limits['write'])}")
        case httpx2.ConnectError():
            return ConnectionFailed(f"{host} could not be reached{proxy_hint(request.url)}: {error}")
    return ConnectionFailed(f"the connection to {host} broke: {str(error) or type(error).__name__}")


# Answers that are no stream


async def _refuse_what_is_no_stream(answer: Answer, key_hint: str) -> None:
    response = answer.response
    kind = response.headers.get("content-type", "").partition(";")[0].strip().lower()
    is_page = kind in ("text/html", "application/xhtml+xml")
    if response.is_success and not is_page and (kind != "application/json" or await answer.has_events()):
        return  # some servers say of a stream that it is JSON
    text = await answer.text()
    words = _title(text) if is_page else words_of(parsed(text) or response.reason_phrase)
    if not response.is_success:
        status = f"{response.status_code} {response.reason_phrase}".strip()  # HTTP/2 has no phrase
        raise ProviderError(f"the provider answered {status}: {words}" + _hint(response, key_hint))
    if is_page:
        raise NotAStream(f"the answer is a web page: {words}")
    if tells_an_error(parsed(text)):
        raise ProviderError(words)
    raise NotAStream("the answer is one JSON body instead of a stream of events")


def _hint(response: httpx2.Response, key_hint: str) -> str:
    if response.status_code in (301, 302, 307, 308, 404, 405):
        url = response.request.url
        return f"; asked was {url.scheme}://{url.netloc.decode()}{url.path}, see base_url"
    return f"; {key_hint}" if key_hint and response.status_code in (401, 403) else ""


def _title(page: str) -> str:
    before, _, rest = page.partition("<title>")
    title = rest.partition("</title>")[0] if rest else before
    return shortened(title)[:200] or "without a title"


def complete_error(error: ModelError, response: httpx2.Response) -> None:
    """Add what the answer says of an error."""
    names = ("x-request-id", "request-id", "x-amzn-requestid", "cf-ray")
    error.status = error.status or response.status_code
    error.request_id = error.request_id or next(
        (response.headers[name] for name in names if name in response.headers), None
    )
    if error.retry_after is None:
        error.retry_after = retry_after(response.headers)


def retry_after(headers: Mapping[str, str]) -> float | None:
    """In how many seconds the provider wants to be asked again: it names seconds, milliseconds, or a date."""
    for name, per_second in (("retry-after-ms", 1000), ("retry-after", 1)):
        with contextlib.suppress(ValueError):
            seconds = float(headers[name]) / per_second if name in headers else math.nan
            if math.isfinite(seconds):
                return max(0.0, seconds)
    with contextlib.suppress(ValueError):
        return max(0.0, parsedate_to_datetime(headers.get("retry-after", "")).timestamp() - time())
    return None


# Secrets


def checked_header(name: str, value: str) -> str:
    """The value of a header, or an error that does not show it, as the one of httpx2 would."""
    value = value.strip()  # a key that was read from a file ends with a line break
    if not value.isascii() or not value.isprintable():
        raise DefinitionError(f"the value of the header {name} has characters that no header may have")
    return value


def _hide(error: BaseException, values: Iterable[str]) -> None:
    """Take what the headers held out of an error, and out of those that caused it."""
    values = list(values)
    for each in _chain(error):
        told = str(each)
        if told != (hidden := without_secrets(told, values)):
            each.args = (hidden,)


def _chain(error: BaseException | None) -> Iterator[BaseException]:
    seen: set[int] = set()
    while error is not None and id(error) not in seen:
        seen.add(id(error))
        yield error
        error = error.__cause__ or error.__context__


def without_secrets(message: str, values: Iterable[str]) -> str:
    """The message, with nothing in it of what the headers held: some providers repeat the key that they refuse."""
    secrets = {secret for value in values for secret in (value, *value.split()) if len(secret) >= 8}
    for secret in sorted(secrets, key=len, reverse=True):
        message = message.replace(secret, "[hidden]")
    return message
