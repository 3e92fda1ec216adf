"""Models behind HTTP: each turn is one request, or some more where it has to be asked for again."""

from __future__ import annotations

import logging
import math
from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from ..codec.surrogates import whole
from ..errors import DefinitionError, ModelError
from ..flows.flow import Flow, Sink
from ..tool_input import BOUNDS
from ..turns import Turn, TurnEvent, TurnRequest
from .client import client_of_this_loop, httpx2, new_client
from .exchange import post
from .model import Decoder, TurnRun, check_request_given, decoded
from .options import HttpOptions
from .retrying import Patience, seconds_to_wait

Encode = Callable[[TurnRequest, str], dict[str, Any]]
"""A request, and the name of the model, to the body that asks for the turn."""

logger = logging.getLogger("streamkit")


class HttpModel:
    """A model behind HTTP. How it is spoken to comes from its dialect.

    headers: with the key, asked for each request; they are secrets, and appear nowhere. key_hint: said where the
    provider refuses a request that had no key.
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
        self._url = _checked_url(url)
        self._headers = headers
        self._encode = encode
        self._decoder = decoder
        self._key_hint = key_hint
        self._options = _checked_options(options)
        self._bounds = options.get("bounds", BOUNDS)
        self._idle_seconds = options.get("idle_timeout_seconds", 300.0)
        self._limits = httpx2.Timeout(
            self._idle_seconds, connect=options.get("connect_timeout_seconds", 10.0), pool=None
        )
        transport = options.get("transport")
        self._own_client = None if transport is None else new_client(transport)

    def stream_turn(self, request: TurnRequest) -> Flow[TurnEvent, Turn]:
        check_request_given(request)
        return Flow(lambda out: self._turn(out, request))

    async def _turn(self, out: Sink[TurnEvent], request: TurnRequest) -> Turn:
        """Ask until there is a turn, or a reason not to ask again."""
        body = json_bytes(self._encode(request, self.name))
        total_seconds = self._options.get("total_timeout_seconds", math.inf)
        patience = Patience(self._url.host, self._idle_seconds, total_seconds, hears_silence=self._own_client is None)
        retries, restart = self._options.get("retries", 2), self._options.get("restart", False)
        failures = 0
        async with TurnRun(out, self.name, request, self._bounds) as run:
            while True:
                try:
                    return await self._ask(run, body, patience)
                except ModelError as error:
                    failures += 1
                    seconds = seconds_to_wait(error, failures, has_shown=run.has_shown, restart=restart)
                    if failures > retries or seconds is None or seconds >= patience.left:
                        raise
                    told = "asking %s again in %.1f s (%d of %d times): %s"
                    logger.warning(told, self._url.host, seconds, failures, retries, error)
                await patience.sleep(seconds)

    async def _ask(self, run: TurnRun, body: bytes, patience: Patience) -> Turn:
        client = self._own_client or await client_of_this_loop()
        headers = {**self._headers(), **self._options.get("headers", {})}
        asking = post(client, self._url, body, headers, limits=self._limits, patience=patience, key_hint=self._key_hint)
        async with asking as answer:
            limit_bytes = self._bounds.body_bytes
            return await run.read(decoded(answer, self._decoder(), patience.heard, limit_bytes=limit_bytes))

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.name} at {self._url.host}>"


def _checked_url(url: str) -> httpx2.URL:
    parsed = httpx2.URL(url)
    if parsed.scheme not in ("http", "https") or not parsed.host:
        raise DefinitionError(f"the address of a provider begins with http:// or https://: {url!r} does not")
    if parsed.userinfo:
        raise DefinitionError(f"the address of {parsed.host} holds a password: give it as a header, which no log shows")
    return parsed


def _checked_options(options: HttpOptions) -> HttpOptions:
    for name in options.keys() & set(TurnRequest.__struct_fields__):
        raise DefinitionError(f"{name} is asked of a turn, not of a connection: TurnRequest(…, {name}=…)")
    if unknown := options.keys() - HttpOptions.__annotations__.keys():
        known = ", ".join(HttpOptions.__annotations__)
        raise DefinitionError(f"there is no option {', '.join(sorted(unknown))} of a connection, only {known}")
    for name, value in options.items():
        if name.endswith("_seconds") and not (isinstance(value, int | float) and value > 0):
            raise DefinitionError(f"{name} is a number of seconds above 0, not {value!r}")
    if options.get("retries", 0) < 0:
        raise DefinitionError(f"retries is a number from 0 upwards, not {options['retries']}")
    return options


def json_bytes(body: dict[str, Any]) -> bytes:
    """A body as JSON. Halves of characters, which a history may hold, but UTF-8 cannot, become U+FFFD."""
    try:
        return msgspec.json.encode(body)
    except UnicodeEncodeError:
        return msgspec.json.encode(whole(body))
