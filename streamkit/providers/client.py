"""Connections to providers.

All models of an event loop share one client, so that a turn finds a connection open. Nobody has to close it: an
asynchronous generator holds it, and event loops, asyncio's and trio's, close what generators they know when they end.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator
from http.cookiejar import CookieJar, DefaultCookiePolicy
from urllib.request import getproxies, proxy_bypass

import anyio.lowlevel

from ..errors import DefinitionError
from .options import Transport

try:
    import httpx2
except ImportError as missing:
    raise ImportError("to speak HTTP install httpx2: pip install 'streamkit-tools[http]'") from missing

__all__ = [
    "client_of_this_loop",
    "httpx2",
    "new_client",
    "proxy_hint",
]  # httpx2 for who needs the error above

_HEADERS = {
    "user-agent": "streamkit",
    "content-type": "application/json",
    "accept": "text/event-stream",
    "accept-encoding": "identity",  # what is compressed is held back until there is enough of it
}
"""Of every request, unless it says otherwise: merged anew for each they would cost more than its own."""

_NO_PROXY = {f"all://{host}": None for host in ("localhost", "127.0.0.1", "[::1]")}
"""What the environment says of proxies is not meant for this machine, whether it says so or not."""


def new_client(transport: Transport | None = None) -> httpx2.AsyncClient:
    """transport: sends the requests, in place of connections of its own."""
    if transport is not None and not isinstance(transport, httpx2.AsyncBaseTransport):
        raise DefinitionError(f"transport is an asynchronous transport of httpx2, not {type(transport).__name__}")
    limits = httpx2.Limits(max_connections=None, max_keepalive_connections=100, keepalive_expiry=60)
    no_cookies = CookieJar(DefaultCookiePolicy(allowed_domains=[]))  # one user's would reach another's requests
    mounts = _NO_PROXY if transport is None else None
    return httpx2.AsyncClient(limits=limits, cookies=no_cookies, mounts=mounts, transport=transport, headers=_HEADERS)


def proxy_hint(url: httpx2.URL) -> str:
    """Said of an address that could not be reached where the environment names a proxy: it may be that one."""
    proxies = getproxies()
    proxy = proxies.get(url.scheme) or proxies.get("all")
    if not proxy or proxy_bypass(url.host) or f"all://{url.host}" in _NO_PROXY:
        return ""
    return f" (the environment names a proxy for it, {proxy.rpartition('@')[2]})"


async def client_of_this_loop() -> httpx2.AsyncClient:
    try:
        return _kept.get()[1]
    except LookupError:
        keeper = _keep_client()
        client = await anext(keeper)  # without a switch to another task
        _kept.set((keeper, client))
        return client


async def _keep_client() -> AsyncGenerator[httpx2.AsyncClient, None]:
    """A client, open until this generator is closed; see the top of the file for who does that."""
    async with new_client() as client:
        yield client


_kept: anyio.lowlevel.RunVar[tuple[AsyncGenerator[httpx2.AsyncClient, None], httpx2.AsyncClient]] = (
    anyio.lowlevel.RunVar("streamkit_http_client")
)
