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

from ..errors import FlowError, FlowNotOpened, NotFinished, WorkCancelled
from .channel import Channel
from .groups import drop_own_cancellation, raise_as_it_is, without_cancellations
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
        out: EdgeSink[Any] = EdgeSink(self._channel)
        try:
            self._value = await self._flow._run(out)
            await drop_own_cancellation()
            self._outcome = "value"
        except BaseException as raised:
            failure = without_cancellations(raised)
            if isinstance(failure, Exception):
                self._outcome = "failed"
                self._failure = _raisable(failure)
            else:
                self._outcome = "cancelled"
                if failure is not None:
                    self._group.cancel_scope.cancel()  # or else our end wakes the consumer before the group cancels it
                    raise
                # The consumer hears of a cancellation by itself. The task group would cancel it, too, where the work
                # cancelled only itself.
        finally:
            failure = None  # the error, its traceback and this frame would hold each other
            self._channel.end()

    def __aiter__(self) -> AsyncIterator[E_co]:
        return self

    async def __anext__(self) -> E_co:
        if not self._batch:
            await self._pull()
        event: E_co = self._batch.pop()
        return event

    async def take(self) -> list[E_co]:
        """The events that are ready, oldest first: at least one, or none when the iteration has ended.

        For a consumer that hands on many at once. Waits as the iteration does, and raises what it raises.
        """
        if not self._batch:
            try:
                await self._pull()
            except StopAsyncIteration:
                return []
        batch, self._batch = self._batch, []
        batch.reverse()
        return batch

    async def _pull(self) -> None:
        """Fill the batch, or raise what the end of the work is for its consumer."""
        if self._place == "before":
            raise FlowNotOpened("enter the events first: async with flow.open() as events")
        batch = await self._channel.take()
        if not batch:
            await self._end()
        batch.reverse()
        self._batch = batch

    async def _end(self) -> NoReturn:
        if self._outcome == "value":
            self._has_value = True
            raise StopAsyncIteration
        if (failure := self._take_failure()) is not None:
            try:
                raise_as_it_is(failure)
            finally:
                del failure  # its traceback holds this frame
        if self._outcome == "failed":
            raise NotFinished("the work has failed; its error was raised before")
        await _hear_cancellation()
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
        if self._outcome == "none yet":  # a cancellation with nothing to cancel takes as long as a task does
            self._group.cancel_scope.cancel()
        try:
            leaving = _what_leaves(error, await self._end_work(kind, error, traceback), self._take_failure())
            if leaving is not None and leaving is not error:
                raise_as_it_is(leaving)
            if leaving is None and self._outcome == "cancelled":
                await _hear_cancellation()
        finally:
            leaving = error = traceback = None  # their tracebacks hold this frame

    async def _end_work(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> BaseException | None:
        """Wait for the end of the work. Gives what its task group raises then."""
        try:
            if not isinstance(error, anyio.get_cancelled_exc_class()):
                await self._group.__aexit__(None, None, None)  # any other error would come back in a group
            elif await self._group.__aexit__(kind, error, traceback):
                # It was the group's own: somebody cancelled the task of the work before it ran, and so the group.
                return WorkCancelled(f"{self._flow!r} was cancelled before it began")
        except BaseException as raised:
            return raised
        finally:
            del error, traceback  # raised again by the group, its traceback holds this frame
        return None

    def _take_failure(self) -> Exception | None:
        """The failure that nobody has heard yet, for one who will."""
        failure, self._failure = self._failure, None
        return failure


def _what_leaves(
    error: BaseException | None, raised: BaseException | None, failure: Exception | None
) -> BaseException | None:
    """The one error that leaves the block, None for none.

    error: of the body. raised: by the task group, an interrupt or a cancellation. failure: of the work, unheard.
    """
    interrupt = None if raised is None else without_cancellations(raised)
    if interrupt is not None:
        if not _is_cancellation(error):
            _put_behind(interrupt, error)
        return interrupt
    if error is not None and not _is_cancellation(error):
        _put_behind(error, failure)
        return error
    if failure is not None:
        return failure
    return error if raised is None else raised


async def _hear_cancellation() -> None:
    """Let a cancellation from around us come: the work that it ended may wake us first."""
    while anyio.current_effective_deadline() == -math.inf:
        await anyio.lowlevel.checkpoint()


def _is_cancellation(error: BaseException | None) -> bool:
    return error is not None and without_cancellations(error) is None


def _raisable(failure: Exception) -> Exception:
    """The failure, or what PEP 479 makes of one that would pass for the end of an iteration."""
    if not isinstance(failure, StopAsyncIteration):
        return failure
    error = RuntimeError("the work of a flow raised StopAsyncIteration")
    error.__cause__ = failure
    return error


def _put_behind(error: BaseException, behind: BaseException | None) -> None:
    """Hang an error that nobody heard at the end of the chain of contexts of the one that leaves."""
    last, seen = error, {id(error)}
    while last.__context__ is not None and id(last.__context__) not in seen:
        last = last.__context__
        seen.add(id(last))
    while behind is not None and id(behind) not in seen:
        last.__context__ = behind
        last, behind = behind, behind.__context__
        seen.add(id(last))
    if behind is not None:
        last.__context__ = None  # both had handled the same error, and the chain would be a ring
