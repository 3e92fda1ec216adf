"""The keyboard of a terminal, read beside everything else: while nobody presses a key, all other tasks go on.

For POSIX terminals. Ctrl-C interrupts as ever.
"""

from __future__ import annotations

import os
import termios
import tty
from collections.abc import Iterator
from contextlib import contextmanager

import anyio


class Keyboard:
    """Made by `keyboard()`. One task reads at a time."""

    def __init__(self, terminal: int, line_mode: list[object]) -> None:
        self._terminal = terminal
        self._line_mode = line_mode

    def forget(self) -> None:
        """What was pressed until now was not meant for what comes."""
        termios.tcflush(self._terminal, termios.TCIFLUSH)

    async def key(self) -> str:
        """The next key that is pressed. Empty at the end."""
        return (await self._read())[:1]

    async def line(self) -> str:
        """A line, which can be corrected while it is written. Empty at the end, and for Enter alone."""
        termios.tcsetattr(self._terminal, termios.TCSADRAIN, self._line_mode)  # type: ignore[arg-type]
        try:
            return (await self._read()).strip()
        finally:
            tty.setcbreak(self._terminal, termios.TCSADRAIN)

    async def _read(self) -> str:
        await anyio.wait_readable(self._terminal)
        return os.read(self._terminal, 4096).decode(errors="replace")


@contextmanager
def keyboard(terminal: int = 0) -> Iterator[Keyboard]:
    """Keys without Enter and without an echo, for as long as the block is open. terminal: its descriptor."""
    before = termios.tcgetattr(terminal)
    tty.setcbreak(terminal, termios.TCSADRAIN)
    try:
        yield Keyboard(terminal, before)
    finally:
        termios.tcsetattr(terminal, termios.TCSADRAIN, before)
