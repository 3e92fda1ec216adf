"""One running call: its events, its reducer, its limits, and how it ends. With cases of `cases/tool_execution.json`."""

import asyncio
import contextlib
import threading
from collections.abc import AsyncIterator, Iterator
from typing import Any

import anyio
import anyio.lowlevel
import anyio.to_thread
import pytest

from streamkit.errors import SinkClosed, ToolError
from streamkit.execution.execute import execute_all
from streamkit.flows.channel import QUOTA_LIMIT
from streamkit.flows.flow import Flow, Sink, flow
from streamkit.flows.threads import AHEAD
from streamkit.journal.memory import memory_journal
from streamkit.testing.grammar import check_grammar
from streamkit.tool_events import Failure, Intermediate, Output, ToolEvent, Value, walk
from streamkit.tools.decorators import streaming_tool, tool
from streamkit.tools.reducers import Reducer, count, last
from streamkit.tools.tool import Tool, ToolContext, current_sink
from streamkit.tools.toolkit import Toolkit
from streamkit.turns import TextDelta

from ..calling import GUARD_SECONDS, call, intermediates, run

# events and reducers


async def test_the_model_sees_only_what_the_reducer_made() -> None:
    @streaming_tool(finalize=lambda events: events[-1]["result"])
    async def fetch() -> AsyncIterator[dict[str, Any]]:
        """Reports progress."""
        yield {"p": 50}
        yield {"p": 100}
        yield {"result": "x"}

    events, (result,) = await run(fetch)
    assert intermediates(events, "fetch") == [{"p": 50}, {"p": 100}, {"result": "x"}]
    assert isinstance(events[-1], Output)
    assert isinstance(result, Value)
    assert (result.value, result.text) == ("x", "x")


@pytest.mark.parametrize("depth", [501, *range(940, 1000, 4), 100_000])
async def test_a_value_that_is_nested_too_deeply_fails_its_call_alone(depth: int) -> None:
    @tool
    async def deep() -> Any:
        """Gives lists in lists: near the limit of Python they can be written, but not within others."""
        value: list[Any] = []
        for _ in range(depth - 1):
            value = [value]
        return value

    @tool
    async def other() -> str:
        """Runs beside it."""
        return "[" * 1000

    async with memory_journal().drive("r") as journal:
        _, (failed, result) = await run(deep, other, journal=journal)
    assert isinstance(failed, Failure)
    assert failed.kind == "not_serialisable"
    assert isinstance(result, Value)


class Unspeakable:
    def __str__(self) -> str:
        raise LookupError


async def test_errors_that_cannot_be_said_fail_their_call_alone() -> None:
    def refuse() -> None:
        raise ValueError(Unspeakable())

    @tool(check=refuse)
    async def checked() -> None:
        """Is never right."""

    @tool
    async def broken() -> None:
        """Means to say something."""
        raise ToolError(Unspeakable())

    @tool
    async def other() -> int:
        """Runs beside them."""
        return 1

    _, results = await run(checked, broken, other)
    assert [getattr(result, "message", "") for result in results] == [
        "The call of checked did not run: bad arguments", "broken failed.", ""
    ]  # fmt: skip


async def test_events_carry_their_call() -> None:
    @streaming_tool(finalize=len)
    async def counting(n: int) -> AsyncIterator[int]:
        """Counts."""
        for number in range(n):
            yield number
            await anyio.lowlevel.checkpoint()

    one, two = call(counting, {"n": 3}), call(counting, {"n": 3})
    async with execute_all(Toolkit(counting), [one, two]).open() as events:
        seen = [event async for event in events]
    for each in (one, two):
        own = [event for event in seen if event.call_id == each.call_id]
        assert [event.data for event in own if isinstance(event, Intermediate)] == [0, 1, 2]
        assert isinstance(own[-1], Output)


