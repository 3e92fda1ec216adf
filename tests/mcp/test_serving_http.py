"""Tools of ours over HTTP: as an application of its own, and mounted in another."""

import socket
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from typing import Any

import anyio
import anyio.to_thread
import httpx2
import pytest
import uvicorn
from mcp import Client
from starlette.applications import Starlette
from starlette.routing import Mount

from streamkit.execution.execute import execute_all
from streamkit.flows.flow import Sink
from streamkit.mcp import Connection, Progress, server_of
from streamkit.tool_events import Intermediate, Value
from streamkit.tools.decorators import streaming_tool, tool
from streamkit.tools.reducers import last
from streamkit.tools.toolkit import Toolkit

from ..calling import collect, intermediates
from ..interop.serving import KEEP_ALIVE_SECONDS
from .servers import MODES, Mode, calls

GUARD_SECONDS = 60

# Of an answer over HTTP the SDK leaves generators unclosed, and trio tells of that.
pytestmark = pytest.mark.filterwarnings("ignore:Async generator 'http:ResourceWarning")


@contextmanager
def served(make: Callable[[], Starlette]) -> Iterator[str]:
    """The address of an application that is made and runs in a thread, since uvicorn runs on asyncio alone."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        server = uvicorn.Server(
            uvicorn.Config(make, factory=True, log_level="error", timeout_keep_alive=KEEP_ALIVE_SECONDS)
        )
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listening]})
        thread.start()
        try:
            yield f"http://127.0.0.1:{listening.getsockname()[1]}"
        finally:
            server.should_exit = True
            thread.join()


class Tools:
    def __init__(self) -> None:
        self.cleaned_up = threading.Event()
        counts = streaming_tool(self.counts, name="counts", reduce=last(int))
        self.toolkit = Toolkit(tool(self.hangs, name="hangs"), counts)

    def app(self, **options: Any) -> Starlette:
        return server_of(self.toolkit, name="ours").streamable_http_app(**options)

    def mounted(self) -> Starlette:
        inner = self.app(streamable_http_path="/")

        @asynccontextmanager
        async def lifespan(app: Starlette) -> AsyncIterator[None]:
            async with inner.router.lifespan_context(inner):
                yield

        return Starlette(routes=[Mount("/tools", inner)], lifespan=lifespan)

    async def hangs(self, out: Sink[str]) -> None:
        """Hangs."""
        try:
            await out.send("begun")
            await anyio.sleep_forever()
        finally:
            self.cleaned_up.set()

    async def counts(self) -> AsyncIterator[int]:
        """Counts."""
        for number in (1, 2, 3):
            yield number


@pytest.mark.parametrize("mode", MODES)
async def test_calls_show_their_events_and_are_cancelled(mode: Mode) -> None:
    tools = Tools()
    with served(tools.app) as url, anyio.fail_after(GUARD_SECONDS):
        async with Connection(Client(f"{url}/mcp", mode=mode)) as connection:
            toolkit = await connection.toolkit()
            events, (counted,) = await collect(execute_all(toolkit, calls("counts")))
            assert isinstance(counted, Value)
            assert counted.value == "3"
            assert intermediates(events, "counts") == [Progress(number, None, str(number)) for number in (1, 2, 3)]
            async with execute_all(toolkit, calls("hangs")).open() as hanging:
                async for event in hanging:
                    if isinstance(event, Intermediate):
                        break
            assert await anyio.to_thread.run_sync(tools.cleaned_up.wait, GUARD_SECONDS)


async def test_it_is_mounted_in_an_application_together_with_its_lifespan() -> None:
    with served(Tools().mounted) as url, anyio.fail_after(GUARD_SECONDS):
        async with Connection(f"{url}/tools/") as connection:
            (counted,) = await execute_all(await connection.toolkit(), calls("counts"))
    assert isinstance(counted, Value)


async def test_a_page_of_another_site_may_not_call_it() -> None:
    with served(Tools().app) as url:
        async with httpx2.AsyncClient(timeout=GUARD_SECONDS) as client:
            answer = await client.post(f"{url}/mcp", json={}, headers={"origin": "https://example.org"})
    assert answer.status_code == 403
