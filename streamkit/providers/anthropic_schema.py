"""Schemas for Anthropic, which holds its models to those that are written in a part of JSON Schema ("strict").

Source: the guide of Anthropic, "Structured outputs, JSON Schema limitations", and what its Python SDK makes of schemas.
"""

from __future__ import annotations

import graphlib
import json
import re
from typing import Any

_KNOWN = ("type", "enum", "const", "title", "description", "required", "additionalProperties", "$ref")
_FORMATS = ("date-time", "time", "date", "duration", "email", "hostname", "uri", "ipv4", "ipv6", "uuid")
_REFERENCE = re.compile(r'"\$ref": "#/\$defs/([^"/]+)"')


def strict_schema(schema: dict[str, Any]) -> dict[str, Any] | None:
    """The schema as Anthropic can hold a model to it, or None where that cannot be.

    Objects have no other fields than those that are named. What only narrows a value, and is not known there, is said
    in the description. None for objects with fields of any name, for values of any kind, and for what contains itself.
    """
    definitions = schema.get("$defs", {})
    try:
        graphlib.TopologicalSorter(
            {name: _REFERENCE.findall(json.dumps(inner)) for name, inner in definitions.items()}
        ).prepare()
        return _strict(schema)
    except (_CannotBeStrictError, graphlib.CycleError):
        return None


class _CannotBeStrictError(Exception):
    """There is something in the schema that a strict one cannot say."""


def _strict(schema: Any) -> dict[str, Any]:
    if not isinstance(schema, dict):
        raise _CannotBeStrictError
    if "$ref" in schema:  # nothing but definitions may stand beside it
        schema = {key: schema[key] for key in ("$ref", "$defs") if key in schema}
    strict: dict[str, Any] = {}
    said: dict[str, Any] = {}
    for key, value in schema.items():
        match key, value:
            case "properties" | "$defs", dict():
                strict[key] = {name: _strict(inner) for name, inner in value.items()}
            case "anyOf" | "oneOf" | "allOf", list():
                strict[key.replace("oneOf", "anyOf")] = [_strict(inner) for inner in value]
            case "items", dict():
                strict[key] = _strict(value)
            case _:
                (strict if _is_known(key, value) else said)[key] = value
    _check(strict)
    if "properties" in strict:
        strict["additionalProperties"] = False
    if said:
        described = [strict["description"]] if "description" in strict else []
        strict["description"] = "\n\n".join([*described, json.dumps(said, ensure_ascii=False)])
    return strict


def _is_known(key: str, value: Any) -> bool:
    if key in ("format", "minItems"):
        return value in (_FORMATS if key == "format" else (0, 1))
    return key in _KNOWN


def _check(strict: dict[str, Any]) -> None:
    is_of_any_kind = not strict.keys() & {"type", "enum", "const", "anyOf", "allOf", "$ref"}
    has_fields_of_any_name = strict.get("additionalProperties", False) is not False
    if is_of_any_kind or has_fields_of_any_name or (strict.get("type") == "object" and "properties" not in strict):
        raise _CannotBeStrictError
