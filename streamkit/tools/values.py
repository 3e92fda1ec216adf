"""What a tool gave: as records hold it, and as the model reads and sees it."""

from __future__ import annotations

from typing import Any

import msgspec

from ..codec.json_object import nests_deeper_than
from ..codec.surrogates import whole
from ..errors import StreamkitError
from ..items import Image
from ..shapes.pydantic_models import is_model, plain

MAX_NESTING = 500
"""How deep objects and arrays may be nested in a value: records hold it within others, and what writes and reads those
is recursive. That limit is 1,000, with all functions that are being called."""


class NotSerialisable(StreamkitError):
    """The value has no JSON form. The message goes on from the name of the tool: "returned …"."""


def written_value(value: Any) -> tuple[Any, str, tuple[Image, ...]]:
    """The value as records hold it: JSON. With the text and the images that the model gets."""
    try:
        text, images = what_the_model_gets(value)
    except NotSerialisable:
        value = _as_trees(value)
        text, images = what_the_model_gets(value)
    return text if isinstance(value, str) else value, text, images


def what_the_model_gets(value: Any) -> tuple[str, tuple[Image, ...]]:
    """The text and the images of a value: an image, or those in a list, beside the rest of it."""
    if isinstance(value, Image):
        return "", (value,)
    if not isinstance(value, list | tuple):
        return model_text(value), ()
    images = tuple(item for item in value if isinstance(item, Image))
    if not images:
        return model_text(value), ()
    rest = [item for item in value if not isinstance(item, Image)]
    return "\n".join(model_text(item) for item in rest), images


def model_text(value: Any) -> str:
    """What the model reads: text as it is, None as `null`, everything else as JSON. Lone surrogates become U+FFFD."""
    if isinstance(value, str):
        text: str = whole(value)
        return text
    try:
        text = msgspec.json.encode(value).decode()
    except Exception as error:
        raise _no_json(value) from error
    if nests_deeper_than(MAX_NESTING, text):
        raise NotSerialisable(f"returned a value that is nested too deeply: at most {MAX_NESTING} objects and arrays")
    return text


def _as_trees(value: Any) -> Any:
    """The value as trees of JSON: models of pydantic, halves of characters. Images on top stay what they are."""
    items = value if isinstance(value, list | tuple) else [value]
    try:
        trees = [item if isinstance(item, Image) else _tree(item) for item in items]
    except Exception as error:
        raise _no_json(value) from error
    return trees if items is value else trees[0]


def _tree(value: Any) -> Any:
    return whole(msgspec.to_builtins(value, enc_hook=_tree_of_model, str_keys=True))


def _tree_of_model(value: Any) -> Any:
    if not is_model(type(value)):
        raise NotImplementedError
    return plain(value)


def _no_json(value: Any) -> NotSerialisable:
    return NotSerialisable(f"returned a value of type {type(value).__name__}, which cannot be written as JSON")
