"""Checks against a JSON Schema with jsonschema, each reference followed once for each value.

All options of a schema look at a value. Where they refer to the whole again, as those of filters and of expressions do,
that multiplies with each level: a call of 200 characters, ten levels deep, took seconds, and all else waited.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextvars import ContextVar
from functools import cache
from typing import Any

import jsonschema  # type: ignore[import-untyped]

Error = Any  # a jsonschema.ValidationError

MOST_ERRORS_AGAIN = 10
"""So many of what is wrong with a value are told again by the next option that refers to the same."""

_found: ContextVar[dict[tuple[int, int], list[Error]]] = ContextVar("found")
"""Of the check that goes on: what was wrong, by the schema that refers and the value."""


@cache
def checking(draft: Any) -> Any:
    """The validator class of a draft, for `is_valid` and `errors` below."""
    follow = draft.VALIDATORS["$ref"]

    def follow_once(validator: Any, reference: str, value: object, schema: dict[str, Any]) -> Iterator[Error]:
        found, key = _found.get(), (id(schema), id(value))
        if key in found:
            yield from map(_alone, found[key])
        else:
            errors = list(follow(validator, reference, value, schema))
            found[key] = [_alone(error) for error in errors[:MOST_ERRORS_AGAIN]]  # paths grow while they are passed on
            yield from errors

    return jsonschema.validators.extend(draft, {"$ref": follow_once})


def is_valid(validator: Any, tree: object) -> bool:
    token = _found.set({})
    try:
        return bool(validator.is_valid(tree))
    finally:
        _found.reset(token)


def errors(validator: Any, tree: object) -> list[Error]:
    token = _found.set({})
    try:
        return list(validator.iter_errors(tree))
    finally:
        _found.reset(token)


def _alone(error: Error) -> Error:
    """The same without the errors of the options inside it."""
    return jsonschema.ValidationError(
        error.message,
        validator=error.validator,
        validator_value=error.validator_value,
        path=error.relative_path,
        schema_path=error.relative_schema_path,
        instance=error.instance,
        schema=error.schema,
    )
