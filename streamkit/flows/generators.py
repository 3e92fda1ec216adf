"""Async generators of users: iterated, and closed, in the task that runs us.

With plain `aclosing`, what the generator's own task group makes of being closed would replace the result or the
cancellation that is on its way already. There is one way to close a user's generator, and it is here.
"""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import anyio

logger = logging.getLogger("streamkit")


async def drive(iterator: AsyncIterator[Any], put: Callable[[Any], Awaitable[None] | None]) -> None:
    """Put each event of an async iterator into a sink; closed in the end, and all of it in this task.

    A scope that the generator holds across a `yield` may be cancelled while its event waits to be taken. That
    cancellation belongs to the generator: it is thrown in where the event came from, and what the generator makes of it
    decides.
    """
    throw = getattr(iterator, "athrow", None)
    try:
        event = await anext(iterator)
        while True:
            try:
                left = put(event)  # send() would cost a coroutine for each event
                if left is not None:
                    await left
            except anyio.get_cancelled_exc_class() as cancellation:
                if throw is None:
                    raise
                event = await throw(cancellation)
            else:
                event = await anext(iterator)
    except StopAsyncIteration:
        pass
    finally:
        await close_generator(iterator)


async def close_generator(iterator: AsyncIterator[Any]) -> None:
    """Close an async generator. What its cleanup raises is logged: a result or a cancellation is on its way already."""
    aclose = getattr(iterator, "aclose", None)
    if aclose is None:
        return
    cancelled = anyio.get_cancelled_exc_class()
    try:
        await aclose()
    except BaseExceptionGroup as group:
        # A task group that the generator held across its `yield` wraps the GeneratorExit, and what it cancelled.
        if group.split((GeneratorExit, cancelled))[1] is not None:
            logger.warning("closing %r raised", iterator, exc_info=group)
    except Exception as error:
        logger.warning("closing %r raised", iterator, exc_info=error)
