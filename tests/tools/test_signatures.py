from __future__ import annotations

import functools
import inspect
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Iterator
from typing import TYPE_CHECKING, Annotated, Any

import pytest

from streamkit.errors import DefinitionError
from streamkit.flows.flow import Flow, Sink, flow
from streamkit.tools.signatures import certainly_gives_no_events, needs_thread, parameters, yields

if TYPE_CHECKING:
    from decimal import Decimal


class Place: ...


def types_of(function: Callable[..., Any], by_name: tuple[type[Any], ...] = ()) -> dict[str, Any]:
    return {parameter.name: parameter.annotation for parameter in parameters(function, "it", by_name)}


# Names


def test_text_annotations_are_resolved_and_annotated_stays() -> None:
    def visit(place: Place, names: list[Place], count: Annotated[int, "how many"] = 1) -> None: ...

    assert types_of(visit) == {"place": Place, "names": list[Place], "count": Annotated[int, "how many"]}


def test_a_class_beside_the_function_is_found() -> None:
    class Place: ...  # hides the one of the module, as it does for a reader

    def visit(place: Place) -> None: ...

    assert types_of(visit) == {"place": Place}


def test_a_class_is_found_in_every_function_around() -> None:
    class Outer: ...

    def inside() -> dict[str, Any]:
        class Inner: ...

        def visit(outer: Outer, inner: Inner) -> None: ...

        return types_of(visit)

    assert [each.__name__ for each in inside().values()] == ["Outer", "Inner"]


def test_names_of_an_unrelated_caller_are_not_used() -> None:
    def visit_later() -> dict[str, Any]:
        class Place: ...

        return types_of(visit_module_place)

    assert visit_later() == {"place": Place}


def visit_module_place(place: Place) -> None: ...


def test_a_function_that_refers_to_itself_can_be_read() -> None:
    seen: list[dict[str, Any]] = []

    def read(function: Callable[..., Any]) -> Callable[..., Any]:
        seen.append(types_of(function))
        return function

    @read
    def count(number: int) -> Any:
        return count(number - 1)

    assert seen == [{"number": int}]


def test_a_name_that_is_only_for_type_checkers_is_told() -> None:
    def pay(amount: Decimal) -> None: ...

    with pytest.raises(DefinitionError, match=r"it: the annotation 'Decimal' of parameter 'amount' .*TYPE_CHECKING"):
        parameters(pay, "it")


def test_of_a_class_known_by_name_the_brackets_may_hold_anything() -> None:
    def pay(out: Sink[Decimal]) -> None: ...

    assert types_of(pay, by_name=(Sink,)) == {"out": Sink}


# What can be called


class Desk:
    def search(self, query: str) -> int:
        return 0

    def __call__(self, place: Place) -> int:
        return 0

    @classmethod
    def open(cls, name: str) -> None: ...

    @staticmethod
    def close(name: str) -> None: ...


def test_what_is_bound_already_is_no_parameter() -> None:
    desk = Desk()
    assert types_of(desk.search) == types_of(functools.partial(Desk.search, desk)) == {"query": str}
    assert types_of(desk) == {"place": Place}
    assert types_of(Desk.open) == types_of(Desk.close) == {"name": str}


def test_what_a_partial_has_by_keyword_is_settled() -> None:
    def search(query: str, limit: int = 3) -> None: ...

    assert types_of(functools.partial(search, limit=5)) == {"query": str}


def test_a_wrapped_function_is_read_through_its_wrapper() -> None:
    def search(place: Place) -> None: ...

    @functools.wraps(search)
    def logged(*args: Any, **kwargs: Any) -> None: ...

    assert types_of(logged) == {"place": Place}


def test_the_sink_of_a_flow_is_no_parameter() -> None:
    @flow
    async def work(out: Sink[int], place: Place) -> None: ...

    assert types_of(work) == {"place": Place}


def test_what_has_no_signature_is_refused() -> None:
    def from_c() -> None: ...

    from_c.__signature__ = "unknown"  # type: ignore[attr-defined]  # as inspect sees some functions written in C
    with pytest.raises(DefinitionError, match="wrap it in a def"):
        parameters(from_c, "it")


# How a function gives what it gives


async def coroutine(a: int) -> int:
    return a


async def async_generator() -> AsyncIterator[int]:
    yield 1


def generator() -> Iterator[int]:
    yield 1


def plain() -> int:
    return 1


def unknown():  # type: ignore[no-untyped-def]
    return 1


def generator_of_any() -> Any:
    yield 1


def returns_any() -> Any:
    return 1


def returns_flow() -> Flow[Decimal, int]:
    raise NotImplementedError


def returns_flow_or_value() -> Flow[int, int] | int:
    raise NotImplementedError


def returns_awaitable() -> Awaitable[int]:
    raise NotImplementedError


def returns_async_iterator() -> AsyncGenerator[int, None]:
    raise NotImplementedError


@flow
async def made_flow(out: Sink[int]) -> int:
    return 1


@functools.wraps(coroutine)
def wrapped_coroutine(*args: Any) -> Any:
    return coroutine(*args)


@functools.wraps(generator)
def gathered_generator() -> list[int]:
    return list(generator())


class Asynchronous:
    async def __call__(self) -> int:
        return 1


@pytest.mark.parametrize(
    ("function", "in_thread", "certainly_yields", "certainly_no_events"),
    [
        (coroutine, False, False, True),
        (async_generator, False, True, False),
        (generator, True, True, False),
        (plain, True, False, True),
        (unknown, True, False, False),
        (returns_any, True, False, False),
        (generator_of_any, True, True, False),
        (returns_flow, False, False, False),
        (returns_flow_or_value, True, False, False),
        (returns_awaitable, False, False, False),
        (returns_async_iterator, False, True, False),
        (made_flow, False, False, False),
        (wrapped_coroutine, False, False, False),
        (gathered_generator, True, False, False),
        (print, True, False, False),
    ],
)
def test_functions_are_known_by_their_looks(
    function: Callable[..., Any], in_thread: bool, certainly_yields: bool, certainly_no_events: bool
) -> None:
    for each in (function, functools.partial(function)):
        assert needs_thread(each) is in_thread
        assert yields(each) is certainly_yields
        assert certainly_gives_no_events(each) is certainly_no_events


def test_an_object_is_known_by_its_call_method() -> None:
    assert not inspect.iscoroutinefunction(Asynchronous())
    assert not needs_thread(Asynchronous())
    assert needs_thread(Desk())
