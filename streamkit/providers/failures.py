"""What providers say when something failed: the shapes of their errors, and errors of ours made of them.

There is no standard. An error is an object under `error`, or the whole body; its text is `message`, or `detail`, or the
error itself; its `code` is a word, or the HTTP status that the provider would have sent, had it not begun to stream.
"""

from __future__ import annotations

import json
from typing import Any

from ..codec.surrogates import whole
from ..errors import ProviderError

LONGEST_MESSAGE = 1000
DEEPEST_WORDS = 20
"""So deep inside of an error its words are looked for; known ones have them two levels down."""


def provider_error(told: object) -> ProviderError:
    """The error that an event of a stream stands for. told: the event decoded, or its text."""
    return ProviderError(words_of(told), status=_status(_innermost(told)) or _status(told))


def words_of(told: object) -> str:
    """What an error says, in one line."""
    return shortened(_words(_innermost(told)) or _words(told) or "no reason given")


def parsed(text: str) -> Any:
    """The JSON that a text is, or the text."""
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return text.strip()


def tells_an_error(told: object) -> bool:
    """Whether a JSON body is an error: nothing else that providers send has these keys."""
    if not isinstance(told, dict):
        return False
    return bool(told.get("error") or told.get("detail") or told.get("object") == "error" or told.get("type") == "error")


def shortened(words: str) -> str:
    """Fit for a message: one line, not a page, and text that can be encoded."""
    line = str(whole(" ".join(words.split())))
    return line if len(line) <= LONGEST_MESSAGE else line[:LONGEST_MESSAGE] + "…"


def _innermost(told: object) -> object:
    if isinstance(told, list) and len(told) == 1:  # Google writes a list of one
        told = told[0]
    return told["error"] if isinstance(told, dict) and told.get("error") else told


def _words(told: object, levels: int = DEEPEST_WORDS) -> str:
    if isinstance(told, str):
        return told
    if not levels:
        return ""
    if isinstance(told, list):  # of what was wrong with the request
        return "; ".join(filter(None, (_words(each, levels - 1) for each in told)))
    if not isinstance(told, dict):
        return ""
    kinds = [word for key in ("type", "code") if isinstance(word := told.get(key), str) and word]
    kind = next((word for word in kinds if word != "error"), "")  # which says nothing
    keys = ("message", "msg", "detail")
    words = next((found for key in keys if (found := _words(told.get(key), levels - 1))), "")
    return f"{words} ({kind})" if words and kind else words or kind


def _status(told: object) -> int | None:
    for key in ("status_code", "code"):
        code = told.get(key) if isinstance(told, dict) else None
        if isinstance(code, int) and 400 <= code < 600:
            return code
    return None
