"""Time limits of a call count our waiting for the tool, and nothing else. Time is in ticks of the event loop."""

from collections.abc import AsyncIterator
from typing import Any

import anyio

from streamkit.execution.desk import ApprovalDesk
from streamkit.execution.execute import execute_all
from streamkit.flows.channel import QUOTA_LIMIT
from streamkit.flows.flow import Flow
from streamkit.tool_events import ApprovalRequested, Failure, Intermediate, Value, walk
from streamkit.tools.decorators import streaming_tool, tool
from streamkit.tools.toolkit import Toolkit

from ..attacks import ticking
from ..calling import call, intermediates, run


@ticking
async def test_a_tool_over_its_time_is_cut_off_and_the_other_is_not() -> None:
    log: list[str] = []

    @tool(timeout_seconds=100)
    async def a() -> None:
        """Sleeps."""
        try:
            await anyio.sleep_forever()
        finally:
            log.append("a cleaned up")

    @tool
    async def b() -> str:
        """Returns at once."""
        return "b"

    _, (slow, fast) = await run(a, b)
    assert isinstance(slow, Failure)
    assert (slow.kind, slow.message) == ("timeout", "a did not finish within 100 seconds.")
    assert isinstance(fast, Value)
    assert log == ["a cleaned up"]


@ticking
async def test_the_idle_limit_starts_anew_with_each_event() -> None:
    @streaming_tool(finalize=len, idle_timeout_seconds=100, timeout_seconds=10_000)
    async def gen() -> AsyncIterator[int]:
        """Falls silent."""
        for number in range(5):
            yield number
        await anyio.sleep_forever()

    events, (result,) = await run(gen)
    assert intermediates(events, "gen") == [0, 1, 2, 3, 4]
    assert isinstance(result, Failure)
    assert (result.kind, result.message) == ("idle_timeout", "gen gave no sign of life for 100 seconds.")


@ticking
async def test_a_slow_consumer_does_not_count_as_time_of_the_tool() -> None:
    @streaming_tool(finalize=len, timeout_seconds=1000, idle_timeout_seconds=1000)
    async def gen() -> AsyncIterator[int]:
        """Waits for its consumer."""
        for number in range(3 * QUOTA_LIMIT):
            yield number

    async with execute_all(Toolkit(gen), [call(gen)]).open() as events:
        async for event in events:
            if isinstance(event, Intermediate) and event.data == 0:
                await anyio.sleep(1200)
    (result,) = events.value
    assert isinstance(result, Value)


@ticking
async def test_a_person_who_decides_about_an_inner_call_does_not_count_as_time_of_the_outer() -> None:
    @tool(approval=True)
    async def send() -> str:
        """Send a mail."""
        return "sent"

    desk = ApprovalDesk()

    @tool(timeout_seconds=1000, idle_timeout_seconds=1000)
    def delegate() -> Flow[Any, Any]:
        """Let another run do it."""
        return execute_all(Toolkit(send), [call(send)], authorize=desk.authorize).then(len)

    async with execute_all(Toolkit(delegate), [call(delegate)]).open() as events:
        async for event in events:
            if isinstance(walk(event)[1], ApprovalRequested):
                await anyio.sleep(1200)
                desk.allow(desk.questions[0].execution_id)
    (result,) = events.value
    assert isinstance(result, Value)


@ticking
async def test_a_result_that_came_in_spite_of_the_limit_counts() -> None:
    @tool(timeout_seconds=10)
    async def commits() -> str:
        """Must not be cut off in the middle."""
        with anyio.CancelScope(shield=True):
            await anyio.sleep(30)
        return "committed"

    _, (result,) = await run(commits)
    assert isinstance(result, Value)
    assert result.value == "committed"
