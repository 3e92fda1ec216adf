"""One JSON array that arrives in pieces: bytes to the texts of its elements, each as soon as it is whole.

Only brackets and strings are followed: whoever decodes an element finds out whether it is JSON. A body that is one
object instead of an array, as servers send when they fail, counts as the only element.
"""

from __future__ import annotations

import re
from enum import Enum

from ..errors import DecodeError
from .once import DecoderOnce
from .sse import LIMIT_BYTES, Sse

# The patterns never go back in what they have matched (the + behind a quantifier), so their cost is linear.
_STRING_BODY = rb'[^"\\]*+(?:\\.[^"\\]*+)*+'
_NO_BRACKETS = rb'[^"\[\]{}]*+(?:"' + _STRING_BODY + rb'"[^"\[\]{}]*+)*+'
_TO_BRACKET = re.compile(_NO_BRACKETS + rb"[\[\]{}]", re.DOTALL)
_TO_STRING_CUT_OFF = re.compile(_NO_BRACKETS, re.DOTALL)
_TO_STRING_END = re.compile(_STRING_BODY, re.DOTALL)
_BEFORE_ARRAY = re.compile(rb"[ \t\r\n\xef\xbb\xbf]*+")  # with the bytes of a byte order mark
_BETWEEN_ELEMENTS = re.compile(rb"[ \t\r\n,]*+")
_AFTER_ARRAY = re.compile(rb"[ \t\r\n]*+")
_OPENING = b"[{"


class Place(Enum):
    """Where in the body the next byte is."""

    BEFORE = "before the array"
    BETWEEN = "between elements"
    ELEMENT = "inside an element"
    AFTER = "after the array"


_BLANKS = {Place.BEFORE: _BEFORE_ARRAY, Place.BETWEEN: _BETWEEN_ELEMENTS, Place.AFTER: _AFTER_ARRAY}


class JsonArrayDecoder(DecoderOnce):
    """Bytes to the elements of one array, however the bytes were cut.

    feed(data) -> the texts of the elements that are now whole: objects or arrays. end() -> nothing: an element that the
    end of the body cuts off is not one. Both raise DecodeError: a body that is no array of those, bytes that are not
    UTF-8, or an element of more than limit_bytes (default 64 MiB). The elements before the broken place are given
    first, and the next call raises. After an error, or after end(), feed raises DecoderClosed.
    """

    unfinished: Sse | None = None  # what is cut off is never whole

    def __init__(self, *, limit_bytes: int = LIMIT_BYTES) -> None:
        super().__init__()
        self._limit_bytes = limit_bytes
        self._place = Place.BEFORE
        self._after_element = Place.BETWEEN
        self._depth = 0  # of brackets, inside an element
        self._in_string = False
        self._after_backslash = False
        self._pieces: list[bytes] = []  # of the element that is not whole yet
        self._size = 0

    def feed(self, data: bytes) -> list[str]:
        self._check_open()
        elements: list[str] = []
        at = 0
        try:
            while at < len(data):
                if self._place is Place.ELEMENT:
                    at = self._read_element(data, at, elements)
                else:
                    at = self._read_between(data, at)
        except DecodeError as failure:
            self._failure = failure
            if not elements:
                self._check_open()
        return elements

    feed_bare = feed  # elements are bare texts: see `Framing` of the dialects

    def end(self) -> list[str]:
        self._check_open()
        self._closed = True
        return []

    def _read_between(self, data: bytes, at: int) -> int:
        """Read on up to the next element, or to the end of the data."""
        blanks = _BLANKS[self._place].match(data, at)
        assert blanks is not None  # it matches nothing, too
        at = blanks.end()
        found = data[at : at + 1]
        if not found:
            pass
        elif self._place is Place.BEFORE and found == b"[":
            self._place = Place.BETWEEN
            at += 1
        elif self._place is Place.BETWEEN and found == b"]":
            self._place = Place.AFTER
            at += 1
        elif self._place is Place.BEFORE and found == b"{":
            self._place, self._after_element = Place.ELEMENT, Place.AFTER
        elif self._place is Place.BETWEEN and found in (b"{", b"["):
            self._place = Place.ELEMENT
        else:
            told = found.decode(errors="replace")  # no more of it: what else is there depends on the cut
            raise DecodeError(f"the body is not a JSON array of objects: {self._place.value} comes {told!r}")
        return at

    def _read_element(self, data: bytes, at: int, elements: list[str]) -> int:
        """Read on up to the end of an element, or of the data."""
        start = at
        at = self._leave_string(data, at)
        while not self._in_string and (found := _TO_BRACKET.match(data, at)) is not None:
            at = found.end()
            self._depth += 1 if data[at - 1] in _OPENING else -1
            if not self._depth:
                self._keep(data[start:at])
                elements.append(self._whole())
                self._place = self._after_element
                return at
        if not self._in_string:
            cut_off = _TO_STRING_CUT_OFF.match(data, at)
            assert cut_off is not None
            if cut_off.end() < len(data):  # there a string begins
                self._in_string = True
                self._leave_string(data, cut_off.end() + 1)
        self._keep(data[start:])
        return len(data)

    def _leave_string(self, data: bytes, at: int) -> int:
        """Read on up to the end of the string that the place is in, if it is, and if it ends in the data."""
        if not self._in_string:
            return at
        if self._after_backslash and at < len(data):
            at += 1
            self._after_backslash = False
        body = _TO_STRING_END.match(data, at)
        assert body is not None
        at = body.end()
        if data[at : at + 1] == b'"':
            self._in_string = False
            return at + 1
        self._after_backslash = self._after_backslash or at < len(data)  # the last byte is one
        return len(data)

    def _keep(self, data: bytes) -> None:
        self._size += len(data)
        if self._size > self._limit_bytes:
            raise DecodeError(f"an element of the array is longer than {self._limit_bytes} bytes")
        self._pieces.append(data)

    def _whole(self) -> str:
        element = b"".join(self._pieces)
        self._pieces.clear()
        self._size = 0
        try:
            return element.decode()
        except UnicodeDecodeError as error:
            raise DecodeError(f"the stream is not UTF-8: {error.reason}") from None
