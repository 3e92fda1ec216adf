"""The lines of this process's stdin, read on threads that nobody has to wait for.

The SDK's own reader waits on a thread of anyio for a client that says nothing; until it does, neither Ctrl-C nor the
end of the program around it ends the process.
"""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial

from ..flows.threads import run_in_thread
from .unreadable import with_whole_text

_STDIN = 0
_CHUNK_BYTES = 64 * 1024


@contextmanager
def lines_of_stdin() -> Iterator[Lines]:
    """Meanwhile tools, and the processes that they start, find stdin at its end, and take no message away."""
    wire = os.dup(_STDIN)
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, _STDIN)
    os.close(nothing)
    try:
        yield Lines(wire)
    finally:
        os.dup2(wire, _STDIN)  # not closed: a thread that is left behind may still read there


class Lines:
    """The lines of a file, given by its number. A class, since the SDK would leave a generator unclosed."""

    def __init__(self, file: int) -> None:
        self._file = file
        self._begun: list[bytes] = []
        self._whole: deque[bytes] = deque()

    def __aiter__(self) -> Lines:
        return self

    async def __anext__(self) -> str:
        while not self._whole:
            chunk = await run_in_thread(partial(os.read, self._file, _CHUNK_BYTES), name="stdin")
            if not chunk:
                raise StopAsyncIteration
            *ends, rest = chunk.split(b"\n")
            for end in ends:
                self._whole.append(b"".join((*self._begun, end)))
                self._begun = []
            self._begun.append(rest)
        return with_whole_text(self._whole.popleft().decode(errors="replace"))
