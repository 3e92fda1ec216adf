"""What others print while the bottom of a terminal is ours: kept line by line, to be shown above it."""

from __future__ import annotations

import io
import sys
import threading
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from typing import TextIO

KEPT_LINES = 10_000
"""A thread may print faster than anything can be shown; then the oldest of its lines are lost."""


class Printed:
    """The lines that were printed, from any thread, and not yet taken."""

    def __init__(self) -> None:
        self._lines: deque[str] = deque(maxlen=KEPT_LINES)

    def add(self, line: str) -> None:
        self._lines.append(line)

    def take(self) -> Iterator[str]:
        while self._lines:
            yield self._lines.popleft()


class _PrintsTo(io.TextIOBase):
    """In the place of sys.stdout or sys.stderr."""

    def __init__(self, printed: Printed, behind: TextIO) -> None:
        self._printed = printed
        self._behind = behind
        self._line = ""
        self._lock = threading.Lock()

    def write(self, text: str) -> int:
        with self._lock:
            *lines, self._line = f"{self._line}{text}".split("\n")
            for line in lines:
                self._printed.add(line)
        return len(text)

    def finish(self) -> None:
        if self._line:
            self.write("\n")

    def writable(self) -> bool:
        return True

    def isatty(self) -> bool:
        return self._behind.isatty()

    def fileno(self) -> int:
        return self._behind.fileno()

    @property
    def encoding(self) -> str:  # type: ignore[override]  # that of the class is always None
        return self._behind.encoding


@contextmanager
def prints_kept(printed: Printed, file: TextIO) -> Iterator[None]:
    """Inside the block the lines go to `printed` that would go to this file, or to a terminal."""
    out, err = _PrintsTo(printed, sys.stdout), _PrintsTo(printed, sys.stderr)
    keeps_out, keeps_err = _is_there(sys.stdout, file), _is_there(sys.stderr, file)
    with redirect_stdout(out if keeps_out else sys.stdout), redirect_stderr(err if keeps_err else sys.stderr):
        try:
            yield
        finally:
            out.finish()
            err.finish()


def _is_there(stream: TextIO | None, file: TextIO) -> bool:
    return stream is not None and (stream is file or stream.isatty())
