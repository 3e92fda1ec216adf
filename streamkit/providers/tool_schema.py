"""The parameters of tools as OpenAI and Anthropic take them, whether or not a model is held to them.

One schema that is refused costs the whole request, and with it all other tools; those of MCP servers and of pydantic
often are. On top there is one object: no choice of several, nothing that must hold besides. For OpenAI it names its
fields, be there none; an array says what is in it; a pattern can be compiled by what does not look around. What a
schema loses here is said in its description; the arguments are checked against all of it.
Source: what users report of refused requests ("input_schema does not support oneOf, allOf, or anyOf at the top level",
"schema must have type 'object' and not have 'oneOf'/'anyOf'/'allOf'/'enum'/'not' at the top level", "array schema
missing items", "object schema missing properties", "regex lookaround is not supported").
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import Any

from .schema_references import target_of

Schema = dict[str, Any]

_CHOICES = ("anyOf", "oneOf")
NOT_ON_TOP = (*_CHOICES, "allOf", "not", "enum", "const")
_MAPS = ("properties", "patternProperties", "$defs", "definitions", "dependentSchemas")
_LISTS = ("anyOf", "oneOf", "allOf", "prefixItems", "items")
_SINGLE = ("items", "additionalProperties", "contains", "not", "if", "then", "else", "propertyNames")
_LOOKS_AROUND = re.compile(r"\(\?<?[=!]|\\[pP]\{")
"""Patterns that OpenAI cannot compile: those that look ahead or behind, and those with classes of Unicode."""


def is_refused_pattern(pattern: object) -> bool:
    return isinstance(pattern, str) and _LOOKS_AROUND.search(pattern) is not None


def object_schema(schema: Schema) -> Schema:
    """The schema of one object, with all fields that any of the schemas on top of it names."""
    schema = {"type": "object"} | schema
    said = {key: value for key, value in schema.items() if key in NOT_ON_TOP}
    if not said:
        return schema
    return _described(_merged(schema, schema, {}), said)


def openai_parameters(schema: Schema) -> Schema:
    """The same, and all inside of it as OpenAI takes it."""
    parameters: Schema = mapped(object_schema(schema), _as_openai_takes_it)
    return {"properties": {}, **parameters} if "properties" not in parameters else parameters


def _as_openai_takes_it(schema: Schema) -> Schema:
    if is_refused_pattern(pattern := schema.get("pattern")):
        without = {key: value for key, value in schema.items() if key != "pattern"}
        schema = _described(without, {"pattern": pattern})
    items = schema.get("items", True)
    if "array" in schema.get("type", ()) and not isinstance(items, dict):
        schema = schema | {"items": {}}
        return schema if items is True else _described(schema, {"items": items})
    return schema


def _described(schema: Schema, lost: Schema) -> Schema:
    known = [schema["description"]] if isinstance(schema.get("description"), str) else []
    return schema | {"description": "\n\n".join([*known, f"It must fit, too: {json.dumps(lost, ensure_ascii=False)}"])}


def _merged(schema: Any, root: Schema, followed: dict[str, Schema]) -> Schema:
    """One schema without others on top. What any of them may have, it may; what all of them need, it needs.

    followed: what references were merged to, each of them once: they may go in a circle, or all to the same.
    """
    if isinstance(schema, dict) and isinstance(reference := schema.get("$ref"), str):
        if reference not in followed:
            followed[reference] = {}  # for the circle
            followed[reference] = _merged(target_of(reference, root), root, followed)
        return followed[reference]
    if not isinstance(schema, dict):
        return {}
    plain = {key: value for key, value in schema.items() if key not in NOT_ON_TOP}
    needed = list(plain.get("required") or ())
    fields: dict[str, list[Any]] = {}
    for key in (*_CHOICES, "allOf"):
        branches = [_merged(branch, root, followed) for branch in schema.get(key) or ()]
        for branch in branches:
            for name, field in (branch.get("properties") or {}).items():
                known = fields.setdefault(name, [])
                known += [] if field in known else [field]
        sets = [set(branch.get("required") or ()) for branch in branches]
        join = set.intersection if key in _CHOICES else set.union
        needed += sorted(join(*sets)) if sets else []
    choices = {name: same[0] if len(same) == 1 else {"anyOf": same} for name, same in fields.items()}
    if choices or "properties" in plain:
        plain["properties"] = choices | (plain.get("properties") or {})
    if needed:
        plain["required"] = list(dict.fromkeys(needed))
    return plain


def mapped(schema: Any, change: Callable[[Schema], Schema]) -> Any:
    """The schema with each schema inside of it changed, and itself."""
    if not isinstance(schema, dict):
        return schema
    changed: Schema = {}
    for key, value in schema.items():
        if key in _MAPS and isinstance(value, dict):
            changed[key] = {name: mapped(inner, change) for name, inner in value.items()}
        elif key in _LISTS and isinstance(value, list):
            changed[key] = [mapped(inner, change) for inner in value]
        else:
            changed[key] = mapped(value, change) if key in _SINGLE else value
    return change(changed)
