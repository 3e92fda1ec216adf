"""HTTP between a model and its provider: one request a turn, the answer as bytes, and errors that say what happened.

All models of an event loop share one client, so that a turn finds a connection open. Nobody has to close it: an
asynchronous generator holds it, and event loops, asyncio's and trio's, close what generators they know when they end.
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterable, Mapping
from email.utils import parsedate_to_datetime
from http.cookiejar import CookieJar, DefaultCookiePolicy
from time import time
from typing import Any

import anyio
import anyio.lowlevel
import msgspec

from ..codec.surrogates import whole
from ..errors import ConnectionFailed, DefinitionError, ModelError, NotAStream, ProviderError
from ..flows import Flow, Sink
from ..turns import Turn, TurnEvent, TurnRequest
from .failures import parsed, shortened, tells_an_error, words_of
from .model import Decoder, decoded, run_turn
from .options import HttpOptions

try:
    import httpx2
except ImportError as missing:
    raise ImportError("to talk to a provider install httpx2: pip install 'streamkit-tools[http]'") from missing

Encode = Callable[[TurnRequest, str], dict[str, Any]]
"""A request, and the name of the model, to the body that asks for the turn."""

ERROR_BYTES = 64 * 1024
"""So much is read of an answer that is no stream, to tell what it is."""
REST_SECONDS = 0.25
"""How long to wait, after a turn has ended, for the end of its body: then the connection can be used again."""


class HttpModel:
    """A model behind HTTP. How it is spoken to comes from its dialect.

    headers: with the key, asked for each turn; they are secrets, and appear nowhere. key_hint: said where the provider
    refuses a request that had no key.
    """

    def __init__(
        self,
        name: str,
        url: str,
        *,
        headers: Callable[[], Mapping[str, str]],
        encode: Encode,
        decoder: Callable[[], Decoder],
        key_hint: str,
        options: HttpOptions,
    ) -> None:
        self.name = name
        self._url = httpx2.URL(url)
        self._headers = headers
        self._encode = encode
        self._decoder = decoder
        self._key_hint = key_hint
        self._more_headers = options.get("headers", {})
        self._limits = httpx2.Timeout(
            options.get("idle_timeout_seconds", 300), connect=options.get("connect_timeout_seconds", 10), pool=None
        )
        if self._url.scheme not in ("http", "https") or not self._url.host:
            raise DefinitionError(f"the address of a provider begins with http:// or https://: {url!r} does not")

    def stream_turn(self, request: TurnRequest) -> Flow[TurnEvent, Turn]:
        return Flow(lambda out: self._turn(out, request))

    async def _turn(self, out: Sink[TurnEvent], request: TurnRequest) -> Turn:
        body = json_bytes(self._encode(request, self.name))
        headers = {
            "content-type": "application/json",
            "accept": "text/event-stream",
            "accept-encoding": "identity",  # what is compressed is held back until there is enough of it
            **{name.lower(): value for name, value in {**self._headers(), **self._more_headers}.items()},
        }
        async with post(self._url, body, headers, limits=self._limits, key_hint=self._key_hint) as answer:
            return await run_turn(out, self.name, request, decoded(answer, self._decoder()))

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.name} at {self._url.host}>"


class Answer:
    """The body of an answer that is a stream: bytes as they come. Raises ConnectionFailed where it breaks."""

    def __init__(self, response: httpx2.Response) -> None:
        self.response = response
        is_plain = response.headers.get("content-encoding", "identity") == "identity"
        self._pieces = response.aiter_raw() if is_plain else response.aiter_bytes()

    def __aiter__(self) -> AsyncIterator[bytes]:
        return self

    async def __anext__(self) -> bytes:
        try:
            return await anext(self._pieces)
        except (httpx2.TransportError, httpx2.DecodingError) as error:
            raise _connection_failed(error, self.response.request) from error

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
        with contextlib.suppress(ConnectionFailed), anyio.move_on_after(REST_SECONDS):
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


@contextlib.asynccontextmanager
async def post(
    url: httpx2.URL, body: bytes, headers: Mapping[str, str], *, limits: httpx2.Timeout, key_hint: str = ""
) -> AsyncGenerator[Answer, None]:
    """The answer to a request, for as long as the block is open.

    Raises ConnectionFailed where there is none, ProviderError for one that says no, NotAStream for a page or a JSON
    body. A ModelError that comes out of the block gets status and request id of the answer. No error holds a header.
    """
    client = await _client_of_this_loop()
    request = client.build_request("POST", url, content=body, headers=dict(headers), timeout=limits)
    answer: Answer | None = None
    try:
        answer = Answer(await _send(client, request))
        await _refuse_what_is_no_stream(answer, key_hint if "authorization" not in headers else "")
        yield answer
        await answer.read_rest()
    except ModelError as error:
        error.args = (without_secrets(str(error), headers.values()),)
        if answer is not None:
            error.status = error.status or answer.response.status_code
            error.request_id = error.request_id or _request_id(answer.response)
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
        raise _connection_failed(error, request) from error


def _connection_failed(error: httpx2.RequestError, request: httpx2.Request) -> ConnectionFailed:
    host, limits = request.url.host, request.extensions["timeout"]
    match error:
        case httpx2.ConnectTimeout():
            return ConnectionFailed(f"{host} could not be reached in {limits['connect']:g} seconds")
        case httpx2.ReadTimeout():
            return ConnectionFailed(f"{host} sent nothing for {limits['read']:g} seconds")
        case httpx2.ConnectError():
            return ConnectionFailed(f"{host} could not be reached: {error}")
    return ConnectionFailed(f"the connection to {host} broke: {str(error) or type(error).__name__}")


# Answers that are no stream


async def _refuse_what_is_no_stream(answer: Answer, key_hint: str) -> None:
    response = answer.response
    kind = response.headers.get("content-type", "").partition(";")[0].strip().lower()
    is_page = kind in ("text/html", "application/xhtml+xml")
    if response.is_success and not is_page and kind != "application/json":
        return
    text = await answer.text()
    words = _title(text) if is_page else words_of(parsed(text) or response.reason_phrase)
    if not response.is_success:
        told = f"the provider answered {response.status_code} {response.reason_phrase}: {words}"
        hint = f"; {key_hint}" if key_hint and response.status_code in (401, 403) else ""
        if response.status_code in (301, 302, 307, 308, 404, 405):
            url = response.request.url
            hint = f"; asked was {url.scheme}://{url.netloc.decode()}{url.path}, see base_url"
        raise ProviderError(told + hint, retry_after=retry_after(response.headers))
    if is_page:
        raise NotAStream(f"the answer is a web page: {words}")
    if tells_an_error(parsed(text)):
        raise ProviderError(words, retry_after=retry_after(response.headers))
    raise NotAStream("the answer is one JSON body instead of a stream of events")


def _title(page: str) -> str:
    before, _, rest = page.partition("<title>")
    title = rest.partition("</title>")[0] if rest else before
    return shortened(title)[:200] or "without a title"


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


def _request_id(response: httpx2.Response) -> str | None:
    names = ("x-request-id", "request-id", "x-amzn-requestid", "cf-ray")
    return next((response.headers[name] for name in names if name in response.headers), None)


def without_secrets(message: str, values: Iterable[str]) -> str:
    """The message, with nothing in it of what the headers held: some providers repeat the key that they refuse."""
    for value in values:
        for secret in {value, value.removeprefix("Bearer ")}:
            if len(secret) >= 8:
                message = message.replace(secret, "[hidden]")
    return message


# Requests


def json_bytes(body: dict[str, Any]) -> bytes:
    """A body as JSON. Halves of characters, which a history may hold, but UTF-8 cannot, become U+FFFD."""
    try:
        return msgspec.json.encode(body)
    except UnicodeEncodeError:
        return msgspec.json.encode(whole(body))


# The client


_NO_PROXY = {f"all://{host}": None for host in ("localhost", "127.0.0.1", "[::1]")}
"""What the environment says of proxies is not meant for this machine, whether it says so or not."""


async def _client_of_this_loop() -> httpx2.AsyncClient:
    try:
        return _kept.get()[1]
    except LookupError:
        keeper = _keep_client()
        client = await anext(keeper)  # without a switch to another task
        _kept.set((keeper, client))
        return client


async def _keep_client() -> AsyncGenerator[httpx2.AsyncClient, None]:
    """A client, open until this generator is closed; see the top of the file for who does that."""
    limits = httpx2.Limits(max_connections=None, max_keepalive_connections=100, keepalive_expiry=60)
    no_cookies = CookieJar(DefaultCookiePolicy(allowed_domains=[]))  # one user's would reach another's requests
    async with httpx2.AsyncClient(
        limits=limits, cookies=no_cookies, mounts=_NO_PROXY, headers={"user-agent": "streamkit"}
    ) as client:
        yield client


_kept: anyio.lowlevel.RunVar[tuple[AsyncGenerator[httpx2.AsyncClient, None], httpx2.AsyncClient]] = (
    anyio.lowlevel.RunVar("streamkit_http_client")
)
