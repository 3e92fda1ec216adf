"""What msgspec can type: Structs, dataclasses, attrs, TypedDicts, containers and plain values, with models of pydantic
anywhere in them.

The decoder says whether a value fits, and stops at the first place that does not. So objects, lists and their parts are
converted one by one to find all places, as deep as is worth it.
"""

from __future__ import annotations

import re
import types
import typing
from collections.abc import Collection, Iterator, Mapping
from typing import Any, NamedTuple

import msgspec
from msgspec.inspect import AnyType, CustomType, DataclassType, ExtType, Field, RawType, StructType, TypedDictType

from .mismatch import excerpt, joined, line, missing, shortened, unknown, wrong
from .pydantic_models import is_model, model_of, model_problems

_DEEPEST = 8  # levels on which wrong places are told one by one; of what lies deeper, the first one is

_ANYTHING = (AnyType, RawType, CustomType, ExtType)

_QUOTED = re.compile(r"`([^`]*)`")
_JSON_WORDS = {"int": "integer", "float": "number", "bool": "boolean", "str": "string"}


class TypedShape:
    """A type that msgspec knows, as all that came."""

    def __init__(self, kind: Any, schema: dict[str, Any]) -> None:
        self.schema = schema
        self.takes_any_depth = takes_any_depth(kind)
        self.decode = msgspec.json.Decoder(kind, dec_hook=_of_kind).decode
        self._kind = kind

    def convert(self, tree: Any) -> Any:
        return _convert(tree, self._kind)

    def problems(self, tree: Any) -> Iterator[str]:
        return problems(tree, self._kind, "")


def takes_any_depth(kind: Any) -> bool:
    """Whether a value may be nested deeper than its type is: where that takes anything, or has itself inside."""
    known: dict[int, bool] = {}

    def is_open(described: Any) -> bool:
        if id(described) not in known:
            known[id(described)] = True  # for who asks again while it is looked into
            known[id(described)] = isinstance(described, _ANYTHING) or any(map(is_open, _parts(described)))
        return known[id(described)]

    return is_open(msgspec.inspect.type_info(kind))


def _parts(described: msgspec.Struct) -> Iterator[Any]:
    """The types that a type is made of, all as `msgspec.inspect` describes them."""
    for name in described.__struct_fields__:
        told = getattr(described, name)
        for each in told if isinstance(told, tuple) else (told,):
            if isinstance(each, Field):
                yield each.type
            elif isinstance(each, msgspec.inspect.Type):
                yield each


def problems(value: Any, kind: Any, path: str, depth: int = 0) -> Iterator[str]:
    """A line for each place in a tree of JSON that does not fit the annotation."""
    try:
        _convert(value, kind)
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


def _convert(value: Any, kind: Any) -> Any:
    return msgspec.convert(value, kind, str_keys=True, dec_hook=_of_kind)


def _of_kind(kind: type[Any], value: Any) -> Any:
    """What msgspec asks for a class that it does not know; it checks itself that it gets an instance."""
    return model_of(kind, value) if is_model(kind) else value


def _problems_inside(value: Any, kind: Any, path: str, depth: int) -> Iterator[str]:
    if is_model(kind):
        yield from model_problems(kind, value, path)
    elif isinstance(value, dict) and (fields := _fields(kind)) is not None:
        yield from _field_problems(value, fields, path, depth)
    else:
        for step, item, item_kind in _items(value, kind):
            yield from problems(item, item_kind, joined(path, step), depth)


def _field_problems(value: dict[str, Any], fields: _Fields, path: str, depth: int) -> Iterator[str]:
    for name, kind in fields.kinds.items():
        if name in value:
            yield from problems(value[name], kind, joined(path, name), depth)
        elif name in fields.required:
            yield missing(joined(path, name))
    if fields.closed:
        yield from (unknown(joined(path, name)) for name in value if name not in fields.kinds)


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


def _items(value: Any, kind: Any) -> Iterator[tuple[str | int, Any, Any]]:
    """The items of a list, or the values of an object without fixed fields: step of the path, item, its annotation."""
    made_of, arguments = typing.get_origin(kind), typing.get_args(kind)
    if not isinstance(made_of, type) or not arguments:
        return
    if isinstance(value, dict) and issubclass(made_of, Mapping):
        yield from ((key, item, arguments[1]) for key, item in value.items())
    elif isinstance(value, list) and issubclass(made_of, tuple) and arguments[-1] is not Ellipsis:
        for place, (item, item_kind) in enumerate(zip(value, arguments, strict=False)):
            yield place, item, item_kind
    elif isinstance(value, list) and issubclass(made_of, Collection):
        yield from ((place, item, arguments[0]) for place, item in enumerate(value))


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
    reason = _QUOTED.sub(lambda quoted: _in_json_words(quoted[1]), shortened(reason, 160))
    if reason.startswith("Invalid enum value") and not place and (allowed := _allowed(kind)):
        reason = f"expected one of {', '.join(allowed)}"
    reason = f"{reason[:1].lower()}{reason[1:]}"
    if not place:
        return wrong(path, reason.partition(", got ")[0], value)
    key, _, parent = place.rpartition(" in ")  # inside the value, where only msgspec knows the way
    inside = path + parent.strip("`").removeprefix("$") + (" (a key)" if key else "")
    return line(inside.lstrip("."), reason)


def _allowed(kind: Any) -> list[str]:
    schema = msgspec.json.schema(kind)
    parts = [schema, *schema.get("anyOf", ()), *schema.get("$defs", {}).values()]
    return [excerpt(value) for part in parts for value in part.get("enum", ())]


def _in_json_words(kinds: str) -> str:
    return " or ".join(_JSON_WORDS.get(kind, kind) for kind in kinds.split(" | "))