async def test_every_event_goes_to_the_consumer_then_to_the_reducer() -> None:
    order: list[str] = []

    def step(state: int, event: int) -> int:
        order.append(f"reduced {event}")
        return state + event

    @streaming_tool(reduce=Reducer(lambda: 0, step, lambda state: state))
    async def two() -> AsyncIterator[int]:
        """Two events."""
        yield 1
        yield 2

    seen = execute_all(Toolkit(two), [call(two)]).tap(
        lambda event: order.append(f"seen {event.data}") if isinstance(event, Intermediate) else None
    )
    (result,) = await seen
    assert order == ["seen 1", "reduced 1", "seen 2", "reduced 2"]
    assert isinstance(result, Value)
    assert result.value == 3


@pytest.mark.parametrize("where", ["start", "step", "finish", "nothing came"])
async def test_a_reducer_that_fails_is_the_failure_of_its_call_alone(where: str) -> None:
    def fail(*_: object) -> Any:
        raise ZeroDivisionError

    reducers = {
        "start": Reducer(fail, lambda state, event: state, lambda state: state),
        "step": Reducer(int, fail, lambda state: state),
        "finish": Reducer(int, lambda state, event: state, fail),
        "nothing came": last(str),
    }
    closed: list[str] = []

    @streaming_tool(reduce=reducers[where])
    async def gen() -> AsyncIterator[int]:
        """Yields numbers."""
        try:
            yield 1
            yield 2
        finally:
            closed.append("gen")

    @tool
    async def other() -> str:
        """Is not touched."""
        return "fine"

    events, (result, fine) = await run(gen, other)
    assert isinstance(result, Failure)
    assert result.kind == "reducer_failed"
    assert isinstance(fine, Value)
    assert closed == ([] if where == "start" else ["gen"])
    check_grammar(events)


async def test_what_a_tool_sends_from_anywhere_arrives_before_its_output() -> None:
    async def deep(number: int) -> None:
        async def deeper() -> None:
            await current_sink().send(number)

        await deeper()

    @tool
    async def sends(out: Sink[int]) -> str:
        """Sends directly, from a helper, from tasks, from a thread."""
        await out.send(0)
        await deep(1)
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(deep, 2)
        with out.branch() as mine:
            await mine.send(3)
        await anyio.to_thread.run_sync(out.send_from_thread, 4)
        return "done"

    other = tool(sends.function, name="other")
    events, results = await run(sends, other)
    for name in ("sends", "other"):
        assert intermediates(events, name) == [0, 1, 2, 3, 4]
    assert [result.text for result in results if isinstance(result, Value)] == ["done", "done"]
    check_grammar(events)


async def test_a_plain_function_sends_from_its_thread() -> None:
    @tool
    def sends(context: ToolContext[str], out: Sink[str]) -> str:
        """Runs in a thread, and starts another one."""
        out.send_from_thread(context.context)
        thread = threading.Thread(target=out.send_from_thread, args=("from another thread",))
        thread.start()
        thread.join(GUARD_SECONDS)
        return context.tool

    events, (result,) = await run(sends, context="given")
    assert intermediates(events, "sends") == ["given", "from another thread"]
    assert isinstance(result, Value)
    assert result.text == "sends"


async def test_sending_after_the_call_has_ended_is_refused() -> None:
    kept: list[Sink[int]] = []

    @tool
    async def keeps(out: Sink[int]) -> None:
        """Lets its sink escape."""
        kept.append(out)

    await run(keeps)
    with pytest.raises(SinkClosed):
        await kept[0].send(1)


async def test_a_closed_branch_of_a_tool_is_the_fault_of_the_tool() -> None:
    @tool
    async def sends(out: Sink[int]) -> None:
        """Sends to a branch that it has closed."""
        with out.branch() as mine:
            await mine.send(1)
        await mine.send(2)

    @tool
    async def other() -> str:
        """Is not touched."""
        return "fine"

    _, (failure, value) = await run(sends, other)
    assert isinstance(failure, Failure)
    assert isinstance(failure.cause, SinkClosed)
    assert isinstance(value, Value)


