"""A terminal in memory: what stands on it after all that was written to it."""

from __future__ import annotations

import io
import re
from unicodedata import bidirectional, category

from rich.cells import cell_len

TURNS = ("LRE", "RLE", "LRO", "RLO", "PDF", "LRI", "RLI", "FSI", "PDI")
"""What turns the direction of text around."""

_PIECES = re.compile(r"\x1b\[(\??)([\d;]*)([A-Za-z])|([\s\S])")


class Emulator:
    """rows: all of them, those that have scrolled away too. Knows only what screens may use; anything else raises."""

    def __init__(self, width: int = 80, height: int = 24) -> None:
        self.width, self.height = width, height
        self.rows: list[list[str]] = [[]]
        self.row = self.column = 0
        self.wraps = self.shows_cursor = True

    @property
    def lines(self) -> list[str]:
        return ["".join(row).rstrip() for row in self.rows]

    @property
    def text(self) -> str:
        return "\n".join(self.lines)

    def feed(self, written: str) -> None:
        for private, numbers, command, character in _PIECES.findall(written):
            if character:
                self._put(character)
            elif command == "A":
                top = max(len(self.rows) - self.height, 0)
                self.row = max(self.row - int(numbers or 1), top)
            elif command == "K":
                del self.rows[self.row][self.column :]
            elif command == "J":
                del self.rows[self.row][self.column :], self.rows[self.row + 1 :]
            elif private and command in "hl" and numbers in ("7", "25"):
                setattr(self, "wraps" if numbers == "7" else "shows_cursor", command == "h")
            elif command != "m":
                raise AssertionError(f"a screen wrote {private}{numbers}{command}")

    def narrow(self, width: int) -> None:
        """As most terminals do it: rows that are too long are broken, and the cursor stays at its text."""
        before = self.rows[: self.row]
        broken = [row[at : at + width] for row in before for at in range(0, max(len(row), 1), width)]
        self.width, self.rows, self.row = width, [*broken, self.rows[self.row]], len(broken)

    def _put(self, character: str) -> None:
        if character == "\n":
            self.row, self.column = self.row + 1, 0  # a terminal's own line discipline makes it CR LF
            if self.row == len(self.rows):
                self.rows.append([])
        elif character == "\r":
            self.column = 0
        elif category(character) in ("Cc", "Cs", "Zl", "Zp") or bidirectional(character) in TURNS:
            raise AssertionError(f"a screen wrote {character!r}")
        else:
            self._write(character)

    def _write(self, character: str) -> None:
        cells = cell_len(character)
        if self.column + cells > self.width:
            if not self.wraps:
                return
            self._put("\n")
        row = self.rows[self.row]
        row += [" "] * (self.column - len(row))
        row[self.column : self.column + cells] = [character, *[""] * (cells - 1)] if cells else []
        self.column += cells


class TerminalFile(io.StringIO):
    """A file that says it is a terminal, and the emulator behind it. written: how often something came."""

    encoding = "utf-8"

    def __init__(self, width: int = 80, height: int = 24) -> None:
        super().__init__()
        self.emulator = Emulator(width, height)
        self.written = 0

    def isatty(self) -> bool:
        return True

    def write(self, text: str) -> int:
        self.written += 1
        self.emulator.feed(text)
        return len(text)
