"""What a function says of itself: its parameters with their types, and how it gives what it gives.

Knows nothing of tools. A function may be anything that can be called: a bound method, a `functools.partial`, an object
with `__call__`. What cannot be told from the outside (a decorator stands before it, the return annotation is missing)
counts as unknown, and what the call then returns decides.
"""

from __future__ import annotations

import ast
import contextlib
import functools
import inspect
import sys
import types
import typing
from collections.abc import AsyncIterable, Awaitable, Callable, Iterable, Iterator
from typing import Any

from ..errors import DefinitionError
from ..flows.flow import Flow


def parameters(function: Callable[..., Any], what: str, by_name: tuple[type[Any], ...] = ()) -> list[inspect.Parameter]:
    """The parameters that are still to be given, their annotations resolved; `Annotated` stays.

    Text annotations are looked up in what the function sees where it is defined: its module, and while the functions
    around it still run, their local names too. by_name: of these classes the name is enough, what stands in brackets
    after it need not be there. What a partial has by keyword is settled, and no parameter any more.
    Raises DefinitionError, which begins with `what`, for a name that is not there.
    """
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError):
        raise DefinitionError(f"{what}: the parameters of {function!r} are not known; wrap it in a def") from None
    settled = function.keywords if isinstance(function, functools.partial) else {}
    names = _Names(function)
    return [
        parameter.replace(annotation=names.resolve(parameter, what, by_name))
        for parameter in signature.parameters.values()
        if parameter.name not in settled
    ]


def definition(function: Callable[..., Any]) -> Callable[..., Any]:
    """What a partial or a bound method was made of: the thing that has a name, a docstring and annotations."""
    while True:
        if isinstance(function, functools.partial):
            function = function.func
        elif inspect.ismethod(function):
            function = function.__func__
        else:
            return function


def check_takes(function: Any, before: int, names: Iterable[str], message: str) -> None:
    """Raise DefinitionError where a function cannot be called so. before: how many arguments come without a name."""
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError) as error:  # written in C, without a signature, or nothing to call at all
        if callable(function):
            return
        raise DefinitionError(message) from error
    try:
        signature.bind(*[None] * before, **dict.fromkeys(names))
    except TypeError as error:
        raise DefinitionError(f"{message}: {error}") from error


def yields(function: Callable[..., Any]) -> bool:
    """Whether a call certainly gives a generator or another iterator of events."""
    code = _code(function)
    if inspect.isgeneratorfunction(code) or inspect.isasyncgenfunction(code):
        return True
    # a Flow has an `__aiter__` too, but only to say that it must be opened
    return _returns(code, AsyncIterable, Iterator) and not _returns(code, Flow)


def certainly_gives_no_events(function: Callable[..., Any]) -> bool:
    """Whether a call can only give a plain value or a coroutine; False also where one cannot tell."""
    code = _code(function)
    if inspect.isgeneratorfunction(code) or inspect.isasyncgenfunction(code):
        return False
    if inspect.iscoroutinefunction(code):
        return True
    return _returned(code) is not None and not _returns(code, AsyncIterable, Iterator, Awaitable)


def needs_thread(function: Callable[..., Any]) -> bool:
    """Whether a call may block: a plain function, or a generator function, of which nothing says that it is async.

    Decorators are looked through: a plain wrapper around a coroutine function mostly just hands on its coroutine.
    """
    code = _code(function)
    is_async = any(
        inspect.iscoroutinefunction(each) or inspect.isasyncgenfunction(each) for each in (code, inspect.unwrap(code))
    )
    return not (is_async or _returns(code, AsyncIterable, Awaitable))


def _code(function: Callable[..., Any]) -> Callable[..., Any]:
    """What runs when the function is called: for an object with `__call__`, that method."""
    found = definition(function)
    if inspect.isroutine(found) or inspect.isclass(found) or hasattr(found, "__wrapped__"):
        return found
    return definition(type(found).__call__)


def _returns(code: Callable[..., Any], *classes: type[Any]) -> bool:
    returned = _returned(code)
    return returned is not None and issubclass(returned, classes)


def _returned(code: Callable[..., Any]) -> type[Any] | None:
    """The class that the return annotation names, without its arguments; None where it is not known.

    Only the name before the brackets is looked up, so what stands in them may be imported under TYPE_CHECKING. Of a
    wrapped function the annotation is the inner one's and says nothing.
    """
    annotation = getattr(code, "__annotations__", {}).get("return")
    if hasattr(code, "__wrapped__"):
        return None
    if isinstance(annotation, str):
        annotation = _named_before_brackets(annotation, getattr(code, "__globals__", {}))
    found = typing.get_origin(annotation) or annotation
    return found if isinstance(found, type) and found not in (Any, object, types.UnionType) else None


def _named_before_brackets(annotation: Any, names: dict[str, Any]) -> Any:
    try:
        node = ast.parse(annotation, mode="eval").body
        head = node.value if isinstance(node, ast.Subscript) else node
        return eval(compile(ast.Expression(head), "<annotation>", "eval"), names)
    except Exception:
        return None


class _Names:
    """The names that the annotations of a function may use."""

    def __init__(self, function: Callable[..., Any]) -> None:
        code = inspect.unwrap(_code(function))
        self._globals: dict[str, Any] = getattr(code, "__globals__", {})
        self._locals = _names_around(code, sys._getframe(1))

    def resolve(self, parameter: inspect.Parameter, what: str, by_name: tuple[type[Any], ...]) -> Any:
        annotation = parameter.annotation
        if annotation is parameter.empty:
            return annotation

        def holder() -> None: ...

        holder.__annotations__ = {"it": annotation}
        try:
            return typing.get_type_hints(holder, self._globals, self._locals, include_extras=True)["it"]
        except Exception as error:
            named = _named_before_brackets(annotation, {**self._globals, **self._locals})
            if named in by_name:
                return named
            raise DefinitionError(
                f"{what}: the annotation {annotation!r} of parameter {parameter.name!r} cannot be resolved ({error}); "
                "its names must exist when the program runs, and not only under TYPE_CHECKING"
            ) from error


def _names_around(code: Callable[..., Any], frame: types.FrameType | None) -> dict[str, Any]:
    """The local names of the functions that the code is defined in, as far as they still run, and of its closure.

    A text annotation makes no closure: a class defined beside a tool, inside a function, is found only there.
    """
    around: list[dict[str, Any]] = []
    qualified_name = getattr(code, "__qualname__", "")
    while frame is not None:
        if frame.f_globals is getattr(code, "__globals__", None) and qualified_name.startswith(
            f"{frame.f_code.co_qualname}.<locals>."
        ):
            around.insert(0, frame.f_locals)
        frame = frame.f_back
    around.append(dict(_closure(code)))
    return {name: value for names in around for name, value in names.items()}


def _closure(code: Callable[..., Any]) -> Iterator[tuple[str, Any]]:
    if inspect.isfunction(code):
        for name, cell in zip(code.__code__.co_freevars, code.__closure__ or (), strict=True):
            with contextlib.suppress(ValueError):  # empty: the function refers to itself, and is not there yet
                yield name, cell.cell_contents
