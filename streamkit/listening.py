"""Letting a tool hear how the model writes its calls: the hooks of `on_input=`."""

from __future__ import annotations

import inspect
import logging
from collections.abc import Callable, Mapping
from typing import TypeVar

import anyio

from .flows.closing import CLOSING_SECONDS
from .flows.flow import Flow, Sink, flow
from .flows.groups import must_leave
from .flows.sinks import SinkBefore
from .ledger import listen_for
from .turns import (
    ToolInputAbandoned,
    ToolInputAvailable,
    ToolInputEvent,
    ToolInputStart,
    TurnEvent,
)

R = TypeVar("R")

OnInput = Callable[[ToolInputEvent], object]
"""Told of each event of a call of its tool, in order: plain or async. What it raises is logged."""

logger = logging.getLogger("streamkit")


@flow
async def listen(out: Sink[TurnEvent], turn: Flow[TurnEvent, R], hooks: Mapping[str, OnInput]) -> R:
    """The same turn, its tool-input events shown to the hook of the tool that is called before they are passed on.

    hooks: by the name of the tool. A call that the turn left open when it was cut off is abandoned for its hook, also
    when the consumer is gone: shielded, CLOSING_SECONDS for all of them.
    """
    sink = _ListeningSink(out, hooks)
    try:
        return await sink.forward(turn)
    finally:
        with anyio.move_on_after(CLOSING_SECONDS, shield=True):
            await sink.abandon_open()


class _ListeningSink(SinkBefore[TurnEvent]):
    __slots__ = ("_hooks", "_hooks_of", "_open")

    def __init__(self, to: Sink[TurnEvent], hooks: Mapping[str, OnInput]) -> None:
        super().__init__(to)
        self._hooks = hooks
        self._hooks_of: dict[str, OnInput] = {}  # by call id
        self._open: set[str] = set()  # the calls that have neither become available nor been abandoned

    async def send(self, event: TurnEvent) -> None:
        if isinstance(event, ToolInputEvent):
            if type(event) is ToolInputStart:
                self._hooks_of.pop(event.call_id, None)  # an id may begin again, as a call of another tool
                if event.tool in self._hooks:
                    self._hooks_of[event.call_id] = self._hooks[event.tool]
            if event.call_id in self._hooks_of:
                await self._tell(event)
        await self._to.send(event)
        if type(event) is ToolInputAvailable and event.call_id in self._hooks_of:
            listen_for(event.call_id, self._tell)

    async def _tell(self, event: ToolInputEvent) -> None:
        hook = self._hooks_of[event.call_id]
        if type(event) in (ToolInputAvailable, ToolInputAbandoned):
            self._open.discard(event.call_id)
        else:
            self._open.add(event.call_id)
        try:
            heard = hook(event)
            if inspect.isawaitable(heard):
                await heard
        except BaseException as raised:
            if must_leave(raised):
                raise
            logger.exception("on_input raised for a %s", type(event).__name__)

    async def abandon_open(self) -> None:
        for call_id in tuple(self._open):
            await self._tell(ToolInputAbandoned(call_id, "incomplete"))

    def branch(self) -> _ListeningSink:
        branch = _ListeningSink(self._to.branch(), self._hooks)
        branch._hooks_of, branch._open = self._hooks_of, self._open
        return branch
