"""What the checkers of requests share: how a broken rule is told."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Sequence
from typing import Any

from ..codec.json_object import object_text
from ..items import Item

JsonObject = dict[str, Any]

NAME = re.compile(r"[a-zA-Z0-9_-]{1,64}")
"""What OpenAI and Mistral take as the name of a function, also of one that was called."""


class IllegalHistory(AssertionError):
    """A history with which a provider refuses the next request; the message names the place and the rule."""


def demand(holds: object, place: str, rule: str) -> None:
    """Raise IllegalHistory with the place and the rule, unless that holds."""
    if not holds:
        raise IllegalHistory(f"{place}: {rule}")


def is_object(text: object) -> bool:
    """Whether it is the text of one JSON object."""
    try:
        return isinstance(text, str) and isinstance(json.loads(text), dict)
    except json.JSONDecodeError:
        return False
    except (ValueError, RecursionError):  # Python reads no number so long, and no containers so deep
        return object_text(str(text)) == (text, None)


def is_said(text: object) -> bool:
    """Whether it is a text that is not blank."""
    return isinstance(text, str) and bool(text.strip())


def opaque_of(item: Item, dialect: str) -> JsonObject:
    """What this dialect wants back with an item."""
    known: JsonObject = (getattr(item, "opaque", None) or {}).get(dialect, {})
    return known


def check_kept(what: str, sent: Sequence[str], kept: Iterable[str]) -> None:
    """What a provider signed goes back as it came: none is changed, made up, or said in another order.

    It may be left out; what must not be is for the dialect to say.
    """
    left = iter(kept)
    for each in sent:
        demand(each in left, what, f"{each[:40]!r} is not what came, or not in its place")
