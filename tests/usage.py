"""The public API as a user writes it, for the type checkers: what they infer is asserted, what they refuse is marked.

`mypy --strict` and basedpyright (strict) check this file; an ignore that hides no error is itself an error. Importing
it defines every tool, so it also has to work.
"""

# pyright: reportUnnecessaryTypeIgnoreComment=true

from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Annotated, Any, assert_type

import msgspec
from msgspec import Meta
from pydantic import BaseModel

from streamkit import (
    Conversation,
    Flow,
    Model,
    Next,
    Reducer,
    RunEvent,
    Sink,
    Stop,
    StreamingTool,
    TextDelta,
    Tool,
    ToolContext,
    ToolInputEvent,
    Toolkit,
    ToolResult,
    Turn,
    TurnEvent,
    TurnRequest,
    collect,
    converse,
    count,
    execute_all,
    first,
    flow,
    fold,
    join_text,
    last,
    loop,
    reduce_stream,
    streaming_tool,
    tool,
    user,
)
from streamkit.answers import answer


@dataclass
class Progress:
    done: int


@dataclass
class Report:
    size: int


@dataclass
class App:
    user: str


# A coroutine function, a plain function, a function that returns a Flow


@tool
async def search(query: str, limit: Annotated[int, Meta(ge=1, le=50)] = 3) -> list[str]:
    """Search the files."""
    return [query] * limit


@tool(serial="files", timeout_seconds=2.5)
def size(path: str) -> int:
    """Size of a file."""
    return len(path)


@flow
async def listen_to(out: Sink[Progress], seconds: int) -> Report:
    """Listen."""
    await out.send(Progress(seconds))
    return Report(seconds)


listening = tool(listen_to, name="listen")


async def check_tools() -> None:
    assert_type(await search("a"), list[str])
    assert_type(await search(query="a", limit=2), list[str])
    assert_type(size("a"), int)
    assert_type(await listening(seconds=3), Report)
    await search(3)  # type: ignore[arg-type]
    await search("a", size=3)  # type: ignore[call-arg]
    size(path=3)  # type: ignore[arg-type]
    await listening("3")  # type: ignore[arg-type]


# Context and sink first


@tool
async def whoami(context: ToolContext[App], formal: bool = False) -> str:
    """Who asks."""
    return assert_type(context.context, App).user if formal else context.tool


@tool
async def download(out: Sink[Progress], url: str) -> Report:
    """Download."""
    await out.send(Progress(len(url)))
    return Report(1)


@streaming_tool
def upload(context: ToolContext[App], out: Sink[Progress], path: str) -> Report:
    """Upload."""
    out.send_from_thread(Progress(1))
    return Report(len(path))


async def check_context_and_sink(context: ToolContext[App], out: Sink[Progress], other: Sink[str]) -> None:
    assert_type(await whoami(context, formal=True), str)
    assert_type(await download(out, "a"), Report)
    assert_type(upload(context, out, "a"), Report)
    upload(context, other, "a")  # type: ignore[arg-type]


# Streaming tools: the parameters and what a call gives stay the function's own; the reducer has events and value


@streaming_tool(reduce=last(Report))
async def fetch(url: str) -> AsyncIterator[Progress | Report]:
    """Fetch."""
    yield Progress(1)
    yield Report(len(url))


def total(numbers: list[int]) -> str:
    return str(sum(numbers))


@streaming_tool(finalize=total)
def measure(count: int, step: int = 1) -> Iterator[int]:
    """Measure."""
    yield from range(0, count, step)


async def read(path: str) -> AsyncIterator[Progress]:
    """Read."""
    yield Progress(len(path))


async def check_streaming_tools() -> None:
    assert_type(fetch("a"), AsyncIterator[Progress | Report])
    assert_type(fetch.reducer, Reducer[Progress | Report, Any, Report])
    assert_type(measure(3, step=2), Iterator[int])
    assert_type(measure.reducer, Reducer[int, Any, str])
    fetch(3)  # type: ignore[arg-type]
    measure()  # type: ignore[call-arg]

    by_lambda = streaming_tool(read, finalize=lambda events: events[-1].done)
    assert_type(by_lambda.reducer, Reducer[Progress, Any, int])
    assert_type(by_lambda(path="a"), AsyncIterator[Progress])
    everything: StreamingTool[[str], AsyncIterator[Progress], Progress, list[Progress]]
    everything = streaming_tool(read, finalize=list)
    assert_type(everything.reducer, Reducer[Progress, Any, list[Progress]])
    counted = streaming_tool(listen_to, reduce=count())
    assert_type(await counted(3), Report)
    assert_type(counted.reducer, Reducer[Progress, Any, int])
    streaming_tool(read, finalize=total)  # type: ignore[arg-type]


@streaming_tool(reduce=first(Progress, default=None), idle_timeout_seconds=1)
async def poll(context: ToolContext[App], out: Sink[Progress], times: int) -> None:
    """Poll."""
    for time in range(times):
        await out.send(Progress(time))


@streaming_tool(reduce=join_text("\n"))
async def recite(out: Sink[str], lines: int) -> None:
    """Recite."""
    await out.send("a" * lines)


