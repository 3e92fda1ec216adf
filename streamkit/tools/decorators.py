"""`@tool` and `@streaming_tool`: a function becomes a `Tool`, described by its own docstring and annotations.

Both stand before a function, bare or with options, or take it as their first argument: `tool(desk.search)` for a bound
method or a partial, `streaming_tool(search, finalize=lambda hits: hits[:3])` for a lambda that is to be typed.

A type checker then knows the parameters and what a call gives, and of a streaming tool the events and the value. The
events are those that the function yields, sends or puts in its Flow, and the reducer must take them.
"""

from __future__ import annotations

import inspect
import typing
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from typing import Any, Concatenate, Generic, ParamSpec, Protocol, TypedDict, TypeVar, Unpack, overload

from ..errors import DefinitionError
from ..flows.flow import Flow
from ..flows.sinks import Sink
from ..shapes.schema import input_struct
from ..tool_events import Effects
from ..turns import ToolInputEvent
from .reducers import Reducer, collect
from .signatures import certainly_gives_no_events, definition, parameters
from .tool import StreamingTool, Tool, ToolContext

P = ParamSpec("P")
E = TypeVar("E")
R = TypeVar("R")
V = TypeVar("V")
X = TypeVar("X")
V_co = TypeVar("V_co", covariant=True)


class ToolOptions(TypedDict, total=False):
    """What can be said of any tool beyond its function; see Tool.

    name, description: the name and the whole docstring of the function, unless given. input: what the tool takes, in
    place of the annotations of its parameters: a Struct, a pydantic model, or a JSON Schema.
    """

    name: str
    description: str
    input: type[Any] | Mapping[str, Any]
    result_limit_bytes: int
    coerce: bool
    approval: bool
    origin: str
    effects: Effects
    on_input: Callable[[ToolInputEvent], object]
    check: Callable[..., object]
    serial: str
    timeout_seconds: float
    idle_timeout_seconds: float


_OPTIONS = ToolOptions.__annotations__.keys() | {"reducer"}


class ReducingOptions(ToolOptions, Generic[E, V], total=False):
    """How the events of a tool become its value: give one of the two. finalize: makes it of the list of all events."""

    finalize: Callable[[list[E]], V]
    reduce: Reducer[E, Any, V]


@overload
def tool(function: Callable[P, R], /, **options: Unpack[ToolOptions]) -> Tool[P, R]: ...
@overload
def tool(**options: Unpack[ToolOptions]) -> Callable[[Callable[P, R]], Tool[P, R]]: ...
def tool(function: Callable[..., Any] | None = None, /, **options: Any) -> Any:
    """A tool whose value is what the function returns, or what its Flow gives.

    For a coroutine function, a plain function (run on a worker thread) and one that returns a Flow. A ToolContext and a
    Sink may come first among the parameters; all others are what the model fills in. Their annotations make the schema
    (`Annotated[int, Meta(ge=1, description="…")]` says more), their defaults make them optional.
    Raises DefinitionError, with the fix, for what cannot be a tool.
    """
    if function is None:
        return lambda function: _made_of(function, Tool, options)
    return _made_of(function, Tool, options)


class Reduced(Protocol[E, V_co]):
    """The decorator that a reducer of events of type E makes."""

    @overload
    def __call__(self, function: Callable[P, AsyncIterator[E]], /) -> StreamingTool[P, AsyncIterator[E], E, V_co]: ...
    @overload
    def __call__(self, function: Callable[P, Iterator[E]], /) -> StreamingTool[P, Iterator[E], E, V_co]: ...
    @overload
    def __call__(self, function: Callable[P, Flow[E, R]], /) -> StreamingTool[P, Flow[E, R], E, V_co]: ...
    @overload
    def __call__(
        self, function: Callable[Concatenate[Sink[E], P], R], /
    ) -> StreamingTool[Concatenate[Sink[E], P], R, E, V_co]: ...
    @overload
    def __call__(
        self, function: Callable[Concatenate[ToolContext[X], Sink[E], P], R], /
    ) -> StreamingTool[Concatenate[ToolContext[X], Sink[E], P], R, E, V_co]: ...


class ReducedOfAny(Protocol[V_co]):
    """The decorator of `finalize=`, or of a reducer of any events such as `count()`: the function names their type."""

    @overload
    def __call__(self, function: Callable[P, AsyncIterator[E]], /) -> StreamingTool[P, AsyncIterator[E], E, V_co]: ...
    @overload
    def __call__(self, function: Callable[P, Iterator[E]], /) -> StreamingTool[P, Iterator[E], E, V_co]: ...
    @overload
    def __call__(self, function: Callable[P, Flow[E, R]], /) -> StreamingTool[P, Flow[E, R], E, V_co]: ...
    @overload
    def __call__(
        self, function: Callable[Concatenate[Sink[E], P], R], /
    ) -> StreamingTool[Concatenate[Sink[E], P], R, E, V_co]: ...
    @overload
    def __call__(
        self, function: Callable[Concatenate[ToolContext[X], Sink[E], P], R], /
    ) -> StreamingTool[Concatenate[ToolContext[X], Sink[E], P], R, E, V_co]: ...


