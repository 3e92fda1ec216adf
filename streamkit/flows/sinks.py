"""`Sink`: where work puts its events. One class for its author, and behind it every way an event can go.

At the edge an event goes into the channel. Under `await flow` it goes nowhere. `map`, `filter` and `tap` stand before
another sink and are plain functions called inside `send`, so a level of nesting costs a call, never a queue or a task.
"""

from __future__ import annotations

import inspect
import logging
from collections.abc import Awaitable, Callable
from typing import Any, Generic, Protocol, TypeVar

import anyio
import anyio.from_thread
import anyio.lowlevel

from ..errors import FlowError, SinkClosed
from .channel import CLOSED, Channel, count_dropped, refuse

F = TypeVar("F")
R = TypeVar("R")
E_co = TypeVar("E_co", covariant=True)
R_co = TypeVar("R_co", covariant=True)
E_contra = TypeVar("E_contra", contravariant=True)

logger = logging.getLogger("streamkit")


class Work(Protocol[E_co, R_co]):
    """A `Flow`, as far as sinks and the edge have to know it."""

    @property
    def _run(self) -> Callable[[Sink[E_co]], Awaitable[R_co]]: ...

    @property
    def _name(self) -> str: ...


class Sink(Generic[E_contra]):
    """Where work puts its events: to a `Flow` what `yield` is to a generator."""

    __slots__ = ()

    async def send(self, event: E_contra) -> None:
        """Hand over one event; waits while the consumer is too far behind.

        Drops the event once the consumer has left. Raises SinkClosed once the work has returned, and whatever a `map`
        or `filter` on the way raises. Every so many events it is a checkpoint, so cancellation may be raised here.
        """
        raise NotImplementedError

    def put(self, event: E_contra) -> Awaitable[None] | None:
        """`send` as far as it goes without waiting: returns what is left to await, mostly None. For sinks before sinks.

        A coroutine for each event and level would cost more than all the rest.
        """
        return self.send(event)

    def send_from_thread(self, event: E_contra) -> None:
        """`send` from a thread that is not the event loop's; blocks this thread until the event is taken over.

        A crossing costs about a hundred times what `send` does: gather small events before. A thread cannot be
        cancelled, so neither is this. Raises what `send` raises, and SinkClosed too once the event loop has ended.
        """
        token = self._token
        try:
            here = anyio.lowlevel.current_token()
        except RuntimeError:
            here = None
        if here is not None and here.native_token is token.native_token:
            raise FlowError("send_from_thread would block the event loop: await out.send(event) here")
        try:
            anyio.from_thread.run(self._send_to_the_end, event, token=token)
        except anyio.RunFinishedError:
            raise SinkClosed("this sink is closed: its event loop has ended") from None

    async def _send_to_the_end(self, event: E_contra) -> None:
        with anyio.CancelScope(shield=True):  # on asyncio a worker thread of anyio brings the scope of its task with it
            await self.send(event)

    async def forward(self, flow: Work[E_contra, R]) -> R:
        """Run a flow as part of this work: its events become ours, its value is returned.

        What `yield from` is to a generator.
        """
        run = getattr(flow, "_run", None)
        if run is None:
            mistaken: object = flow
            if inspect.iscoroutine(mistaken):
                mistaken.close()  # or else a warning about it follows the error
            raise TypeError(f"forward takes a Flow, not {type(flow).__name__}")
        value: R = await run(self)
        return value

    def branch(self) -> Sink[E_contra]:
        """A sink of its own for one of several tasks that send at once: `with out.branch() as mine`.

        Tasks may share one sink, but then they share one quota and wake each other. Leaving the block closes the
        branch.
        """
        raise NotImplementedError

    def close(self) -> None:
        """No more events come: who sends one gets SinkClosed. Called by whoever made the sink, never by the work."""
        raise NotImplementedError

    @property
    def watched(self) -> bool:
        """Whether somebody may see what is sent here. False only where an await drops it, and no tap sees it before."""
        return True

    def __enter__(self) -> Sink[E_contra]:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def _token(self) -> anyio.lowlevel.EventLoopToken:
        """Of the event loop that takes the events, for threads that it does not know."""
        raise NotImplementedError


class SinkAtOnce(Sink[E_contra]):
    """A sink that says what it does in `put`."""

    __slots__ = ()

    async def send(self, event: E_contra) -> None:
        left = self.put(event)
        if left is not None:
            await left

    def put(self, event: E_contra) -> Awaitable[None] | None:
        raise NotImplementedError


