"""A server behind a URL, whose refusals say what they are.

Where the answer is an error of HTTP, the SDK says only that it was one. That a token is missing (401) is for people to
know, so the status is noted where it comes in, and told where the call hears of it.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from typing import Any

from .sdk import SessionMessage, create_mcp_http_client, streamable_http_client, types
from .unreadable import Readable

_UNTOLD = "Server returned an error response"
"""So the SDK says it."""


@asynccontextmanager
async def reached(url: str) -> AsyncIterator[Any]:
    """A transport to the server."""
    statuses: dict[Any, str] = {}  # of what was refused, by the ids of the requests, until it is told

    async def note(response: Any) -> None:
        if response.is_error and (asked := _id_of(response.request)) is not None:
            statuses[asked] = f"HTTP {response.status_code} {response.reason_phrase}".strip()

    async with create_mcp_http_client() as client:
        client.event_hooks = {"response": [note]}
        async with streamable_http_client(url, http_client=client) as (read, write):
            yield Readable(read, partial(_telling, statuses)), write


def _id_of(request: Any) -> Any:
    return json.loads(request.content).get("id") if request.method == "POST" else None


def _telling(statuses: dict[Any, str], item: Any) -> Any:
    match item:
        case SessionMessage(message=types.JSONRPCError(id=asked, error=error) as refused) if asked in statuses:
            status = statuses.pop(asked)
            if error.message == _UNTOLD:
                told = error.model_copy(update={"message": status})
                return SessionMessage(refused.model_copy(update={"error": told}), item.metadata)
    return item