@overload
def streaming_tool(  # type: ignore[overload-overlap]  # with neither finalize= nor reduce=, and then this one answers
    function: Callable[P, R], /, **options: Unpack[ToolOptions]
) -> Tool[P, R]: ...
@overload
def streaming_tool(**options: Unpack[ToolOptions]) -> Callable[[Callable[P, R]], Tool[P, R]]: ...
@overload
def streaming_tool(*, reduce: Reducer[object, Any, V], **options: Unpack[ToolOptions]) -> ReducedOfAny[V]: ...
@overload
def streaming_tool(*, finalize: Callable[[list[Any]], V], **options: Unpack[ToolOptions]) -> ReducedOfAny[V]: ...
@overload
def streaming_tool(*, reduce: Reducer[E, Any, V], **options: Unpack[ToolOptions]) -> Reduced[E, V]: ...
@overload
def streaming_tool(
    function: Callable[P, AsyncIterator[E]],
    /,
    **options: Unpack[ReducingOptions[E, V]],
) -> StreamingTool[P, AsyncIterator[E], E, V]: ...
@overload
def streaming_tool(
    function: Callable[P, Iterator[E]],
    /,
    **options: Unpack[ReducingOptions[E, V]],
) -> StreamingTool[P, Iterator[E], E, V]: ...
@overload
def streaming_tool(
    function: Callable[P, Flow[E, R]],
    /,
    **options: Unpack[ReducingOptions[E, V]],
) -> StreamingTool[P, Flow[E, R], E, V]: ...
@overload
def streaming_tool(
    function: Callable[Concatenate[Sink[E], P], R],
    /,
    **options: Unpack[ReducingOptions[E, V]],
) -> StreamingTool[Concatenate[Sink[E], P], R, E, V]: ...
@overload
def streaming_tool(
    function: Callable[Concatenate[ToolContext[X], Sink[E], P], R],
    /,
    **options: Unpack[ReducingOptions[E, V]],
) -> StreamingTool[Concatenate[ToolContext[X], Sink[E], P], R, E, V]: ...
def streaming_tool(
    function: Callable[..., Any] | None = None,
    /,
    *,
    finalize: Callable[[list[Any]], Any] | None = None,
    reduce: Reducer[Any, Any, Any] | None = None,
    **options: Any,
) -> Any:
    """A tool that shows its work event by event: what it yields or sends to its Sink, or the events of its Flow.

    For an async generator, a plain generator (run on a worker thread), a function that returns a Flow, and any function
    that takes a Sink first. finalize: makes the value of the list of all events. reduce: a Reducer that makes it. A
    function that yields needs one of the two, because a generator has no value of its own. A Flow, or a function with a
    Sink, has a value: it counts if there is no reducer (the tool is then a plain Tool), and else is dropped.
    Raises DefinitionError, with the fix, for what cannot be a streaming tool.
    """
    if function is None:
        return lambda function: _streaming(function, finalize, reduce, options)
    return _streaming(function, finalize, reduce, options)


def _streaming(
    function: Callable[..., Any],
    finalize: Callable[[list[Any]], Any] | None,
    reduce: Reducer[Any, Any, Any] | None,
    options: dict[str, Any],
) -> Tool[..., Any]:
    what = f"tool {_name(function, options)!r}"
    if finalize is not None and reduce is not None:
        raise DefinitionError(f"{what}: give finalize= or reduce=, not both")
    if finalize is not None:
        try:
            reduce = collect(finalize)
        except DefinitionError as error:
            raise DefinitionError(f"{what}: as finalize=, {error}") from None
    if reduce is not None:
        return _made_of(function, StreamingTool, {**options, "reducer": reduce})
    made = _made_of(function, Tool, options)
    if not made.takes_sink and certainly_gives_no_events(function):
        raise DefinitionError(f"{what}: it shows nothing of its work: let it yield, or take a Sink first, or use @tool")
    return made


def _made_of(function: Callable[..., Any], kind: type[Tool[..., Any]], options: dict[str, Any]) -> Tool[..., Any]:
    name = _name(function, options)
    what = f"tool {name!r}"
    fields = parameters(function, what, by_name=(ToolContext, Sink))
    takes_context = _takes(ToolContext, fields)
    takes_sink = _takes(Sink, fields)
    for parameter in fields:
        if _is(ToolContext, parameter) or _is(Sink, parameter):
            raise DefinitionError(
                f"{what}: {parameter.name!r} must stand before what the model fills in, a ToolContext before a Sink"
            )
    for option in options.keys() - _OPTIONS:
        if option in ("finalize", "reduce"):
            raise DefinitionError(f"{what}: {option}= makes a value of events: it is an option of @streaming_tool")
        known = ", ".join(sorted(_OPTIONS - {"reducer"}))
        raise DefinitionError(f"{what}: there is no option {option}; there are {known}")
    if "input" not in options:
        options = {**options, "input": input_struct(fields, what)}
    return kind(
        function=function,
        takes_context=takes_context,
        takes_sink=takes_sink,
        **{"description": inspect.getdoc(definition(function)) or "", **options, "name": name},
    )


def _name(function: Callable[..., Any], options: dict[str, Any]) -> str:
    if isinstance(function, Tool):
        raise DefinitionError(f"{function!r} is a tool already; dataclasses.replace makes another one of it")
    if not callable(function):
        raise DefinitionError(f"a tool is made of a function, and {function!r} is not one")
    name: str | None = options.get("name", getattr(definition(function), "__name__", None))
    if name is None:
        raise DefinitionError(f"{function!r} has no name of its own: give the tool one with name=")
    return name


def _takes(special: type[Any], parameters: list[inspect.Parameter]) -> bool:
    """Whether the first parameter is the special one, which is then taken off the list."""
    if parameters and _is(special, parameters[0]) and parameters[0].kind is not inspect.Parameter.KEYWORD_ONLY:
        del parameters[0]
        return True
    return False


def _is(special: type[Any], parameter: inspect.Parameter) -> bool:
    kind = parameter.annotation
    while typing.get_origin(kind) is typing.Annotated:
        kind = typing.get_args(kind)[0]
    return (typing.get_origin(kind) or kind) is special
