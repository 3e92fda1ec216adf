"""A hand on single calls while they run."""

import threading
from collections.abc import AsyncIterator, Callable

import anyio
import anyio.from_thread
import anyio.lowlevel
import anyio.to_thread
import pytest

from streamkit.errors import FlowError, NotRunning, VerdictRefused
from streamkit.execution.approval import Allow, Question, Undecided, Verdict
from streamkit.execution.desk import ApprovalDesk
from streamkit.execution.execute import execute_all
from streamkit.execution.running import Running
from streamkit.items import ToolCall
from streamkit.testing.grammar import check_grammar
from streamkit.tool_events import (
    ApprovalRequested,
    Failure,
    Intermediate,
    Output,
    Pending,
    ToolEvent,
    ToolResult,
    ToolStarted,
    Value,
)
from streamkit.tools.decorators import streaming_tool, tool
from streamkit.tools.reducers import Reducer, count
from streamkit.tools.toolkit import Toolkit

from ..calling import GUARD_SECONDS

cleaned: list[str] = []


@streaming_tool(reduce=count())
async def watch(p: str) -> AsyncIterator[str]:
    """Watch something that does not end."""
    try:
        yield p
        await anyio.sleep_forever()
    finally:
        cleaned.append(p)


@tool
async def commit(p: str) -> str:
    """Do what must not be cut off in the middle."""
    with anyio.CancelScope(shield=True):
        await anyio.lowlevel.checkpoint()
    return f"committed {p}"


@tool(serial="disk")
async def write(p: str) -> str:
    """Write to the one disk."""
    if p == "slow":
        await anyio.sleep_forever()
    return p


TOOLS = Toolkit(watch, commit, write)


def calls(*asked: tuple[str, str]) -> list[ToolCall]:
    return [ToolCall(f"c{place}", name, f'{{"p": "{p}"}}', "t", place) for place, (name, p) in enumerate(asked)]


def cancelled(call_id: str, name: str, reason: str) -> Failure:
    return Failure(call_id, name, "cancelled", f"The call of {name} was cancelled: {reason}")


async def run(
    running: Running, asked: list[ToolCall], when: Callable[[ToolEvent], object], limit: int = 8
) -> tuple[list[ToolEvent], tuple[ToolResult, ...]]:
    seen: list[ToolEvent] = []
    with anyio.fail_after(GUARD_SECONDS):
        async with execute_all(TOOLS, asked, running=running, max_concurrency=limit).open() as events:
            async for event in events:
                seen.append(event)
                when(event)
    check_grammar(seen)
    return seen, events.value


async def test_one_call_is_cancelled_and_the_others_go_on() -> None:
    cleaned.clear()
    running = Running()

    def stop(event: ToolEvent) -> None:
        if isinstance(event, Intermediate):
            running.cancel("t.0", "enough seen")
            running.cancel("t.0", "once more")

    _, results = await run(running, calls(("watch", "a"), ("write", "b")), stop)
    assert results == (cancelled("c0", "watch", "enough seen"), Value("c1", "write", "b", "b"))
    assert cleaned == ["a"]
    assert running.calls == {}
    assert running.results == {"t.0": results[0], "t.1": results[1]}


async def test_a_value_from_a_part_that_is_shielded_counts() -> None:
    running = Running()

    @tool
    async def stop_myself() -> str:
        """Is cancelled in the middle of what must not be cut off."""
        with anyio.CancelScope(shield=True):
            running.cancel("t.0")
            await anyio.lowlevel.checkpoint()
        return "committed"

    call = ToolCall("c0", "stop_myself", "{}", "t", 0)
    assert await execute_all(Toolkit(stop_myself), [call], running=running) == (
        Value("c0", "stop_myself", "committed", "committed"),
    )


@pytest.mark.parametrize("limit", [1, 8])
async def test_a_call_that_waits_for_its_turn_is_cancelled_at_once(limit: int) -> None:
    running = Running()
    ended: list[str] = []

    def stop(event: ToolEvent) -> None:
        if isinstance(event, ToolStarted) and event.call_id == "c0":
            running.cancel("t.1", "not this one")
        if isinstance(event, Output):
            ended.append(event.call_id)
            if event.call_id == "c1":
                running.cancel("t.0", "stuck")

    _, results = await run(running, calls(("write", "slow"), ("write", "b"), ("write", "c")), stop, limit)
    assert ended == ["c1", "c0", "c2"]
    assert results == (
        cancelled("c0", "write", "stuck"),
        cancelled("c1", "write", "not this one"),
        Value("c2", "write", "c", "c"),
    )


