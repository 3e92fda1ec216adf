"""Models of pydantic, where a tool or an answer is typed with one.

They validate as JSON and strictly, so that all kinds of input follow the same rules: what a plain value does not fit is
mended in one place (`coercion`), and only there. A model that says `strict` in its own config has its way.

pydantic is imported only when a model of it is there, and so it is imported already.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, TypeGuard

import msgspec

from .mismatch import joined, missing, unknown, wrong

_check_object = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode  # raw: the values are checked, not built


def is_model(kind: object) -> TypeGuard[type[Any]]:
    """Whether it is a model class of pydantic."""
    return isinstance(kind, type) and hasattr(kind, "__pydantic_validator__") and hasattr(kind, "model_json_schema")


def model_schemas(models: list[type[Any]], template: str) -> tuple[list[str], dict[str, Any]]:
    """The names of the models among their definitions; and the definitions, with all that the models refer to.

    template: of a reference to a definition, with `{model}` for its name.
    """
    from pydantic.json_schema import models_json_schema  # noqa: PLC0415 - see above

    references, schema = models_json_schema([(model, "validation") for model in models], ref_template=template)
    start = template.removesuffix("{model}")
    return [references[model, "validation"]["$ref"].removeprefix(start) for model in models], schema["$defs"]


def model_of(model: type[Any], value: Any) -> Any:
    """The model of a tree of JSON. Raises pydantic's ValidationError, which is a ValueError, and what its code does."""
    return _validate(model, msgspec.json.encode(value))


def plain(value: Any) -> Any:
    """A model, or another object of pydantic, as a tree of JSON."""
    from pydantic_core import to_jsonable_python  # noqa: PLC0415

    return to_jsonable_python(value)


def model_problems(model: type[Any], value: Any, path: str) -> Iterator[str]:
    """A line for each place in a tree of JSON that does not fit the model."""
    from pydantic_core import ValidationError  # noqa: PLC0415

    try:
        model_of(model, value)
    except ValidationError as error:
        for detail in error.errors(include_url=False):
            location, is_missing = detail["loc"], detail["type"] == "missing"
            yield _problem(detail, _path(location, value, path, is_missing=is_missing))


class ModelShape:
    """A model as all that came: its fields are the arguments of a tool, or it is the answer itself."""

    takes_any_depth = True

    def __init__(self, model: type[Any], schema: dict[str, Any]) -> None:
        self.schema = schema
        self._model = model

    def decode(self, text: str) -> Any:
        _check_object(text)  # pydantic reads NaN, which is no JSON
        try:
            return _validate(self._model, text)
        except ValueError as error:
            raise msgspec.ValidationError(str(error)) from error

    def convert(self, tree: Any) -> Any:
        try:
            return model_of(self._model, tree)
        except ValueError as error:
            raise msgspec.ValidationError(str(error)) from error

    def problems(self, tree: Any) -> Iterator[str]:
        return model_problems(self._model, tree, "")


def _validate(model: Any, text: str | bytes) -> Any:
    return model.model_validate_json(text, strict=None if "strict" in model.model_config else True)


def _problem(detail: Any, path: str) -> str:
    kind, message = detail["type"], detail["msg"]
    if kind == "missing":
        return missing(path)
    if kind == "extra_forbidden":
        return unknown(path)
    if kind in ("value_error", "assertion_error"):  # of a validator of the user, in whose words it is told
        return wrong(path, str(detail["ctx"]["error"]), detail["input"])
    expected = message.replace("Input should be ", "expected ", 1)
    return wrong(path, expected[:1].lower() + expected[1:], detail["input"])


def _path(location: tuple[int | str, ...], value: Any, path: str, *, is_missing: bool) -> str:
    """The path of an error. Besides fields and places pydantic names the options of unions; those are left out."""
    for step in location:
        inside: Any = range(len(value)) if isinstance(value, list) else value if isinstance(value, dict) else ()
        if step in inside:
            path, value = joined(path, step), value[step]
        elif step == "[key]":
            path += " (a key)"
    return joined(path, location[-1]) if is_missing else path