class EdgeSink(SinkAtOnce[E_contra]):
    """A producer of a channel: the sink of the work itself, or a branch of it.

    What a branch sends is charged to its parent, for a task that makes one sink after another must not escape its
    quota: the first event at once, since some are never closed, the others at the end. A branch begins with the quota
    of its parent, which may be a branch itself, or with one event where the parent has used up its own.
    """

    __slots__ = ("_channel", "_epoch", "_may_send", "_parent", "_sent", "_token_at_start")

    def __init__(self, channel: Channel[Any], parent: EdgeSink[Any] | None = None) -> None:
        self._channel = channel
        self._parent = parent
        self._epoch = channel.epoch
        self._sent = 0
        self._may_send = channel.quota
        if parent is None:
            self._token_at_start = anyio.lowlevel.current_token()
        else:
            if parent._epoch != self._epoch:
                parent._begin_epoch()
            may_send = parent._may_send if parent._sent < parent._may_send else 1
            self._may_send = max(may_send, 1) - 1
            self._sent = -1  # the first is charged already
            parent._sent += 1

    def put(self, event: E_contra) -> Awaitable[None] | None:
        channel = self._channel
        channel.append(event)
        if channel.wake is not None:
            channel.wake()
            channel.wake = None
        if self._epoch != channel.epoch:
            self._begin_epoch()
        self._sent += 1
        if self._sent >= self._may_send:  # not ==: tasks that share this sink pass it before they wait
            return channel.wait_for_epoch()
        return None

    def _begin_epoch(self) -> None:
        self._epoch = self._channel.epoch
        self._sent = 0
        self._may_send = self._channel.quota

    def branch(self) -> EdgeSink[E_contra]:
        return EdgeSink(self._channel, self)

    def close(self) -> None:
        parent = self._parent
        if parent is not None and self._epoch == self._channel.epoch:
            if parent._epoch != self._epoch:
                parent._begin_epoch()
            parent._sent += self._sent
        self._sent = 0
        self._channel = CLOSED

    @property
    def _token(self) -> anyio.lowlevel.EventLoopToken:
        return self._token_at_start if self._parent is None else self._parent._token


class DroppingSink(SinkAtOnce[E_contra]):
    """The sink under `await flow`, or a branch of it: events go nowhere, but they count."""

    __slots__ = ("_closed", "_root", "_token_at_start")

    def __init__(self, root: DroppingSink[Any] | None = None, closed: bool = False) -> None:
        self._closed = closed
        self._root = root
        if root is None:
            self._token_at_start = anyio.lowlevel.current_token()

    def put(self, event: E_contra) -> Awaitable[None] | None:
        if self._closed or (self._root is not None and self._root._closed):
            refuse(event)
        return count_dropped()

    @property
    def watched(self) -> bool:
        return False

    def branch(self) -> DroppingSink[E_contra]:
        return DroppingSink(self._root or self, self._closed)

    def close(self) -> None:
        self._closed = True

    @property
    def _token(self) -> anyio.lowlevel.EventLoopToken:
        return self._token_at_start if self._root is None else self._root._token_at_start


class SinkBefore(Sink[E_contra]):
    """A sink that does something with each event before another one gets it.

    What it does, and how it branches, is for the classes below it to say.
    """

    __slots__ = ("_to",)

    def __init__(self, to: Sink[Any]) -> None:
        self._to = to

    @property
    def watched(self) -> bool:
        return self._to.watched

    def close(self) -> None:
        self._to.close()

    @property
    def _token(self) -> anyio.lowlevel.EventLoopToken:
        return self._to._token


class _SinkOfFunction(SinkBefore[E_contra], SinkAtOnce[E_contra], Generic[E_contra, F]):
    """What the functions of `map`, `filter` and `tap` are called by."""

    __slots__ = ("_f",)

    def __init__(self, to: Sink[Any], f: Callable[[E_contra], F]) -> None:
        super().__init__(to)
        self._f = f

    def branch(self) -> Sink[E_contra]:
        return type(self)(self._to.branch(), self._f)


class MappedSink(_SinkOfFunction[E_contra, F]):
    __slots__ = ()

    def put(self, event: E_contra) -> Awaitable[None] | None:
        return self._to.put(self._f(event))


class FilteredSink(_SinkOfFunction[E_contra, F]):
    __slots__ = ()

    def put(self, event: E_contra) -> Awaitable[None] | None:
        return self._to.put(event) if self._f(event) else count_dropped()


class TappedSink(_SinkOfFunction[E_contra, F]):
    __slots__ = ()

    @property
    def watched(self) -> bool:
        return True

    def put(self, event: E_contra) -> Awaitable[None] | None:
        try:
            self._f(event)
        except (KeyboardInterrupt, SystemExit):
            raise
        except BaseException:  # CancelledError, too: nobody can have cancelled a plain function
            logger.exception("the function of a tap raised")
        return self._to.put(event)
