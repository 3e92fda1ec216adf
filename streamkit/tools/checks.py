"""What a tool cannot be made of, told at its definition together with the fix; and what its function can take."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable
from typing import Any, get_args

from ..errors import DefinitionError
from ..tool_events import Effects

_NAME = re.compile(r"[a-zA-Z0-9_-]{1,64}")  # what every provider takes


def check_words(name: object, description: str) -> None:
    if not (isinstance(name, str) and _NAME.fullmatch(name)):
        raise DefinitionError(
            f"tool {name!r}: providers take names of 1 to 64 letters, digits, _ and -; give another with name="
        )
    if not description.strip():
        raise DefinitionError(
            f"tool {name!r}: a model must be told what it does: write a docstring, or give description="
        )


def check_limits(what: str, *, serial: object, **limits: object) -> None:
    """limits: seconds, by their names."""
    if serial is not None and not (isinstance(serial, str) and serial):
        raise DefinitionError(f"{what}: serial is the name that calls share, such as serial='files'")
    for name, seconds in limits.items():
        if seconds is not None and not (type(seconds) in (int, float) and seconds > 0):  # type: ignore[operator]
            raise DefinitionError(f"{what}: {name} is {seconds!r}, and must be more than 0, or None")


def check_approval(what: str, approval: object, origin: object) -> None:
    if not isinstance(approval, bool):
        raise DefinitionError(f"{what}: approval is True or False; ApprovalDesk(needs=…) decides call by call")
    if not (origin is None or isinstance(origin, str)):
        raise DefinitionError(f"{what}: origin is text, such as an account or the name of a server, not {origin!r}")


def check_effects(what: str, effects: object) -> None:
    known = get_args(Effects)
    if effects not in known:
        raise DefinitionError(f"{what}: effects is {effects!r}, and must be one of {', '.join(map(repr, known))}")


def takes_other(function: Callable[..., Any]) -> Callable[[str], bool]:
    """Whether a function takes a name that it does not have itself: any, where it has `**`, else none."""
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):
        return lambda name: True
    if not any(each.kind is each.VAR_KEYWORD for each in parameters):
        return lambda name: False
    own = {each.name for each in parameters if each.kind is not each.POSITIONAL_ONLY}
    return lambda name: name not in own
