"""Requests to a server of runs (`streamkit.web`), and errors that say what happened and keep secrets."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, TypedDict

import msgspec

from ..errors import ConnectionFailed, DefinitionError, RemoteError
from ..providers.client import client_of_this_loop, httpx2, new_client, proxy_hint
from ..providers.exchange import Answer, checked_header, retry_after, without_secrets
from ..providers.failures import parsed, shortened, words_of
from ..providers.options import Transport
from ..providers.retrying import Patience
from .encoding import EVENT_STREAM, json_of

NO_CONTENT = 204


class RemoteOptions(TypedDict, total=False):
    """What can be told of the connection to a server of runs."""

    headers: Mapping[str, str]
    """Added to each request, such as `authorization`. They are secrets: no error shows them."""
    connect_timeout_seconds: float
    """Until the server is reached; default 10."""
    idle_timeout_seconds: float
    """The longest time without a byte, after which the connection counts as lost; default 60. Servers send comments
    while a run has nothing to say."""
    reconnects: int
    """How often a lost connection is tried again before it is given up, counted anew when something came; default 5."""
    transport: Transport
    """Sends the requests, in place of connections of its own: any asynchronous transport of httpx2."""


class Server:
    """A server of runs. url: where its app is mounted."""

    def __init__(self, url: str, options: RemoteOptions) -> None:
        if unknown := options.keys() - RemoteOptions.__annotations__.keys():
            known = ", ".join(RemoteOptions.__annotations__)
            raise DefinitionError(f"there is no option {', '.join(sorted(unknown))} of a remote run, only {known}")
        self._url = _checked_url(url)
        self._headers = {
            name.lower(): checked_header(name, value) for name, value in options.get("headers", {}).items()
        }
        idle_seconds = options.get("idle_timeout_seconds", 60.0)
        self._limits = httpx2.Timeout(idle_seconds, connect=options.get("connect_timeout_seconds", 10.0), pool=None)
        transport = options.get("transport")
        self._own_client = None if transport is None else new_client(transport)
        self.reconnects = options.get("reconnects", 5)

    async def ask(self, method: str, path: str, body: Any = None, *, behind: int = 0) -> Answer:
        """The answer to a request; whoever asks closes it. behind: the number of the last frame that is known.

        Raises ConnectionFailed where there is none, RemoteError for one that says no.
        """
        client = self._own_client or await client_of_this_loop()
        request = client.build_request(
            method,
            f"{self._url}{path}",
            content=None if body is None else _written(body),
            headers={
                "accept": "text/event-stream, application/json",
                **({"last-event-id": str(behind)} if behind else {}),
                **self._headers,
            },
            timeout=self._limits,
        )
        # A silence that is too long is heard by the connection itself.
        patience = Patience(self._url.host, math.inf, math.inf, hears_silence=True)
        try:
            answer = Answer(await client.send(request, stream=True), patience)
        except httpx2.TransportError as error:
            raise self._failure(error) from error
        if not answer.response.is_success:
            try:
                raise await self._refusal(answer)
            finally:
                await answer.close()
        return answer

    async def check_stream(self, answer: Answer) -> None:
        """Raises RemoteError for an answer that is something else than a stream of events."""
        kind = answer.response.headers.get("content-type", "")
        if kind.partition(";")[0].strip().lower() != EVENT_STREAM:
            told = without_secrets(shortened(await answer.text())[:200], self._headers.values())
            raise RemoteError(f"the answer is not a stream of events, but {kind or 'of no type'}: {told}")

    def _failure(self, error: httpx2.TransportError) -> ConnectionFailed:
        told = without_secrets(str(error) or type(error).__name__, self._headers.values())
        return ConnectionFailed(f"{self._url.host} could not be reached{proxy_hint(self._url)}: {told}")

    async def _refusal(self, answer: Answer) -> RemoteError:
        response = answer.response
        words = without_secrets(words_of(parsed(await answer.text()) or response.reason_phrase), self._headers.values())
        message = f"the server answered {response.status_code}: {words}"
        return RemoteError(message, status=response.status_code, retry_after=retry_after(response.headers))


def _written(body: Any) -> bytes:
    try:
        return msgspec.json.encode(body)
    except UnicodeEncodeError:
        return json_of(body)


def _checked_url(url: str) -> httpx2.URL:
    try:
        parsed_url = httpx2.URL(url.rstrip("/"))
    except httpx2.InvalidURL as error:
        raise DefinitionError(f"{url!r} is not the address of a server: {error}") from error
    if parsed_url.scheme not in ("http", "https") or not parsed_url.host:
        raise DefinitionError(f"the address of a server begins with http:// or https://: {url!r} does not")
    return parsed_url
