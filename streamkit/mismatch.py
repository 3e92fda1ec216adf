"""What is wrong with arguments that are JSON but do not fit: one message that names every wrong field.

It says what was expected and what came, speaks of JSON and never of Python, and stays short whatever was sent. msgspec
stops at the first error, so objects, lists and their parts are converted one by one, as deep as is worth it.
"""

from __future__ import annotations

import json
import re
import types
import typing
from collections.abc import Collection, Iterator, Mapping
from typing import Any, NamedTuple

import msgspec
from msgspec.inspect import DataclassType, StructType, TypedDictType

LONGEST_MESSAGE = 999  # characters
_DEEPEST = 8  # levels on which wrong fields are told one by one; of what lies deeper, the first one is

_MORE = "\n- and more"
_QUOTED = re.compile(r"`([^`]*)`")
_JSON_WORDS = {"int": "integer", "float": "number", "bool": "boolean", "str": "string"}


def mismatch(struct: type[msgspec.Struct], received: Mapping[str, Any]) -> str:
    """The message for the model. received: a tree of JSON that the struct cannot be converted from."""
    names = _cut(", ".join(_cut(name, 40) for name in received) or "none", 200)
    end = f"\nreceived fields: {names}"
    message = "the arguments do not fit:"
    for problem in _problems(received, struct, ""):  # found one by one, so work stops when the message is full
        line = f"\n- {problem}"
        if len(message) + len(line) + len(_MORE) + len(end) > LONGEST_MESSAGE:
            return message + _MORE + end
        message += line
    return message + end


def excerpt(value: Any) -> str:
    """The beginning of a value, as JSON."""
    return _cut(json.dumps(value[:60] if isinstance(value, str) else value, ensure_ascii=False), 60)


def _problems(value: Any, kind: Any, path: str, depth: int = 0) -> Iterator[str]:
    """A line for each place in the value that does not fit."""
    try:
        msgspec.convert(value, kind, str_keys=True)
        return
    except msgspec.ValidationError as raised:
        error = str(raised)
    nothing_inside = True
    if depth < _DEEPEST:
        for problem in _problems_inside(value, _chosen(kind, value), path, depth + 1):
            nothing_inside = False
            yield problem
    if nothing_inside:
        yield _problem(error, value, kind, path)


def _problems_inside(value: Any, kind: Any, path: str, depth: int) -> Iterator[str]:
    if isinstance(value, dict) and (fields := _fields(kind)) is not None:
        yield from _field_problems(value, fields, path, depth)
    else:
        for step, item, item_kind in _items(value, kind):
            yield from _problems(item, item_kind, path + step, depth)


def _field_problems(value: dict[str, Any], fields: _Fields, path: str, depth: int) -> Iterator[str]:
    for name, kind in fields.kinds.items():
        if name in value:
            yield from _problems(value[name], kind, _joined(path, name), depth)
        elif name in fields.required:
            yield f"{_joined(path, name)}: required, but missing"
    if fields.closed:
        yield from (f"{_joined(path, name)}: unknown field" for name in value if name not in fields.kinds)


class _Fields(NamedTuple):
    """The fields of an object: their annotations by the names in JSON. closed: others are refused."""

    kinds: dict[str, Any]
    required: set[str]
    closed: bool


def _fields(kind: Any) -> _Fields | None:
    described = msgspec.inspect.type_info(kind)
    if not isinstance(described, StructType | DataclassType | TypedDictType):
        return None
    made_of = typing.get_origin(kind) or kind
    given = dict(zip(getattr(made_of, "__parameters__", ()), typing.get_args(kind), strict=False))
    hints = typing.get_type_hints(made_of, include_extras=True)
    kinds = {field.encode_name: given.get(hints[field.name], hints[field.name]) for field in described.fields}
    closed = False
    if isinstance(described, StructType):
        closed = described.forbid_unknown_fields
        if described.tag_field is not None:
            kinds[described.tag_field] = Any
    return _Fields(
        {name: _without_requiredness(hint) for name, hint in kinds.items()},
        {field.encode_name for field in described.fields if field.required},
        closed,
    )


def _items(value: Any, kind: Any) -> Iterator[tuple[str, Any, Any]]:
    """The items of a list, or the values of an object without fixed fields: step of the path, item, its annotation."""
    made_of, arguments = typing.get_origin(kind), typing.get_args(kind)
    if not isinstance(made_of, type) or not arguments:
        return
    if isinstance(value, dict) and issubclass(made_of, Mapping):
        yield from ((f".{_cut(key, 40)}", item, arguments[1]) for key, item in value.items())
    elif isinstance(value, list) and issubclass(made_of, tuple) and arguments[-1] is not Ellipsis:
        for place, (item, item_kind) in enumerate(zip(value, arguments, strict=False)):
            yield f"[{place}]", item, item_kind
    elif isinstance(value, list) and issubclass(made_of, Collection):
        yield from ((f"[{place}]", item, arguments[0]) for place, item in enumerate(value))


def _chosen(kind: Any, value: Any) -> Any:
    """The one annotation that the value must be meant for: `Annotated` and `| None` taken off, a tag looked up."""
    while typing.get_origin(kind) is typing.Annotated:
        kind = typing.get_args(kind)[0]
    if typing.get_origin(kind) not in (typing.Union, types.UnionType):
        return kind
    options = [option for option in typing.get_args(kind) if option is not types.NoneType]
    tagged = [option for option in options if _has_tag_of(option, value)]
    return tagged[0] if tagged else options[0] if len(options) == 1 else kind


def _has_tag_of(kind: Any, value: Any) -> bool:
    described = msgspec.inspect.type_info(kind)
    if not isinstance(described, StructType) or described.tag_field is None or not isinstance(value, dict):
        return False
    return bool(value.get(described.tag_field) == described.tag)


def _without_requiredness(kind: Any) -> Any:
    """`Required` and `NotRequired` of a TypedDict taken off."""
    return typing.get_args(kind)[0] if typing.get_origin(kind) in (typing.Required, typing.NotRequired) else kind


def _problem(error: str, value: Any, kind: Any, path: str) -> str:
    """What msgspec has to say of a value, in the words of JSON."""
    reason, _, place = error.partition(" - at ")
    reason = _QUOTED.sub(lambda quoted: _in_json_words(quoted[1]), _cut(reason, 160))
    if place:  # inside the value, where only msgspec knows the way
        key, _, parent = place.rpartition(" in ")
        path += parent.strip("`").removeprefix("$") + (" (a key)" if key else "")
    else:
        if reason.startswith("Invalid enum value") and (allowed := _allowed(kind)):
            reason = _cut(f"expected one of {', '.join(allowed)}", 160)
        reason = f"{reason.partition(', got ')[0]}, but got {excerpt(value)}"
    return f"{_cut(path, 100).lstrip('.') or 'the arguments'}: {reason[:1].lower()}{reason[1:]}"


def _allowed(kind: Any) -> list[str]:
    schema = msgspec.json.schema(kind)
    parts = [schema, *schema.get("anyOf", ()), *schema.get("$defs", {}).values()]
    return [excerpt(value) for part in parts for value in part.get("enum", ())]


def _in_json_words(kinds: str) -> str:
    return " or ".join(_JSON_WORDS.get(kind, kind) for kind in kinds.split(" | "))


def _joined(path: str, name: str) -> str:
    return f"{path}.{_cut(name, 40)}".lstrip(".")


def _cut(text: str, length: int) -> str:
    return text if len(text) <= length else text[: length - 1] + "…"
