"""`Flow`: events now, a value at the end. Push inside, pull at the edge.

An async generator that holds a task group or a cancel scope across a `yield` breaks when its consumer leaves early (PEP
789). So work never yields: it is a coroutine function that pushes its events into a `Sink` and returns its value. A
`Flow` describes such work, and nothing runs until it is opened (`async with flow.open() as events`), awaited (events
dropped, the value kept), or forwarded by other work into its own sink, which costs no queue and no task however deep it
goes. Only the edge, `Events`, has both: it runs the work as a task beside its consumer and hands over what the channel
holds.
"""

from __future__ import annotations

import functools
import inspect
import sys
from collections.abc import Awaitable, Callable, Coroutine, Generator
from types import FrameType
from typing import Any, Concatenate, Generic, NoReturn, ParamSpec, TypeVar

from ..errors import DefinitionError, FlowNotOpened
from .edge import Events
from .sinks import DroppingSink, FilteredSink, MappedSink, Sink, TappedSink

__all__ = ["Events", "Flow", "Sink", "flow"]

E = TypeVar("E")
F = TypeVar("F")
R = TypeVar("R")
S = TypeVar("S")
E_co = TypeVar("E_co", covariant=True)
R_co = TypeVar("R_co", covariant=True)
P = ParamSpec("P")


class Flow(Generic[E_co, R_co]):
    """A description of work that sends events of E and returns an R. Each opening, or await, runs it anew.

    run: the work; called with the sink for its events. Mostly made with `@flow`; a method returns `Flow(lambda out:
    self._work(out, 1))`.
    """

    def __init__(self, run: Callable[[Sink[E_co]], Awaitable[R_co]]) -> None:
        self._run = run
        self._name = getattr(run, "__qualname__", type(run).__qualname__)
        self._made_at = _place(sys._getframe(1))

    def open(self) -> Events[E_co, R_co]:
        """The events of one run: `async with flow.open() as events: async for event in events: …`, then `events.value`.

        Do not hold the block across a `yield`: an async generator around it breaks as PEP 789 describes.
        """
        return Events(self)

    def __await__(self) -> Generator[Any, Any, R_co]:
        """Run it here, without channel or task, and give its value.

        Events are dropped; `map`, `filter` and `tap` still see them.
        """
        return self._run_dropping().__await__()

    async def _run_dropping(self) -> R_co:
        out: DroppingSink[E_co] = DroppingSink()
        with out:
            return await self._run(out)

    def map(self, f: Callable[[E_co], F]) -> Flow[F, R_co]:
        """Each event replaced by f(event).

        What f raises is raised where the event is sent, and so mostly ends the work.
        """
        _refuse_async("map", f)
        return self._derive(lambda out: self._run(MappedSink(out, f)))

    def filter(self, f: Callable[[E_co], object]) -> Flow[E_co, R_co]:
        """Only the events for which f(event) is true. What f raises is raised where the event is sent."""
        _refuse_async("filter", f)
        return self._derive(lambda out: self._run(FilteredSink(out, f)))

    def tap(self, f: Callable[[E_co], object]) -> Flow[E_co, R_co]:
        """The same events, each shown to f first. Whatever f raises is logged and changes nothing."""
        _refuse_async("tap", f)
        return self._derive(lambda out: self._run(TappedSink(out, f)))

    def then(self, f: Callable[[R_co], S]) -> Flow[E_co, S]:
        """The same events, and f(value) as the value. f is a plain function; a flow to be run next needs `chain`."""
        _refuse_async("then", f)

        async def run(out: Sink[E_co]) -> S:
            value = f(await self._run(out))
            if inspect.isawaitable(value):
                if inspect.iscoroutine(value):
                    value.close()
                raise TypeError(
                    f"then: the function returned a {type(value).__name__}, not a value; to run a flow next use chain"
                )
            return value

        return self._derive(run)

    def chain(self, f: Callable[[R_co], Flow[E_co, S]]) -> Flow[E_co, S]:
        """This flow, then the flow that f makes of its value: the events of both, the value of the second."""
        _refuse_async("chain", f)

        async def run(out: Sink[E_co]) -> S:
            following = f(await self._run(out))
            if not isinstance(following, Flow):
                raise TypeError(f"chain: the function returned a {type(following).__name__}, not a Flow")
            return await out.forward(following)

        return self._derive(run)

    def _derive(self, run: Callable[[Sink[Any]], Awaitable[S]]) -> Flow[Any, S]:
        return _described(run, self._name, self._made_at)

    def __repr__(self) -> str:
        return f"<Flow {self._name} made at {self._made_at}>"

    def __aiter__(self) -> NoReturn:
        raise FlowNotOpened("open the flow first: async with flow.open() as events")

    async def __aenter__(self) -> NoReturn:
        raise FlowNotOpened("open the flow first: async with flow.open() as events")

    async def __aexit__(self, *_: object) -> None:
        """Only so that `async with flow` gets as far as the error of `__aenter__`."""


def flow(function: Callable[Concatenate[Sink[E], P], Coroutine[Any, Any, R]]) -> Callable[P, Flow[E, R]]:
    """`async def f(out: Sink[E], *args) -> R` becomes `f(*args) -> Flow[E, R]`.

    Raises DefinitionError for anything but a coroutine function, and for a method: there the sink would take the place
    of `self`.
    """
    name = getattr(function, "__qualname__", repr(function))
    if not inspect.iscoroutinefunction(function):
        raise DefinitionError(f"@flow takes a coroutine function: write async def {name}, its first parameter the sink")
    signature = inspect.signature(function)
    first = next(iter(signature.parameters.values()), None)
    if first is None or first.kind not in (first.POSITIONAL_ONLY, first.POSITIONAL_OR_KEYWORD):
        raise DefinitionError(f"@flow: the first parameter of {name} must be the sink, as in async def f(out, …)")
    if first.name in ("self", "cls"):
        raise DefinitionError(
            f"@flow is not for methods: let {name} return Flow(lambda out: self._run(out, …)) instead"
        )

    @functools.wraps(function)
    def make(*args: P.args, **kwargs: P.kwargs) -> Flow[E, R]:
        return _described(lambda out: function(out, *args, **kwargs), name, _place(sys._getframe(1)))

    # wraps would show the sink to whoever asks for the parameters, such as the schema of a tool, and no flow to `help`
    parameters = [parameter for parameter in signature.parameters.values() if parameter is not first]
    made = _made_by(first.annotation, signature.return_annotation)
    make.__signature__ = signature.replace(parameters=parameters, return_annotation=made)  # type: ignore[attr-defined]
    return make


def _made_by(sink: Any, value: Any) -> str:
    """The annotation `Flow[E, R]` of what makes a flow of `(Sink[E]) -> R`; as text, since it may name anything."""
    told = [Any if each is inspect.Parameter.empty else each for each in (sink, value)]
    sink, value = (each if isinstance(each, str) else inspect.formatannotation(each) for each in told)
    return f"Flow[{sink.partition('[')[2].removesuffix(']') or 'Any'}, {value}]"


def _place(frame: FrameType) -> str:
    return f"{frame.f_code.co_filename}:{frame.f_lineno}"


def _described(run: Callable[[Sink[Any]], Awaitable[R]], name: str, made_at: str) -> Flow[Any, R]:
    made: Flow[Any, R] = Flow.__new__(Flow)
    made._run, made._name, made._made_at = run, name, made_at
    return made


def _refuse_async(method: str, f: Callable[..., object]) -> None:
    if inspect.iscoroutinefunction(f):
        raise TypeError(f"{method} takes a plain function, and {getattr(f, '__qualname__', f)} is a coroutine function")
