"""Flows as descriptions: made, joined and awaited, and what a newcomer's first mistakes say."""

import asyncio
import functools
import inspect
import sys
import traceback
from collections.abc import Callable
from typing import Any

import anyio
import anyio.lowlevel
import pytest

from streamkit.errors import DefinitionError, FlowNotOpened
from streamkit.flows.flow import Flow, Sink, flow

from ..attacks import Boom, count_to, fail_after_events

HERE = __file__


async def outcome(work: Flow[Any, Any]) -> tuple[list[Any], Any]:
    async with work.open() as events:
        seen = [event async for event in events]
        return seen, events.value


# A description


async def test_nothing_runs_until_a_flow_is_opened_or_awaited_and_each_time_it_runs_anew() -> None:
    runs = []

    @flow
    async def work(out: Sink[int], name: str) -> None:
        runs.append(name)

    made = work("a").filter(str).then(lambda value: value).chain(lambda _: work("b")).map(str)
    made.open()
    assert runs == []
    await made
    await made
    await outcome(made)
    assert runs == ["a", "b"] * 3


async def test_a_method_returns_a_flow_of_its_own_run() -> None:
    class Counter:
        def __init__(self, step: int) -> None:
            self.step = step

        def count(self, times: int) -> Flow[int, str]:
            return Flow(lambda out: self._count(out, times))

        async def _count(self, out: Sink[int], times: int) -> str:
            for number in range(times):
                await out.send(number * self.step)
            return "done"

    assert await outcome(Counter(2).count(3)) == ([0, 2, 4], "done")


async def test_a_static_method_may_be_a_flow() -> None:
    class Counter:
        @staticmethod
        @flow
        async def count(out: Sink[int], times: int) -> str:
            return await out.forward(count_to(times))

    assert await Counter.count(2) == "done"


async def test_arguments_reach_the_work_as_they_were_given() -> None:
    @flow
    async def work(out: Sink[int], /, a: int, *rest: int, b: int = 0, **named: int) -> object:
        return a, rest, b, named

    assert await work(1, 2, 3, b=4, c=5) == (1, (2, 3), 4, {"c": 5})
    assert await work(a=1) == (1, (), 0, {})


def test_the_signature_is_that_of_the_maker_not_of_the_work() -> None:
    @flow
    async def work(out: Sink[int], url: str, *, limit: int = 3) -> bytes:
        """Fetch it."""
        return b""

    assert str(inspect.signature(work)) == "(url: str, *, limit: int = 3) -> 'Flow[int, bytes]'"
    assert work.__name__ == "work"
    assert work.__doc__ == "Fetch it."
    assert not inspect.iscoroutinefunction(work)


def test_the_signature_gives_a_flow_of_whatever_the_annotations_name() -> None:
    @flow
    async def as_text(out: "Sink[dict[str, int]]") -> "list[str]":
        return []

    @flow
    async def untold(out):  # type: ignore[no-untyped-def]
        pass

    assert str(inspect.signature(as_text)) == "() -> 'Flow[dict[str, int], list[str]]'"
    assert str(inspect.signature(untold)) == "() -> 'Flow[Any, Any]'"


def test_a_repr_names_the_function_and_the_place_where_it_was_called() -> None:
    made = count_to(3)
    line = sys._getframe().f_lineno - 1
    assert repr(made) == f"<Flow count_to made at {HERE}:{line}>"


@pytest.mark.parametrize(
    "derive",
    [
        lambda made: made.map(str),
        lambda made: made.filter(str),
        lambda made: made.tap(str),
        lambda made: made.then(str),
        lambda made: made.chain(str),
    ],
    ids=["map", "filter", "tap", "then", "chain"],
)
def test_a_derived_flow_is_called_after_its_origin(derive: Callable[[Flow[Any, Any]], Flow[Any, Any]]) -> None:
    made = count_to(3)
    assert repr(derive(made)) == repr(made)


def test_a_repr_of_a_flow_without_decorator_names_its_run_and_place() -> None:
    async def fetch(out: Sink[int]) -> None:
        """Nothing."""

    class Fetch:
        async def __call__(self, out: Sink[int]) -> None:
            """Nothing."""

    for run in (fetch, Fetch(), functools.partial(fetch)):
        made: Flow[int, None] = Flow(run)
        line = sys._getframe().f_lineno - 1
        assert repr(made).endswith(f" made at {HERE}:{line}>")
    assert "fetch" in repr(Flow(fetch))


# Mistakes that speak


async def test_iterating_a_flow_says_to_open_it_first() -> None:
    with pytest.raises(TypeError, match=r"open the flow first: async with flow\.open\(\) as events") as caught:
        async for _ in count_to(1):
            raise AssertionError
    assert isinstance(caught.value, FlowNotOpened)


async def test_entering_a_flow_says_to_open_it_first() -> None:
    with pytest.raises(TypeError, match=r"open the flow first: async with flow\.open\(\) as events"):
        async with count_to(1):
            raise AssertionError


async def method(self: object, out: Sink[int]) -> None:
    """What an author of a class might decorate."""


async def class_method(cls: object, out: Sink[int]) -> None:
    """The same with classes."""


async def generator(out: Sink[int]) -> Any:
    yield 1


def plain(out: Sink[int]) -> None:
    """No coroutine function."""


async def without_sink() -> None:
    """No place for the sink."""


async def keyword_only(*, out: Sink[int]) -> None:
    """No place either."""


