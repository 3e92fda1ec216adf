"""JSON Schemas that somebody else wrote, such as a server or a client, and that we check with."""

from __future__ import annotations

from typing import Any

_NAMED = ("properties", "$defs", "definitions", "dependentSchemas")
_LITERAL = ("const", "enum", "default", "examples")


def without_patterns(schema: Any, *, names: bool = False) -> Any:
    """A schema without regular expressions: one that takes for ever would hold up everybody. Whoever wrote it checks
    them itself. names: its keys are names, and no words of JSON Schema. Raises RecursionError.
    """
    if isinstance(schema, list):
        return [without_patterns(each) for each in schema]
    if not isinstance(schema, dict):
        return schema
    return {
        key: value if key in _LITERAL and not names else without_patterns(value, names=key in _NAMED and not names)
        for key, value in schema.items()
        if names or key not in ("pattern", "patternProperties")
    }
