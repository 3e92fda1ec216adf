"""`Events`: the edge, where work that pushes meets a consumer that pulls.

Who hears what at the edge:

- An `Exception` of the work is kept and raised by the iteration after the last event; the body of the consumer is never
  cut off by it. Anything wilder, such as KeyboardInterrupt, goes through the task group: it must interrupt a busy body.
- Leaving early cancels the work, waits for its cleanup, then leaves. Events sent meanwhile are dropped.
- The exception of the body leaves as itself, an unseen failure of the work at the end of its context. A body that only
  ended, broke off or was cancelled makes room for the failure.
- A cancelled work is never a clean end: the consumer hears its own cancellation, or `WorkCancelled`.
"""

from __future__ import annotations

import math
from collections.abc import AsyncIterator
from types import TracebackType
from typing import Any, Generic, Literal, NoReturn, TypeVar

import anyio
import anyio.lowlevel
from anyio.abc import TaskGroup

from .channel import Channel
from .errors import FlowError, FlowNotOpened, NotFinished, WorkCancelled
from .sinks import EdgeSink, Work

E_co = TypeVar("E_co", covariant=True)
R_co = TypeVar("R_co", covariant=True)


class Events(Generic[E_co, R_co]):
    """One run of a flow, seen by its one consumer: an async context manager, and inside its block an async iterator.

    Leaving the block early cancels the work and waits for its cleanup. `value` is there once the iteration has ended.
    """

    __slots__ = ("_batch", "_channel", "_failure", "_flow", "_group", "_has_value", "_outcome", "_place", "_value")

    def __init__(self, flow: Work[E_co, R_co]) -> None:
        self._flow = flow
        self._channel: Channel[Any] = Channel()
        self._batch: list[Any] = []  # taken from the channel, newest first
        self._place: Literal["before", "inside", "after"] = "before"  # the consumer's, seen from the block
        self._outcome: Literal["none yet", "value", "failed", "cancelled"] = "none yet"  # the work's
        self._failure: Exception | None = None  # of the work, as long as nobody has heard it
        self._has_value = False  # the iteration has ended with it

    async def __aenter__(self) -> Events[E_co, R_co]:
        if self._place != "before":
            raise FlowError("these events are of one run and were entered before: open the flow again for another run")
        self._place = "inside"
        self._group: TaskGroup = anyio.create_task_group()
        await self._group.__aenter__()
        self._group.start_soon(self._work, name=self._flow._name)
        return self

    async def _work(self) -> None:
        """The work as a task.

        Its Exception is kept for the iteration: in the task group it would cut off the consumer's body.
        """
        out = EdgeSink[Any](self._channel)
        try:
            self._value = await self._flow._run(out)
            self._outcome = "value"
        except BaseException as raised:
            failure = _without_cancellations(raised)
            self._outcome = "cancelled" if failure is None else "failed"
            if isinstance(failure, Exception):
                self._failure = _raisable(failure)
            elif failure is not None or anyio.current_effective_deadline() == -math.inf:
                raise
            # else the work cancelled itself, which the task group would take as a reason to cancel the consumer
            del failure  # the error, its traceback and this frame would hold each other
        finally:
            self._channel.end()

    def __aiter__(self) -> AsyncIterator[E_co]:
        return self

    async def __anext__(self) -> E_co:
        if not self._batch:
            await self._pull()
        event: E_co = self._batch.pop()
        return event

    async def _pull(self) -> None:
        """Fill the batch, or raise what the end of the work is for its consumer."""
        if self._place == "before":
            raise FlowNotOpened("enter the events first: async with flow.open() as events")
        if self._place == "after":
            raise FlowError("the block of these events has been left: open the flow again for another run")
        batch = await self._channel.take()
        if not batch:
            await self._end()
        batch.reverse()
        self._batch = batch

    async def _end(self) -> NoReturn:
        if self._outcome == "value":
            self._has_value = True
            raise StopAsyncIteration
        if self._failure is not None:
            failure, self._failure = self._failure, None
            _raise_as_it_is(failure)
        if self._outcome == "failed":
            raise NotFinished("the work has failed; its error was raised before")
        # The cleanup of a cancelled work may wake us before the cancellation from around us has reached us: let it
        # come.
        while anyio.current_effective_deadline() == -math.inf:
            await anyio.lowlevel.checkpoint()
        raise WorkCancelled(f"{self._flow!r} was cancelled, so it has no value")

    @property
    def value(self) -> R_co:
        """What the work returned.

        Raises NotFinished until the iteration has ended, and where it did not end with a value.
        """
        if self._has_value:
            return self._value
        if self._outcome == "failed":
            raise NotFinished("there is no value: the work failed")
        if self._outcome == "cancelled" or self._place == "after":
            raise NotFinished(
                "there is no value: the events were left, or the work was cancelled, before the iteration had ended"
            )
        raise NotFinished("there is no value yet: it comes when the iteration has ended")

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._place = "after"
        self._batch = []
        self._channel.leave()
        self._group.cancel_scope.cancel()
        only_left = error is None or isinstance(error, anyio.get_cancelled_exc_class())
        interrupt = cancellation = None
        try:
            if only_left:  # the group has to see a cancellation, to count it
                await self._group.__aexit__(kind, error, traceback)
            else:  # what else the body raised would come back in a group
                await self._group.__aexit__(None, None, None)
        except BaseException as raised:
            interrupt = _without_cancellations(raised)
            cancellation = raised if interrupt is None and error is None else None
        unheard, self._failure = self._failure, None
        if interrupt is not None:
            _put_behind(interrupt, error)
            _raise_as_it_is(interrupt)
        if only_left and (leaving := unheard or cancellation) is not None:
            _raise_as_it_is(leaving)
        _put_behind(error, unheard)


def _without_cancellations(raised: BaseException) -> BaseException | None:
    """What is left without cancellations:

    None for nothing, and without its group a failure that was alone with them.
    """
    cancelled = anyio.get_cancelled_exc_class()
    if isinstance(raised, cancelled):
        return None
    if isinstance(raised, Exception) or not isinstance(raised, BaseExceptionGroup):
        return raised
    rest: BaseException | None = raised.split(cancelled)[1]
    while isinstance(rest, BaseExceptionGroup) and len(rest.exceptions) == 1:
        rest = rest.exceptions[0]
    return rest


def _raisable(failure: Exception) -> Exception:
    """The failure;

    for one that would pass for the end of an iteration, a RuntimeError caused by it (PEP 479 does the same).
    """
    if not isinstance(failure, StopAsyncIteration):
        return failure
    error = RuntimeError("the work of a flow raised StopAsyncIteration")
    error.__cause__ = failure
    return error


def _raise_as_it_is(error: BaseException) -> NoReturn:
    """Raise an error kept from elsewhere:

    raising would overwrite its `__context__`, and `from None` lose its `__cause__`.
    """
    context = error.__context__
    try:
        raise error
    finally:
        error.__context__ = context
        del error, context


def _put_behind(error: BaseException | None, behind: BaseException | None) -> None:
    """Hang an error that nobody heard at the end of the chain of contexts of the one that leaves."""
    if error is None or behind is None:
        return
    chain = [error]
    while (context := chain[-1].__context__) is not None and context not in chain:
        chain.append(context)
    while behind is not None and behind not in chain:
        behind_that = behind.__context__
        chain[-1].__context__ = behind
        chain.append(behind)
        behind = behind_that