@streaming_tool(reduce=collect())
async def hits(query: str) -> AsyncIterator[Report]:
    """Hits."""
    yield Report(len(query))


async def check_sinks(context: ToolContext[App], out: Sink[Progress], words: Sink[str]) -> None:
    assert_type(await poll(context, out, 3), None)
    assert_type(poll.reducer, Reducer[Progress, Any, Progress | None])
    assert_type(await recite(words, 3), None)
    assert_type(recite.reducer, Reducer[str, Any, str])
    assert_type(hits("a"), AsyncIterator[Report])
    async for hit in hits("a"):
        assert_type(hit, Report)


# Methods, partials, hooks, tools made at run time


class Desk:
    async def search(self, query: str) -> list[str]:
        """Search the desk."""
        return [query]


def make_tools(desk: Desk) -> tuple[Tool[..., Any], ...]:
    def check(query: str) -> None:
        if not query:
            raise ValueError("query must not be empty")

    async def hear(event: ToolInputEvent) -> None: ...

    return tool(desk.search, check=check, on_input=hear), tool(partial(desk.search, "a"), name="search_a")


class LookUp(msgspec.Struct, kw_only=True):
    word: str


async def look_up(word: str) -> int:
    return len(word)


def spell(word: str) -> Iterator[str]:
    yield from word


looked_up = Tool(name="look_up", description="Look it up.", input=LookUp, function=look_up)
spelled = StreamingTool(name="spell", description="Spell it.", input=LookUp, function=spell, reducer=join_text("-"))


# Reducers over any async iterable


async def check_reducers() -> None:
    def add(sum_so_far: float, event: Progress) -> float:
        return sum_so_far + event.done

    assert_type(await reduce_stream(read("a"), last(Progress)), Progress)
    assert_type(await reduce_stream(read("a"), last(Report, default=None)), Report | None)
    assert_type(await reduce_stream(read("a"), first(Progress, default=0)), Progress | int)
    assert_type(await reduce_stream(read("a"), count()), int)
    assert_type(await reduce_stream(read("a"), join_text()), str)
    assert_type(await reduce_stream(read("a"), fold(add, 0.0)), float)
    assert_type(await reduce_stream(read("a"), collect(len, max_items=3)), int)
    found: list[Progress] = await reduce_stream(read("a"), collect())
    assert found
    await reduce_stream(read("a"), collect(total))  # pyright: ignore[reportArgumentType]  # mypy lets it pass
    assert_type(await looked_up("a"), int)
    assert_type(spelled.reducer, Reducer[object, Any, str])
    async with listen_to(3).open() as events:
        assert_type(await reduce_stream(events, last(Progress)), Progress)


# The loop: forwarding flows, one's own state, the ready-made one


async def check_loop(model: Model, out: Sink[RunEvent]) -> None:
    toolkit = Toolkit(search, size)

    async def step(out: Sink[RunEvent], state: Conversation) -> Next[Conversation] | Stop[Conversation]:
        turn = await out.forward(toolkit.listen(model.stream_turn(TurnRequest(state.history, toolkit.specs))))
        assert_type(turn, Turn)
        if not turn.wants_more:
            return Stop(state.add(turn))
        results = await out.forward(execute_all(toolkit, turn.calls))
        assert_type(results, tuple[ToolResult, ...])
        return Next(state.add(turn, results))

    assert_type(await loop(step, Conversation((user("hi"),))), Conversation)
    assert_type(await out.forward(loop(step, Conversation((user("hi"),)))), Conversation)
    assert_type(await converse(model, toolkit, [user("hi")]), Conversation)
    async with converse(model, toolkit, (user("hi"),)).open() as events:
        async for event in events:
            assert_type(event, RunEvent)
    assert_type(events.value, Conversation)
    texts: Flow[str, Conversation] = (
        converse(model, toolkit, (user("hi"),)).filter(lambda event: isinstance(event, TextDelta)).map(repr)
    )
    assert_type(await texts, Conversation)


# Structured output


class Weather(BaseModel):
    city: str
    degrees: float


async def check_answers(model: Model, request: TurnRequest) -> None:
    assert_type(await answer(model, request, Weather), Weather)
    assert_type(await answer(model, request, Progress, max_repairs=0), Progress)
    assert_type(await answer(model, request, list[int]), list[int])
    assert_type(await answer(model, request, int | str), Any)
    assert_type(await answer(model, request, {"type": "object"}), Any)
    async with answer(model, request, Weather).open() as events:
        async for event in events:
            assert_type(event, TurnEvent)
    assert_type(events.value, Weather)


# Tools typed with a model of pydantic, or with a schema


@tool
async def forecast(place: Weather, days: int = 1) -> str:
    """Forecast."""
    return place.city * days


@tool(input=Weather, coerce=False)
async def record(city: str, degrees: float) -> int:
    """Record."""
    return len(city)


async def ask(**arguments: Any) -> int:
    return len(arguments)


asked = Tool(name="ask", description="Ask.", input={"type": "object"}, function=ask)


async def check_inputs(weather: Weather) -> None:
    assert_type(await forecast(weather, days=2), str)
    assert_type(await record("Oslo", 3.5), int)
    assert_type(await asked(city="Oslo"), int)
    await forecast("Oslo")  # type: ignore[arg-type]