class Letters:
    """Neither a generator nor an iterator, but iterable with `async for`."""

    async def _letters(self) -> AsyncIterator[str]:
        yield "a"
        yield "b"

    def __aiter__(self) -> AsyncIterator[str]:
        return self._letters()


def iterator() -> Iterator[str]:
    """An iterator that is no generator."""
    return iter(["a", "b"])


def async_iterable() -> Any:
    """Something that is iterable with `async for`."""
    return Letters()


@pytest.mark.parametrize("function", [iterator, async_iterable])
async def test_whatever_can_be_iterated_gives_its_events(function: Any) -> None:
    events, (result,) = await run(streaming_tool(function, name="gives", finalize="".join))
    assert intermediates(events, "gives") == ["a", "b"]
    assert isinstance(result, Value)
    assert result.value == "ab"


async def test_a_value_without_events_is_not_reduced_in_silence() -> None:
    def nothing() -> Any:
        """Gives no events at all."""
        return 3

    _, (result,) = await run(streaming_tool(nothing, finalize=len))
    assert isinstance(result, Failure)
    assert result.kind == "failed"


async def test_events_of_an_inner_run_keep_their_shape_and_their_path() -> None:
    @streaming_tool(finalize=len)
    async def look(x: int) -> AsyncIterator[int]:
        """Shows x."""
        yield x

    @tool
    async def ask(out: Sink[Any], question: str) -> str:
        """Runs an inner call with the same id as its own."""
        await out.send(TextDelta("let me see"))
        await out.forward(execute_all(Toolkit(look), [call(look, {"x": 1}, call_id="call_1")]))
        return "one"

    async with execute_all(Toolkit(ask), [call(ask, {"question": "?"}, call_id="call_1")]).open() as events:
        seen = [event async for event in events]
    inner = [walk(event) for event in seen if isinstance(event, Intermediate)]
    assert inner[0] == (("call_1",), TextDelta("let me see"))
    assert [path for path, _ in inner] == [("call_1",)] * 4
    assert [event.data for _, event in inner if isinstance(event, Intermediate)] == [1]
    execution_ids = [event.execution_id for _, event in map(walk, seen) if hasattr(event, "execution_id")]
    assert execution_ids[1].startswith(execution_ids[0] + "/")
    check_grammar(seen)


async def test_what_came_back_decides_how_a_call_runs() -> None:
    @flow
    async def work(out: Sink[str]) -> str:
        await out.send("from the flow")
        return "value of the flow"

    @tool
    async def hidden() -> Any:
        """A coroutine function that gives a flow."""
        return work()

    @tool
    def plain() -> Any:
        """A plain function that gives a coroutine."""
        return hidden_value()

    async def hidden_value() -> str:
        return "value of the coroutine"

    @tool
    def flows() -> Flow[str, str]:
        """A function that gives a flow."""
        return work()

    events, results = await run(hidden, plain, flows)
    values = [result.text for result in results if isinstance(result, Value)]
    assert values == ["value of the flow", "value of the coroutine", "value of the flow"]
    assert intermediates(events, "hidden") == intermediates(events, "flows") == ["from the flow"]


# how a call ends


async def test_an_observer_that_raises_changes_nothing(caplog: pytest.LogCaptureFixture) -> None:
    errors = iter([ValueError("first"), asyncio.CancelledError()])

    def observe(event: ToolEvent) -> None:
        if isinstance(event, Intermediate) and (error := next(errors, None)) is not None:
            raise error

    @streaming_tool(finalize=sum)
    async def five() -> AsyncIterator[int]:
        """Five events."""
        for number in range(5):
            yield number

    async with execute_all(Toolkit(five), [call(five)]).tap(observe).open() as events:
        seen = [event async for event in events]
    assert intermediates(seen, "five") == [0, 1, 2, 3, 4]
    assert isinstance(seen[-1], Output)
    assert caplog.text.count("the function of a tap raised") == 2


