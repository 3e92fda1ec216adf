"""Whether text is one JSON object: told cheaply while the text grows, and exactly when it has ended.

Models and servers wrap the arguments of a call in odd ways. What counts as one object is said here, once: the text
itself; nothing, or `null`, for an object without fields; a JSON string that holds the object; the same object said
again. Text that was cut, or that holds anything else, is never guessed at.
"""

from __future__ import annotations

import copy
import itertools
import json
import re
from collections.abc import Iterator
from typing import Any, NoReturn

import msgspec

_FIELDS = msgspec.json.Decoder(dict[str, msgspec.Raw])  # raw: the values are checked, not built
_TOKENS = re.compile(r'\\.|["{}\[\]]', re.DOTALL)
_BLANK = re.compile(r"[ \t\r\n]*")
_SEAM = re.compile(r'\}(?=[ \t\r\n]*["{])')  # inside one object only its strings have such a place

_NO_STRUCTURE = bytes(each for each in range(256) if each not in b'"[]{}')
_AS_ARRAYS = bytes.maketrans(b"{}", b"[]")
_SHALLOW = 8  # deeper ones are looked at bracket by bracket


class WholeObjectScan:
    """Tells whether the pieces of a text, so far, are one whole object.

    Each piece is read once, and only when somebody asks: the work grows with the text, not with the questions. Brackets
    and strings are followed, nothing else is checked.
    """

    __slots__ = ("_depth", "_first", "_half_escape", "_in_string", "_last", "_read")

    def __init__(self) -> None:
        self._read = 0  # pieces
        self._depth = 0
        self._in_string = False
        self._half_escape = ""
        self._first = self._last = ""  # characters that are not blank

    def is_whole(self, pieces: list[str]) -> bool:
        """Pieces are all of the text: those that were given before, and new ones behind them."""
        text = self._half_escape + "".join(pieces[self._read :])
        self._read = len(pieces)
        backslashes = len(text) - len(text.rstrip("\\"))
        self._half_escape = "\\" * (backslashes % 2)
        for token in _TOKENS.findall(text[: len(text) - len(self._half_escape)]):
            if token == '"':
                self._in_string = not self._in_string
            elif self._in_string:
                pass
            elif token in "{[":
                self._depth += 1
            elif token in "}]":
                self._depth -= 1
        if stripped := text.strip():
            self._first = self._first or stripped[0]
            self._last = stripped[-1]
        return not self._depth and not self._in_string and self._first == "{" and self._last == "}"

    def end_within(self, pieces: list[str], text: str) -> int | None:
        """Where in the text, which comes next, the object ends and another one follows."""
        seams = [seam.end() for seam in _SEAM.finditer(text)]
        if not seams:
            return None
        self.is_whole(pieces)
        ahead = copy.copy(self)
        ahead._read = 0
        parts: list[str] = []
        for start, end in itertools.pairwise([0, *seams]):
            parts.append(text[start:end])
            if ahead.is_whole(parts):
                return end
        return None


def object_text(text: str) -> tuple[str, str | None]:
    """The text of the one object that a text stands for, and None; or the text as it is, and what is wrong with it."""
    if tells_nothing(text):
        return "{}", None
    try:
        _FIELDS.decode(text)
    except (msgspec.DecodeError, UnicodeEncodeError, RecursionError):
        return _object_in_odd_clothes(text)
    return text, None


def tells_nothing(text: str) -> bool:
    """Whether it is no text at all, or only says that there is none."""
    return text.strip() in ("", "null")


def nests_deeper_than(limit: int, text: str) -> bool:
    """Whether more than `limit` containers lie in each other in a text of JSON. Cheap where they are shallow."""
    if len(text) <= limit or text.count("{") + text.count("[") <= limit:
        return False
    brackets = _brackets(text)
    innermost = 0  # levels that were taken off, all containers of one at once
    while innermost < _SHALLOW and b"[]" in brackets:
        brackets = brackets.replace(b"[]", b"")
        innermost += 1
    depths = itertools.accumulate(ord("\\") - bracket for bracket in brackets)  # it stands between the two
    return innermost + max(depths, default=0) > limit


def same_object(text: str, other: str) -> bool:
    """Whether two texts, each of one object, are of the same one. Those that cannot be compared are not."""
    try:
        return text == other or _is_same(json.loads(text), json.loads(other))
    except (ValueError, RecursionError):  # too many digits, too deep
        return False


def _is_same(one: Any, other: Any) -> bool:
    """Whether two trees of JSON say the same. To Python true is 1, and false 0; to JSON they are not."""
    return bool(one == other) and _has_same_booleans(one, other)


def _has_same_booleans(one: Any, other: Any) -> bool:
    if isinstance(one, dict):
        return all(_has_same_booleans(value, other[name]) for name, value in one.items())
    if isinstance(one, list):
        return all(map(_has_same_booleans, one, other))
    return isinstance(one, bool) == isinstance(other, bool)


def _brackets(text: str) -> bytes:
    """Those of a text of JSON, without what stands in its strings, all as `[` and `]`."""
    if "\\" in text:
        text = text.replace("\\\\", "").replace('\\"', "")
    left = text.encode(errors="replace").translate(_AS_ARRAYS, delete=_NO_STRUCTURE)
    left = left.replace(b'""', b"")  # strings without brackets, or the seam of two: what is inside one stays so
    return b"".join(left.split(b'"')[::2])


def _object_in_odd_clothes(text: str) -> tuple[str, str | None]:
    """Also where msgspec is stricter than JSON: lone surrogates."""
    try:
        objects = list(_objects(text))
        value, found = objects[0]
        if not all(_is_same(other, value) for other, _ in objects):
            return text, "the arguments are more than one JSON object"
    except RecursionError:
        return text, "the arguments are nested too deeply"
    except ValueError as error:
        return text, f"the arguments are not one JSON object: {error}"
    return found, None


def _objects(text: str) -> Iterator[tuple[dict[str, Any], str]]:
    """The objects that follow each other, each with its text.

    Raises ValueError for anything else, RecursionError where they are nested too deeply.
    """
    at = _after_blanks(text, 0)
    while at < len(text):
        value, end = _JSON.raw_decode(text, at)
        found = text[at:end]
        if isinstance(value, str):
            value, found = _inside(value), value
        if not isinstance(value, dict):
            raise ValueError(f"{_KINDS[type(value)]} came instead")
        yield value, found
        at = _after_blanks(text, end)


def _inside(text: str) -> Any:
    """What the text of a string says. Where it is not JSON a place in it would be none in the text around it."""
    try:
        return _JSON.decode(text)
    except ValueError:
        raise ValueError("a string came instead, and its text is not JSON") from None


def _after_blanks(text: str, at: int) -> int:
    blanks = _BLANK.match(text, at)
    return blanks.end() if blanks else at


def _refuse(constant: str) -> NoReturn:
    raise ValueError(f"{constant} is not JSON")


_JSON = json.JSONDecoder(parse_constant=_refuse)
_KINDS = {
    list: "an array", str: "a string", int: "a number", float: "a number", bool: "a boolean", type(None): "null"
}  # fmt: skip
