"""A JSON object whose values come one by one, each with its path, as text that grows.

Text goes out as soon as it is certain. A value whose place in the text has passed (its container is closed, its string
has ended, an element of its array is missing) cannot be written any more where it belongs. Then its whole top-level key
is written once more at the end; of a key that repeats the last one counts, for every JSON parser.

Source of the paths: RFC 9535, the part of it that names one place: `$.name`, `$['name']`, `$.list[0].name`.
"""

from __future__ import annotations

import json
import re
from json.encoder import encode_basestring
from typing import Any

from ..errors import DecodeError

DEEPEST_PATH = 100
"""How deep containers may be nested."""

Step = str | int
Path = tuple[Step, ...]

_STEP = re.compile(
    r"""\.(?P<name>[^.\[]+)
    | \[(?P<index>\d{1,9})\]
    | \[(?P<quoted>'(?:[^'\\]|\\.)*+' | "(?:[^"\\]|\\.)*+")\]""",
    re.VERBOSE | re.DOTALL,
)
_OTHER_QUOTES = re.compile(r"\\.|\"", re.DOTALL)


def path_steps(path: str) -> Path:
    """The keys and indexes of a path. Raises DecodeError for one that does not begin with a key, or that is odd."""
    steps: list[Step] = []
    at = 1
    while found := _STEP.match(path, at):
        index = found["index"]
        steps.append(int(index) if index else found["name"] or _unquoted(found["quoted"]))
        at = found.end()
    if path[:1] != "$" or at != len(path) or not steps or isinstance(steps[0], int) or len(steps) > DEEPEST_PATH:
        raise DecodeError(f"this is not a path to a value of an object: {path[:80]}")
    return tuple(steps)


def _unquoted(quoted: str) -> str:
    body = quoted[1:-1]
    if quoted[0] == "'":
        body = _OTHER_QUOTES.sub(lambda found: {"\\'": "'", '"': '\\"'}.get(found[0], found[0]), body)
    try:
        name: str = json.loads(f'"{body}"', strict=False)
    except ValueError:
        raise DecodeError(f"this is not a name in a path: {quoted[:80]}") from None
    return name


class _Text(list[str]):
    """The pieces of a string."""


class _Whole:
    """A value that came whole: no other is put inside it."""

    def __init__(self, value: Any) -> None:
        self.value = value


_NOTHING = object()


