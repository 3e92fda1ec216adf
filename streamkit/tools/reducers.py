"""Reducers: the events of a run become the one value that is left of them.

A reducer is three plain functions and holds nothing itself, so one reducer serves any number of runs at once: what a
run remembers is its state, which `start` makes and `step` may change in place. Streaming tools use them to tell the
model the outcome of what a person watched; `reduce_stream` runs one over any async iterable.
"""

from __future__ import annotations

import copy
import inspect
from collections.abc import AsyncIterable, Callable
from typing import Any, Generic, TypeVar, overload

import msgspec

from ..errors import DefinitionError, ReducerError
from ..tool_events import ToolInputField
from ..turns import ReasoningDelta, TextDelta, TurnRestarted, TurnStarted
from .signatures import check_takes

D = TypeVar("D")
E = TypeVar("E")
S = TypeVar("S")
T = TypeVar("T")
V = TypeVar("V")
E_contra = TypeVar("E_contra", contravariant=True)
V_co = TypeVar("V_co", covariant=True)

_NOTHING: Any = object()


class Reducer(msgspec.Struct, Generic[E_contra, S, V_co], frozen=True):
    """How events become a value.

    start() makes the state, step(state, event) returns the next one and may change the old one in place, finish(state)
    returns the value. What any of the three raises goes to whoever runs the reducer. Raises DefinitionError if one of
    them is async, or cannot be called in this way.

    salvages: finish is also called when a tool fails or runs out of time; its value becomes the `partial` of the
    failure, and the model reads it.
    """

    start: Callable[[], S]
    step: Callable[[S, E_contra], S]
    finish: Callable[[S], V_co]
    salvages: bool = False

    def __post_init__(self) -> None:
        _check_function("Reducer", self.start, 0, "nothing")
        _check_function("Reducer", self.step, 2, "the state and an event")
        _check_function("Reducer", self.finish, 1, "the state")


@overload
def collect(*, max_items: int | None = None) -> Reducer[E, list[E], list[E]]: ...
@overload
def collect(finalize: Callable[[list[E]], V], *, max_items: int | None = None) -> Reducer[E, list[E], V]: ...
def collect(finalize: Callable[[list[Any]], Any] | None = None, *, max_items: int | None = None) -> Any:
    """finalize of the list of all events, or the list itself.

    max_items: only that many are kept, the first ones; later events are dropped, so memory has a bound. (To keep the
    last ones, use `fold` with a `deque`.)
    """
    if finalize is not None:
        _check_function("collect", finalize, 1, "the list of all events")
    if max_items is None:
        return Reducer(list, _append, finalize or _as_it_is)
    if max_items < 1:
        raise DefinitionError(f"collect: max_items is {max_items}, but at least one event has to be kept")

    def append_first(items: list[Any], event: Any) -> list[Any]:
        if len(items) < max_items:
            items.append(event)
        return items

    return Reducer(list, append_first, finalize or _as_it_is)


@overload
def last(kind: type[T]) -> Reducer[object, Any, T]: ...
@overload
def last(kind: type[T], *, default: D) -> Reducer[object, Any, T | D]: ...
def last(kind: type[Any], *, default: Any = _NOTHING) -> Any:
    """The last event that is a `kind`; events of other types are ignored.

    Without a default, the call fails if no such event came: finish raises ReducerError.
    """
    _check_kind("last", kind)

    def step(state: Any, event: object) -> Any:
        return event if isinstance(event, kind) else state

    def finish(state: Any) -> Any:
        return _something(state, kind)

    return Reducer(lambda: default, step, finish)


@overload
def first(kind: type[T]) -> Reducer[object, Any, T]: ...
@overload
def first(kind: type[T], *, default: D) -> Reducer[object, Any, T | D]: ...
def first(kind: type[Any], *, default: Any = _NOTHING) -> Any:
    """The first event that is a `kind`; default, or ReducerError, as with `last`."""
    _check_kind("first", kind)

    def step(state: Any, event: object) -> Any:
        return event if state is _NOTHING and isinstance(event, kind) else state

    def finish(state: Any) -> Any:
        return _something(default if state is _NOTHING else state, kind)

    return Reducer(lambda: _NOTHING, step, finish)


def count() -> Reducer[object, Any, int]:
    """How many events came."""
    return Reducer(int, _one_more, _as_it_is)


def join_text(separator: str = "") -> Reducer[object, Any, str]:
    """The text of all events, joined.

    Events that are a `str` count, and those whose `text` is one, such as TextDelta and RefusalDelta, but not the
    model's reasoning (ReasoningDelta) or the fields of a call (ToolInputField). A turn that restarts loses its text.
    """
    return Reducer(_Text, _add_text, lambda state: separator.join(state.pieces))


def fold(step: Callable[[S, E], S], start: S) -> Reducer[E, Any, S]:
    """The state after the last step. start: what a run begins with; each run gets a deep copy of it."""
    _check_function("fold", step, 2, "the state and an event")
    return Reducer(lambda: copy.deepcopy(start), step, _as_it_is)


async def reduce_stream(events: AsyncIterable[E], reducer: Reducer[E, Any, V]) -> V:
    """The value of a reducer over any async iterable, such as the events of an opened Flow.

    The caller owns the iterable: an error in a step leaves it where it is, not closed.
    """
    state = reducer.start()
    step = reducer.step
    async for event in events:
        state = step(state, event)
    return reducer.finish(state)


class _Text:
    """The pieces so far, and how many of them there were when the turn under way began."""

    __slots__ = ("pieces", "turn_began")

    def __init__(self) -> None:
        self.pieces: list[str] = []
        self.turn_began = 0


def _add_text(state: _Text, event: object) -> _Text:
    if type(event) is TextDelta:  # the usual one, at a third of the cost of the rest
        state.pieces.append(event.text)
        return state
    text = event if isinstance(event, str) else getattr(event, "text", None)
    if isinstance(text, str):
        if not isinstance(event, ReasoningDelta | ToolInputField):
            state.pieces.append(text)
    elif isinstance(event, TurnStarted):
        state.turn_began = len(state.pieces)
    elif isinstance(event, TurnRestarted):
        del state.pieces[state.turn_began :]
    return state


def _append(items: list[E], event: E) -> list[E]:
    items.append(event)
    return items


def _one_more(number: int, event: object) -> int:
    return number + 1


def _as_it_is(state: S) -> S:
    return state


def _something(state: T, kind: type[Any]) -> T:
    if state is _NOTHING:
        raise ReducerError(f"no event of type {getattr(kind, '__name__', kind)} came")
    return state


def _check_kind(name: str, kind: type[Any]) -> None:
    try:
        isinstance(None, kind)
    except TypeError:
        raise DefinitionError(f"{name} takes a class that isinstance knows, and {kind!r} is not one") from None


def _check_function(name: str, function: Callable[..., Any], number: int, what: str) -> None:
    """number: of arguments that it is called with."""
    if inspect.iscoroutinefunction(function) or not callable(function):
        raise DefinitionError(f"{name} takes a plain function, and {function!r} is not one")
    check_takes(function, number, (), f"{name} takes a function of {what}")
