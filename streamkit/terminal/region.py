"""The bottom of a terminal, which is drawn again and again; what is done goes above it and stays.

Between two frames the terminal is as it should be: the cursor stands below everything and can be seen, so that a
program that is killed leaves nothing to mend.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import ceil

from rich.console import Console
from rich.text import Text

HIDE_CURSOR, SHOW_CURSOR = "\x1b[?25l", "\x1b[?25h"
KEEP_IN_ROW, WRAP = "\x1b[?7l", "\x1b[?7h"
"""A row that is wider than the terminal thinks, or than it has become, must not take two."""
CLEAR_ROW, CLEAR_BELOW = "\x1b[K", "\x1b[J"


class Region:
    """frame(done, moving) -> the text that, written to the terminal, shows both: `done` for good, `moving` until the
    next frame. Rows are no wider than the console.
    """

    def __init__(self, console: Console) -> None:
        self._console = console
        self._standing: list[int] = []  # the cells of each moving row of the last frame
        self._width = console.width
        self._last = ""

    def frame(self, done: Sequence[Text], moving: Sequence[Text]) -> str:
        """Empty where there is nothing new."""
        width = self._console.width
        drawn = self._rendered(moving)
        if not done and drawn == self._last and width == self._width:
            return ""
        up = self._rows_up(width)
        self._standing, self._last, self._width = [row.cell_len for row in moving], drawn, width
        back = f"\r\x1b[{up}A" if up else "\r"
        return f"{HIDE_CURSOR}{back}{self._rendered(done)}{KEEP_IN_ROW}{drawn}{CLEAR_BELOW}{WRAP}{SHOW_CURSOR}"

    def _rows_up(self, width: int) -> int:
        """How far up the last frame begins. A terminal that became narrower has broken its rows."""
        if width >= self._width:
            return len(self._standing)
        return sum(max(1, ceil(cells / width)) for cells in self._standing)

    def _rendered(self, rows: Sequence[Text]) -> str:
        if not rows:
            return ""
        with self._console.capture() as captured:
            self._console.print(Text("\n").join(rows), soft_wrap=True)
        return captured.get().replace("\n", f"{CLEAR_ROW}\n")
