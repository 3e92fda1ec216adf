"""The edge channel: from many sinks to one reader, in one list, with back-pressure.

It is the only queue in streamkit. Events lie in one list in the order of arrival; the reader takes the whole list at
once, and each taking begins a new *epoch*. A producer counts its own events: it may send a *quota* of them per epoch,
then it waits for the next epoch. So a producer is at most two quotas ahead of the consumer (one taken, one sent since),
and none of them, however fast, can go on without suspending: at each quota it hears cancellation and lets others run.

The quota is QUOTA, doubled up to QUOTA_LIMIT each time the reader is found waiting (it is faster than its producers, so
let them work in longer runs) and QUOTA again when it is not. An `anyio.Event` costs more than ten sends: there is one
per wake-up, none per event.
"""

from __future__ import annotations

import itertools
from collections.abc import Awaitable, Callable
from typing import Any, Generic, NoReturn, TypeVar

import anyio
import anyio.lowlevel

from ..errors import AlreadyPulling, FlowError, SinkClosed

E = TypeVar("E")

QUOTA = 16
QUOTA_LIMIT = 64

_dropped = itertools.count(1)


class Channel(Generic[E]):
    """One reader's end and what all its producers share.

    append: puts an event; drops it once the reader has left, raises SinkClosed once the work has ended.
    wake: wakes the reader, None where it does not wait.
    """

    __slots__ = ("_drained", "_ended", "_gone", "_items", "_waiting", "append", "epoch", "quota", "wake")

    def __init__(self) -> None:
        self._items: list[E] = []
        self.append: Callable[[E], None] = self._items.append
        self.epoch = 0
        self.quota = QUOTA
        self.wake: Callable[[], None] | None = None
        self._waiting = False
        self._drained: anyio.Event | None = None
        self._gone = False
        self._ended = False

    async def take(self) -> list[E]:
        """All events since the last taking, oldest first; empty only when the work has ended.

        Nothing is lost by cancellation. Raises FlowError once the reader has left, also to one that waits.
        """
        if self._waiting:
            raise AlreadyPulling("another task is already waiting for the next event: one consumer per opening")
        if self._items or self._ended or self._gone:
            self.quota = QUOTA
        else:
            self.quota = min(self.quota * 2, QUOTA_LIMIT)
            await self._wait_for_items()
        if self._gone:
            raise FlowError("the block of these events has been left: open the flow again for another run")
        items, self._items = self._items, []
        if not self._ended:
            self.append = self._items.append
        self._new_epoch()
        return items

    async def _wait_for_items(self) -> None:
        ready = anyio.Event()
        self.wake = ready.set
        self._waiting = True
        try:
            await ready.wait()
        finally:
            self.wake = None
            self._waiting = False

    async def wait_for_epoch(self) -> None:
        """Wait, on behalf of a producer that has used its quota, until the reader has taken what there is."""
        if self._gone:
            self.epoch += 1  # nobody takes any more: everyone has a fresh quota, and waiting is a checkpoint
            await anyio.lowlevel.checkpoint()
            return
        if self._drained is None:
            self._drained = anyio.Event()
        await self._drained.wait()  # the channel's, not the sink's: several tasks may wait through one sink

    def leave(self) -> None:
        """The reader goes: from now on events are dropped, and nobody who sends one waits for it."""
        self._gone = True
        self._items = []
        if not self._ended:
            self.append = _drop
        self._new_epoch()
        self._wake_reader()

    def end(self) -> None:
        """The work has ended: whoever still sends made a mistake."""
        self._ended = True
        self.append = refuse
        self._wake_reader()

    def _wake_reader(self) -> None:
        if self.wake is not None:
            self.wake()
            self.wake = None

    def _new_epoch(self) -> None:
        self.epoch += 1
        if self._drained is not None:
            self._drained.set()
            self._drained = None


def refuse(event: object) -> NoReturn:
    """What `append` is after the end."""
    raise SinkClosed("this sink is closed: the work that it was made for has returned")


def _drop(event: object) -> None:
    """What `append` is after the reader has left."""


def count_dropped() -> Awaitable[None] | None:
    """Called for each event that goes nowhere: gives a checkpoint each QUOTA of them, counted over all flows.

    Counted per flow, a task that awaits one short flow after another would never suspend, and be deaf to cancellation.
    """
    return None if next(_dropped) % QUOTA else anyio.lowlevel.checkpoint()


CLOSED: Channel[Any] = Channel()
"""What a sink that has been closed sends to."""
CLOSED.end()