@pytest.mark.parametrize("anyio_backend", ["asyncio"])
async def test_native_cancellation_twice_ends_as_cancelled() -> None:
    begun, entered = asyncio.Event(), asyncio.Event()

    @streaming_tool(finalize=len)
    async def gen() -> AsyncIterator[int]:
        """Its cleanup waits."""
        try:
            yield 1
            await asyncio.sleep(GUARD_SECONDS)
        finally:
            entered.set()
            with anyio.CancelScope(shield=True):
                await asyncio.sleep(0)
                await asyncio.sleep(0)

    async def consume() -> None:
        async with execute_all(Toolkit(gen), [call(gen)]).open() as events:
            async for event in events:
                if isinstance(event, Intermediate):
                    begun.set()

    task = asyncio.create_task(consume())
    await begun.wait()
    task.cancel()
    await entered.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert task.cancelled()


async def test_a_tool_that_cancels_itself_is_a_failure_and_not_silence() -> None:
    @tool
    async def raises() -> None:
        """Raises a cancellation that nobody asked for."""
        kept: list[BaseException] = []
        with anyio.CancelScope() as scope:
            scope.cancel()
            try:
                await anyio.lowlevel.checkpoint()
            except anyio.get_cancelled_exc_class() as error:
                kept.append(error)
        raise kept[0]

    @tool
    async def other() -> str:
        """Is not touched."""
        await anyio.lowlevel.checkpoint()
        return "fine"

    events, (result, fine) = await run(raises, other)
    assert isinstance(result, Failure)
    assert result.kind == "cancelled"
    assert isinstance(fine, Value)
    check_grammar(events)


@pytest.mark.parametrize("anyio_backend", ["asyncio"])
async def test_a_tool_that_cancels_its_own_task_is_a_failure() -> None:
    @tool
    async def cancels() -> None:
        """Cancels the task that it runs in."""
        task = asyncio.current_task()
        assert task is not None
        task.cancel()
        await asyncio.sleep(0)

    _, (result,) = await run(cancels)
    assert isinstance(result, Failure)
    assert result.kind == "cancelled"


async def test_a_slow_consumer_slows_the_tool_down() -> None:
    produced = 0

    @streaming_tool(reduce=count())
    async def gen() -> AsyncIterator[int]:
        """Yields as fast as it may."""
        nonlocal produced
        for produced in range(1, 20_001):
            yield produced

    consumed = 0
    async with execute_all(Toolkit(gen), [call(gen)]).open() as events:
        async for event in events:
            consumed += isinstance(event, Intermediate)
            assert produced - consumed <= 2 * QUOTA_LIMIT + 1
            if consumed == 5000:
                break
    assert produced < 5000 + 3 * QUOTA_LIMIT


async def test_a_slow_consumer_slows_a_plain_generator_down() -> None:
    produced = 0

    @streaming_tool(reduce=count())
    def gen() -> Iterator[int]:
        """Yields as fast as it may."""
        nonlocal produced
        for _ in range(20_000):
            produced += 1
            yield produced

    consumed = 0
    async with execute_all(Toolkit(gen), [call(gen)]).open() as events:
        async for event in events:
            consumed += isinstance(event, Intermediate)
            assert produced - consumed <= 2 * QUOTA_LIMIT + 2 * AHEAD + 1
            if consumed == 5000:
                break


# what is no fault of the tool


async def test_an_error_from_downstream_ends_the_run_as_itself() -> None:
    class Downstream(Exception):
        """Raised by a map above the executor."""

    def fail(event: ToolEvent) -> ToolEvent:
        if isinstance(event, Intermediate):
            raise Downstream
        return event

    @streaming_tool(finalize=len)
    async def gen() -> AsyncIterator[int]:
        """Innocent."""
        yield 1

    @tool
    async def sends(out: Sink[int]) -> str:
        """Swallows what its send raises."""
        with contextlib.suppress(Exception):
            await out.send(1)
        return "went on"

    innocents: list[Tool[..., Any]] = [gen, sends]
    for innocent in innocents:
        with pytest.raises(Downstream):
            await execute_all(Toolkit(innocent), [call(innocent)]).map(fail)
