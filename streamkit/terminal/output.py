"""Where a screen writes to."""

from __future__ import annotations

import select
from typing import TextIO

import anyio

PIECE_CHARACTERS = 1024
"""At most four bytes each: what a pipe takes at once, when it is ready to take anything."""


class TextOutput:
    """A text file, a pipe, a terminal. Whoever reads at the other end may be slow, or gone.

    Writing waits for a slow reader, and can be cancelled meanwhile; where the reader is gone it raises BrokenPipeError.
    Characters that the encoding lacks become question marks.
    """

    def __init__(self, file: TextIO) -> None:
        self._file = file
        self._encoding = getattr(file, "encoding", None) or "utf-8"
        try:
            self._descriptor: int | None = file.fileno()
        except (OSError, ValueError, AttributeError):  # in memory, or no real file at all
            self._descriptor = None

    async def write(self, text: str) -> None:
        for start in range(0, len(text), PIECE_CHARACTERS):
            await self.ready()
            self.write_now(text[start : start + PIECE_CHARACTERS])

    def write_now(self, text: str) -> None:
        self._file.write(text.encode(self._encoding, "replace").decode(self._encoding))
        self._file.flush()

    async def ready(self) -> None:
        """Returns when something can be written."""
        if self._descriptor is None:
            return
        try:
            if not select.select((), (self._descriptor,), (), 0)[1]:
                await anyio.wait_writable(self._descriptor)
        except (OSError, ValueError):  # nothing that can be waited for: a pipe of Windows, a very high descriptor
            self._descriptor = None
