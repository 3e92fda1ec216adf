"""`nothing_left`: finds what asynchronous code leaves behind when it is left early."""

from __future__ import annotations

import gc
import logging
import sys
import warnings
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from typing import Any

import anyio

from .turns import check


@asynccontextmanager
async def nothing_left() -> AsyncIterator[None]:
    """Raise AssertionError where the block leaves something behind: a task, an async generator that was not closed, a
    coroutine that was never awaited, a warning, an error that nobody could catch.

    Looks at the whole process while the block runs; the tasks that other tasks begin meanwhile, such as those of a
    server, are their own business.
    """
    gc.collect()  # what was left before does not count
    before = {task.id for task in anyio.get_running_tasks()}
    found: list[str] = []
    with _Ears(found), warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        yield
        gc.collect()
    found += [f"{warning.category.__name__}: {warning.message}" for warning in warned]
    found += [f"the task {task.name!r} goes on" for task in _new_tasks(before)]
    check(not found, "something is left behind: " + "; ".join(found))


def _new_tasks(before: set[int]) -> Iterator[anyio.TaskInfo]:
    running = {task.id: task for task in anyio.get_running_tasks()}
    others = before - {anyio.get_current_task().id}
    for task in running.values():
        ancestor: anyio.TaskInfo | None = task
        while ancestor is not None and ancestor.id not in before:
            ancestor = running.get(ancestor.parent_id or 0)
        if task.id not in before and (ancestor is None or ancestor.id not in others):
            yield task


class _Ears:
    """Hears of generators that are finalised instead of closed, and of errors where nobody can catch them."""

    def __init__(self, found: list[str]) -> None:
        self._found = found
        self._listener = _Listener(found)

    def __enter__(self) -> None:
        self._unraisable, sys.unraisablehook = sys.unraisablehook, self._hear_unraisable
        self._generators = sys.get_asyncgen_hooks()
        sys.set_asyncgen_hooks(finalizer=self._hear_generator)
        logging.getLogger("asyncio").addHandler(self._listener)

    def __exit__(self, *_: object) -> None:
        sys.unraisablehook = self._unraisable
        sys.set_asyncgen_hooks(*self._generators)
        logging.getLogger("asyncio").removeHandler(self._listener)

    def _hear_unraisable(self, told: Any) -> None:
        self._found.append(f"{told.object!r} raised {told.exc_value!r}")

    def _hear_generator(self, generator: Any) -> None:
        self._found.append(f"the async generator {generator.__qualname__} was not closed")
        if self._generators.finalizer is not None:
            self._generators.finalizer(generator)


class _Listener(logging.Handler):
    def __init__(self, found: list[str]) -> None:
        super().__init__(logging.WARNING)
        self._found = found

    def emit(self, record: logging.LogRecord) -> None:
        self._found.append(record.getMessage())
