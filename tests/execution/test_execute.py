"""`execute_all`: calls side by side, each with its own outcome. The cases are those of `cases/tool_execution.json`."""

import asyncio
import contextvars
import datetime
import gc
import json
import re
import threading
import weakref
from collections.abc import AsyncIterator, Iterator
from typing import Any

import anyio
import anyio.lowlevel
import msgspec
import pydantic
import pytest

from streamkit.errors import ToolError
from streamkit.execution.execute import execute_all
from streamkit.items import ToolCall, image
from streamkit.testing.grammar import check_grammar
from streamkit.tool_events import Failure, Intermediate, Output, Pending, ToolEvent, ToolStarted, Value
from streamkit.tools.decorators import streaming_tool, tool
from streamkit.tools.tool import ToolContext
from streamkit.tools.toolkit import Toolkit

from ..calling import GUARD_SECONDS, call, collect, outputs, run

# results and their order


async def test_one_of_three_fails_and_the_others_keep_their_results() -> None:
    b_failed = anyio.Event()

    @tool
    async def a() -> str:
        """Slow."""
        await b_failed.wait()
        return "A"

    @tool
    async def b() -> str:
        """Fails at once."""
        b_failed.set()
        raise ToolError("boom")

    @tool
    async def c() -> str:
        """Fast."""
        return "C"

    events, results = await run(a, b, c)
    assert [(result.tool, getattr(result, "text", None)) for result in results] == [("a", "A"), ("b", None), ("c", "C")]
    assert isinstance(results[1], Failure)
    assert (results[1].kind, results[1].message) == ("failed", "boom")
    check_grammar(events)


async def test_events_come_as_things_happen_and_results_in_call_order() -> None:
    fast_ended = anyio.Event()

    @tool
    async def slow() -> int:
        """Waits for the other."""
        await fast_ended.wait()
        return 1

    @tool
    async def fast() -> int:
        """Does not wait."""
        return 2

    seen: list[ToolEvent] = []
    kit = Toolkit(slow, fast)
    async with execute_all(kit, [call(slow), call(fast)]).open() as events:
        async for event in events:
            seen.append(event)
            if isinstance(event, Output) and event.tool == "fast":
                fast_ended.set()
    assert outputs(seen) == ["fast", "slow"]
    assert [result.tool for result in events.value] == ["slow", "fast"]


async def test_no_calls_give_no_results() -> None:
    assert await collect(execute_all(Toolkit(), [])) == ([], ())


@pytest.mark.parametrize("raised", [ValueError("secret /path"), KeyError("x"), SystemExit(1)])
async def test_an_error_of_a_tool_is_told_in_a_safe_sentence(
    raised: BaseException, caplog: pytest.LogCaptureFixture
) -> None:
    @tool
    async def fails() -> None:
        """Fails."""
        raise raised

    _, (result,) = await run(fails)
    assert isinstance(result, Failure)
    assert (result.kind, result.message) == ("failed", "fails failed with an internal error.")
    assert result.cause is raised
    assert b"secret" not in msgspec.json.encode(result)
    assert f"a call of fails failed: {type(raised).__name__}" in caplog.text
    assert "secret" not in caplog.text


async def test_the_log_names_the_line_at_which_a_tool_failed(caplog: pytest.LogCaptureFixture) -> None:
    @tool
    async def reads() -> Any:
        """Reads."""
        return json.loads("secret")

    @streaming_tool(finalize=lambda events: events[5])
    async def shows() -> AsyncIterator[int]:
        """Shows."""
        yield 1

    await run(reads)
    await run(shows)
    first, second = caplog.messages
    assert re.fullmatch(rf"a call of reads failed: JSONDecodeError, {re.escape(__file__)}:\d+", first)
    assert re.fullmatch(rf"a call of shows reducer_failed: IndexError, {re.escape(__file__)}:\d+", second)


@pytest.mark.parametrize(
    ("error", "told"), [(ToolError(), "fails failed."), (ToolError("no file a\udcff"), "no file a\ufffd")]
)
async def test_whatever_a_tool_says_of_its_failure_can_be_sent_to_a_model(error: ToolError, told: str) -> None:
    @tool
    async def fails() -> None:
        """Fails."""
        raise error

    _, (result,) = await run(fails)
    assert isinstance(result, Failure)
    assert (result.message, result.cause) == (told, error)


async def test_a_failure_holds_its_cause_and_nothing_holds_both() -> None:
    class Held:
        """Something large that the tool had at hand."""

    kept: list[weakref.ref[Held]] = []

    @tool
    async def fails() -> None:
        """Fails."""
        held = Held()
        kept.append(weakref.ref(held))
        raise ValueError

    gc.disable()
    try:
        (result,) = await execute_all(Toolkit(fails), [call(fails)])
        assert isinstance(result, Failure)
        assert result.cause is not None
        assert result.cause.__traceback__ is not None, "the frames of the user are there to look at"
        del result
        await anyio.lowlevel.checkpoint()
        assert kept[0]() is None
    finally:
        gc.enable()


