"""Text in rows of so many cells of a terminal, where a character may be two cells wide."""

from __future__ import annotations

import re

from rich.cells import cell_len, chop_cells

_ALONE = r"\u2e80-\u9fff\uac00-\ud7af\uf900-\ufaff\uff01-\uff60"
"""In scripts without gaps every character may begin a row."""

_WORDS = re.compile(rf"[{_ALONE}] *|[^ {_ALONE}]+ *| +")
"""Each word with the gap behind it."""


def wrapped(line: str, width: int) -> list[str]:
    """The rows of a line, which join to it. What is added to the line later changes the last row alone."""
    size = len if line.isascii() else cell_len
    if size(line) <= width:
        return [line]
    rows: list[str] = []
    row, used = "", 0
    for word in _WORDS.findall(line):
        if row and used + size(word.rstrip()) > width:
            rows.append(row)
            row, used = "", 0
        if size(word.rstrip()) > width:
            *full, word = chop_cells(word, width)  # noqa: PLW2901 - the rest of it
            rows += full
        row += word
        used += size(word)
    return [*rows, row]
