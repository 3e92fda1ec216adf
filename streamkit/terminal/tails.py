"""The ends of what grows: of a text, and of the arguments of a call while the model writes them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from .words import on_one_line, shown

TAIL_CHARACTERS = 4_000
KEPT_FIELDS = 12


class Tail:
    """The end of a text that grows. lines_gone: how many line ends were in what is gone."""

    __slots__ = ("_text", "lines_gone")

    def __init__(self, text: str = "") -> None:
        self._text = ""
        self.lines_gone = 0
        self.add(text)

    def add(self, text: str) -> None:
        if len(text) > TAIL_CHARACTERS:
            self.lines_gone += self._text.count("\n") + text.count("\n", 0, -TAIL_CHARACTERS)
            self._text = text[-TAIL_CHARACTERS:]
            return
        self._text += text
        if len(self._text) > 2 * TAIL_CHARACTERS:
            self.lines_gone += self._text.count("\n", 0, -TAIL_CHARACTERS)
            self._text = self._text[-TAIL_CHARACTERS:]

    def __str__(self) -> str:
        return self._text


class Fields:
    """The arguments of a call, field by field. Of very many the first are kept, and the one that grows."""

    def __init__(self) -> None:
        self.shown: dict[str, Tail] = {}
        self.omitted = 0

    @classmethod
    def of(cls, arguments: dict[str, Any]) -> Fields:
        """Of arguments that are whole."""
        fields = cls()
        for name, value in list(arguments.items())[:KEPT_FIELDS]:
            fields.shown[on_one_line(str(name), 40)] = Tail(value if isinstance(value, str) else shown(value))
        fields.omitted = max(len(arguments) - KEPT_FIELDS, 0)
        return fields

    def add(self, path: Iterable[str | int], text: str) -> None:
        name = on_one_line(".".join(map(str, path)), 80)
        if (there := self.shown.get(name)) is not None:
            there.add(text)
            return
        if len(self.shown) >= KEPT_FIELDS:
            self.shown.popitem()
            self.omitted += 1
        self.shown[name] = Tail(text)
