"""Where the events of a run go that is written down."""

from __future__ import annotations

from collections.abc import Awaitable

from ..flows.sinks import Sink, SinkAtOnce, SinkBefore
from ..tool_events import RunEvent
from .log import RunLog


class RecordedSink(SinkBefore[RunEvent], SinkAtOnce[RunEvent]):
    """Writes down each event before it passes it on. Those that were sent first come first, in both."""

    __slots__ = ("_log",)

    def __init__(self, to: Sink[RunEvent], log: RunLog) -> None:
        super().__init__(to)
        self._log = log

    @property
    def watched(self) -> bool:
        """Also where the run is awaited: whoever follows it is shown what is written down."""
        return True

    def put(self, event: RunEvent) -> Awaitable[None] | None:
        left = self._log.show(event)
        return self._to.put(event) if left is None else self._then_put(left, event)

    async def _then_put(self, left: Awaitable[None], event: RunEvent) -> None:
        await left
        await self._to.send(event)

    def branch(self) -> RecordedSink:
        return RecordedSink(self._to.branch(), self._log)
