from __future__ import annotations

import dataclasses
import functools
from collections.abc import AsyncIterator, Callable, Iterator
from typing import TYPE_CHECKING, Annotated, Any

import pytest
from msgspec import Meta

from streamkit.errors import DefinitionError
from streamkit.flows.flow import Flow, Sink, flow
from streamkit.tools.decorators import streaming_tool, tool
from streamkit.tools.reducers import collect, count, last
from streamkit.tools.tool import StreamingTool, Tool, ToolContext

from .. import usage

if TYPE_CHECKING:
    from decimal import Decimal


@dataclasses.dataclass
class Place:
    x: int


async def search(query: str, limit: int = 3) -> list[str]:
    """Search the files.

    Whole words only.
    """
    return [query] * limit


async def count_up(to: int) -> AsyncIterator[int]:
    """Count."""
    for number in range(to):
        yield number


# What a tool is made of


def test_a_tool_is_described_by_its_function() -> None:
    made = tool(search)
    assert type(made) is Tool
    assert (made.name, made.description) == ("search", "Search the files.\n\nWhole words only.")
    assert made.decode('{"query": "a"}') == {"query": "a", "limit": 3}


def test_options_say_what_the_function_does_not() -> None:
    def check(query: str, limit: int) -> None: ...

    made = tool(search, name="find", description="Find.", serial="files", timeout_seconds=2, check=check)
    assert (made.name, made.description, made.serial, made.timeout_seconds, made.check) == (
        "find", "Find.", "files", 2, check,
    )  # fmt: skip


async def test_a_decorated_function_is_called_as_before() -> None:
    @tool
    async def double(number: int) -> int:
        """Double it."""
        return number * 2

    @tool(serial="sums")
    def add(a: int, b: int = 1) -> int:
        """Add."""
        return a + b

    def total(numbers: list[int]) -> int:
        return sum(numbers)

    @streaming_tool(finalize=total)
    def odd(to: int) -> Iterator[int]:
        """Count by two."""
        yield from range(1, to, 2)

    assert await double(2) == 4
    assert add(1, b=2) == 3
    assert list(odd(6)) == [1, 3, 5]
    assert [number async for number in streaming_tool(count_up, reduce=count())(3)] == [0, 1, 2]


def test_types_beside_the_tool_are_found() -> None:
    @dataclasses.dataclass
    class Corner:
        side: Annotated[int, Meta(ge=0, le=3)]

    @tool(name="turn")
    def turn_around(corner: Corner, place: Place | None = None) -> None:
        """Turn."""

    assert turn_around.decode('{"corner": {"side": 3}}') == {"corner": Corner(3), "place": None}


def test_bound_methods_partials_and_objects_are_tools() -> None:
    class Desk:
        def search(self, query: str) -> str:
            """Search the desk."""
            return query

        async def __call__(self, place: int) -> int:
            """Look there."""
            return place

    desk = Desk()
    method, partial = tool(desk.search), tool(functools.partial(search, limit=9))
    called = tool(desk, name="look", description="Look there.")
    assert (method.name, method.description, method("a")) == ("search", "Search the desk.", "a")
    assert (partial.name, partial.description[:6], partial.decode('{"query": "a"}')) == (
        "search", "Search", {"query": "a"},
    )  # fmt: skip
    assert (called.in_thread, called.decode('{"place": 1}')) == (False, {"place": 1})


def test_context_and_sink_are_nothing_for_the_model() -> None:
    @tool
    def both(context: ToolContext[Decimal], out: Sink[Decimal], number: int) -> None:
        """Both."""

    @tool
    def context_alone(context: ToolContext[Any]) -> None:
        """The first."""

    @tool
    def sink_alone(out: Annotated[Sink[int], "events"]) -> None:
        """The second."""

    assert [(each.takes_context, each.takes_sink) for each in (both, context_alone, sink_alone)] == [
        (True, True), (True, False), (False, True),
    ]  # fmt: skip
    assert list(both.spec.parameters["properties"]) == ["number"]


def test_the_usage_file_defines_its_tools() -> None:
    made = usage.make_tools(usage.Desk())
    assert [each.name for each in made] == ["search", "search_a"]


# What makes the value


@flow
async def work(out: Sink[int], steps: int) -> str:
    """Work."""
    for step in range(steps):
        await out.send(step)
    return "done"


async def work_with_sink(out: Sink[int], steps: int) -> str:
    """Work."""
    return await out.forward(work(steps))


def returns_flow(steps: int) -> Flow[int, str]:
    """Work."""
    return work(steps)


def unannotated(steps: int):  # type: ignore[no-untyped-def]
    """Work."""
    return work(steps)


