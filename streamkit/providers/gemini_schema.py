"""JSON Schema as Gemini takes it: references inlined, and only the keywords that it knows.

The schemas are for `parametersJsonSchema` and `responseJsonSchema`. The older `parameters` and `responseSchema` are a
subset of OpenAPI that has no maps, no numbers to choose from, and one type a value; these two take nearly all of ours.
Source: the API reference of Gemini, "GenerationConfig", where `responseJsonSchema` lists the keywords.
"""

from __future__ import annotations

from typing import Any

from .requests import say_once
from .schema_references import References

_TAKEN = frozenset((
    "type", "format", "title", "description", "properties", "required", "additionalProperties", "propertyOrdering",
    "items", "prefixItems", "minItems", "maxItems", "minimum", "maximum", "anyOf", "oneOf",
))  # fmt: skip
_TRANSLATED = frozenset(("$ref", "allOf", "const", "enum"))
_NEEDLESS = frozenset(("$schema", "$id", "$anchor", "$comment", "$defs", "definitions"))
"""Nothing is lost without them, when references are inlined."""
_KINDS = {str: "string", int: "integer", float: "number", bool: "boolean", type(None): "null"}


def gemini_schema(schema: dict[str, Any]) -> dict[str, Any]:
    """The schema without references and without what the provider does not take; a log line says what is left out.

    A schema that is part of itself is cut where it comes again: anything of its type is allowed there.
    """
    return _Inliner(schema).inlined(schema, ())


class _Inliner:
    """Inlines the references of one schema. inside: those that were followed to here."""

    def __init__(self, root: dict[str, Any]) -> None:
        self._references = References(root)

    def inlined(self, schema: Any, inside: tuple[str, ...]) -> dict[str, Any]:
        if not isinstance(schema, dict):  # true: it allows anything
            return {}
        written = {
            keyword: self._value(keyword, value, inside) for keyword, value in schema.items() if keyword in _TAKEN
        }
        for keyword in schema.keys() - _TAKEN - _TRANSLATED - _NEEDLESS:
            say_once(f"Gemini does not take {keyword!r} in a JSON Schema: it is left out of those that are sent")
        if "const" in schema or "enum" in schema:
            written.pop("type", None)
            written.update(_choice([schema["const"]] if "const" in schema else _as_list(schema["enum"])))
        parts = [self._followed(schema["$ref"], inside)] if "$ref" in schema else []
        parts += [self.inlined(part, inside) for part in _as_list(schema.get("allOf"))]
        for part in parts:
            _join(written, part)
        if isinstance(written.get("properties"), dict) and isinstance(written.get("required"), list):
            written["required"] = [name for name in written["required"] if name in written["properties"]]
        return written

    def _value(self, keyword: str, value: Any, inside: tuple[str, ...]) -> Any:
        match keyword, value:
            case "properties", dict():
                return {name: self.inlined(each, inside) for name, each in value.items()}
            case "anyOf" | "oneOf" | "prefixItems", list():
                return [self.inlined(each, inside) for each in value]
            case ("items", _) | ("additionalProperties", dict()):
                return self.inlined(value, inside)
        return value

    def _followed(self, reference: str, inside: tuple[str, ...]) -> dict[str, Any]:
        target = self._references.target(reference)
        if target is None:
            say_once(f"a schema for Gemini refers to {reference}, which it does not hold: anything is allowed there")
            return {}
        if not self._references.may_inline(reference, inside):
            say_once(f"a schema for Gemini is cut where {reference} comes again: anything of its type is allowed there")
            return {keyword: target[keyword] for keyword in ("type", "title", "description") if keyword in target}
        return self.inlined(target, (*inside, reference))


def _choice(values: list[Any]) -> dict[str, Any]:
    """The values to choose from. The provider takes texts and numbers, and wants those of one type together."""
    by_kind: dict[str, list[Any]] = {}
    for value in values:
        by_kind.setdefault(_KINDS.get(type(value), ""), []).append(value)
    if not by_kind.keys() <= {"string", "integer", "number", "null"}:
        say_once("Gemini takes texts and numbers as values to choose from: others are left out of the schemas sent")
    choices = [
        {"type": kind, "enum": same} if kind in ("string", "integer", "number") else {"type": kind}
        for kind, same in by_kind.items()
        if kind
    ]
    return choices[0] if len(choices) == 1 else {"anyOf": choices} if choices else {}


def _join(written: dict[str, Any], part: dict[str, Any]) -> None:
    """Add what a part says of the same value; what the schema itself says comes first."""
    for keyword, value in part.items():
        if keyword == "properties":
            written[keyword] = {**value, **written.get(keyword, {})}
        elif keyword == "required":
            written[keyword] = list(dict.fromkeys([*written.get(keyword, ()), *value]))
        else:
            written.setdefault(keyword, value)


def _as_list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []
