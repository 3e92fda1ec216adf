"""What a tool can be called with, from its parameters: a msgspec Struct for us, a JSON Schema for the model.

The Struct decodes; the schema says the same to the model, and nothing of our own appears in it: no title, no name of a
class of ours, no module path. What cannot be described is refused here, once, instead of at each call.
"""

from __future__ import annotations

import copy
import inspect
import itertools
import json
import math
from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from typing import Any

import msgspec

from ..errors import DefinitionError
from .pydantic_models import is_model, model_schemas

_DEFINITIONS = "#/$defs/"
_OF_PYDANTIC = "pydantic."  # before its names, so that they are none of msgspec's; `_short_names` takes it off


def input_struct(parameters: Sequence[inspect.Parameter], what: str) -> type[msgspec.Struct]:
    """A Struct with a keyword field for each parameter, which refuses fields that it does not know.

    A parameter with a default is a field that may be missing; a default that can be changed is copied for each call.
    Raises DefinitionError, which begins with `what`, for a parameter that cannot be such a field.
    """
    for parameter in parameters:
        _check_parameter(parameter, what)
    try:
        return _described(parameters)
    except Exception as error:
        for parameter in parameters:
            _check_describable(parameter, what)
        raise DefinitionError(f"{what}: its parameters do not go together ({_gist(error)})") from error


def json_schema(kind: Any) -> dict[str, Any]:
    """The JSON Schema of a Struct, a model of pydantic, or whatever msgspec can type.

    What it is stands on top, what that refers to under `$defs`. Raises TypeError, or what pydantic raises, for what
    JSON Schema cannot say.
    """
    top, components = _components(kind)
    name = top.get("$ref", "").removeprefix(_DEFINITIONS)
    schema = dict(components[name] if name else top)
    if name and f'"{_DEFINITIONS}{name}"' not in json.dumps(components):  # else it contains itself
        del components[name]
    schema.pop("title", None)
    if not schema.get("required"):
        schema.pop("required", None)
    if isinstance(kind, type) and issubclass(kind, msgspec.Struct):
        _add_copied_defaults(schema, kind)
    if components:
        schema["$defs"] = components
    return schema


def mentions_models(kind: Any) -> bool:
    """Whether it is a model of pydantic, or there is one in it."""
    return bool(_described_by_msgspec(kind)[2])


def _described(parameters: Iterable[inspect.Parameter]) -> type[msgspec.Struct]:
    # gc=False: what is decoded is taken apart at once, and a tree of JSON has no cycles
    struct = msgspec.defstruct(
        "tool input", map(_field, parameters), kw_only=True, frozen=True, forbid_unknown_fields=True, gc=False
    )
    json_schema(struct)
    return struct


def _field(parameter: inspect.Parameter) -> tuple[str, Any] | tuple[str, Any, Any]:
    name, annotation, default = parameter.name, parameter.annotation, parameter.default
    if default is parameter.empty:
        return name, annotation
    try:
        hash(default)
    except TypeError:  # it can be changed
        if not default and type(default) in (list, dict, set):
            return name, annotation, default  # msgspec makes a new one itself, much faster
        return name, annotation, msgspec.field(default_factory=partial(copy.deepcopy, default))
    if _is_json(default):
        return name, annotation, default
    return name, annotation, msgspec.field(default_factory=lambda: default)


def _is_json(value: Any) -> bool:
    if isinstance(value, float) and not math.isfinite(value):
        return False
    try:
        msgspec.to_builtins(value)
    except TypeError:
        return False
    return True


