"""Errors that leave task groups as themselves.

A task group raises what its tasks raised in a group, together with the cancellations that the first error caused.
Whoever catches it wants the error: so cancellations are dropped first (on trio a failing child leaves
`[Boom, Cancelled]`), then a lone error leaves its group, its `__cause__` and `__context__` untouched. Two real errors
stay a group.
"""

from __future__ import annotations

import contextlib
import math
import sys
from types import TracebackType
from typing import NoReturn

import anyio
import anyio.lowlevel
from anyio.abc import TaskGroup


def without_cancellations(raised: BaseException) -> BaseException | None:
    """The exception without cancellations, None where it holds nothing else. A lone failure leaves its group."""
    cancelled = anyio.get_cancelled_exc_class()
    if isinstance(raised, cancelled):
        return None
    rest: BaseException | None = raised
    if isinstance(raised, BaseExceptionGroup) and raised.subgroup(cancelled) is not None:
        rest = raised.split(cancelled)[1]  # a copy of the group, so only where it has to be
    while isinstance(rest, BaseExceptionGroup) and len(rest.exceptions) == 1:
        rest = rest.exceptions[0]
    return rest


def must_leave(raised: BaseException) -> bool:
    """Whether what a user's code raised must leave as it is, instead of becoming a result or a line in the log.

    So must a cancellation from outside (one that the code itself asked for is an error like others), Ctrl-C, also in a
    group, and GeneratorExit, which ends a coroutine that is thrown away.
    """
    error = without_cancellations(raised)
    if error is None:
        return anyio.current_effective_deadline() == -math.inf
    if isinstance(error, BaseExceptionGroup):
        return error.subgroup(KeyboardInterrupt) is not None
    return isinstance(error, KeyboardInterrupt | GeneratorExit)


def concerns_all(raised: BaseException) -> bool:
    """Whether what one of several runs raised is a cancellation, or ends the process: else it is its own affair."""
    rest = without_cancellations(raised)
    if isinstance(rest, BaseExceptionGroup):
        return rest.subgroup(_ENDS_THE_PROCESS) is not None
    return rest is None or isinstance(rest, _ENDS_THE_PROCESS)


_ENDS_THE_PROCESS = (KeyboardInterrupt, SystemExit)


def raise_as_it_is(error: BaseException) -> NoReturn:
    """Raise an error kept from elsewhere; a plain raise overwrites its `__context__`, `from None` loses its cause."""
    context = error.__context__
    try:
        raise error
    finally:
        error.__context__ = context
        del error, context


def raise_if_all_are(kind: type[Exception], group: BaseExceptionGroup) -> None:
    """Raise the first error of a group in which all are of one kind: one cause has failed several tasks."""
    found, others = group.split(kind)
    if found is None or others is not None:
        return
    first: BaseException = found
    while isinstance(first, BaseExceptionGroup):
        first = first.exceptions[0]
    raise_as_it_is(first)


async def drop_own_cancellation() -> None:
    """On asyncio, forget a cancellation that the code of this task has asked for itself, and that was not raised yet.

    Raised at the next wait, or noticed by the task group when the task ends, it would cancel tasks that nobody wanted
    to cancel.
    """
    asyncio = sys.modules.get("asyncio")
    if asyncio is None or asyncio._get_running_loop() is None:  # also under trio, where no task can do so
        return
    task = asyncio.current_task()
    if task is None or not task.cancelling() or anyio.current_effective_deadline() == -math.inf:
        return
    with contextlib.suppress(asyncio.CancelledError):
        await anyio.lowlevel.cancel_shielded_checkpoint()
    while task.cancelling():
        task.uncancel()


class LoneErrorGroup:
    """`async with LoneErrorGroup() as tasks`: an anyio task group whose lone error leaves as itself."""

    def __init__(self) -> None:
        self._tasks = anyio.create_task_group()

    async def __aenter__(self) -> TaskGroup:
        return await self._tasks.__aenter__()

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> bool | None:
        try:
            return await self._tasks.__aexit__(kind, error, traceback)
        except BaseExceptionGroup as group:
            lone = without_cancellations(group) or group
        try:
            raise_as_it_is(lone)
        finally:
            del lone, error, traceback  # their tracebacks hold this frame
