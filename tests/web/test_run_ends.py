"""The end of a run: whoever has read of it may speak on at once, however long it takes to put everything away."""

import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import anyio.lowlevel
import pytest
from starlette.types import Message

from streamkit.journal.journals import Journal
from streamkit.journal.memory import MemoryStore
from streamkit.testing.leftovers import nothing_left
from streamkit.web import WebApp, app

from .asgi import Exchange, ask
from .serving import JSON, Agent, post, types


class SlowToRelease(MemoryStore):
    """As where a thread has to close a file."""

    @asynccontextmanager
    async def hold(self, run_id: str) -> AsyncIterator[None]:
        async with super().hold(run_id):
            yield
            for _ in range(200):
                await anyio.lowlevel.checkpoint()


class SpeaksOn(Exchange):
    """A client that does something with the id of its run as soon as it has read the end. done: what that gave."""

    def __init__(self, body: Any, then: Callable[[str], Awaitable[Exchange]]) -> None:
        super().__init__(json.dumps(body).encode())
        self._then = then
        self.done: list[Exchange] = []

    async def send(self, message: Message) -> None:
        await super().send(message)
        if b'"finish"' in message.get("body", b""):
            self.done.append(await self._then(self.headers["x-run-id"]))


def served(agent: Agent, kind: str) -> WebApp:
    journal = None if kind == "no journal" else Journal(SlowToRelease())
    return app(agent, journal=journal, resumable=kind == "resumable", max_runs=1)


@pytest.mark.parametrize("kind", ["no journal", "journal", "resumable"])
async def test_who_has_read_the_end_of_a_run_may_go_on_with_it_at_once(kind: str) -> None:
    served_app = served(Agent(["Hello"]), kind)

    async def go_on(run_id: str) -> Exchange:
        return await post(served_app, "/runs", {"message": "And now?", "after": run_id})

    async with nothing_left(), served_app.lifespan():
        asked = SpeaksOn({"message": "Hi"}, go_on)
        await ask(served_app, "POST", "/runs", headers=JSON, exchange=asked)
    (after,) = asked.done
    assert (after.status, types(after)[-1]) == (200, "finish")
