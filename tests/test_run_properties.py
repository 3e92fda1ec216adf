"""Properties of execution and of the loop under random faults: grammar, results, closure, tools that must not start."""

import gc
import itertools
import tracemalloc
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing
from dataclasses import dataclass
from typing import Any

import anyio
import anyio.lowlevel
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from streamkit import (
    Allow,
    Deny,
    Failure,
    Flow,
    Intermediate,
    ModelError,
    Pending,
    Question,
    Sink,
    ToolCall,
    ToolError,
    Toolkit,
    ToolStarted,
    Transcript,
    TurnEnded,
    TurnRequest,
    Undecided,
    Value,
    Verdict,
    converse,
    count,
    execute_all,
    flow,
    last,
    streaming_tool,
    tool,
    user,
)
from streamkit.testing import ScriptedModel, call, check_grammar, interleave, stop
from streamkit.testing.histories import check_items
from streamkit.tool_events import RunEvent

from .calling import GUARD_SECONDS


class Gone(Exception):
    """Raised by a consumer."""


@dataclass
class World:
    """What the tools of one example did: which blocks are open, and in which task each was opened."""

    opened: int = 0
    closed: int = 0

    async def events(self, number: int, suspends: bool, end: str) -> AsyncGenerator[int, None]:
        self.opened += 1
        task = anyio.get_current_task().id
        try:
            for event in range(number):
                yield event
                if suspends:
                    await anyio.lowlevel.checkpoint()
            self.end(end)
        finally:
            assert anyio.get_current_task().id == task
            self.closed += 1

    def end(self, end: str) -> Any:
        match end:
            case "raises":
                raise ValueError("inside")
            case "refuses":
                raise ToolError("on purpose")
            case "object":
                return object()
        return "done"


def toolkit(world: World) -> Toolkit:
    """A tool of each kind; what a call does is said in its arguments."""

    @streaming_tool(finalize=lambda events: world.end("object") if -1 in events else len(events))
    async def generator(number: int, suspends: bool, end: str) -> AsyncIterator[int]:
        """Yields."""
        async with aclosing(world.events(number, suspends, end)) as events:
            async for event in events:
                yield event
        if end == "object":
            yield -1

    @tool
    async def sender(out: Sink[int], number: int, suspends: bool, end: str) -> Any:
        """Sends."""
        async with aclosing(world.events(number, suspends, "value")) as events:
            async for event in events:
                await out.send(event)
        return world.end(end)

    @tool
    def flows(number: int, suspends: bool, end: str) -> Flow[int, Any]:
        """Gives a flow."""

        @flow
        async def work(out: Sink[int]) -> Any:
            async with aclosing(world.events(number, suspends, "value")) as events:
                async for event in events:
                    await out.send(event)
            return world.end(end)

        return work()

    @tool(serial="lane")
    async def serial(number: int, suspends: bool, end: str) -> Any:
        """Shares a lane."""
        async with aclosing(world.events(number, suspends, "value")) as events:
            async for _ in events:
                pass
        return world.end(end)

    return Toolkit(generator, sender, flows, serial)


calls_strategy = st.lists(
    st.fixed_dictionaries(
        {
            "name": st.sampled_from(["generator", "sender", "flows", "serial", "unknown"]),
            "number": st.integers(0, 40),
            "suspends": st.booleans(),
            "end": st.sampled_from(["value", "value", "raises", "refuses", "object", "invalid"]),
            "verdict": st.sampled_from(["allow", "allow", "deny", "undecided", "raises"]),
        }
    ),
    max_size=5,
)
KIND_OF_END = {"raises": "failed", "refuses": "failed", "object": "not_serialisable"}


def tool_calls(script: list[dict[str, Any]]) -> list[ToolCall]:
    def arguments(each: dict[str, Any]) -> str:
        suspends = str(each["suspends"]).lower()
        return f'{{"number":{each["number"]},"suspends":{suspends},"end":"{each["end"]}"}}'

    return [
        ToolCall(f"c{place}", each["name"], "[]" if each["end"] == "invalid" else arguments(each), "t", place)
        for place, each in enumerate(script)
    ]


