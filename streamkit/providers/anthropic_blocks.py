"""What a content block of the Messages API holds while it is written."""

from __future__ import annotations

import itertools
from typing import Any


class Block:
    """A content block that is open.

    raw: as it began. pieces: the text of its input. grown: the fields that its deltas add to. whole() -> all of it.
    """

    __slots__ = ("grown", "kind", "pieces", "raw")

    def __init__(self, raw: dict[str, Any]) -> None:
        self.raw = raw
        self.kind: str = raw["type"] if isinstance(raw.get("type"), str) else ""
        self.pieces: list[str] = []
        self.grown: dict[str, Field] = {}

    def field(self, name: str) -> Field:
        if name not in self.grown:
            self.grown[name] = Field(self.raw.get(name))
        return self.grown[name]

    def is_told_again(self, raw: dict[str, Any]) -> bool:
        """Whether a start is that of this block once more: another call has another id, other text is to be read."""
        match raw:
            case {"type": "tool_use", "id": str(call_id)}:
                return bool(call_id) and raw == self.raw
            case {"type": "text" | "thinking" as kind}:
                return not raw.get(kind) and raw == self.raw
        return False

    def whole(self) -> dict[str, Any]:
        self.raw.update((name, field.value()) for name, field in self.grown.items())
        return self.raw


class Field:
    """What a field holds: texts and lists grow, everything else is replaced.

    Pieces are joined once, at the end: there may be very many.
    """

    __slots__ = ("_pieces", "_size")

    def __init__(self, first: Any) -> None:
        self._pieces = [first]
        self._size = _size(first)

    def add(self, piece: Any) -> None:
        if type(piece) is not type(self._pieces[0]) or type(piece) not in (str, list):
            self._pieces.clear()
            self._size = 0
        self._pieces.append(piece)
        self._size += _size(piece)

    def value(self) -> Any:
        first = self._pieces[0]
        if isinstance(first, str):
            return "".join(self._pieces)
        return list(itertools.chain.from_iterable(self._pieces)) if isinstance(first, list) else first

    def is_whole(self, value: Any) -> bool:
        """Whether this value is all that it holds."""
        return self._size == _size(value) and bool(self.value() == value)


def _size(value: Any) -> int:
    return len(value) if isinstance(value, str | list) else 1
