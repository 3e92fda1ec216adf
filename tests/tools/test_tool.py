import contextvars
import dataclasses
import functools
import inspect
import pydoc
import threading
from collections.abc import AsyncIterator, Callable
from typing import Annotated, Any

import anyio
import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import Meta

from streamkit.errors import DefinitionError, FlowError, InvalidInput
from streamkit.flows.flow import Flow, Sink, flow
from streamkit.flows.sinks import DroppingSink
from streamkit.items import ToolSpec
from streamkit.tools.reducers import Reducer, collect, count
from streamkit.tools.tool import StreamingTool, Tool, ToolContext, current_sink, use_sink
from streamkit.turns import ToolInputEvent


class SearchInput(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    query: str
    limit: Annotated[int, Meta(ge=1, le=50)] = 3


async def search(query: str, limit: int = 3) -> list[str]:
    """Search the files."""
    return [query] * limit


def made(function: Callable[..., Any] = search, **fields: Any) -> Tool[..., Any]:
    return Tool(**{"name": "search", "description": "Search.", "input": SearchInput, "function": function, **fields})


def reduced(function: Callable[..., Any], **fields: Any) -> Tool[..., Any]:
    return StreamingTool(
        **{"name": "it", "description": "It.", "input": SearchInput, "function": function, "reducer": count(), **fields}
    )


# A record, and the function it was made of


async def test_a_tool_is_called_as_its_function() -> None:
    tool = Tool(name="search", description="Search.", input=SearchInput, function=search)
    assert await tool("a", limit=2) == ["a", "a"]


def test_a_tool_shows_the_face_of_its_function() -> None:
    tool = made()
    assert inspect.signature(tool) == inspect.signature(search)
    assert (tool.__name__, tool.__doc__, tool.__module__) == ("search", search.__doc__, __name__)  # type: ignore[attr-defined]
    assert inspect.unwrap(tool) is search
    assert "Search the files." in pydoc.render_doc(tool)


def test_a_tool_is_shown_by_its_name_and_fields() -> None:
    class Input(msgspec.Struct):
        place: str
        note: str = "x" * 100
        tags: list[str] = []

    assert repr(made()) == "<Tool search(query, limit=3)>"
    assert repr(made(lambda **_: None, input=Input)) == "<Tool search(place, note='xxxxxxxxxxxxxxxxxx…, tags=[])>"


def test_tools_are_equal_to_themselves_alone() -> None:
    one, other = made(), made()
    assert one != other
    assert len({one, other, one}) == 2


def test_a_tool_cannot_be_changed_but_replaced() -> None:
    tool = made(serial="files")
    with pytest.raises(dataclasses.FrozenInstanceError):
        tool.name = "find"  # type: ignore[misc]
    renamed = dataclasses.replace(tool, name="find")
    assert (renamed.spec.name, renamed.serial, renamed.function) == ("find", "files", tool.function)


def test_a_model_is_told_name_description_and_parameters() -> None:
    assert made().spec == ToolSpec(
        "search",
        "Search.",
        {
            "type": "object",
            "properties": {
                "query": {"type": "string"},
                "limit": {"type": "integer", "minimum": 1, "maximum": 50, "default": 3},
            },
            "required": ["query"],
            "additionalProperties": False,
        },
    )


def test_a_plain_function_wants_a_thread_and_a_coroutine_function_none() -> None:
    def plain(query: str, limit: int) -> None: ...

    assert made(plain).in_thread
    assert not made(search).in_thread


# Arguments


@pytest.mark.parametrize(
    ("text", "arguments"),
    [
        ('{"query": "a"}', {"query": "a", "limit": 3}),
        (' {"limit":50,"query":"a"} ', {"query": "a", "limit": 50}),
        (r'{"query": "\ud800"}', {"query": "\ufffd", "limit": 3}),
    ],
)
def test_arguments_are_given_by_name_with_all_defaults(text: str, arguments: dict[str, Any]) -> None:
    assert made().decode(text) == arguments


def test_arguments_that_do_not_fit_are_told_without_a_trace_of_the_inside() -> None:
    with pytest.raises(InvalidInput, match="limit: expected integer <= 50, but got 51") as raised:
        made().decode('{"query": "a", "limit": 51}')
    assert raised.value.__context__ is None


def test_values_inside_arguments_keep_their_types() -> None:
    class Place(msgspec.Struct):
        x: int

    class Input(msgspec.Struct):
        places: list[Place]

    tool = made(lambda places: None, input=Input)
    assert tool.decode('{"places": [{"x": 1}]}') == {"places": [Place(1)]}
    assert tool.convert({"places": [{"x": 1}]}) == tool.convert({"places": [Place(1)]}) == {"places": [Place(1)]}


@given(st.text(), st.integers(1, 50))
def test_arguments_of_a_person_are_checked_like_those_of_a_model(query: str, limit: int) -> None:
    assert made().convert({"query": query, "limit": limit}) == {"query": query, "limit": limit}
    with pytest.raises(InvalidInput, match="limit"):
        made().convert({"query": query, "limit": limit + 50})


def test_arguments_that_json_cannot_carry_are_refused() -> None:
    with pytest.raises(InvalidInput, match="cannot be written as JSON"):
        made().convert({"query": object()})


# A call


CONTEXT = ToolContext("turn/0", "call", "turn", "search", 1, {"user": "ada"})


def start(tool: Tool[..., Any]) -> Any:
    return tool.start(CONTEXT, Sink(), {"query": "a", "limit": 2})


def test_context_and_sink_come_before_the_arguments() -> None:
    def both(context: ToolContext[Any], out: Sink[Any], /, query: str, limit: int) -> tuple[object, ...]:
        return context, type(out), query, limit

    def first(special: object, query: str, limit: int) -> tuple[object, ...]:
        return type(special), query, limit

    assert start(made(both, takes_context=True, takes_sink=True)) == (CONTEXT, Sink, "a", 2)
    assert start(made(first, takes_context=True)) == (ToolContext, "a", 2)
    assert start(made(first, takes_sink=True)) == (Sink, "a", 2)


async def test_what_comes_back_is_what_the_function_gives() -> None:
    async def events(query: str, limit: int) -> AsyncIterator[str]:
        for _ in range(limit):
            yield query

    @flow
    async def work(out: Sink[str], query: str, limit: int) -> int:
        await out.send(query)
        return limit

    assert await start(made()) == ["a", "a"]
    assert [event async for event in start(reduced(events))] == ["a", "a"]
    assert isinstance(start(made(work)), Flow)
    assert await start(made(work)) == 2


async def test_the_current_sink_is_known_inside_a_call_and_its_tasks_and_threads() -> None:
    found: list[Sink[Any]] = []

    async def look() -> None:
        found.append(current_sink())

    with DroppingSink[Any]() as sink:
        use_sink(sink)
        found.append(current_sink())
        async with anyio.create_task_group() as group:
            group.start_soon(look)
        await anyio.to_thread.run_sync(lambda: found.append(current_sink()))
    assert found == [sink] * 3


def test_outside_of_a_call_there_is_no_sink() -> None:
    with pytest.raises(FlowError, match="only while a tool runs"):
        current_sink()
    seen: list[Exception] = []

    def look() -> None:
        try:
            current_sink()
        except FlowError as error:
            seen.append(error)

    def call() -> None:
        use_sink(Sink())
        thread = threading.Thread(target=look)  # without a copy of the context
        thread.start()
        thread.join()

    contextvars.copy_context().run(call)
    assert len(seen) == 1


# What is refused


def refused(message: str, make: Callable[..., object] = made, *arguments: Any, **fields: Any) -> None:
    with pytest.raises(DefinitionError, match=message):
        make(*arguments, **fields)


@pytest.mark.parametrize("name", ["", "a b", "käse", "a.b", "x" * 65, "a\n", None, 3])
def test_names_that_providers_refuse(name: object) -> None:
    refused("1 to 64 letters", name=name)


@pytest.mark.parametrize("name", ["a", "_", "Search-2_x", "x" * 64])
def test_names_that_providers_take(name: str) -> None:
    assert made(name=name).spec.name == name


def test_a_tool_without_description() -> None:
    refused("tool 'search': .* write a docstring", description=" \n")


@pytest.mark.parametrize("serial", ["", True, ("files",)])
def test_a_serial_key_that_is_no_name(serial: object) -> None:
    refused("serial is the name", serial=serial)


@pytest.mark.parametrize("limit", ["timeout_seconds", "idle_timeout_seconds"])
@pytest.mark.parametrize("seconds", [0, -1.5, float("nan"), True, "3"])
def test_time_limits_that_no_call_can_keep(limit: str, seconds: object) -> None:
    refused(f"{limit} is {seconds!r}", made, **{limit: seconds})


def test_an_input_that_is_not_an_object_for_the_model() -> None:
    class Row(msgspec.Struct, array_like=True):
        query: str

    class Odd(msgspec.Struct):
        query: complex

    refused("without array_like", input=Row)
    refused("complex", input=Odd)
    refused("must be a msgspec Struct", input=dict)


def test_a_function_that_its_input_does_not_fit() -> None:
    async def find(text: str) -> None: ...

    async def with_sink(out: Sink[Any], query: str, limit: int) -> None: ...

    refused("tool 'search': its function cannot be called with its input .*'text'", made, find)
    refused(r"takes_sink=.*'out'", made, with_sink)
    refused("made of a function", made, "search")
    refused("made of a function", made, made())


def test_hooks_that_cannot_be_called_as_they_will_be() -> None:
    def check(query: str) -> None: ...

    def hear() -> None: ...

    refused("check= must take the arguments .*'limit'", check=check)
    refused("check= must take", check="query")
    refused("on_input= must take one ToolInputEvent", on_input=hear)


def test_a_hook_may_be_plain_or_async_and_a_check_only_plain() -> None:
    def check(**arguments: Any) -> None: ...

    async def check_slowly(**arguments: Any) -> None: ...

    def hear(event: ToolInputEvent) -> None: ...

    async def hear_slowly(event: ToolInputEvent) -> None: ...

    for hook in (hear, hear_slowly):
        tool = made(check=check, on_input=hook)
        assert (tool.check, tool.on_input) == (check, hook)
    refused("check= takes a plain function", check=check_slowly)


def test_a_tool_that_yields_needs_a_reducer_and_one_with_a_reducer_needs_events() -> None:
    def events(query: str, limit: int) -> Any:
        yield query

    async def quiet(query: str, limit: int) -> None: ...

    async def sending(out: Sink[Any], query: str, limit: int) -> None: ...

    refused("it yields, so use @streaming_tool", made, events)
    refused("nothing it does can be reduced", reduced, quiet)
    refused("reduce= takes a Reducer", reduced, events, reducer=collect)
    assert isinstance(reduced(sending, takes_sink=True), StreamingTool)
    assert isinstance(reduced(functools.partial(events)).reducer, Reducer)  # type: ignore[attr-defined]
