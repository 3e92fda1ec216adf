"""Any JSON value from a text, as RFC 8259 has it: no NaN, no infinity, and no number that would become one."""

from __future__ import annotations

import json
import math
from typing import Any, NoReturn


def strict_json(text: str) -> Any:
    """The value. Integers are exact, of a repeated key the last one counts, lone surrogates stay as they are.

    Raises ValueError: a JSONDecodeError where the text is no JSON, else for a number that is none or is out of range.
    RecursionError where it is nested too deeply.
    """
    return json.loads(text, parse_constant=_refuse, parse_float=_finite)


def _refuse(constant: str) -> NoReturn:
    raise ValueError(f"{constant} is not a number")


def _finite(digits: str) -> float:
    number = float(digits)
    if math.isinf(number):
        raise ValueError("a number is out of range")
    return number