@pytest.mark.parametrize("function", [work, work_with_sink, returns_flow, unannotated])
def test_a_function_with_a_value_of_its_own_needs_no_reducer(function: Callable[..., Any]) -> None:
    assert type(streaming_tool(function)) is Tool
    assert type(streaming_tool(name="it")(function)) is Tool
    assert type(tool(function)) is Tool


@pytest.mark.parametrize("function", [work, work_with_sink, returns_flow, unannotated, count_up])
def test_with_a_reducer_the_events_make_the_value(function: Callable[..., Any]) -> None:
    reducer = last(int)
    made = streaming_tool(reduce=reducer)(function)
    assert isinstance(made, StreamingTool)
    assert made.reducer is reducer


def test_finalize_is_a_reducer_of_all_events() -> None:
    reducer = streaming_tool(count_up, finalize=lambda numbers: numbers[-1]).reducer
    state = reducer.start()
    for number in (1, 2):
        state = reducer.step(state, number)
    assert reducer.finish(state) == 2


# What is refused


def refused(message: str, make: Callable[..., object], function: object, **options: Any) -> None:
    with pytest.raises(DefinitionError, match=message):
        make(function, **options)
    with pytest.raises(DefinitionError, match=message):
        make(**options)(function)  # type: ignore[operator]


def test_a_generator_without_a_reducer() -> None:
    def plain(to: int) -> Iterator[int]:
        """Count."""
        yield from range(to)

    def looks_plain(to: int) -> AsyncIterator[int]:
        """Count."""
        return count_up(to)

    for function in (count_up, plain, looks_plain):
        refused("yields, so use @streaming_tool with finalize= or reduce=", tool, function)
        refused("yields, so use @streaming_tool with finalize= or reduce=", streaming_tool, function)


def test_a_streaming_tool_without_events() -> None:
    refused("tool 'search': it shows nothing", streaming_tool, search)
    refused("tool 'search': nothing it does can be reduced", streaming_tool, search, reduce=count())


def test_two_ways_to_the_value_or_one_that_does_not_work() -> None:
    async def finalize(events: list[int]) -> int:
        return 1

    refused("tool 'count_up': give finalize= or reduce=", streaming_tool, count_up, finalize=list, reduce=collect())
    refused("tool 'count_up': reduce= takes a Reducer", streaming_tool, count_up, reduce=count)
    refused("tool 'count_up': as finalize=, collect takes a function of", streaming_tool, count_up, finalize=lambda: 1)
    refused("tool 'search': finalize= makes a value of events: it is an option of @str", tool, search, finalize=len)
    refused("tool 'count_up': as finalize=, .* plain function", streaming_tool, count_up, finalize=finalize)


def test_a_context_or_sink_in_the_wrong_place() -> None:
    def later(number: int, out: Sink[int]) -> None: ...
    def swapped(out: Sink[int], context: ToolContext[None]) -> None: ...
    def twice(out: Sink[int], other: Sink[int]) -> None: ...
    def by_keyword(*, out: Sink[int]) -> None: ...

    refused("'out' must stand before", tool, later)
    refused("'context' must stand before", tool, swapped)
    refused("'other' must stand before", tool, twice)
    refused("'out' must stand before", tool, by_keyword)


def test_what_is_no_function_or_has_no_name() -> None:
    class Silent:
        def __call__(self) -> None: ...

    refused("a tool is made of a function, and 3 is not one", tool, 3)
    refused("is a tool already", streaming_tool, tool(search))
    refused("give the tool one with name=", tool, Silent())
    refused("give another with name=", tool, lambda: None)


def test_what_the_function_does_not_say_is_said_with_the_name_of_the_tool() -> None:
    def silent(number: int) -> None: ...
    def bare(number) -> None: ...  # type: ignore[no-untyped-def]
    def priced(price: Decimal) -> None: ...

    refused("tool 'silent': .* write a docstring", tool, silent)
    refused("tool 'bare': parameter 'number' has no annotation", tool, bare)
    refused("tool 'priced': the annotation 'Decimal' .* cannot be resolved", tool, priced)
    refused("tool 'it': parameter 'number' has no annotation", tool, bare, name="it")


def test_an_option_that_is_none() -> None:
    with pytest.raises(TypeError, match="timeout"):
        tool(search, timeout=3)  # type: ignore[call-overload]


@pytest.mark.parametrize("made", [tool, streaming_tool])
def test_an_option_that_does_not_exist_is_told_with_those_that_do(made: Any) -> None:
    async def f(out: Sink[int]) -> None:
        """Does f."""

    with pytest.raises(DefinitionError, match="no option aproval; there are approval, check"):
        made(aproval=True)(f)


def test_words_where_a_tool_takes_a_word_of_yes_or_no() -> None:
    refused("tool 'search': approval is True or False; ApprovalDesk", tool, search, approval=lambda call: True)
    refused("tool 'search': origin is text", tool, search, origin=3)