def expected(each: dict[str, Any]) -> str:
    if each["name"] == "unknown":
        return "unknown_tool"
    if each["end"] == "invalid":
        return "invalid_input"
    return {"deny": "denied", "raises": "denied", "undecided": "pending"}.get(each["verdict"]) or KIND_OF_END.get(
        each["end"], "value"
    )


def outcome(result: Value | Failure | Pending) -> str:
    return result.kind if isinstance(result, Failure) else "value" if isinstance(result, Value) else "pending"


def authorizer(script: list[dict[str, Any]]) -> Any:
    async def authorize(question: Question) -> Verdict:
        await anyio.lowlevel.checkpoint()
        await question.announce("card")
        match script[question.call.call.place]["verdict"]:
            case "deny":
                return Deny("no")
            case "undecided":
                return Undecided()
            case "raises":
                raise LookupError
        return Allow()

    return authorize


@settings(max_examples=60)
@given(calls_strategy, st.integers(1, 4))
async def test_results_equal_calls_in_number_and_order_whatever_happens(
    script: list[dict[str, Any]], places: int
) -> None:
    world = World()
    execution = execute_all(toolkit(world), tool_calls(script), authorize=authorizer(script), max_concurrency=places)
    async with execution.open() as events:
        seen = [event async for event in events]
    assert [outcome(result) for result in events.value] == [expected(each) for each in script]
    assert [result.call_id for result in events.value] == [f"c{place}" for place in range(len(script))]
    check_grammar(seen, pending=[f"c{place}" for place in range(len(script))])
    assert world.opened == world.closed


BLOCKED = [{"name": "sender", "number": 31, "suspends": False, "end": "value", "verdict": "allow"}]


@settings(max_examples=60)
@example(BLOCKED, 1, 0, "breaks")  # the consumer goes while the tool waits in its send
@given(calls_strategy, st.integers(1, 4), st.integers(0, 60), st.sampled_from(["breaks", "raises", "is cancelled"]))
async def test_leaving_at_any_event_closes_everything(
    script: list[dict[str, Any]], places: int, after: int, way: str
) -> None:
    world = World()
    execution = execute_all(toolkit(world), tool_calls(script), authorize=authorizer(script), max_concurrency=places)
    seen: list[RunEvent] = []
    with anyio.CancelScope() as scope:
        try:
            async with execution.open() as events:
                async for event in events:
                    seen.append(event)
                    if len(seen) > after:
                        match way:
                            case "breaks":
                                break
                            case "raises":
                                raise Gone
                            case _:
                                scope.cancel()
                                await anyio.lowlevel.checkpoint()
        except Gone:
            assert way == "raises"
    assert scope.cancelled_caught == (way == "is cancelled" and len(seen) > after)
    check_grammar(seen, complete=False)
    assert world.opened == world.closed


async def test_cancelling_at_every_tick_of_an_execution_leaves_nothing() -> None:
    script = [
        {"name": name, "number": 3, "suspends": True, "end": "value", "verdict": "allow"}
        for name in ("generator", "sender", "flows", "serial", "serial")
    ]
    for ticks in itertools.count():
        world = World()
        finished = False

        async def run() -> None:
            nonlocal finished
            async with execute_all(toolkit(world), tool_calls(script), authorize=authorizer(script)).open() as events:  # noqa: B023
                async for _ in events:
                    pass
            finished = True

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(run)
            for _ in range(ticks):
                await anyio.lowlevel.checkpoint()
            tasks.cancel_scope.cancel()
        assert world.opened == world.closed, f"after {ticks} ticks"
        if finished:
            break
    assert ticks > 10


# the loop

part_strategy = st.one_of(
    st.sampled_from(["I look. ", "\n"]),
    st.builds(
        call,
        st.sampled_from(["read", "fails", "nope"]),
        st.sampled_from(['{"p":"a"}', "{}", "", "[1]", '{"p":"a"', '{"p":1}']),
        split=st.sampled_from([None, 1, 3]),
        ends=st.booleans(),
    ),
    st.builds(ModelError, st.just("connection lost")),
    st.builds(ValueError, st.just("a bug")),
    st.sampled_from([stop("length"), stop("content_filter"), stop("stop"), stop("unknown"), stop("refusal")]),
    st.just(interleave(call("read", {"p": "a"}, split=2), call("nope"))),
)