@pytest.mark.parametrize("backend", ["asyncio", "trio"])
def test_an_interrupt_of_a_tool_ends_the_run_as_itself(backend: str) -> None:
    @tool
    async def interrupted() -> None:
        """Ctrl-C arrives here."""
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        anyio.run(run, interrupted, backend=backend)


class Half(msgspec.Struct):
    text: str


async def test_values_are_written_as_json_and_what_has_no_json_fails_alone() -> None:
    def returning(name: str, value: Any) -> Any:
        async def function() -> Any:
            """Gives a value."""
            return value

        return tool(function, name=name)

    loop: list[Any] = []
    loop.append(loop)
    tools = [
        returning("when", {"when": datetime.datetime(2026, 1, 2)}),
        returning("few", {1}),
        returning("raw", b"\xff"),
        returning("nothing", None),
        returning("lone", "a\ud800b"),
        returning("within", [{"a\ud800": Half("b\udc00")}]),
        returning("object", object()),
        returning("endless", loop),
    ]
    _, results = await run(*tools)
    texts = [
        result.text if isinstance(result, Value) else result.kind
        for result in results
        if not isinstance(result, Pending)
    ]
    assert texts == [
        '{"when":"2026-01-02T00:00:00"}', "[1]", '"/w=="', "null", "a\ufffdb",
        '[{"a\ufffd":{"text":"b\ufffd"}}]', "not_serialisable", "not_serialisable",
    ]  # fmt: skip
    assert isinstance(results[6], Failure)
    assert results[6].message == "object returned a value of type object, which cannot be written as JSON."
    for result in results:
        if isinstance(result, Value):
            result.text.encode()


class Place(pydantic.BaseModel):
    name: str
    since: datetime.date


async def test_a_model_of_pydantic_is_a_tree_of_json() -> None:
    place = Place(name="Oslo", since=datetime.date(2026, 1, 2))
    tree = {"name": "Oslo", "since": "2026-01-02"}

    @tool
    async def one() -> Place:
        """Gives a model."""
        return place

    @tool
    async def many() -> list[Any]:
        """Gives a picture, and a model in something else."""
        return [image(b"\x89PNG\r\n\x1a\n"), {"at": place}]

    _, (alone, among) = await run(one, many)
    assert isinstance(alone, Value)
    assert (alone.value, alone.text) == (tree, '{"name":"Oslo","since":"2026-01-02"}')
    assert isinstance(among, Value)
    assert (among.value[1], len(among.images)) == ({"at": tree}, 1)
    msgspec.json.encode(among)


# threads and the event loop


async def test_a_blocking_function_does_not_hold_up_the_others() -> None:
    all_ticks = threading.Event()

    @tool
    def block() -> str:
        """Blocks its thread until the other tool is through."""
        assert all_ticks.wait(GUARD_SECONDS)
        return "done"

    @streaming_tool(finalize=len)
    async def tick() -> AsyncIterator[int]:
        """Ten ticks."""
        for number in range(10):
            yield number
        all_ticks.set()

    events, results = await run(block, tick)
    assert outputs(events) == ["tick", "block"]
    assert [result.text for result in results if isinstance(result, Value)] == ["done", "10"]


async def test_a_plain_generator_shows_its_events_live() -> None:
    arrived = [threading.Event() for _ in range(3)]

    @streaming_tool(finalize=sum)
    def gen() -> Iterator[int]:
        """Goes on only when each event has arrived."""
        for number in range(3):
            yield number
            assert arrived[number].wait(GUARD_SECONDS)

    async with execute_all(Toolkit(gen), [call(gen)]).open() as events:
        async for event in events:
            if isinstance(event, Intermediate):
                arrived[event.data].set()
    (result,) = events.value
    assert isinstance(result, Value)
    assert result.value == 3


async def test_a_function_left_behind_on_its_thread_says_so() -> None:
    released = threading.Event()

    @tool(timeout_seconds=0.01)
    def block() -> None:
        """Cannot be stopped."""
        assert released.wait(GUARD_SECONDS)

    _, (result,) = await run(block)
    released.set()
    assert isinstance(result, Failure)
    assert result.kind == "timeout"
    assert result.message == "block did not finish within 0.01 seconds; it may still be running."


# context variables

who: contextvars.ContextVar[str] = contextvars.ContextVar("who", default="nobody")


async def test_tools_see_what_the_caller_set_and_nobody_sees_what_a_tool_set() -> None:
    seen: list[str] = []

    @tool
    async def coroutine() -> None:
        """Reads and sets."""
        seen.append(who.get())
        who.set("coroutine")

    @tool
    def plain() -> None:
        """Reads and sets in a thread."""
        seen.append(who.get())
        who.set("plain")

    @streaming_tool(finalize=len)
    async def generator() -> AsyncIterator[int]:
        """Reads before the first and after the second event."""
        seen.append(who.get())
        yield 1
        yield 2
        seen.append(who.get())
        who.set("generator")

    who.set("u1")
    await run(coroutine, plain, generator, coroutine_again := tool(coroutine.function, name="again"), max_concurrency=1)
    assert coroutine_again.name == "again"
    assert (seen, who.get()) == (["u1"] * 5, "u1")


