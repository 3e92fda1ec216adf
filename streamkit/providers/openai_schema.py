"""Schemas for OpenAI, which holds its models to them only where they are written in a part of JSON Schema ("strict").

Source: the guide of OpenAI, "Structured model outputs, supported schemas".
"""

from __future__ import annotations

import re
from typing import Any

from .tool_schema import NOT_ON_TOP, is_refused_pattern

_HELD = (
    "type", "description", "enum", "const", "pattern", "multipleOf", "minimum", "maximum", "exclusiveMinimum",
    "exclusiveMaximum", "minItems", "maxItems", "required", "additionalProperties",
)  # fmt: skip
_LEFT_OUT = (
    "title", "default", "examples", "minLength", "maxLength", "uniqueItems", "minProperties", "maxProperties",
    "discriminator", "deprecated", "readOnly", "writeOnly", "contentEncoding", "contentMediaType", "$schema", "$id",
    "$comment",
)  # fmt: skip
_FORMATS = ("date-time", "time", "date", "duration", "email", "hostname", "ipv4", "ipv6", "uuid")
_TYPES = {bool: "boolean", int: "integer", float: "number", str: "string", type(None): "null"}


def strict_schema(schema: dict[str, Any]) -> dict[str, Any] | None:
    """The schema as OpenAI can hold a model to it, or None where that cannot be: then it is only a hint.

    Every object has all the fields that are named, and no others. What only narrows a value, and is not known there, is
    left out. None for objects with fields of any name, for values of any kind, and for what is no object on top,
    or a choice of several: as one object it would have the fields of all of them.
    """
    on_top = schema or {"type": "object", "properties": {}}
    if on_top.get("type") != "object" or on_top.keys() & NOT_ON_TOP:
        return None
    try:
        return _strict(on_top)
    except _CannotBeStrictError:
        return None


def schema_name(schema: dict[str, Any]) -> str:
    """A name that OpenAI takes, made of the title."""
    return re.sub(r"[^a-zA-Z0-9_-]+", "_", str(schema.get("title", "")))[:64].strip("_") or "answer"


class _CannotBeStrictError(Exception):
    """There is something in the schema that a strict one cannot say."""


def _strict(schema: Any) -> dict[str, Any]:
    if not isinstance(schema, dict):
        raise _CannotBeStrictError
    if "$ref" in schema:  # nothing may stand beside it
        return {"$ref": schema["$ref"]}
    strict: dict[str, Any] = {}
    for key, value in schema.items():
        match key, value:
            case "properties" | "$defs", dict():
                strict[key] = {name: _strict(inner) for name, inner in value.items()}
            case "anyOf" | "oneOf", list():
                strict["anyOf"] = [_strict(inner) for inner in value]
            case "items", _:
                strict[key] = _strict(value)
            case "format", _:
                strict |= {key: value} if value in _FORMATS else {}
            case "pattern", _ if is_refused_pattern(value):
                pass
            case _ if key in _HELD:
                strict[key] = value
            case _ if key not in _LEFT_OUT:
                raise _CannotBeStrictError
    return _completed(strict)


def _completed(strict: dict[str, Any]) -> dict[str, Any]:
    """With its type said, and its fields all required."""
    values = strict.get("enum", [strict["const"]] if "const" in strict else [])
    if values and "type" not in strict and all(type(value) in _TYPES for value in values):
        types = sorted({_TYPES[type(value)] for value in values})
        strict["type"] = types[0] if len(types) == 1 else types
    types = strict.get("type", [])
    if "object" in types:
        if "properties" not in strict:
            raise _CannotBeStrictError
        strict |= {"required": list(strict["properties"]), "additionalProperties": False}
    if ("array" in types and "items" not in strict) or not (types or "anyOf" in strict):
        raise _CannotBeStrictError
    return strict
