"""The two tokens of JSON that may be long, however they were cut: strings and numbers.

Of a string: where it ends, what its escapes stand for, where its first fault is, and its text while it grows. Of a
number: a table of what may follow.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import NamedTuple

import msgspec

from .surrogates import Halves, whole

BLOCK_PIECES = 512

decode_string = msgspec.json.Decoder(str).decode
"""A JSON string with its quotes; refuses half characters, which JSON allows."""

_JSON = json.JSONDecoder()
_ESCAPE_OR_FAULT = re.compile(r'\\(?:["\\/bfnrt]|u[0-9a-fA-F]{4})|[\x00-\x1f\\]')
_HEX_DIGITS = frozenset("0123456789abcdefABCDEF")


class GrowingText:
    """The text of one string while it comes.

    Its pieces are joined in blocks: a text of many small pieces takes the memory of the text, not that of many strings.

    pieces: those since the last block; whoever appends to it calls join_block at BLOCK_PIECES. halves: while half a
    character waits in it, every piece goes through add.
    """

    __slots__ = ("_blocks", "_length", "_measured", "halves", "pieces")

    def __init__(self) -> None:
        self.pieces: list[str] = []  # always this list
        self.halves = Halves()
        self._blocks: list[str] = []
        self._length = 0  # of the blocks
        self._measured = (0, 0)  # so many pieces, and their length

    def add(self, text: str) -> str:
        """Append a piece; gives what of it is sure. Half a character at its end waits for the other half."""
        if self.halves.waiting or not text.isascii():
            text = self.halves.mend(None, text)
        if text:
            self.append(text)
        return text

    def append(self, text: str) -> None:
        """Append a piece that has no halves."""
        self.pieces.append(text)
        if len(self.pieces) >= BLOCK_PIECES:
            self.join_block()

    def end(self) -> str:
        """No more comes: what a waiting half becomes, or nothing."""
        left: str = whole(self.halves.waiting.pop(None, ""))
        return self.add(left)

    def length(self) -> int:
        """The number of characters; each piece is measured once."""
        count, length = self._measured
        if count < len(self.pieces):
            length += sum(map(len, self.pieces[count:]))
            self._measured = len(self.pieces), length
        return self._length + length

    def join_block(self) -> None:
        block = "".join(self.pieces)
        self._blocks.append(block)
        self._length += len(block)
        self._measured = (0, 0)
        self.pieces.clear()

    def joined(self) -> str:
        """All of it so far. Asked again while nothing comes, it costs nothing."""
        if self.pieces:
            self.join_block()
        text = "".join(self._blocks)
        self._blocks = [text]
        return text

    def take(self) -> str:
        """All of it; it is empty again, for the next one."""
        text = self.joined() if self._blocks else "".join(self.pieces)
        self._blocks = []
        self.pieces.clear()
        self._length, self._measured = 0, (0, 0)
        return text


def closing_quote(text: str, start: int) -> int:
    """Where the string, of which text[start] is a part, ends; -1 where it does not end here."""
    quote = text.find('"', start)
    while quote > start and text[quote - 1] == "\\":
        if _begins_escape(text, quote - 1, start):
            quote = text.find('"', quote + 1)
        else:
            break
    return quote


def unfinished_escape(text: str, start: int) -> int:
    """Where, at the end of a piece, an escape begins that the next piece may complete; the end where none does."""
    end = len(text)
    escape = text.rfind("\\", max(start, end - 5))
    if escape < 0 or not _begins_escape(text, escape, start):
        return end
    rest = text[escape + 1 :]
    return escape if not rest or (rest[0] == "u" and _HEX_DIGITS.issuperset(rest[1:]) and len(rest) < 5) else end


def _begins_escape(text: str, backslash: int, start: int) -> bool:
    """Whether a backslash is not itself escaped by the one before."""
    before = backslash
    while before > start and text[before - 1] == "\\":
        before -= 1
    return (backslash - before) % 2 == 0


def unescaped(raw: str) -> str:
    """What stands between the quotes, its escapes decoded. Halves of characters stay as they are.

    Raises ValueError for what no string may hold.
    """
    try:
        return decode_string(f'"{raw}"')
    except (msgspec.DecodeError, UnicodeEncodeError):  # half a character, or a fault
        text: str = _JSON.raw_decode(f'"{raw}"')[0]
        return text


class Fault(NamedTuple):
    """Of what stands in a string: how much is good, where the first impossible character is, what could stand there."""

    good: int
    place: int
    expected: str


def first_fault(raw: str) -> Fault:
    """The fault of what `unescaped` refuses; its place is behind the end where the quote cuts an escape off."""
    for match in _ESCAPE_OR_FAULT.finditer(raw):
        if match.end() - match.start() > 1:
            continue
        good = match.start()
        if raw[good] != "\\":
            return Fault(good, good, "a character that a string may hold")
        if raw[good + 1 : good + 2] != "u":
            return Fault(good, good + 1, "the rest of an escape")
        digits = good + 2
        while digits < len(raw) and raw[digits] in _HEX_DIGITS:
            digits += 1
        return Fault(good, digits, "a hexadecimal digit")
    raise ValueError("there is no fault")


class NumberState:
    """What of a number has come. convert: makes it one, None where it is not whole yet. expected: what must follow."""

    __slots__ = ("convert", "expected", "moves")

    def __init__(self, expected: str, convert: Callable[[str], int | float] | None = None) -> None:
        self.expected = expected
        self.convert = convert
        self.moves: dict[str, NumberState] = {}

    def on(self, characters: str, state: NumberState) -> None:
        self.moves.update(dict.fromkeys(characters, state))


NOTHING = NumberState("a number")
_MINUS = NumberState("a digit")
_ZERO = NumberState("the rest of a number", int)
_INTEGER = NumberState("the rest of a number", int)
_POINT = NumberState("a digit")
_FRACTION = NumberState("the rest of a number", float)
_E = NumberState("a digit or a sign")
_E_SIGN = NumberState("a digit")
_EXPONENT = NumberState("the rest of a number", float)

for _state, _characters, _after in (
    (NOTHING, "-", _MINUS),
    (NOTHING, "0", _ZERO),
    (NOTHING, "123456789", _INTEGER),
    (_MINUS, "0", _ZERO),
    (_MINUS, "123456789", _INTEGER),
    (_ZERO, ".", _POINT),
    (_ZERO, "eE", _E),
    (_INTEGER, "0123456789", _INTEGER),
    (_INTEGER, ".", _POINT),
    (_INTEGER, "eE", _E),
    (_POINT, "0123456789", _FRACTION),
    (_FRACTION, "0123456789", _FRACTION),
    (_FRACTION, "eE", _E),
    (_E, "+-", _E_SIGN),
    (_E, "0123456789", _EXPONENT),
    (_E_SIGN, "0123456789", _EXPONENT),
    (_EXPONENT, "0123456789", _EXPONENT),
):
    _state.on(_characters, _after)
