"""Arguments as models often write them, mended where a field does not fit and its text can be read in one way only.

Digits become a number, 3.0 an integer (to JSON they are the same), "true" and "false" a boolean, the JSON text of a
whole array or object that value, and null for a field that may be missing, but may not be null, is left out. Only the
fields themselves, not what is in them; text that a field takes stays text, whatever it looks like; a value that was cut
is never guessed at.

What a field takes is read from its JSON Schema, as far as the kind of a value is concerned. Whether the mended value
keeps all other rules is for a full check to say.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from ..codec.json_object import nests_deeper_than
from ..codec.strict_json import strict_json

Schema = Mapping[str, Any]

MAX_NESTING = 128
"""How deep objects and arrays may be nested in the arguments of a call: what copies and encodes them is recursive."""

_NUMBER = re.compile(r"-?(0|[1-9][0-9]*)(\.[0-9]+)?([eE][+-]?[0-9]+)?")
_DEEPEST = 8  # schemas within each other, or referring to each other; what lies deeper takes anything
_NOTHING = object()
_LARGEST_EXACT = 2**53  # what is larger may have been another integer when it was written

_KINDS: dict[str, type | tuple[type, ...]] = {
    "object": dict,
    "array": list,
    "string": str,
    "integer": int,
    "number": (int, float),
    "boolean": bool,
    "null": type(None),
}


def coerced(tree: dict[str, Any], schema: Schema) -> dict[str, Any]:
    """The arguments as they must be meant: an equal tree where there was nothing to mend, or no one way to do it.

    tree: of JSON. schema: of the arguments.
    """
    fields, required = fields_of(schema)
    mended = dict(tree)
    for name, field in fields.items():
        value = tree.get(name, _NOTHING)
        if value is _NOTHING or takes(field, value, schema):
            continue
        meant = _meant(value)
        if value is None and name not in required:
            del mended[name]
        elif meant is not _NOTHING and takes(field, meant, schema):
            mended[name] = meant
    return mended


def fields_of(schema: Schema) -> tuple[dict[str, Any], set[str]]:
    """The fields of an object that its schema names, each with its own schema, and those that have to be there."""
    fields: dict[str, Any] = {}
    required: set[str] = set()
    for part in _parts(schema, schema):
        fields.update(part.get("properties", {}))
        required.update(part.get("required", ()))
    return fields, required


def takes(field: Any, value: Any, schema: Schema, depth: int = 0) -> bool:
    """Whether a field takes such a value, judged by its kind; of an enumeration, by the value.

    schema: the whole one, for what the schema of the field refers to.
    """
    if not isinstance(field, Mapping) or depth > _DEEPEST:
        return field is not False
    kinds = field.get("type", ())
    if kinds and not any(_is(kind, value) for kind in ([kinds] if isinstance(kinds, str) else kinds)):
        return False
    values = [*field.get("enum", ()), *([field["const"]] if "const" in field else ())]
    if values and not any(value == each and isinstance(value, bool) == isinstance(each, bool) for each in values):
        return False
    for keyword in ("anyOf", "oneOf"):
        options = field.get(keyword)
        if options and not any(takes(option, value, schema, depth + 1) for option in options):
            return False
    further = [*field.get("allOf", ()), *([referred(field["$ref"], schema)] if "$ref" in field else ())]
    return all(takes(each, value, schema, depth + 1) for each in further)


def referred(reference: Any, schema: Schema) -> Any:
    """What a reference within the schema names; True, which takes anything, for every other one."""
    from urllib.parse import unquote  # noqa: PLC0415 - it loads much, and few schemas refer to anything

    found: Any = schema
    if not isinstance(reference, str) or not reference.startswith("#"):
        return True
    for step in unquote(reference[1:]).split("/")[1:]:
        name = step.replace("~1", "/").replace("~0", "~")
        if not isinstance(found, Mapping) or name not in found:
            return True
        found = found[name]
    return found


def _parts(schema: Any, whole: Schema, depth: int = 0) -> list[Schema]:
    """The schema, and those that hold besides it."""
    if not isinstance(schema, Mapping) or depth > _DEEPEST:
        return []
    besides = [*schema.get("allOf", ()), *([referred(schema["$ref"], whole)] if "$ref" in schema else ())]
    return [schema, *(part for each in besides for part in _parts(each, whole, depth + 1))]


def _is(kind: str, value: Any) -> bool:
    if isinstance(value, bool):
        return kind == "boolean"
    return isinstance(value, _KINDS.get(kind, object))


def _meant(value: Any) -> Any:
    """What else a value stands for, mostly a text for what is no text; `_NOTHING` where there is nothing else."""
    if isinstance(value, float) and value.is_integer() and abs(value) <= _LARGEST_EXACT:
        return int(value)
    if not isinstance(value, str):
        return _NOTHING
    if value in ("true", "false") or _NUMBER.fullmatch(value) or value.strip(" \t\r\n")[:1] in ("[", "{"):
        if nests_deeper_than(MAX_NESTING - 1, value):  # it would lie in an object
            return _NOTHING
        try:
            return strict_json(value)
        except (ValueError, RecursionError):
            pass
    return _NOTHING
