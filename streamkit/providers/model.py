"""What a model is, what a decoder is, and the one pump between them.

A model of one's own needs `stream_turn`; a provider of one's own needs a `Decoder`, or any async iterable of parts, and
lets `run_turn` do the rest: ids, events in order, whole records, and nothing left open whatever happens.
"""

from __future__ import annotations

import logging
import os
from collections.abc import AsyncGenerator, AsyncIterable, AsyncIterator, Callable, Iterator, Sequence
from types import TracebackType
from typing import Protocol

from .. import metering
from ..errors import BadPayload, ConnectionFailed, DecodeError, IncompleteStream, ModelError
from ..flows.closing import send_closing
from ..flows.flow import Flow, Sink
from ..flows.generators import close_generator
from ..parts import Failed, Finished, Part
from ..tool_input import BOUNDS, Bounds
from ..turn_builder import TurnBuilder
from ..turns import Turn, TurnEnded, TurnEvent, TurnRequest, TurnRestarted, TurnStarted

logger = logging.getLogger("streamkit")


class Model(Protocol):
    """Whatever answers a request with a turn."""

    @property
    def name(self) -> str: ...

    def stream_turn(self, request: TurnRequest) -> Flow[TurnEvent, Turn]:
        """One turn. A turn that fails raises a ModelError, after what was open has been abandoned."""
        ...


class Decoder(Protocol):
    """Bytes to parts, without I/O, however the bytes were cut.

    feed(data) -> the parts that are now whole. end() -> the rest of them, when the body has ended; its last part is
    `Finished`, or `Failed` where the end of the turn was not declared. After either of them nothing is fed any more.
    """

    def feed(self, data: bytes, /) -> Sequence[Part]: ...

    def end(self) -> Sequence[Part]: ...


async def run_turn(
    out: Sink[TurnEvent],
    model: str,
    request: TurnRequest,
    parts: AsyncIterable[Sequence[Part]],
    *,
    bounds: Bounds = BOUNDS,
) -> Turn:
    """Run one turn of a model: parts in, its events into `out`, the turn as the value.

    Whatever goes wrong, open calls are abandoned before the error or the cancellation leaves. An error waits until the
    consumer has taken these last events; a cancellation gives them CLOSING_SECONDS. Errors of the provider are
    ModelErrors that carry the turn as far as it came; so is the end of the parts without `Finished`. Nothing is read
    after `Finished`, and the parts are closed. bounds: how many calls a turn may have, and how long they may be.
    """
    async with TurnRun(out, model, request, bounds) as run:
        return await run.read(parts)