class GrowingObject:
    """The text of one object while its values come; it begins with `START`.

    put(path, value), put_text(path, piece, goes_on=...), put_key(key, value) -> the text that comes next; often none.
    Pieces of one string are joined. end() -> the rest of the text; nothing is put after it. All raise DecodeError for
    values that make no object: one inside another that is no container, an array with holes.
    """

    START = "{"

    def __init__(self) -> None:
        self._root: dict[Step, Any] = {}  # containers are dicts; those of arrays have indexes for keys
        self._open: list[Step] = []  # the way to the innermost container that is open in the text
        self._closers: list[str] = []  # of the containers on that way
        self._string: tuple[str, Path, _Text] | None = None  # that is open in the text
        self._is_empty = True  # the text
        self._late: dict[Step, None] = {}  # top-level keys that are written once more

    @property
    def is_inside_string(self) -> bool:
        """Whether a string was to go on."""
        return self._string is not None

    def put_text(self, path: str, piece: str, *, goes_on: bool) -> str:
        written = encode_basestring(piece)
        text = written[1:-1] if goes_on else written[1:]
        string = self._string
        if string is None or path != string[0]:  # else it is one more piece of a long string, as most are
            steps = path_steps(path)
            if string is None or steps != string[1]:
                return self._put_new_text(path, steps, piece, '"' + text, goes_on=goes_on)
        string[2].append(piece)
        if not goes_on:
            self._string = None
        return text

    def _put_new_text(self, path: str, steps: Path, piece: str, written: str, *, goes_on: bool) -> str:
        known = self._value_at(steps)
        if type(known) is _Text:  # it has ended, or has no place in the text
            known.append(piece)
            if piece:
                self._late[steps[0]] = None
            return ""
        pieces = _Text([piece])
        text = self._place(steps, pieces, written)
        if text and goes_on:
            self._string = (path, steps, pieces)
        return text

    def put(self, path: str, value: str | float | bool | None) -> str:
        steps = path_steps(path)
        known = self._value_at(steps)
        if type(known) is type(value) and known == value:
            return ""
        return self._place(steps, value, json.dumps(value, ensure_ascii=False))

    def put_key(self, key: str, value: Any) -> str:
        """Set a top-level key to any JSON value, whatever was put there before."""
        known = self._root.get(key, _NOTHING)
        if known is _NOTHING:
            return self._place((key,), _Whole(value), _compact(value))
        if _joined(known) != value:
            self._root[key] = _Whole(value)
            self._late[key] = None
        return ""

    def end(self) -> str:
        text = [self._close_down_to(0)]
        for key in self._late:
            value = _compact(_joined(self._root[key]))
            text += ["" if self._is_empty else ",", encode_basestring(str(key)), ":", value]
            self._is_empty = False
        return "".join([*text, "}"])

    def _value_at(self, steps: Path) -> Any:
        node: Any = self._root
        for step in steps:
            node = node.get(step, _NOTHING) if type(node) is dict else _NOTHING
        return node

    def _place(self, steps: Path, value: Any, written: str) -> str:
        """Put a value into the object, and into the text, if its place there has not passed."""
        node, depth = self._root, 0
        while depth < len(steps) - 1 and steps[depth] in node:
            node = node[steps[depth]]
            depth += 1
            if type(node) is not dict or type(next(iter(node))) is not type(steps[depth]):
                raise DecodeError(f"a value lies inside another that cannot hold it: {steps[: depth + 1]}")
        if type(node.get(steps[depth])) is dict:
            raise DecodeError(f"a value replaces others: {steps}")
        missing = steps[depth:]
        fits = steps[0] not in self._late and self._open[:depth] == list(steps[:depth])
        fits = fits and missing[0] not in node and (isinstance(missing[0], str) or missing[0] == len(node))
        fits = fits and all(isinstance(step, str) or step == 0 for step in missing[1:])
        comma = "," if node and not self._is_empty else ""
        for step in missing[:-1]:
            node[step] = node = {}
        node[steps[-1]] = value
        if not fits:
            self._late[steps[0]] = None
            return ""
        return self._close_down_to(depth) + comma + self._open_up(missing) + written

    def _close_down_to(self, depth: int) -> str:
        text = ['"'] if self._string is not None else []
        text += reversed(self._closers[depth:])
        self._string = None
        del self._open[depth:], self._closers[depth:]
        return "".join(text)

    def _open_up(self, steps: Path) -> str:
        """The containers on the way to a value, and its key."""
        text: list[str] = []
        for step, inner in zip(steps, (*steps[1:], None), strict=True):
            if isinstance(step, str):
                text += [encode_basestring(step), ":"]
            if inner is not None:
                text.append("{" if isinstance(inner, str) else "[")
                self._open.append(step)
                self._closers.append("}" if isinstance(inner, str) else "]")
        self._is_empty = False
        return "".join(text)


_compact = json.JSONEncoder(ensure_ascii=False, separators=(",", ":")).encode


def _joined(node: Any) -> Any:
    """A value as JSON has it."""
    if type(node) is _Text:
        return "".join(node)
    if type(node) is _Whole:
        return node.value
    if type(node) is not dict:
        return node
    if isinstance(next(iter(node)), str):
        return {key: _joined(value) for key, value in node.items()}
    if len(node) != max(node) + 1:
        raise DecodeError("elements of an array are missing")
    return [_joined(node[index]) for index in range(len(node))]
