"""What JSON has to look like to be taken, as the arguments of a tool or as an answer: one protocol for types, models of
pydantic and schemas.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Protocol

from .pydantic_models import ModelShape, is_model
from .schema import json_schema
from .typed import TypedShape


class Shape(Protocol):
    """schema: JSON Schema of it, which a model is told. takes_any_depth: a value may be nested as deeply as its text.

    decode(text) and convert(tree) give the value, typed where there is a type, and raise a msgspec.DecodeError for what
    does not fit; decode also for text that is no strict JSON, and UnicodeEncodeError or RecursionError. problems(tree)
    gives a line for each place that does not fit, one by one.
    """

    @property
    def schema(self) -> dict[str, Any]: ...

    @property
    def takes_any_depth(self) -> bool: ...

    def decode(self, text: str, /) -> Any: ...

    def convert(self, tree: Any, /) -> Any: ...

    def problems(self, tree: Any, /) -> Iterator[str]: ...


def shape_of(kind: Any) -> Shape:
    """The shape of a type, or of what a JSON Schema describes, where a mapping is given.

    Raises DefinitionError for a schema that cannot be used, and whatever msgspec or pydantic raise for a type that has
    none.
    """
    if isinstance(kind, Mapping):
        from .given_schema import SchemaShape  # noqa: PLC0415 - it needs jsonschema, which is optional

        return SchemaShape(kind)
    schema = json_schema(kind)
    return ModelShape(kind, schema) if is_model(kind) else TypedShape(kind, schema)