@pytest.mark.parametrize(
    ("function", "fix"),
    [
        (method, "let method return Flow"),
        (class_method, "let class_method return Flow"),
        (generator, "async def generator, its first parameter the sink"),
        (plain, "async def plain, its first parameter the sink"),
        (len, "takes a coroutine function"),
        (42, "takes a coroutine function"),
        (staticmethod(generator), "takes a coroutine function"),
        (without_sink, "first parameter of without_sink must be the sink"),
        (keyword_only, "first parameter of keyword_only must be the sink"),
    ],
)
def test_what_cannot_be_a_flow_is_refused_at_its_definition(function: Any, fix: str) -> None:
    with pytest.raises(DefinitionError, match=fix):
        flow(function)


@pytest.mark.parametrize("name", ["map", "filter", "tap", "then", "chain"])
def test_a_coroutine_function_is_refused_where_a_plain_one_is_called(name: str) -> None:
    async def slow(_: object) -> None:
        """Would never be awaited."""

    for function in (slow, functools.partial(slow)):
        with pytest.raises(TypeError, match=f"{name} takes a plain function"):
            getattr(count_to(1), name)(function)


@pytest.mark.parametrize("make", [count_to, anyio.sleep], ids=["flow", "coroutine"])
async def test_a_then_function_that_gives_an_awaitable_is_told_of_chain(
    make: Callable[[int], Any],
) -> None:
    with pytest.raises(TypeError, match=r"not a value; to run a flow next use chain"):
        await count_to(1).then(lambda _: make(0))


@pytest.mark.parametrize("made", [42, count_to], ids=["value", "function"])
async def test_a_chain_function_that_gives_no_flow_is_told(made: Any) -> None:
    with pytest.raises(TypeError, match=f"chain: the function returned a {type(made).__name__}, not a Flow"):
        await count_to(1).chain(lambda _: made)


@pytest.mark.parametrize("forwarded", [42, count_to, [1, 2]], ids=["value", "function", "events"])
async def test_forwarding_what_is_no_flow_is_told(forwarded: Any) -> None:
    @flow
    async def work(out: Sink[int]) -> None:
        await out.forward(forwarded)

    with pytest.raises(TypeError, match=f"forward takes a Flow, not {type(forwarded).__name__}"):
        await work()


async def test_forwarding_a_coroutine_is_told_and_nothing_else() -> None:
    @flow
    async def work(out: Sink[int]) -> None:
        await out.forward(anyio.lowlevel.checkpoint())  # type: ignore[arg-type]

    with pytest.raises(TypeError, match="forward takes a Flow, not coroutine"):
        await work()


# Joining


async def test_then_replaces_the_value_and_keeps_the_events() -> None:
    assert await outcome(count_to(2).then(str.upper)) == ([0, 1], "DONE")


async def test_chain_runs_the_flow_that_is_made_of_the_value() -> None:
    assert await outcome(count_to(2).then(len).chain(count_to)) == ([0, 1, 0, 1, 2, 3], "done")


async def test_functions_after_a_chain_see_the_events_of_both() -> None:
    assert await outcome(count_to(1).chain(lambda _: count_to(1)).map(str)) == (["0", "0"], "done")
    assert await outcome(count_to(1).map(lambda number: -1).chain(lambda _: count_to(1))) == ([-1, 0], "done")


async def test_the_second_of_a_chain_does_not_run_when_the_first_fails() -> None:
    def never(_: object) -> Flow[int, str]:
        raise AssertionError

    with pytest.raises(Boom):
        await fail_after_events(1, Boom()).chain(never)


@pytest.mark.parametrize("name", ["then", "chain"])
async def test_what_a_then_or_chain_function_raises_is_the_failure_of_the_flow(name: str) -> None:
    def explode(_: object) -> Any:
        raise Boom

    async with getattr(count_to(2), name)(explode).open() as events:
        assert [await anext(events), await anext(events)] == [0, 1]
        with pytest.raises(Boom):
            await anext(events)


async def test_forward_gives_the_events_in_place_and_returns_the_value() -> None:
    @flow
    async def work(out: Sink[int]) -> list[str]:
        await out.send(-1)
        values = [await out.forward(count_to(2)), await out.forward(count_to(1))]
        await out.send(-2)
        return values

    assert await outcome(work()) == ([-1, 0, 1, 0, -2], ["done", "done"])


async def test_an_error_of_a_forwarded_flow_can_be_caught_around_it() -> None:
    @flow
    async def work(out: Sink[int]) -> str:
        try:
            await out.forward(count_to(2).chain(lambda _: fail_after_events(1, Boom())))
            return "never"
        except Boom:
            return await out.forward(count_to(1))

    assert await outcome(work()) == ([0, 1, 0, 0], "done")


async def test_fifty_levels_of_nesting_give_the_same_events() -> None:
    def nested(levels: int) -> Flow[int, str]:
        @flow
        async def work(out: Sink[int]) -> str:
            return await out.forward(count_to(40) if levels == 0 else nested(levels - 1))

        return work()

    assert await outcome(nested(50)) == (list(range(40)), "done")


# Awaiting


async def test_awaiting_runs_in_place_without_a_task() -> None:
    here = anyio.get_current_task().id

    @flow
    async def work(out: Sink[int]) -> int:
        return anyio.get_current_task().id

    assert await work() == here
    assert await work().chain(lambda _: work()).map(str) == here


async def test_an_error_of_an_awaited_flow_is_raised_as_itself_with_the_frames_of_the_work() -> None:
    boom = Boom()
    with pytest.raises(Boom) as caught:
        await fail_after_events(100, boom).map(str)
    assert caught.value is boom
    assert boom.__context__ is None
    assert traceback.extract_tb(boom.__traceback__)[-1].name == "fail_after_events"


@pytest.mark.parametrize("anyio_backend", ["asyncio"])
async def test_asyncio_takes_a_flow_where_it_takes_an_awaitable(anyio_backend: str) -> None:
    assert tuple(await asyncio.gather(count_to(100), count_to(1))) == ("done", "done")
    assert await asyncio.wait_for(count_to(100), 60) == "done"
