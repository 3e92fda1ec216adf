"""Generators of users: driven and closed in one task, whatever they hold. With cases of `cases/tool_execution.json`."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from typing import Any

import anyio
import anyio.lowlevel
import pytest

from streamkit.execution.execute import execute_all
from streamkit.flows.channel import QUOTA_LIMIT
from streamkit.testing.grammar import check_grammar
from streamkit.tool_events import Failure, Intermediate, Value
from streamkit.tools.decorators import streaming_tool
from streamkit.tools.reducers import Reducer
from streamkit.tools.toolkit import Toolkit

from ..calling import GUARD_SECONDS, call, collect_garbage, run


@pytest.mark.parametrize("held", ["nothing", "timeout", "task group"])
@pytest.mark.parametrize("taken", [1, 2, 3, None])
async def test_a_generator_is_driven_and_closed_in_one_task(held: str, taken: int | None) -> None:
    tasks: list[Any] = []
    block: dict[str, Any] = {
        "nothing": contextlib.nullcontext,
        "timeout": lambda: anyio.fail_after(GUARD_SECONDS),
        "task group": anyio.create_task_group,
    }

    async def numbers() -> AsyncIterator[int]:
        for number in range(4):
            tasks.append(anyio.get_current_task().id)
            yield number

    @streaming_tool(finalize=len)
    async def gen() -> AsyncIterator[int]:
        """Holds something across its yields."""
        try:
            if held == "task group":
                async with anyio.create_task_group() as group:
                    group.start_soon(anyio.sleep_forever)
                    async for number in numbers():
                        yield number
                    group.cancel_scope.cancel()
            else:
                with block[held]():
                    async for number in numbers():
                        yield number
        finally:
            tasks.append(anyio.get_current_task().id)

    seen = 0
    async with execute_all(Toolkit(gen), [call(gen)]).open() as events:
        async for event in events:
            seen += isinstance(event, Intermediate)
            if seen == taken:
                break
    assert len(set(tasks)) == 1
    assert len(tasks) > (taken or 4), "the generator was closed when the block was left"
    collect_garbage()


@pytest.mark.parametrize("anyio_backend", ["asyncio"])
@pytest.mark.parametrize("way", ["to the end", "one event", "one event under wait_for"])
async def test_native_scopes_of_asyncio_may_be_held_across_a_yield(way: str) -> None:
    @streaming_tool(finalize=sum)
    async def timed() -> AsyncIterator[int]:
        """Holds a native time limit."""
        async with asyncio.timeout(GUARD_SECONDS):
            yield 1
            await asyncio.sleep(0)
            yield 2

    @streaming_tool(finalize=sum)
    async def grouped() -> AsyncIterator[int]:
        """Holds a native task group."""
        async with asyncio.TaskGroup() as group:
            child = group.create_task(asyncio.sleep(0))
            yield 1
            await child
            yield 2

    kit = Toolkit(timed, grouped)
    async with execute_all(kit, [call(timed), call(grouped)]).open() as events:
        if way == "to the end":
            assert len([event async for event in events]) == 8
        elif way == "one event":
            await anext(events)
        else:
            await asyncio.wait_for(anext(events), GUARD_SECONDS)
    if way == "to the end":
        assert [result.value for result in events.value if isinstance(result, Value)] == [3, 3]
    collect_garbage()


async def test_a_scope_of_the_generator_that_fires_in_our_send_is_the_generators() -> None:
    blocked = anyio.Event()

    @streaming_tool(finalize=list)
    async def gen() -> AsyncIterator[str]:
        """Its own time limit fires while its event waits for a slow consumer."""
        with anyio.move_on_after(GUARD_SECONDS) as scope:
            for number in range(10 * QUOTA_LIMIT):
                if number == 5 * QUOTA_LIMIT:
                    blocked.set()
                yield str(number)
                if blocked.is_set():
                    scope.cancel()
        yield "went on"

    events, (result,) = await run(gen)
    assert isinstance(result, Value)
    assert result.value[-1] == "went on"
    check_grammar(events)


@pytest.mark.parametrize("tool_ends", ["never", "raises in its cleanup", "swallows one cancellation"])
async def test_leaving_early_is_clean_whatever_the_tools_do(tool_ends: str, caplog: pytest.LogCaptureFixture) -> None:
    cleaned: list[str] = []

    def endless(name: str) -> Any:
        async def gen() -> AsyncIterator[int]:
            """Never ends."""
            try:
                while True:
                    yield 1
                    try:
                        await anyio.sleep(0.001)
                    except anyio.get_cancelled_exc_class():
                        if tool_ends != "swallows one cancellation":
                            raise
            finally:
                cleaned.append(name)
                if tool_ends == "raises in its cleanup":
                    raise ValueError("in cleanup")

        return streaming_tool(gen, name=name, finalize=len)

    one, two = endless("one"), endless("two")
    seen = 0
    async with execute_all(Toolkit(one, two), [call(one), call(two)]).open() as events:
        async for event in events:
            seen += isinstance(event, Intermediate)
            if seen == 3:
                break
    assert sorted(cleaned) == ["one", "two"]
    collect_garbage()


async def test_a_generator_finishes_its_shielded_cleanup_before_the_block_is_left() -> None:
    log: list[str] = []

    @streaming_tool(finalize=len)
    async def gen() -> AsyncIterator[int]:
        """Cleans up slowly."""
        try:
            while True:
                yield 1
                await anyio.lowlevel.checkpoint()
        finally:
            with anyio.CancelScope(shield=True):
                await anyio.lowlevel.checkpoint()
                log.append("closed")

    async with execute_all(Toolkit(gen), [call(gen)]).open() as events:
        async for event in events:
            if isinstance(event, Intermediate):
                break
    assert log == ["closed"]
    collect_garbage()


async def test_closing_errors_are_logged_and_change_nothing(caplog: pytest.LogCaptureFixture) -> None:
    def fail(state: int, event: int) -> int:
        raise ValueError("reducer")

    @streaming_tool(reduce=Reducer(int, fail, lambda state: state))
    async def gen() -> AsyncIterator[int]:
        """Raises when it is closed."""
        try:
            yield 1
        finally:
            raise LookupError("in cleanup")

    _, (result,) = await run(gen)
    assert isinstance(result, Failure)
    assert result.kind == "reducer_failed"
    assert "closing" in caplog.text
