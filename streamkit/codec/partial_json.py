"""JSON that is still being written: text in pieces to field events, and to the value as far as it is known.

Only final facts are told: what has come of a string is a part of it for good, a number is told when it is whole. Each
character is read once, most of them in C: inside a string a piece without escapes is appended, and nothing else.
Source: RFC 8259, strictly: no comments, no trailing commas, no NaN. Numbers and repeated keys (the last one wins) are
as in `json.loads`; of halves of characters two that meet are one character, and one that stays alone is U+FFFD.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import msgspec

from ..errors import DecodeError
from .growing_value import Broken, FieldClosed, FieldEvent, FieldOpened, FieldPath, FieldText, FieldValue, GrowingValue
from .json_tokens import (
    BLOCK_PIECES,
    NOTHING,
    GrowingText,
    closing_quote,
    decode_string,
    first_fault,
    unescaped,
    unfinished_escape,
)  # fmt: skip

__all__ = [
    "Broken", "FieldClosed", "FieldEvent", "FieldOpened", "FieldPath", "FieldText", "FieldValue", "PartialJson",
]  # fmt: skip

MAX_DEPTH = 128
LIMIT_CHARS = 64 * 1024 * 1024
SHORT_CHARS = 256
"""A piece of a string that is not longer may take a short way, on which it is not counted."""

_BLANKS = re.compile(r"[ \t\n\r]*")
_LITERALS: dict[str, tuple[str, bool | None]] = {"t": ("true", True), "f": ("false", False), "n": ("null", None)}


class PartialJson:
    """Pieces of one JSON text to events, wherever they were cut.

    feed(text) -> what is known now and was not before; it never raises. At the first impossible character it gives
    `Broken`, after what came before it, and from then on nothing. Also broken is what is too deep (more than max_depth
    containers in each other), too long (more than limit_chars), or a whole number of more digits than Python reads.

    snapshot() -> the value so far, on demand. Open containers are copied, closed ones shared with later snapshots and
    with the value: read them, do not change them. {} as long as there is no value, also where the whole text is `null`;
    a text that is no object gives what it is: an array, a string. Keys never vanish and strings only extend, until a
    repeated key replaces its value. Of a broken text it is the last good one.

    finish() -> the value, if the text ends here; it changes nothing. Raises DecodeError if the text cannot end here, or
    is broken. A number that is the whole text has no event, since only the end tells that it is whole.
    """

    __slots__ = (
        "_base", "_broken", "_flows", "_held", "_in_text", "_limit_chars", "_max_depth", "_number",
        "_number_start", "_path", "_pieces", "_size", "_state", "_text", "_value",
    )  # fmt: skip

    def __init__(self, *, max_depth: int = MAX_DEPTH, limit_chars: int = LIMIT_CHARS) -> None:
        self._max_depth = max_depth
        self._limit_chars = limit_chars
        self._value = GrowingValue()
        self._state: State = VALUE
        self._text = GrowingText()  # of the string, key or number that is being read
        self._pieces = self._text.pieces
        self._number = NOTHING
        self._number_start = 0
        self._held = ""  # the end of what came, where it is the beginning of an escape or of a literal
        self._path: FieldPath = ()  # of the value that is being read
        self._in_text = False  # inside a string that is a value, far from the limit, and no half character waits
        self._flows = False  # and nothing is held: a plain short piece is a part of the string as it is
        self._broken: Broken | None = None
        self._size = 0  # characters that came, without those of the text: to count each piece would be much of its cost
        self._base = 0  # the position of the first character of what is being read

    def feed(self, text: str) -> tuple[FieldEvent, ...]:
        if self._flows and "\\" not in text and '"' not in text and text.isprintable() and 0 < len(text) <= SHORT_CHARS:
            pieces = self._pieces
            pieces.append(text)
            if len(pieces) >= BLOCK_PIECES:
                self._join_block()
            return (FieldText(self._path, text),)
        if self._in_text and 0 < len(text) <= SHORT_CHARS:
            return self._feed_escapes(text)
        return self._feed_exactly(text) if self._broken is None else ()

    def _feed_escapes(self, text: str) -> tuple[FieldEvent, ...]:
        """Inside a string: a piece that has escapes, or characters that are not printable, but mostly not the end."""
        piece, held = self._held + text, ""
        if piece[-1] == "\\" or "\\u" in piece[-5:]:
            end = unfinished_escape(piece, 0)
            piece, held = piece[:end], piece[end:]
        if '"' in piece and '\\"' not in piece:  # surely the end
            return self._feed_exactly(text)
        try:
            piece = decode_string(f'"{piece}"')  # refused where the end of the string is in it
        except (msgspec.DecodeError, UnicodeEncodeError):
            return self._feed_exactly(text)
        self._size += len(text) - len(piece)
        self._held = held
        self._flows = not held
        if not piece:
            return ()
        pieces = self._pieces
        pieces.append(piece)
        if len(pieces) >= BLOCK_PIECES:
            self._join_block()
        return (FieldText(self._path, piece),)

    def _join_block(self) -> None:
        self._text.join_block()
        self._choose_way(self._size + self._text.length())

    def _choose_way(self, came: int) -> None:
        """See whether short pieces may take a short way: not near the limit, which a block of them must not pass."""
        is_far = self._limit_chars - came > BLOCK_PIECES * SHORT_CHARS
        self._in_text = self._state is TEXT and is_far and not self._text.halves.waiting and self._broken is None
        self._flows = self._in_text and not self._held

    def snapshot(self) -> Any:
        text = None
        if self._state is TEXT:
            text = self._text.joined()
            self._choose_way(self._size + self._text.length())
        known = self._value.snapshot(text)
        return {} if known is None else known

    def finish(self) -> Any:
        if self._broken is not None:
            raise DecodeError(f"expected {self._broken.expected} at character {self._broken.position} of the JSON text")
        if self._state is END:
            return self._value.root
        expected = self._number.expected if self._state is NUMBER else self._state.expected
        if self._state is NUMBER and self._number.convert is not None and self._value.container is None:
            try:
                return self._number.convert(self._text.joined())
            except ValueError:
                expected = TOO_MANY_DIGITS
        came = self._size + self._text.length()
        raise DecodeError(f"expected {expected} at character {came}, where the JSON text ends")

    def _feed_exactly(self, text: str) -> tuple[FieldEvent, ...]:
        came = self._size + self._text.length()
        self._base = came - len(self._held)
        came += len(text)
        if came > self._limit_chars:
            text = text[: self._limit_chars - came]
        text, self._held = self._held + text, ""
        at = 0
        while at < len(text) and self._broken is None:
            move = self._state.moves.get(text[at], self._state.otherwise)
            at = move(self, text, at)
        if came > self._limit_chars and self._broken is None:
            self._break(self._limit_chars - self._base, f"the end, since {self._limit_chars} characters are the limit")
        self._size = came - self._text.length()
        self._path = self._value.path
        self._choose_way(came)
        return self._value.take_events()

    def _break(self, at: int, expected: str) -> None:
        self._broken = Broken(self._base + at, expected)
        self._value.events.append(self._broken)

    # What may come next: each reads from a place in a text and gives the place behind that

    def _refuse(self, text: str, at: int) -> int:
        self._break(at, self._state.expected)
        return at

    def _skip_blanks(self, text: str, at: int) -> int:
        blanks = _BLANKS.match(text, at)
        return blanks.end() if blanks else at + 1

    def _open_object(self, text: str, at: int) -> int:
        if self._has_room(at):
            self._value.open_object()
            self._state = FIRST_KEY
        return at + 1

    def _open_array(self, text: str, at: int) -> int:
        if self._has_room(at):
            self._value.open_array()
            self._state = FIRST_ITEM
        return at + 1

    def _has_room(self, at: int) -> bool:
        if self._value.depth >= self._max_depth:
            self._break(at, f"no container in {self._max_depth} others")
            return False
        return True

    def _close_container(self, text: str, at: int) -> int:
        self._value.close_container()
        self._end_value()
        return at + 1

    def _open_key(self, text: str, at: int) -> int:
        self._state = KEY_TEXT
        return at + 1

    def _read_key(self, text: str, at: int) -> int:
        end = self._read_string(text, at)
        if end is not None:
            self._value.begin_field(self._text.take())
            self._state = COLON
        return end or len(text)

    def _open_text(self, text: str, at: int) -> int:
        self._value.open_text()
        self._state = TEXT
        return at + 1

    def _read_text(self, text: str, at: int) -> int:
        end = self._read_string(text, at)
        if end is not None:
            self._value.close_text(self._text.take())
            self._end_value()
        return end or len(text)

    def _read_string(self, text: str, at: int) -> int | None:
        """Read on in a string; the place behind its quote, None where it does not end here."""
        quote = closing_quote(text, at)
        end = unfinished_escape(text, at) if quote < 0 else quote
        piece, fault = text[at:end], None
        if "\\" in piece or not piece.isprintable():
            try:
                piece = unescaped(piece)
            except ValueError:
                fault = first_fault(piece)
                piece = unescaped(piece[: fault.good])
        self._add_text(self._text.add(piece))
        if fault is not None:
            self._break(at + fault.place, fault.expected)
        elif quote < 0:
            self._held = text[end:]
        else:
            self._add_text(self._text.end())
            return quote + 1
        return None

    def _add_text(self, text: str) -> None:
        if text and self._state is TEXT:
            self._value.events.append(FieldText(self._value.path, text))

    def _open_number(self, text: str, at: int) -> int:
        self._number, self._number_start = NOTHING, self._base + at
        self._state = NUMBER
        return at

    def _read_number(self, text: str, at: int) -> int:
        number, end = self._number, at
        while end < len(text) and (after := number.moves.get(text[end])) is not None:
            number, end = after, end + 1
        self._number = number
        self._text.add(text[at:end])
        if end == len(text):
            return end
        if number.convert is None:
            self._break(end, number.expected)
            return end
        try:
            value = number.convert(self._text.take())
        except ValueError:
            self._break(self._number_start - self._base, TOO_MANY_DIGITS)
        else:
            self._value.add_scalar(value)
            self._end_value()
        return end

    def _read_literal(self, text: str, at: int) -> int:
        literal, value = _LITERALS[text[at]]
        piece = text[at : at + len(literal)]
        if piece == literal:
            self._value.add_scalar(value)
            self._end_value()
        elif at + len(piece) == len(text) and literal.startswith(piece):
            self._held = piece
        else:
            good = next(place for place, wanted in enumerate(literal) if piece[place : place + 1] != wanted)
            self._break(at + good, f"the rest of {literal}")
        return at + len(piece)

    def _expect_key(self, text: str, at: int) -> int:
        self._state = KEY
        return at + 1

    def _expect_value(self, text: str, at: int) -> int:
        self._state = VALUE
        return at + 1

    def _end_value(self) -> None:
        container = self._value.container
        self._state = END if container is None else AFTER_ITEM if isinstance(container, list) else AFTER_FIELD


Move = Callable[[PartialJson, str, int], int]


class State:
    """What may come next: in words, and what reads it, by its first character."""

    __slots__ = ("expected", "moves", "otherwise")

    def __init__(self, expected: str, moves: dict[str, Move], otherwise: Move = PartialJson._refuse) -> None:
        self.expected = expected
        self.moves = moves
        self.otherwise = otherwise


_BLANK: dict[str, Move] = dict.fromkeys(" \t\n\r", PartialJson._skip_blanks)
_BEGINNING: dict[str, Move] = {
    **_BLANK,
    "{": PartialJson._open_object,
    "[": PartialJson._open_array,
    '"': PartialJson._open_text,
    **dict.fromkeys("-0123456789", PartialJson._open_number),
    **dict.fromkeys(_LITERALS, PartialJson._read_literal),
}
VALUE = State("a value", _BEGINNING)
FIRST_ITEM = State("a value or ]", {**_BEGINNING, "]": PartialJson._close_container})
AFTER_ITEM = State("a comma or ]", {**_BLANK, ",": PartialJson._expect_value, "]": PartialJson._close_container})
FIRST_KEY = State("a key or }", {**_BLANK, '"': PartialJson._open_key, "}": PartialJson._close_container})
KEY = State("a key", {**_BLANK, '"': PartialJson._open_key})
COLON = State("a colon", {**_BLANK, ":": PartialJson._expect_value})
AFTER_FIELD = State("a comma or }", {**_BLANK, ",": PartialJson._expect_key, "}": PartialJson._close_container})
END = State("nothing more", _BLANK)
# Inside these the same reads on, whatever the next character is
KEY_TEXT = State("the rest of a key", {}, PartialJson._read_key)
TEXT = State("the rest of a string", {}, PartialJson._read_text)
NUMBER = State("the rest of a number", {}, PartialJson._read_number)
TOO_MANY_DIGITS = "a number of fewer digits"
