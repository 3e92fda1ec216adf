"""Who may ask, and how much: origin, user, and a body that is JSON and has an end. Whatever is refused raises
HTTPException, before anything was done.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Awaitable, Callable, Collection, Sized
from contextlib import aclosing, suppress
from typing import Any, TypeVar

import anyio
import msgspec
from starlette.exceptions import HTTPException
from starlette.requests import Request

from ..codec.strict_json import strict_json
from ..codec.surrogates import whole

BODY_SECONDS = 30.0
"""How long a client may take to send its body."""

MAX_DEPTH = 64
"""Of lists and objects in a body, one inside of the other. What is read is written again, deeper in the stack."""

Authenticate = Callable[[Request], Awaitable[Any] | Any]

B = TypeVar("B")


class Guards:
    """What every route asks first. authenticate: who asks; None where the app knows no users."""

    def __init__(
        self, *, authenticate: Authenticate | None, allowed_origins: Collection[str], max_body_bytes: int
    ) -> None:
        if isinstance(allowed_origins, str):  # of which each part would be allowed
            raise TypeError(f"allowed_origins is a list of origins, such as [{allowed_origins!r}], and no text")
        for origin in allowed_origins:
            # No browser sends another, but for "null", which any page may make it send.
            if origin != "*" and re.fullmatch(r"[a-z][a-z0-9+.-]*://[^/*\sA-Z]+", origin) is None:
                raise ValueError(f"allowed_origins: an origin is like 'https://example.org:8000', and not {origin!r}")
        self._authenticate = authenticate
        self._allowed_origins = allowed_origins
        self._max_body_bytes = max_body_bytes

    async def user(self, request: Request) -> Any:
        """The user who asks, where what they ask for may be asked."""
        if request.method not in ("GET", "HEAD"):
            check_origin(request, self._allowed_origins)
        return await identify(request, self._authenticate)

    async def user_and_body(self, request: Request, kind: type[B]) -> tuple[Any, B]:
        """The user who asks, and the body as a record."""
        user = await self.user(request)
        return user, await read_body(request, kind, self._max_body_bytes)


def check_origin(request: Request, allowed: Collection[str]) -> None:
    """Refuse what a page of elsewhere makes a browser send, cookies included. Programs name no origin."""
    origin = request.headers.get("origin")
    if origin is None or origin in allowed or "*" in allowed:
        return
    _, _, host = origin.partition("://")  # a proxy may have ended TLS, so the scheme says nothing
    if not host or host.lower() != request.headers.get("host", "").lower():
        raise HTTPException(403, "requests from this origin are not allowed")


async def identify(request: Request, authenticate: Authenticate | None) -> Any:
    """The user who asks; None where the app knows no users."""
    if authenticate is None:
        return None
    user = authenticate(request)
    if inspect.isawaitable(user):
        user = await user
    # False and what is empty: of a hook that says whether somebody is known, or reads a header that is not there.
    if user is None or user is False or (isinstance(user, Sized) and not len(user)):
        raise HTTPException(401, "the user is not known")
    return user


async def read_body(request: Request, kind: type[B], max_bytes: int) -> B:
    """The JSON body, as a record."""
    kind_sent = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind_sent != "application/json":  # others are sent by a form of any page, without a question before
        raise HTTPException(415, "the body has to be application/json")
    written = await _read(request, max_bytes)
    try:
        value = _decoded(written)
        if _is_deeper(value, MAX_DEPTH):
            raise HTTPException(400, f"the body is nested deeper than {MAX_DEPTH}")
        return msgspec.convert(value, kind)
    except msgspec.ValidationError as error:
        raise HTTPException(422, f"the body does not fit: {error}") from error
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise HTTPException(400, f"the body is not JSON: {error}") from error
    except RecursionError as error:
        raise HTTPException(400, "the body is nested too deeply") from error


def _decoded(written: bytes) -> Any:
    """The JSON value. Half a character, as JavaScript cuts and writes them, becomes U+FFFD and makes no body unread."""
    try:
        return msgspec.json.decode(written)
    except msgspec.DecodeError:
        if b"\\ud" in written.lower():
            with suppress(ValueError):
                return whole(strict_json(written.decode()))
        raise


async def _read(request: Request, max_bytes: int) -> bytes:
    too_large = HTTPException(413, f"the body has more than {max_bytes} bytes")
    said = request.headers.get("content-length", "")
    if said.isdecimal() and int(said) > max_bytes:
        raise too_large
    written = bytearray()
    with anyio.move_on_after(BODY_SECONDS) as patience:
        async with aclosing(request.stream()) as pieces:
            async for piece in pieces:
                written += piece
                if len(written) > max_bytes:
                    raise too_large
    if patience.cancelled_caught:
        raise HTTPException(408, f"the body did not come within {BODY_SECONDS:g} seconds")
    return bytes(written)


def _is_deeper(value: Any, limit: int) -> bool:
    level = [value]
    for _ in range(limit):
        level = [
            inner
            for outer in level
            if isinstance(outer, dict | list)
            for inner in (outer.values() if isinstance(outer, dict) else outer)
        ]
        if not level:
            return False
    return any(isinstance(outer, dict | list) for outer in level)
