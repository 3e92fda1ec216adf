"""A JSON value that grows: the events that tell of it, and what is known of it at any time."""

from __future__ import annotations

from typing import Any, Literal

import msgspec

FieldPath = tuple[str | int, ...]
"""Keys and places from the top; of the top itself ()."""

Scalar = int | float | bool | None
Container = dict[str, Any] | list[Any]


class FieldOpened(msgspec.Struct, frozen=True, gc=False):
    """A value begins that comes in parts. One that was there before, under the same key, is gone."""

    path: FieldPath
    kind: Literal["object", "array", "string"]


class FieldText(msgspec.Struct, frozen=True, gc=False):
    """The next piece of the string that is open; never empty, never half a character."""

    path: FieldPath
    text: str


class FieldValue(msgspec.Struct, frozen=True, gc=False):
    """A number, true, false or null, whole."""

    path: FieldPath
    value: Scalar


class FieldClosed(msgspec.Struct, frozen=True, gc=False):
    """An object, array or string is whole."""

    path: FieldPath


class Broken(msgspec.Struct, frozen=True, gc=False):
    """The text can no longer become JSON; nothing comes after this.

    position: of the first impossible character, from the beginning of the text. expected: what could stand there.
    """

    position: int
    expected: str


FieldEvent = FieldOpened | FieldText | FieldValue | FieldClosed | Broken


class GrowingValue:
    """The value, built by whoever reads it, in the order of the text.

    root: what there is of it. container: the last one that is open, None where none is. path: of the value that is
    being read. events: what was built since somebody took them away.
    """

    __slots__ = ("_open", "_within", "container", "events", "path", "root")

    def __init__(self) -> None:
        self.root: Any = None
        self.container: Container | None = None
        self.path: FieldPath = ()
        self.events: list[FieldEvent] = []
        self._within: FieldPath = ()  # the path of the container
        self._open: list[tuple[Container, FieldPath]] = []  # all open containers, each with its path

    @property
    def depth(self) -> int:
        """How many containers are open."""
        return len(self._open)

    def begin_field(self, key: str) -> None:
        """The next value belongs to this key of the object that is open."""
        self.path = (*self._within, key)

    def add_scalar(self, value: Scalar) -> None:
        self._put(value)
        self.events.append(FieldValue(self.path, value))

    def open_object(self) -> None:
        self._open_container({}, "object")

    def open_array(self) -> None:
        self._open_container([], "array")

    def _open_container(self, container: Container, kind: Literal["object", "array"]) -> None:
        self._put(container)
        self.container, self._within = container, self.path
        self._open.append((container, self.path))
        self.events.append(FieldOpened(self.path, kind))

    def close_container(self) -> None:
        self.events.append(FieldClosed(self._within))
        self._open.pop()
        self.container, self._within = self._open[-1] if self._open else (None, ())

    def open_text(self) -> None:
        self._put("")
        self.events.append(FieldOpened(self.path, "string"))

    def close_text(self, text: str) -> None:
        """text: all of it."""
        if self.container is None:
            self.root = text
        else:
            container: Any = self.container
            container[self.path[-1]] = text
        self.events.append(FieldClosed(self.path))

    def take_events(self) -> tuple[FieldEvent, ...]:
        events = tuple(self.events)
        self.events.clear()
        return events

    def snapshot(self, open_text: str | None) -> Any:
        """A copy of what there is, in which closed containers are shared. open_text: of the string that is open."""
        known, path = open_text, self.path
        if not self._open:
            return self.root if known is None else known
        for container, within in reversed(self._open):
            copy: Any = container.copy()
            if known is not None:
                copy[path[-1]] = known
            known, path = copy, within
        return known

    def _put(self, value: Any) -> None:
        """Put a value in its place as it begins. The path of an item is made here, that of a field by its key."""
        if self.container is None:
            self.root = value
        elif isinstance(self.container, list):
            self.path = (*self._within, len(self.container))
            self.container.append(value)
        else:
            self.container[self.path[-1]] = value  # type: ignore[index]  # the key of a field is a text
