"""The arguments of a call as typed values, where one typed decode of their text did not do.

That decode is the fast way, and whoever holds the decoder takes it. What it refuses comes here. Halves of a surrogate
pair, which JSON can write and Unicode does not know, become U+FFFD. All else is wrong, and the model is told so: where
the text stops being JSON, or which fields do not fit.
"""

from __future__ import annotations

import json
import math
import re
from typing import Any, TypeVar

import msgspec

from .errors import InvalidInput
from .mismatch import excerpt, mismatch

S = TypeVar("S", bound=msgspec.Struct)

_CONSTANT = re.compile(r'"(?:[^"\\]|\\.)*"|(NaN|-?Infinity)', re.DOTALL)


def read_text(struct: type[S], text: str) -> S:
    """The arguments in a text that did not decode at once. Raises InvalidInput with the message for the model."""
    try:
        return read_tree(struct, _without_half_characters(_parsed(text)))
    except RecursionError:
        raise InvalidInput("the arguments are nested too deeply") from None


def read_tree(struct: type[S], tree: Any) -> S:
    """The arguments in a tree of JSON. Raises InvalidInput with the message for the model."""
    if not isinstance(tree, dict):
        raise InvalidInput(f"the arguments must be one JSON object, but are {excerpt(tree)}")
    try:
        return msgspec.convert(tree, struct, str_keys=True)
    except msgspec.ValidationError:
        pass
    raise InvalidInput(mismatch(struct, tree))


def _parsed(text: str) -> Any:
    try:
        return json.loads(text, parse_constant=_refused, parse_float=_finite)
    except json.JSONDecodeError as error:
        what, place = error.msg, error.pos
    except ValueError as error:  # of the two functions, or a number with more digits than Python reads
        constant = next((found for found in _CONSTANT.finditer(text) if found[1]), None)
        if constant is None:
            raise InvalidInput("the arguments have a number that is out of range") from error
        what, place = f"{constant[1]} is no number", constant.start()
    near = text[max(0, place - 20) : place + 40]
    raise InvalidInput(f"the arguments are not valid JSON: {what} (character {place}, near {near!r})")


def _refused(constant: str) -> None:
    raise ValueError(constant)


def _finite(digits: str) -> float:
    number = float(digits)
    if math.isinf(number):
        raise ValueError(digits)
    return number


def _without_half_characters(tree: Any) -> Any:
    text = json.dumps(tree, ensure_ascii=False)
    try:
        text.encode()
    except UnicodeEncodeError:
        return json.loads(text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace"))
    return tree
