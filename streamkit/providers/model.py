"""What a model is, what a decoder is, and the one pump between them.

A model of one's own needs `stream_turn`; a provider of one's own needs a `Decoder`, or any async iterable of parts, and
lets `run_turn` do the rest: ids, events in order, whole records, and nothing left open whatever happens.
"""

from __future__ import annotations

import logging
import math
import os
from collections.abc import AsyncGenerator, AsyncIterable, Iterable, Iterator, Sequence
from typing import Protocol

import anyio

from .. import metering
from ..errors import BadPayload, ConnectionFailed, DecodeError, IncompleteStream, ModelError
from ..flows import Flow, Sink
from ..generators import close_generator
from ..turn_builder import Failed, Finished, Part, TurnBuilder
from ..turns import Turn, TurnEnded, TurnEvent, TurnRequest, TurnStarted

CLOSING_SECONDS = 0.5
"""How long a turn that is cancelled may take to say what goes nowhere."""

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
    out: Sink[TurnEvent], model: str, request: TurnRequest, parts: AsyncIterable[Sequence[Part]]
) -> Turn:
    """Run one turn of a model: parts in, its events into `out`, the turn as the value.

    Whatever goes wrong, what is open is abandoned before the error or the cancellation leaves. An error waits for its
    consumer as ever; a cancellation gives the last events CLOSING_SECONDS. Every error of the provider is a ModelError
    that carries the turn as far as it came; parts that end without `Finished` are one, too. Nothing is read after it,
    and the parts are closed.
    """
    names = [tool.name for tool in request.tools]
    builder = TurnBuilder(new_turn_id(), model, names, may_call=bool(names) and request.tool_choice != "none")
    iterator = aiter(parts)
    unsent: Iterator[TurnEvent] = iter(())
    try:
        await out.send(TurnStarted(builder.turn_id, model))
        async for batch in iterator:
            events: list[TurnEvent] = []
            unsent = iter(events)
            builder.add_all(batch, events)
            for event in unsent:
                await out.send(event)
            if builder.finished:
                break
        else:
            raise IncompleteStream("the answer ended before the turn did")
        unsent = iter(builder.end())
        for event in unsent:
            await out.send(event)
        turn = builder.turn()
        await out.send(TurnEnded(turn))
        return turn
    except GeneratorExit:
        raise  # this coroutine is thrown away, and must not await any more
    except BaseException as error:
        failed = isinstance(error, Exception)
        # An event counts as sent when its sending has begun: where that is cut off, it lies in the channel already.
        closing = [*unsent, *builder.fail("error" if failed else "cancelled")]
        await _send_closing(out, closing, is_cancelled=not failed)
        if isinstance(error, DecodeError):
            raise BadPayload(str(error), turn=builder.turn()) from error
        if isinstance(error, ModelError) and error.turn is None:
            error.turn = builder.turn()
        raise
    finally:
        metering.charge(builder.usage)
        await close_generator(iterator)


def new_turn_id() -> str:
    """Unique without asking anyone: a conversation is stored, and goes on elsewhere."""
    return f"turn_{os.urandom(12).hex()}"


async def decoded(body: AsyncIterable[bytes], decoder: Decoder) -> AsyncGenerator[Sequence[Part], None]:
    """The parts of a body. Nothing is read after the end of the turn.

    A turn whose end was declared is whole, even if the connection breaks before the body ends.
    """
    iterator = aiter(body)
    try:
        async for data in iterator:
            parts = decoder.feed(data)
            if parts:
                yield parts
                if isinstance(parts[-1], Finished | Failed):
                    return
    except ConnectionFailed as broken:
        parts = list(decoder.end())
        if not parts or type(parts[-1]) is not Finished:
            parts[-1:] = [Failed(broken)]
        yield parts
    else:
        yield decoder.end()
    finally:
        await close_generator(iterator)


async def _send_closing(out: Sink[TurnEvent], events: Iterable[TurnEvent], *, is_cancelled: bool) -> None:
    """Send the last events of a turn that was cut off. Why it was weighs more than what goes wrong here."""
    unsent = iter(events)
    try:
        with anyio.move_on_after(CLOSING_SECONDS if is_cancelled else math.inf, shield=is_cancelled):
            for event in unsent:
                await out.send(event)
    except Exception:
        logger.debug("the last events of a turn could not be sent", exc_info=True)
    except anyio.get_cancelled_exc_class():
        await _send_closing(out, unsent, is_cancelled=True)
        raise
