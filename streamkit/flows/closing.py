"""The last events of work that was cut off: a consumer hears of each call that goes nowhere, however the work ended."""

from __future__ import annotations

import logging
import math
from collections.abc import Iterable
from typing import TypeVar

import anyio

from .sinks import Sink

E = TypeVar("E")

CLOSING_SECONDS = 0.5
"""How long work that is cancelled may take to say what goes nowhere."""

logger = logging.getLogger("streamkit")


async def send_closing(out: Sink[E], events: Iterable[E], *, is_cancelled: bool) -> None:
    """Send the last events. What goes wrong here is only logged: why the work was cut off matters more.

    After an error this waits for the consumer, as usual. A task that is cancelled has no time left, so its last events
    are shielded for CLOSING_SECONDS.
    """
    unsent = iter(events)
    try:
        with anyio.move_on_after(CLOSING_SECONDS if is_cancelled else math.inf, shield=is_cancelled):
            for event in unsent:
                await out.send(event)
    except Exception:
        logger.debug("the last events of a turn could not be sent", exc_info=True)
    except anyio.get_cancelled_exc_class():
        await send_closing(out, unsent, is_cancelled=True)
        raise