def _components(kind: Any) -> tuple[dict[str, Any], dict[str, Any]]:
    """The schema of the kind, mostly a reference, and the schemas of all classes in it by their names."""
    top, found, models = _described_by_msgspec(kind)
    references: dict[str, str] = {}
    if models:
        names, schemas = model_schemas(models, f"{_DEFINITIONS}{_OF_PYDANTIC}{{model}}")
        found = {**found, **{_OF_PYDANTIC + name: schema for name, schema in schemas.items()}}
        references = {f"{_DEFINITIONS}:{place}": _DEFINITIONS + _OF_PYDANTIC + name for place, name in enumerate(names)}
    short = {_DEFINITIONS + name: _DEFINITIONS + each for name, each in _short_names(found).items()}
    references = {**short, **{marker: short[name] for marker, name in references.items()}}
    components = {
        references[_DEFINITIONS + name].removeprefix(_DEFINITIONS): _renamed(schema, references)
        for name, schema in found.items()
    }
    return _renamed(top, references), components


def _described_by_msgspec(kind: Any) -> tuple[dict[str, Any], dict[str, Any], list[type[Any]]]:
    """The same from msgspec alone, and the models of pydantic in it, which are referred to by their place."""
    models: list[type[Any]] = []

    def schema_of_class(unknown: type[Any]) -> dict[str, Any]:
        if unknown is object:
            return {"description": "any JSON value"}
        if not is_model(unknown):
            raise NotImplementedError
        if unknown not in models:
            models.append(unknown)
        return {"$ref": f"{_DEFINITIONS}:{models.index(unknown)}"}

    (top,), found = msgspec.json.schema_components(
        [kind], schema_hook=schema_of_class, ref_template=_DEFINITIONS + "{name}"
    )
    return top, found, models


def _add_copied_defaults(schema: dict[str, Any], struct: type[msgspec.Struct]) -> None:
    """msgspec says no default that a function makes; those that `_field` wrapped are known."""
    for field in msgspec.structs.fields(struct):
        factory = field.default_factory
        if isinstance(factory, partial) and factory.func is copy.deepcopy and _is_json(factory.args[0]):
            default = msgspec.to_builtins(factory.args[0], str_keys=True)
            schema["properties"][field.encode_name]["default"] = default


def _short_names(names: Iterable[str]) -> dict[str, str]:
    """Where two classes share a name, msgspec calls them by their modules; the model gets them numbered."""
    short: dict[str, str] = {}
    for name in names:
        last_part = name.rpartition(".")[2]
        numbered = (f"{last_part}_{number}" for number in itertools.count(2))
        short[name] = next(each for each in itertools.chain([last_part], numbered) if each not in short.values())
    return short


def _renamed(node: Any, names: Mapping[str, str]) -> Any:
    """The same tree of JSON, its strings replaced where they are one of the names."""
    if isinstance(node, dict):
        return {key: _renamed(value, names) for key, value in node.items()}
    if isinstance(node, list):
        return [_renamed(value, names) for value in node]
    return names.get(node, node) if isinstance(node, str) else node


def _check_parameter(parameter: inspect.Parameter, what: str) -> None:
    name = parameter.name
    if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD):
        raise DefinitionError(f"{what}: a model cannot be told what goes into {parameter}: name each parameter")
    if parameter.kind is parameter.POSITIONAL_ONLY:
        raise DefinitionError(f"{what}: arguments are given by name, so {name!r} must not stand before a /")
    if parameter.annotation is parameter.empty and name in ("self", "cls"):
        raise DefinitionError(f"{what}: it is a method; make the tool of the bound one, as in tool(desk.search)")
    if parameter.annotation is parameter.empty:
        raise DefinitionError(f"{what}: parameter {name!r} has no annotation: write {name}: str, or what else it is")


def _check_describable(parameter: inspect.Parameter, what: str) -> None:
    try:
        _described([parameter])
    except Exception as error:
        raise DefinitionError(
            f"{what}: parameter {parameter.name!r} cannot be described to a model ({_gist(error)}): annotate it with "
            "what JSON can carry, such as str, list[int], a dataclass or Any"
        ) from error


def _gist(error: Exception) -> str:
    return str(error).strip().rpartition("\n")[2]
