"""Who stops a run: a key of the keyboard, or, where nobody is at one, a certain moment."""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Protocol

import anyio

from streamkit import Intermediate, RunEvent, TextDelta

SIGNS = 12
"""So many pieces of text, or pages, are seen before the run is stopped where nobody is at a keyboard."""


class Finger(Protocol):
    told: str
    """How it stops a run, for the person."""

    async def press(self) -> None:
        """Returns when the run shall stop."""

    def see(self, event: RunEvent) -> None: ...


class AtMoment:
    """Stops a run when so much of it was seen."""

    def __init__(self, signs: float) -> None:
        self.told = f"stopped after {signs:g} signs of life" if math.isfinite(signs) else "not stopped"
        self._left = signs
        self._pressed = anyio.Event()

    async def press(self) -> None:
        await self._pressed.wait()

    def see(self, event: RunEvent) -> None:
        self._left -= isinstance(event, TextDelta | Intermediate)
        if self._left <= 0:
            self._pressed.set()


@contextmanager
def fingers() -> Iterator[Callable[[bool], Finger]]:
    """A function that gives the finger for a question. Its parameter: whether to stop it where nobody is there."""
    if sys.platform == "win32" or not (sys.stdin.isatty() and sys.stdout.isatty()):
        yield lambda stops: AtMoment(SIGNS if stops else math.inf)
        return
    from ..tool_call_approval.keyboard import Keyboard, keyboard  # noqa: PLC0415 - there is no termios on Windows

    class AnyKey:
        told = "any key stops it"

        def __init__(self, keys: Keyboard) -> None:
            self._keys = keys

        async def press(self) -> None:
            self._keys.forget()
            await self._keys.key()

        def see(self, event: RunEvent) -> None: ...

    with keyboard() as keys:
        yield lambda stops: AnyKey(keys)
