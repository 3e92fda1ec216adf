"""What a tool takes: one JSON object, whose fields go to its function by name.

Of a Struct or a model of pydantic every field is given, defaults filled in, under its name in Python. What a schema
describes is given as it came: fields that did not come are left to the defaults of the function, and names that the
schema does not have are refused, unless the function takes them with `**`.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any

import msgspec
from msgspec.structs import asdict

from ..codec.json_object import nests_deeper_than
from ..errors import DefinitionError, InvalidInput
from ..shapes.mismatch import mismatch, unknown
from ..shapes.pydantic_models import is_model, plain
from ..shapes.schema import mentions_models
from ..shapes.shape import Shape, shape_of
from .arguments import read_text, read_tree
from .coercion import MAX_NESTING, fields_of, takes

_DOES_NOT_DECODE = (msgspec.DecodeError, UnicodeEncodeError, RecursionError)


class Input:
    """The input of one tool.

    kind: a Struct, a model of pydantic, or a JSON Schema. takes_other: whether the function takes a name that is none
    of the fields. coerce: mend what does not fit, where it is clear how.

    schema: JSON Schema of the object. names: those by which the function gets the fields, with their names in JSON.
    always: the names that come in every call. decode: the arguments in a text; it raises InvalidInput with the message
    for the model. Raises DefinitionError, which begins with `what`.
    """

    def __init__(self, kind: Any, what: str, *, takes_other: Callable[[str], bool], coerce: bool) -> None:
        try:
            self._shape = shape_of(kind)
        except DefinitionError as error:
            raise DefinitionError(f"{what}: {error}") from error
        except ImportError:
            raise
        except Exception as error:
            raise DefinitionError(f"{what}: its input cannot be described to a model ({error})") from error
        self.schema = self._shape.schema
        if self.schema.get("type") != "object":
            raise DefinitionError(f"{what}: its input must be an object for the model, so without array_like or a root")
        self._fields, required = fields_of(self.schema)
        self._coerce = coerce
        self._takes_other = takes_other
        self._has_models = not isinstance(kind, Mapping) and mentions_models(kind)
        self._by_name: Callable[[Any], dict[str, Any]]
        if isinstance(kind, type) and issubclass(kind, msgspec.Struct):
            self.names = {field.name: field.encode_name for field in msgspec.structs.fields(kind)}
            self.always, self._by_name = set(self.names), asdict
        elif is_model(kind):
            self.names = {name: _json_name(name, field) for name, field in kind.model_fields.items()}
            self.always, self._by_name = set(self.names), self._of_model
        elif isinstance(kind, Mapping):
            self.names = {name: name for name in self._fields}
            self.always, self._by_name = required, self._of_schema
        else:
            raise DefinitionError(f"{what}: input must be a msgspec Struct, a model of pydantic or a JSON Schema")
        self.decode = _decoder(self._shape, self._by_name, coerce=coerce)

    def convert(self, arguments: Mapping[str, Any]) -> dict[str, Any]:
        """The same from values of JSON, or what can be written as such, under their names in Python or in JSON."""
        try:
            tree = msgspec.to_builtins(arguments, str_keys=True, enc_hook=plain if self._has_models else None)
            if nests_deeper_than(MAX_NESTING, json.dumps(tree)):
                raise RecursionError
        except (TypeError, ValueError) as error:
            raise InvalidInput(f"the arguments cannot be written as JSON: {error}") from error
        except RecursionError:
            raise _too_deep() from None
        named = {name if name in self._fields else self.names.get(name, name): value for name, value in tree.items()}
        return self._by_name(read_tree(self._shape, named, coerce=self._coerce))

    def take_plain_text(self, text: str) -> dict[str, Any]:
        """The arguments of a call that has no JSON but plain text: it goes to the one field that takes text.

        That is the only field, or the only one that has to be there. Raises InvalidInput where there is no such field.
        """
        required = fields_of(self.schema)[1]
        candidates = self._fields if len(self._fields) == 1 else required
        if len(candidates) != 1 or not takes(self._fields.get(*candidates), text, self.schema):
            raise InvalidInput(f"it came as plain text, but the arguments are a JSON object with {self._told_fields()}")
        return self._by_name(read_tree(self._shape, dict.fromkeys(candidates, text), coerce=False))

    def plain(self, arguments: dict[str, Any]) -> dict[str, Any]:
        """Arguments as msgspec can write them: models of pydantic, which it does not know, as trees of JSON."""
        if not self._has_models:
            return arguments
        written: dict[str, Any] = msgspec.to_builtins(arguments, enc_hook=plain)
        return written

    def __repr__(self) -> str:
        required = fields_of(self.schema)[1]
        return ", ".join(_shown(name, field, name in required) for name, field in self._fields.items())

    def _told_fields(self) -> str:
        return ", ".join(self._fields) or "no fields"

    def _of_model(self, model: Any) -> dict[str, Any]:
        given = {name: getattr(model, name) for name in self.names}
        return self._checked({**given, **(model.model_extra or {})})

    def _of_schema(self, tree: dict[str, Any]) -> dict[str, Any]:
        return self._checked(tree)

    def _checked(self, arguments: dict[str, Any]) -> dict[str, Any]:
        strange = [name for name in arguments if name not in self.names and not self._takes_other(name)]
        if strange:
            raise InvalidInput(mismatch(map(unknown, strange), arguments))
        return arguments


def _decoder(
    shape: Shape, by_name: Callable[[Any], dict[str, Any]], *, coerce: bool
) -> Callable[[str], dict[str, Any]]:
    """No method: of a short text to look up what it needs would be a tenth of the work."""
    fast = shape.decode
    takes_any_depth = shape.takes_any_depth  # else no text can make more of it than its type allows

    def decode(text: str) -> dict[str, Any]:
        if takes_any_depth and len(text) > MAX_NESTING and nests_deeper_than(MAX_NESTING, text):
            raise _too_deep()
        try:
            return by_name(fast(text))
        except _DOES_NOT_DECODE:
            pass
        return by_name(read_text(shape, text, coerce=coerce))

    return decode


def _too_deep() -> InvalidInput:
    return InvalidInput(f"the arguments are nested too deeply: at most {MAX_NESTING} objects and arrays in each other")


def _json_name(name: str, field: Any) -> str:
    alias = field.validation_alias or field.alias
    return alias if isinstance(alias, str) else name


def _shown(name: str, field: Any, is_required: bool) -> str:
    if is_required:
        return name
    if not isinstance(field, Mapping) or "default" not in field:
        return f"{name}=…"
    default = repr(field["default"])
    return f"{name}={default if len(default) <= 20 else default[:19] + '…'}"
