"""One request under way: what is heard of it, and what happens to who does not listen or leaves."""

import anyio
import pytest
from mcp import Client
from mcp.shared.dispatcher import ProgressFnT
from mcp.shared.exceptions import MCPError

from streamkit.errors import McpServerError
from streamkit.mcp import Progress
from streamkit.mcp.exchange import Exchange

from .servers import server

CLIENT = Client(server())


async def test_a_consumer_who_is_slow_hears_the_latest_reports() -> None:
    async def flood(client: Client, hear: ProgressFnT) -> str:
        for number in range(5000):
            await hear(number, None, None)
        return "done"

    exchange = Exchange(flood)
    await exchange.run(CLIENT)
    assert [progress async for progress in exchange] == [Progress(number) for number in range(5000 - 1024, 5000)]
    assert exchange.value("demo", closing=False) == "done"


async def test_a_report_that_comes_after_the_end_is_not_heard() -> None:
    late: list[ProgressFnT] = []

    async def request(client: Client, hear: ProgressFnT) -> None:
        late.append(hear)

    exchange = Exchange(request)
    await exchange.run(CLIENT)
    await late[0](1, None, None)
    assert [progress async for progress in exchange] == []


async def test_who_leaves_ends_it_and_waits_until_it_has_ended() -> None:
    log: list[str] = []

    async def hang(client: Client, hear: ProgressFnT) -> None:
        log.append("begun")
        try:
            await anyio.sleep_forever()
        finally:
            log.append("told the server")

    exchange = Exchange(hang)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(exchange.run, CLIENT)
        while not log:
            await anyio.lowlevel.checkpoint()
        await exchange.leave()
        assert log == ["begun", "told the server"]
    with pytest.raises(McpServerError, match=r"^The connection to the server demo was lost\.$"):
        exchange.value("demo", closing=False)


async def test_an_error_is_the_cause_of_what_is_told() -> None:
    error = MCPError(-32000, "Connection closed")

    async def breaks(client: Client, hear: ProgressFnT) -> None:
        raise error

    exchange = Exchange(breaks)
    await exchange.run(CLIENT)
    with pytest.raises(McpServerError) as told:
        exchange.value("demo", closing=True)
    assert told.value.__cause__ is error
    assert str(told.value) == "The connection to the server demo was closed."
