"""Who turns the valve: a person with keys, or, where nobody is at a keyboard, a clock."""

from __future__ import annotations

import sys
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from typing import Any

import anyio

from .recipe import Valve

Hand = Callable[[Valve], Coroutine[Any, Any, None]]

PAUSE_AFTER_EVENTS = 40
PAUSE_SECONDS = 3


@contextmanager
def hand() -> Iterator[tuple[Hand, str]]:
    """A task that turns a valve, and how it does that."""
    if sys.platform == "win32" or not (sys.stdin.isatty() and sys.stdout.isatty()):
        yield by_clock, "it pauses by itself, and stops after a step"
        return
    from ..tool_call_approval.keyboard import keyboard  # noqa: PLC0415 - there is no termios on Windows

    with keyboard() as keys:

        async def by_keys(valve: Valve) -> None:
            while key := await keys.key():
                if key == "q":
                    valve.stop()
                elif key == " ":
                    (valve.resume if valve.is_paused else valve.pause)()

        yield by_keys, "space pauses and resumes, q stops after the step"


async def by_clock(valve: Valve) -> None:
    valve.stop()
    await valve.has_passed(PAUSE_AFTER_EVENTS)
    valve.pause()
    await anyio.sleep(PAUSE_SECONDS)
    valve.resume()