@tool
async def read(p: str) -> str:
    """Reads."""
    return p


@tool
async def fails() -> None:
    """Fails."""
    raise ValueError


@settings(max_examples=100)
@given(st.lists(st.lists(part_strategy, max_size=5), min_size=1, max_size=3), st.integers(0, 60) | st.none())
async def test_every_fault_of_a_model_leaves_grammar_and_history_whole(
    turns: list[list[Any]], leave_after: int | None
) -> None:
    turns = [turn[: _first_end(turn)] for turn in turns]
    model = ScriptedModel(*turns, ["The end."])
    transcript = Transcript((user("go"),))
    seen: list[RunEvent] = []
    with anyio.fail_after(GUARD_SECONDS):
        try:
            async with converse(model, Toolkit(read, fails), (user("go"),)).tap(transcript.feed).open() as events:
                async for event in events:
                    seen.append(event)
                    check_items(transcript.history("stopped"))
                    if leave_after is not None and len(seen) > leave_after:
                        break
        except (ModelError, ValueError):
            pass
    check_grammar(seen, complete=leave_after is None or len(seen) <= leave_after)
    check_items(transcript.history("stopped"))
    may_run = {
        call.call_id for event in seen if isinstance(event, TurnEnded) for call in event.turn.calls if not call.problem
    }
    assert {event.call_id for event in seen if isinstance(event, ToolStarted)} <= may_run
    assert len(model.requests) <= len(turns) + 1
    for request in model.requests:
        check_items(request.history)


def _first_end(turn: list[Any]) -> int:
    """A script goes up to its first end: what stands behind it is never said."""
    ends = [place for place, part in enumerate(turn) if type(part) is type(stop("stop")) or isinstance(part, Exception)]
    return ends[0] + 1 if ends else len(turn)


# growth


async def test_many_small_pieces_of_a_call_cost_memory_once() -> None:
    """`cases/memory.json`: 120,000 one-character deltas within 30 MB."""
    text = '{"p":"' + "x" * 119_992 + '"}'
    model = ScriptedModel([call("read", text, split=1)], ["ok"])
    tracemalloc.start()
    pieces = 0
    try:
        before = tracemalloc.get_traced_memory()[0]
        async with model.stream_turn(TurnRequest((user("go"),), Toolkit(read).specs)).open() as events:
            async for _ in events:
                pieces += 1
        peak = tracemalloc.get_traced_memory()[1] - before
    finally:
        tracemalloc.stop()
    assert pieces == 120_000 + 4
    assert peak < 30_000_000
    assert events.value.calls[0].arguments == text


async def test_a_thousand_runs_left_at_their_first_event_leave_nothing() -> None:
    """`cases/memory.json`: as many tasks and generators afterwards as before."""
    open_connections = 0

    @streaming_tool(reduce=count())
    async def connects() -> AsyncIterator[int]:
        """Holds a connection."""
        nonlocal open_connections
        open_connections += 1
        try:
            for number in itertools.count():
                yield number
        finally:
            open_connections -= 1

    def generators() -> int:
        gc.collect()
        return sum(1 for thing in gc.get_objects() if type(thing).__name__ in ("async_generator", "coroutine"))

    kit = Toolkit(connects)
    before = generators()
    for _ in range(1000):
        async with execute_all(kit, [ToolCall("c", "connects", "{}")]).open() as events:
            async for event in events:
                if isinstance(event, Intermediate):
                    break
    assert (open_connections, generators()) == (0, before)


@pytest.mark.parametrize("reducer", ["count", "last"])
async def test_reducers_of_a_long_run_keep_no_events(reducer: str) -> None:
    @streaming_tool(reduce=count() if reducer == "count" else last(int))
    async def long() -> AsyncIterator[int]:
        """Events that would take some megabytes."""
        for number in range(30_000):
            yield number

    tracemalloc.start()
    try:
        before = tracemalloc.get_traced_memory()[0]
        (result,) = await execute_all(Toolkit(long), [ToolCall("c", "long", "{}")])
        peak = tracemalloc.get_traced_memory()[1] - before
    finally:
        tracemalloc.stop()
    assert isinstance(result, Value)
    assert peak < 500_000
