"""What every screen can do."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import AsyncIterable
from typing import Any, TypeVar, overload

from ..flows.edge import Events
from ..flows.flow import Flow
from .counts import Counts

R = TypeVar("R")


class Screen(ABC):
    """Where a person watches; made by `open_screen`."""

    def __init__(self) -> None:
        self._counts = Counts()

    @overload
    async def show(self, source: Flow[Any, R]) -> R: ...  # type: ignore[overload-overlap]  # to iterate one is an error
    @overload
    async def show(self, source: Events[Any, R]) -> R: ...  # type: ignore[overload-overlap]  # the first that fits
    @overload
    async def show(self, source: AsyncIterable[Any]) -> None: ...
    async def show(self, source: Flow[Any, Any] | AsyncIterable[Any]) -> Any:
        """Show a run from its first event to its last; gives its value, if it has one. What it raises is raised.

        A flow is opened for it, and so is cancelled when this is. Of Events, and any other iterable of events, only the
        events are taken: who opened it closes it.
        """
        if isinstance(source, Flow):
            async with source.open() as events:
                return await self.show(events)
        if not isinstance(source, AsyncIterable):
            raise TypeError(f"what is shown is a flow, such as converse(…), or its events, not {type(source).__name__}")
        try:
            async for event in source:
                await self.put(event)
        except BaseException:
            self.cut("cut off")
            raise
        await self.end()
        return source.value if isinstance(source, Events) else None

    @abstractmethod
    async def put(self, event: object) -> None:
        """Show one event, for programs with a loop of their own. `end` or `cut` follow the last event of a run."""

    @abstractmethod
    async def end(self) -> None:
        """The run has come to its end; a call that nobody has decided about waits on."""

    @abstractmethod
    def cut(self, why: str) -> None:
        """The run was cut off: say so of what has not ended. It is seen with what comes next."""

    @abstractmethod
    async def ask(self, question: str) -> None:
        """Show what the person asks; the events that follow belong to it."""

    @abstractmethod
    async def say(self, text: str = "") -> None:
        """Show lines of the program's own, below all that is done and above what still moves."""

    @abstractmethod
    async def wait(self, what: str) -> None:
        """Something goes on that has no events, until there is one."""
