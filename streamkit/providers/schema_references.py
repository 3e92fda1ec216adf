"""The references inside a JSON Schema: what they name, and how many of them are inlined.

What refers to itself has no end when it is inlined, and what refers to others twice, which do so, too, none in sight.
Source: RFC 6901, "JavaScript Object Notation (JSON) Pointer", for how a reference names a place.
"""

from __future__ import annotations

from typing import Any
from urllib.parse import unquote

MOST_REFERENCES = 1000
DEEPEST_REFERENCE = 30


class References:
    """Those of one schema, while it is written without them. root: the schema."""

    def __init__(self, root: dict[str, Any]) -> None:
        self._root = root
        self._inlined = 0

    def may_inline(self, reference: str, inside: tuple[str, ...]) -> bool:
        """To be asked for each of them. inside: those of which it is a part."""
        self._inlined += 1
        return reference not in inside and len(inside) < DEEPEST_REFERENCE and self._inlined <= MOST_REFERENCES

    def target(self, reference: object) -> dict[str, Any] | None:
        return target_of(reference, self._root)


def target_of(reference: object, root: dict[str, Any]) -> dict[str, Any] | None:
    """The schema that a reference such as `#/$defs/Name` names; None where the root does not hold it."""
    document, *steps = str(reference).split("/")
    target: Any = root
    for step in steps:
        name = unquote(step).replace("~1", "/").replace("~0", "~")
        target = target.get(name) if isinstance(target, dict) else None
    return target if document == "#" and isinstance(target, dict) else None
