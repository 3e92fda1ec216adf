"""What is wrong with JSON that does not fit: one message that names every wrong field.

It says what was expected and what came, speaks of JSON and never of Python, and stays short whatever was sent. The
lines are found elsewhere, one after the other, and no more of them than there is room for.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any, NamedTuple

LONGEST_MESSAGE = 900
"""Characters. With the name of the tool before it, what a model reads stays below 1,000."""

_MORE = "\n- and more"


class Subject(NamedTuple):
    """What a message speaks of, with the verbs for it."""

    name: str
    are: str
    do: str


ARGUMENTS = Subject("the arguments", "are", "do")
ANSWER = Subject("the answer", "is", "does")


def mismatch(lines: Iterable[str], received: Any, subject: Subject = ARGUMENTS) -> str:
    """The message for the model.

    lines: one for each place that does not fit, mostly made by `wrong`. received: what came, as a tree of JSON; the
    fields of an object are named.
    """
    end = ""
    if isinstance(received, dict):
        end = "\nreceived fields: " + (shortened(", ".join(shortened(name, 40) for name in received), 200) or "none")
    message = f"{subject.name} {subject.do} not fit:"
    for line in lines:  # found one by one, so work stops when the message is full
        if len(message) + len("\n- ") + len(line) + len(_MORE) + len(end) > LONGEST_MESSAGE:
            return message + _MORE + end
        message += f"\n- {line}"
    return message + end


def wrong(path: str, what: str, came: Any) -> str:
    """The line for a value that is not what it should be."""
    first_line = what.partition("\n")[0]
    return line(path, f"{shortened(first_line, 160)}, but got {excerpt(came)}")


def missing(path: str) -> str:
    """The line for a field that has to be there."""
    return line(path, "required, but missing")


def unknown(path: str) -> str:
    """The line for a field that nobody knows."""
    return line(path, "unknown field")


def line(path: str, what: str) -> str:
    return f"{shortened(path, 100) or 'the top level'}: {what}"


def joined(path: str, step: str | int) -> str:
    """The path of what is in a field of the value at a path, or at a place of it."""
    return f"{path}[{step}]" if isinstance(step, int) else f"{path}.{shortened(step, 40)}".lstrip(".")


def excerpt(value: Any) -> str:
    """The beginning of a value, as JSON."""
    return shortened(json.dumps(value[:60] if isinstance(value, str) else value, ensure_ascii=False), 60)


def shortened(text: str, length: int) -> str:
    return text if len(text) <= length else text[: length - 1] + "…"