class TurnRun:
    """`run_turn` where a turn may begin anew: `async with TurnRun(out, model, request) as run`, then `run.read`.

    has_shown: whether an event of the turn, other than its start, has been sent.
    """

    def __init__(self, out: Sink[TurnEvent], model: str, request: TurnRequest, bounds: Bounds = BOUNDS) -> None:
        check_request_given(request)
        names = [tool.name for tool in request.tools]
        may_call = request.tool_choice != "none"
        self.has_shown = False
        self._out = out
        self._builder = TurnBuilder(new_turn_id(), model, names, may_call=may_call, bounds=bounds)
        self._parts: AsyncIterator[Sequence[Part]] | None = None
        self._unsent: Iterator[TurnEvent] = iter(())
        self._broken: ModelError | None = None

    async def __aenter__(self) -> TurnRun:
        return self

    async def read(self, parts: AsyncIterable[Sequence[Part]]) -> Turn:
        """The turn that these parts make.

        Called again after a ModelError it begins the same turn anew, from other parts. What was shown until then is
        taken back: the calls are abandoned as retried, then TurnRestarted says why. The usage of both counts.
        """
        await self._begin(aiter(parts))
        try:
            await self._read_parts()
        except DecodeError as error:
            raise BadPayload(str(error)) from error
        except ModelError as error:
            self._broken = error
            raise
        await self._send(self._builder.end())
        turn = self._builder.turn()
        await self._out.send(TurnEnded(turn))
        return turn

    async def _begin(self, parts: AsyncIterator[Sequence[Part]]) -> None:
        before, self._parts = self._parts, parts
        if before is None:
            await self._out.send(TurnStarted(self._builder.turn_id, self._builder.model))
            return
        await close_generator(before)
        taken_back = self._builder.restart()
        if self.has_shown:
            await self._send([*taken_back, TurnRestarted(str(self._broken))])

    async def _read_parts(self) -> None:
        assert self._parts is not None
        async for batch in self._parts:
            if type(batch) is not list and not isinstance(batch, Sequence):  # an abstract class is slow to ask
                raise TypeError(f"parts come in lists, such as [TextDelta('Hi')], not as one {type(batch).__name__}")
            events: list[TurnEvent] = []
            try:
                self._builder.add_all(batch, events)
            finally:  # what came before a failure counts
                if events:
                    self.has_shown = True
                    self._unsent = iter(events)
                    for event in self._unsent:
                        left = self._out.put(event)  # send() would cost a coroutine for each event
                        if left is not None:
                            await left
            if self._builder.finished:
                return
        raise IncompleteStream("the answer ended before the turn did")

    async def _send(self, events: Sequence[TurnEvent]) -> None:
        self._unsent = iter(events)
        for event in self._unsent:
            await self._out.send(event)

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        thrown_away = isinstance(error, GeneratorExit)  # then this coroutine must not await any more
        try:
            if error is not None and self._parts is not None and not thrown_away:
                await self._close(error)
        finally:
            metering.charge(self._builder.usage)
            if self._parts is not None:
                await close_generator(self._parts)

    async def _close(self, error: BaseException) -> None:
        failed = isinstance(error, Exception)
        # An event counts as sent when its sending has begun: where that is cut off, it lies in the channel already.
        closing = [*self._unsent, *self._builder.fail("error" if failed else "cancelled")]
        await send_closing(self._out, closing, is_cancelled=not failed)
        if isinstance(error, ModelError) and error.turn is None:
            error.turn = self._builder.turn()


def check_model_given(given: object) -> None:
    """Raises TypeError where a model is needed and something else came, mostly its name."""
    if not callable(getattr(given, "stream_turn", None)):
        raise TypeError(
            f"a model has stream_turn(request), and {given!r:.100} has none: make one with openai_responses('gpt-5') "
            "or its like; model('openai:gpt-5') of streamkit.providers.named makes one of a name"
        )


def check_request_given(given: object) -> None:
    """Raises TypeError where what a model is to be asked is no TurnRequest, but mostly its history alone."""
    if not isinstance(given, TurnRequest):
        kind = type(given).__name__
        raise TypeError(f"request is a TurnRequest, such as TurnRequest((user('…'),)), not a {kind}")


def new_turn_id() -> str:
    """Unique without asking anyone: a conversation is stored, and goes on elsewhere."""
    return f"turn_{os.urandom(12).hex()}"


_ENDS = (Finished, Failed)


async def decoded(
    body: AsyncIterable[bytes],
    decoder: Decoder,
    heard: Callable[[Sequence[Part]], object] | None = None,
    *,
    limit_bytes: int = BOUNDS.body_bytes,
) -> AsyncGenerator[Sequence[Part], None]:
    """The parts of a body. Nothing is read after the end of the turn.

    A turn whose end was declared is whole, even if the connection breaks before the body ends, and a failure that the
    provider reported is the one that counts. heard: called with the parts of each piece, also if there are none.
    limit_bytes: a longer body is a BadPayload.
    """
    iterator = aiter(body)
    size = 0
    try:
        async for data in iterator:
            size += len(data)
            if size > limit_bytes:
                raise BadPayload(f"the answer has more than {limit_bytes} bytes")
            parts = decoder.feed(data)
            if heard is not None:
                heard(parts)
            if parts:
                yield parts
                if type(parts[-1]) in _ENDS:
                    return
    except ConnectionFailed as broken:
        parts = list(decoder.end())
        last = parts[-1] if parts else Failed(IncompleteStream("nothing came"))
        if isinstance(last, Failed) and isinstance(last.error, IncompleteStream):
            parts[-1:] = [Failed(broken)]
        yield parts
    else:
        yield decoder.end()
    finally:
        await close_generator(iterator)
