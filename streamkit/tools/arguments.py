"""Text or trees of JSON as what a shape takes, where one decode of the text did not do.

That decode is the fast way, and whoever holds the shape takes it first. What it refuses comes here. Halves of a
surrogate pair, which JSON can write and Unicode does not know, become U+FFFD; what can be mended is mended. All else is
wrong, and the model is told so: where the text stops being JSON, or which fields do not fit.
"""

from __future__ import annotations

import json
import re
from typing import Any

import msgspec

from ..codec.strict_json import strict_json
from ..codec.surrogates import whole
from ..errors import InvalidInput
from ..shapes.mismatch import ARGUMENTS, Subject, excerpt, mismatch
from ..shapes.shape import Shape
from .coercion import coerced

_CONSTANT = re.compile(r'"(?:[^"\\]|\\.)*+"?|(NaN|-?Infinity)', re.DOTALL)  # or a string that has no end


def read_text(shape: Shape, text: str, *, coerce: bool = True) -> Any:
    """The arguments in a text that did not decode at once.

    Raises InvalidInput with the message for the model. coerce: mend what does not fit, where it is clear how.
    """
    try:
        return read_tree(shape, parse(text), coerce=coerce)
    except RecursionError:
        raise InvalidInput("the arguments are nested too deeply") from None


def read_tree(shape: Shape, tree: Any, *, coerce: bool = True, subject: Subject = ARGUMENTS) -> Any:
    """The same in a tree of JSON, which may be no object. subject: what the message speaks of."""
    if not isinstance(tree, dict):
        raise InvalidInput(f"{subject.name} must be one JSON object, but {subject.are} {excerpt(tree)}")
    tree = whole(tree)
    try:
        return shape.convert(tree)
    except msgspec.ValidationError:
        pass
    mended = coerced(tree, shape.schema) if coerce else tree
    if coerce:  # also where they are equal: 3.0 == 3
        try:
            return shape.convert(mended)
        except msgspec.ValidationError:
            pass
    raise InvalidInput(mismatch(shape.problems(mended), tree, subject))


def parse(text: str, subject: Subject = ARGUMENTS) -> Any:
    """The JSON in a text. Raises InvalidInput, which says where it stops being JSON, and RecursionError."""
    try:
        return strict_json(text)
    except json.JSONDecodeError as error:
        what, place = error.msg, error.pos
    except ValueError as error:  # NaN and infinity, or a number that is too large, or longer than Python reads
        constant = next((found for found in _CONSTANT.finditer(text) if found[1]), None)
        if constant is None:
            raise InvalidInput(f"a number in {subject.name} is out of range") from error
        what, place = f"{constant[1]} is not a number", constant.start()
    near = text[max(0, place - 20) : place + 40]
    raise InvalidInput(f"{subject.name} {subject.are} not valid JSON: {what} (character {place}, near {near!r})")
