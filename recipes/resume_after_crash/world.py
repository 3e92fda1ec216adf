"""The outside world: what happened there has happened, whatever becomes of the program that caused it.

One file stands for all of it, a line for each deed. It is also where the program dies, if it is told to: after a deed,
and before anybody has heard of it.
"""

from __future__ import annotations

import os
import signal
from collections import Counter
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class World:
    """deeds: the file. die_after: the deed after which this process is gone, None to live on.

    piece_seconds: so long a piece of a photo is on its way.
    """

    deeds: Path
    die_after: str | None = None
    piece_seconds: float = 0.15

    def do(self, key: str, deed: str) -> None:
        """Make a deed happen, whatever was done before. key: who asks for it."""
        with self.deeds.open("ab") as file:
            file.write(f"{key} {deed}\n".encode())
        if deed == self.die_after:
            os.kill(os.getpid(), signal.SIGKILL)

    def done(self, key: str) -> int:
        """How many deeds were done for this key. A server that knows idempotency keys can tell."""
        return sum(line.startswith(f"{key} ") for line in self._lines())

    def counts(self) -> Counter[str]:
        """How often each deed was done."""
        return Counter(line.partition(" ")[2] for line in self._lines())

    def _lines(self) -> list[str]:
        return self.deeds.read_text("utf-8").splitlines() if self.deeds.exists() else []