# calls that do not run


@pytest.mark.parametrize(
    ("wrong", "kind", "says"),
    [
        (ToolCall("c", "serch", "{}"), "unknown_tool", "There is no tool serch. The tools are: read, off."),
        (ToolCall("c", "off", "{}"), "disabled_tool", "off cannot be used now: maintenance"),
        (ToolCall("c", "read", "{}"), "invalid_input", "p"),
        (ToolCall("c", "read", '{"p": "a'), "invalid_input", "JSON"),
        (ToolCall("c", "read", "[1]", problem="The arguments are not an object."), "invalid_input", "not an object"),
        (ToolCall("c", "", "{}", problem="The call has no name."), "invalid_input", "no name"),
        (ToolCall("c", "read", '{"p', abandoned="incomplete"), "truncated", "incomplete"),
    ],
)
async def test_a_call_that_cannot_run_is_answered_and_the_others_go_on(wrong: ToolCall, kind: str, says: str) -> None:
    @tool
    async def read(p: str) -> str:
        """Reads."""
        return p

    @tool
    async def off() -> None:
        """Is switched off."""

    kit = Toolkit(read, off).disabled("off", "maintenance")
    events, (failure, value) = await collect(execute_all(kit, [wrong, call(read, {"p": "a"})]))
    assert isinstance(failure, Failure)
    assert failure.kind == kind
    assert says in failure.message
    assert isinstance(value, Value)
    assert not any(isinstance(event, ToolStarted) and event.call_id == "c" for event in events)
    check_grammar(events)


async def test_an_execution_id_is_the_turn_and_the_place() -> None:
    @tool
    async def read(context: ToolContext[None]) -> str:
        """Tells who it is."""
        return context.execution_id

    calls = [call(read, turn_id="t7", place=place) for place in (2, 0)]
    _, results = await collect(execute_all(Toolkit(read), calls))
    assert [result.text for result in results if isinstance(result, Value)] == ["t7.2", "t7.0"]


@pytest.mark.parametrize("waits_for", ["a place", "its lane"])
async def test_a_cancelled_run_starts_nothing_that_was_only_waiting(waits_for: str) -> None:
    ran: list[str] = []

    async def first() -> None:
        """Finishes under a shield."""
        with anyio.CancelScope(shield=True):
            scope.cancel()
            await anyio.lowlevel.checkpoint()

    async def second() -> None:
        """Must not begin."""
        ran.append("second")

    key: dict[str, Any] = {"serial": "lane"} if waits_for == "its lane" else {}
    kit = Toolkit(tool(first, **key), tool(second, **key))
    with anyio.CancelScope() as scope:
        await execute_all(kit, [call("first"), call("second")], max_concurrency=2 if key else 1)
    assert scope.cancelled_caught
    assert ran == []


async def test_nothing_starts_in_a_scope_that_is_cancelled_already() -> None:
    ran: list[str] = []

    @tool
    def delete() -> None:
        """Must not begin."""
        ran.append("delete")

    with anyio.CancelScope() as scope:
        scope.cancel()
        await execute_all(Toolkit(delete), [call(delete)])
    assert ran == []


@pytest.mark.parametrize("anyio_backend", ["asyncio"])
async def test_a_tool_that_asks_to_be_cancelled_and_returns_takes_nobody_along() -> None:
    @tool
    async def asks() -> str:
        """Cancels its own task, and ends before it hears of it."""
        task = asyncio.current_task()
        assert task is not None
        task.cancel()
        return "done"

    @tool
    async def other() -> str:
        """Is not touched."""
        await anyio.sleep(0.01)
        return "fine"

    _, results = await run(asks, other)
    assert [result.text for result in results if isinstance(result, Value)] == ["done", "fine"]


async def test_a_tool_that_changes_its_arguments_changes_no_event() -> None:
    @tool
    async def empties(items: list[int]) -> int:
        """Takes all items out."""
        items.clear()
        return len(items)

    events, _ = await collect(execute_all(Toolkit(empties), [call(empties, {"items": [1, 2]})]))
    (started,) = (event for event in events if isinstance(event, ToolStarted))
    assert started.arguments == {"items": [1, 2]}


async def test_calls_may_come_from_any_iterable() -> None:
    @tool
    async def work() -> str:
        """Works."""
        return "fine"

    results = await execute_all(Toolkit(work), (call(work) for _ in range(2)))
    assert [result.tool for result in results] == ["work", "work"]


@pytest.mark.parametrize("given", ["search", "", None])
async def test_what_is_no_call_is_named(given: Any) -> None:
    with pytest.raises(TypeError, match=rf"such as turn\.calls, and not of {type(given).__name__}"):
        await execute_all(Toolkit(), [given])
