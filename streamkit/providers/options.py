"""What every model behind HTTP can be told about its connection."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol, TypedDict

from ..tool_input import Bounds


class Transport(Protocol):
    """What sends requests: any asynchronous transport of httpx2. It belongs to whoever made it, who closes it, too."""

    async def handle_async_request(self, request: Any, /) -> Any: ...

    async def aclose(self) -> None: ...


class HttpOptions(TypedDict, total=False):
    """The keyword arguments that every factory of a model passes on to its connection.

    The time limits count our waiting for the provider alone: how long a consumer takes over an event is not counted.
    """

    headers: Mapping[str, str]
    """Added to each request, over those of the dialect. They are secrets, as a key is."""
    connect_timeout_seconds: float
    """Until the server is reached; default 10."""
    idle_timeout_seconds: float
    """The longest silence of the provider, the one before its first word too; default 300. Bytes that say nothing of
    the turn, such as comments and pings, do not end it. Then the turn raises IdleTimeout."""
    total_timeout_seconds: float
    """For the whole turn, all that is tried included; there is no such limit by default. Then it raises TurnTimeout."""
    retries: int
    """How often a request is made again that failed for a reason that may pass, before anything of the turn was seen:
    nobody answered, the connection broke, or the provider is overloaded (status 408, 409, 429, 500, 502, 503, 504 or
    529, or an error that says so). Default 2. The waits between are those that the provider asks for (Retry-After), a
    minute at most; else half a second, doubled each time up to eight."""
    restart: bool
    """Begin a turn anew, under the same id, whose stream broke when something of it had been seen already: the consumer
    gets TurnRestarted, after its calls were abandoned as retried. Each time counts as one of `retries`. Off by default:
    the turn raises what broke it."""
    bounds: Bounds
    """What one turn may make us hold: see `Bounds`, which has the defaults."""
    transport: Transport
    """Sends the requests, in place of the connections that all models of an event loop share: to record and replay
    turns (`providers.recording`), or one of httpx2 with certificates or a proxy of its own."""
