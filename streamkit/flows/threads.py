"""Plain functions beside the event loop, on threads of our own that nobody has to wait for.

A function in a thread cannot be stopped. When its call is cancelled we leave the thread behind, and neither the run nor
the process waits for it: the threads are daemons, one a call. (anyio's worker threads keep an asyncio process alive,
and on trio a worker that is left behind keeps its place in the limiter.) Each runs in a copy of the caller's context
variables.
"""

from __future__ import annotations

import contextvars
import logging
import threading
from collections.abc import Awaitable, Callable, Iterator
from typing import Generic, TypeVar

import anyio
import anyio.from_thread
import anyio.lowlevel

try:
    import sniffio
except ImportError:  # where anyio does not use it
    sniffio = None  # type: ignore[assignment]

E = TypeVar("E")
R = TypeVar("R")

AHEAD = 64
"""How many events a plain generator may be ahead: a crossing costs a hundred times an event."""

logger = logging.getLogger("streamkit")


async def run_in_thread(function: Callable[[], R], *, name: str) -> R:
    """What the function returns, or raises. Cancellation leaves its thread behind; what it gives later is dropped."""
    outcome: list[R] = []
    raised: list[BaseException] = []
    done = anyio.Event()

    def work(tell: Callable[[Callable[[], object]], None]) -> None:
        try:
            outcome.append(function())
        except BaseException as error:  # also SystemExit: in a thread it would end nothing, and nobody would hear it
            raised.append(error)
        tell(done.set)

    _start_thread(work, name)
    await done.wait()
    if raised:
        try:
            raise raised.pop()
        finally:
            del raised  # else the error, its traceback and this frame hold each other
    return outcome[0]


async def iterate_in_thread(events: Iterator[E], take: Callable[[E], Awaitable[None]], *, name: str) -> None:
    """Give each event of a plain generator, or another iterator, to `take`, as it comes.

    The generator runs, and is closed, in one thread, at most AHEAD events ahead. When `take` raises or we are cancelled
    it is closed as soon as it yields again.
    """
    crossing = _Crossing(events)
    _start_thread(crossing.produce, name)
    try:
        ended = False
        while not ended:
            await crossing.ready.wait()
            batch, ended = crossing.take_all()
            for event in batch:
                await take(event)
        crossing.raise_error()
    finally:
        crossing.abandon()


class _Crossing(Generic[E]):
    """What the two sides of a running plain generator share, under one lock."""

    def __init__(self, iterator: Iterator[E]) -> None:
        self._iterator = iterator
        self._lock = threading.Condition()
        self._events: list[E] = []
        self._raised: list[BaseException] = []
        self._ended = False
        self._abandoned = False
        self._told = False  # the loop's side knows that there is something
        self.ready = anyio.Event()

    # in the thread

    def produce(self, tell: Callable[[Callable[[], object]], None]) -> None:
        try:
            self._pull_all(tell)
        except BaseException as error:
            self._raised.append(error)
        with self._lock:
            self._ended = True
            abandoned, ready = self._abandoned, self.ready
        if not abandoned:
            tell(ready.set)

    def _pull_all(self, tell: Callable[[Callable[[], object]], None]) -> None:
        try:
            for event in self._iterator:
                with self._lock:
                    self._lock.wait_for(lambda: len(self._events) < AHEAD or self._abandoned)
                    if self._abandoned:
                        return
                    self._events.append(event)
                    told, self._told, ready = self._told, True, self.ready
                if not told:
                    tell(ready.set)
        finally:
            close = getattr(self._iterator, "close", None)
            if close is not None:
                close()

    # in the event loop

    def take_all(self) -> tuple[list[E], bool]:
        """The events since the last time, and whether no more will come."""
        with self._lock:
            events, self._events = self._events, []
            self._told = False
            self.ready = anyio.Event()
            self._lock.notify()
            return events, self._ended

    def raise_error(self) -> None:
        if self._raised:
            raise self._raised.pop()

    def abandon(self) -> None:
        with self._lock:
            self._abandoned = True
            self._events = []
            self._lock.notify()


def _start_thread(work: Callable[[Callable[[Callable[[], object]], None]], None], name: str) -> None:
    """Run `work(tell)` in a thread; `tell(f)` runs f in the event loop that we are in now, if that is still there."""
    token = anyio.lowlevel.current_token()

    def tell(f: Callable[[], object]) -> None:
        try:
            anyio.from_thread.run_sync(f, token=token)
        except RuntimeError:
            logger.debug("a thread of %s ended after its event loop", name)

    context = contextvars.copy_context()
    if sniffio is not None:  # or else the thread passes for this event loop, and cannot run one of its own
        context.run(sniffio.current_async_library_cvar.set, None)
    threading.Thread(target=context.run, args=(work, tell), name=name, daemon=True).start()
