"""JSON Schemas that are given as such: for tools that are only known at run time, from a server or a configuration.

What came is checked against the schema and handed on as it is. `$schema` says which draft it is of; without it, or with
one that nobody knows, it is the latest. References lead to places within the schema: no document is fetched. `format`
says something to the model and is not checked, as the drafts have it.
"""

from __future__ import annotations

import copy
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import msgspec

from ..errors import DefinitionError
from .mismatch import excerpt, joined, line, missing, unknown, wrong

try:
    import jsonschema  # type: ignore[import-untyped]
    import jsonschema_specifications  # type: ignore[import-untyped]
    import referencing.exceptions
    import referencing.jsonschema
except ImportError as error:
    raise ImportError(
        "to check what comes against a JSON Schema install jsonschema: pip install 'streamkit-tools[schema]'"
    ) from error

from . import schema_checks

_decode = msgspec.json.Decoder(dict[str, Any]).decode

_EXPECTED = {
    "minimum": ">= {}",
    "maximum": "<= {}",
    "exclusiveMinimum": "> {}",
    "exclusiveMaximum": "< {}",
    "multipleOf": "a multiple of {}",
    "const": "{}",
    "pattern": "text that matches the regex {}",
    "minLength": "text of length >= {}",
    "maxLength": "text of length <= {}",
    "minItems": "an array of length >= {}",
    "maxItems": "an array of length <= {}",
    "uniqueItems": "an array of items that differ",
    "minProperties": "at least {} fields",
    "maxProperties": "at most {} fields",
}


class SchemaShape:
    """What a JSON Schema of an object allows, as all that came.

    schema: a copy, as it was given. Raises DefinitionError for one that is invalid, that is not of an object, or that
    refers to what is not in it.
    """

    takes_any_depth = True

    def __init__(self, schema: Mapping[str, Any]) -> None:
        self.schema: dict[str, Any] = copy.deepcopy(dict(schema))
        draft = jsonschema.validators.validator_for(self.schema, default=jsonschema.Draft202012Validator)
        try:
            draft.check_schema(self.schema)
        except jsonschema.SchemaError as error:
            path = "".join(f"[{step!r}]" for step in error.absolute_path)
            raise DefinitionError(f"schema{path} is not a valid JSON Schema: {error.message[:200]}") from error
        if self.schema.get("type") != "object":
            raise DefinitionError("the schema must be of an object, so with 'type': 'object' on top")
        specification = referencing.jsonschema.specification_with(draft.META_SCHEMA["$schema"])
        root = specification.create_resource(self.schema)
        _check_references(root, jsonschema_specifications.REGISTRY.resolver_with_root(root))
        registry = referencing.Registry()  # one of our own fetches nothing
        self._validator = schema_checks.checking(draft)(self.schema, registry=registry)

    def decode(self, text: str) -> dict[str, Any]:
        return self.convert(_decode(text))

    def convert(self, tree: Any) -> dict[str, Any]:
        if not schema_checks.is_valid(self._validator, tree):
            raise msgspec.ValidationError("it does not fit its schema")
        found: dict[str, Any] = tree
        return found

    def problems(self, tree: Any) -> Iterator[str]:
        found = (each for error in schema_checks.errors(self._validator, tree) for each in _lines(error))
        yield from dict.fromkeys(found)


def _check_references(resource: referencing.Resource[Any], resolver: referencing._core.Resolver[Any]) -> None:
    """All of them, at definition: else a call would be the first to meet one that leads nowhere."""
    contents = resource.contents
    reference = contents.get("$ref") if isinstance(contents, Mapping) else None
    if isinstance(reference, str):
        try:
            resolver.lookup(reference)
        except referencing.exceptions.Unresolvable as error:
            raise DefinitionError(
                f"the schema refers to {reference!r}, which is not in it; other documents are not fetched"
            ) from error
    for inside in resource.subresources():
        _check_references(inside, resolver.in_subresource(inside))


def _lines(error: Any) -> Iterator[str]:
    """What an error of jsonschema says, in our words: its own may show all of the value."""
    path = ""
    for step in error.absolute_path:
        path = joined(path, step)
    keyword, rule, came = error.validator, error.validator_value, error.instance
    if keyword == "required" and isinstance(rule, list):
        yield from (missing(joined(path, name)) for name in rule if name not in came)
    elif keyword == "additionalProperties":
        yield from (unknown(joined(path, name)) for name in _additional(came, error.schema))
    elif keyword is None:
        yield line(path, f"must not hold {excerpt(came)}")  # the schema of a field is False; which one is not told
    elif keyword in ("anyOf", "oneOf"):
        yield from _lines_of_options(error, path)
    else:
        yield wrong(path, _expected(keyword, rule), came)


def _lines_of_options(error: Any, path: str) -> Iterator[str]:
    inside = error.context or ()
    best = jsonschema.exceptions.best_match([error])
    if inside and all(each.validator == "type" and not each.path for each in inside):
        kinds = [kind for each in inside for kind in _listed(each.validator_value)]
        yield wrong(path, _expected("type", kinds), error.instance)
    elif meant := _option_meant(inside):
        for each in meant:
            yield from _lines(each)
    elif best is not error:
        yield from _lines(best)
    else:
        yield wrong(path, "expected one of the forms that its schema has", error.instance)


def _option_meant(errors: Sequence[Any]) -> list[Any]:
    """The errors of the one option that must be meant: by the kind of the value, else by a name that it has for itself.

    None where there is no such option, or where there are several.
    """
    options: dict[Any, list[Any]] = {}
    for error in errors:
        options.setdefault(error.schema_path[0], []).append(error)
    of_kind = [
        option for option in options.values() if all(error.validator != "type" or error.path for error in option)
    ]
    named = [option for option in of_kind if all(error.validator not in ("const", "enum") for error in option)]
    return next((meant[0] for meant in (of_kind, named) if len(meant) == 1), [])


def _expected(keyword: str, rule: Any) -> str:
    if keyword == "type":
        return f"expected {' or '.join(dict.fromkeys(_listed(rule)))}"
    if keyword == "enum":
        return f"expected one of {', '.join(map(excerpt, rule))}"
    if keyword in _EXPECTED:
        return f"expected {_EXPECTED[keyword].format(excerpt(rule))}"
    return f"expected what keeps {keyword} {excerpt(rule)}"


def _additional(came: Mapping[str, Any], schema: Mapping[str, Any]) -> Iterator[str]:
    patterns = schema.get("patternProperties", {})
    for name in came:
        if name not in schema.get("properties", {}) and not any(re.search(pattern, name) for pattern in patterns):
            yield name


def _listed(rule: Any) -> list[Any]:
    return rule if isinstance(rule, list) else [rule]