async def test_a_call_that_waits_for_its_verdict_is_cancelled() -> None:
    running = Running()

    async def never(question: Question) -> Verdict:
        await question.announce(None)
        await anyio.sleep_forever()
        return Allow()

    flow = execute_all(TOOLS, calls(("write", "b")), authorize=never, running=running)
    async with flow.open() as events:
        async for event in events:
            if not isinstance(event, Output):
                running.cancel("t.0", "too late")
    assert events.value == (cancelled("c0", "write", "too late"),)


async def test_a_verdict_behind_a_cancel_is_refused_at_once() -> None:
    desk, running = ApprovalDesk(), Running()

    @tool(approval=True)
    async def send() -> str:
        """Send a mail."""
        return "sent"

    async with execute_all(
        Toolkit(send), [ToolCall("c", "send", "{}", "t", 0)], authorize=desk.authorize, running=running
    ).open() as events:
        async for event in events:
            if isinstance(event, ApprovalRequested):
                with pytest.raises(NotRunning, match=r"c is not known: that is a call_id, the execution id is t\.0"):
                    running.cancel(event.call_id)
                running.cancel(event.execution_id)
                assert desk.questions == ()
                for decide in (desk.allow, desk.deny):
                    with pytest.raises(VerdictRefused, match="was cancelled"):
                        decide(event.execution_id)
    (result,) = events.value
    assert isinstance(result, Failure)
    assert result.kind == "cancelled"


async def test_what_does_not_run_cannot_be_cancelled() -> None:
    running = Running()
    with pytest.raises(NotRunning, match=r"t\.0 is not known"):
        running.cancel("t.0")
    await execute_all(TOOLS, calls(("write", "b")), running=running)
    with pytest.raises(NotRunning, match=r"t\.0 has ended"):
        running.cancel("t.0")


async def test_another_thread_is_told_how_to_cancel() -> None:
    running = Running()
    async with execute_all(TOOLS, calls(("watch", "a")), running=running).open() as events:
        async for event in events:
            if isinstance(event, Intermediate):
                with pytest.raises(FlowError, match=r"from_thread\.run_sync\(running\.cancel"):
                    await anyio.to_thread.run_sync(running.cancel, "t.0")
                await anyio.to_thread.run_sync(anyio.from_thread.run_sync, running.cancel, "t.0", "enough")
    assert events.value == (cancelled("c0", "watch", "enough"),)


async def test_results_are_there_after_everything_was_cancelled() -> None:
    running = Running()
    flow = execute_all(TOOLS, calls(("watch", "a"), ("commit", "b")), running=running)
    async with flow.open() as events:
        async for event in events:
            if isinstance(event, Output):
                break
    assert running.results == {"t.1": Value("c1", "commit", "committed b", "committed b")}
    assert running.calls == {}


async def test_a_plain_function_may_go_on_and_the_model_is_told() -> None:
    stop = threading.Event()

    @tool
    def block() -> str:
        """Block a thread."""
        stop.wait(GUARD_SECONDS)
        return "late"

    running = Running()
    async with execute_all(Toolkit(block), [ToolCall("c0", "block", "{}", "t", 0)], running=running).open() as events:
        async for event in events:
            if isinstance(event, ToolStarted):
                running.cancel("t.0")
    stop.set()
    (result,) = events.value
    assert isinstance(result, Failure)
    assert result.message == "The call of block was cancelled: the person stopped it; it may still be running"


async def test_a_pending_call_runs_no_more() -> None:
    async def leave_open(question: Question) -> Verdict:
        return Undecided()

    running = Running()
    (result,) = await execute_all(TOOLS, calls(("write", "b")), authorize=leave_open, running=running)
    assert result == Pending("c0", "write")
    assert (running.calls, running.results) == ({}, {"t.0": result})


# What a failing call saves


@pytest.mark.parametrize("salvages", [True, False])
async def test_a_reducer_may_save_what_came_before_a_failure(salvages: bool) -> None:
    def add(total: int, n: int) -> int:
        return total + n

    @streaming_tool(reduce=Reducer(int, add, lambda total: {"total": total}, salvages=salvages))
    async def add_up() -> AsyncIterator[int]:
        """Add numbers up, and fail."""
        yield 1
        yield 2
        raise LookupError

    (result,) = await execute_all(Toolkit(add_up), [ToolCall("c0", "add_up", "{}", "t", 0)])
    assert isinstance(result, Failure)
    assert (result.kind, result.partial) == ("failed", {"total": 3} if salvages else None)


async def test_what_cannot_be_saved_is_left_out() -> None:
    def fail(total: int) -> int:
        raise ValueError(total)

    @streaming_tool(reduce=Reducer(int, lambda total, n: total, fail, salvages=True))
    async def add_up() -> AsyncIterator[int]:
        """Fail."""
        yield 1
        raise LookupError

    (result,) = await execute_all(Toolkit(add_up), [ToolCall("c0", "add_up", "{}", "t", 0)])
    assert isinstance(result, Failure)
    assert (result.kind, result.partial) == ("failed", None)
