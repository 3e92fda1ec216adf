"""Fields that servers fill in different ways, or have in another shape than they should.

Such a field is left out of its event, and the rest is read all the same. Otherwise one odd field would cost the text,
or the reason to stop, that stands beside it.
"""

from __future__ import annotations

import re
from typing import Any, TypeVar

import msgspec

W = TypeVar("W")

MOST_ODD_FIELDS = 20
"""An event with more of them is of another kind."""

_PLACE = re.compile(r" - at `\$([^`]*)`$")
_STEP = re.compile(r"\.([^.\[]+)|\[(\d+)\]")


def text_or_none(value: Any) -> str | None:
    """An id or a name. Some servers write none as an empty text, and some ids are numbers."""
    return None if value is None or value == "" else str(value)


def token_count(value: Any) -> int:
    """A number of tokens; 0 for what is none."""
    return value if type(value) is int else 0


def token_count_in(told: Any, key: str) -> int:
    """The number of tokens under a key; 0 where there is no object, too."""
    return token_count(told.get(key)) if isinstance(told, dict) else 0


def fitting(told: Any, wire: type[W]) -> tuple[W | None, dict[str, Any]]:
    """The record of an event, and by their places the values that it had to do without. None where there is no such.

    told: the event decoded; what does not fit is taken out of it.
    """
    left_out: dict[str, Any] = {}
    while len(left_out) < MOST_ODD_FIELDS:
        try:
            return msgspec.convert(told, wire, strict=False), left_out
        except UnicodeEncodeError:  # half a character in the name of a field
            return None, left_out
        except msgspec.ValidationError as error:
            place = _PLACE.search(str(error))
            steps = [int(index) if index else name for name, index in _STEP.findall(place[1])] if place else []
            if not steps:
                return None, left_out
            left_out[place[1].removeprefix(".") if place else ""] = _taken_out(told, steps)
    return None, left_out


def _taken_out(told: Any, steps: list[str | int]) -> Any:
    for step in steps[:-1]:
        told = told[step]
    return told.pop(steps[-1])
