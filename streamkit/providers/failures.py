"""What providers say when something failed: the shapes of their errors, and errors of ours made of them.

There is no standard. An error is an object under `error`, or the whole body; its text is `message`, or `detail`, or the
error itself; its `code` is a word, or the HTTP status that the provider would have sent, had it not begun to stream.
"""

from __future__ import annotations

import json
from typing import Any

from ..errors import ProviderError

LONGEST_MESSAGE = 1000


def provider_error(told: object, *, status: int | None = None) -> ProviderError:
    """The error that a provider's words stand for. told: a decoded body or event, or its text."""
    error = told
    if isinstance(told, dict) and told.get("error"):
        error = told["error"]
    words = _words(error) or _words(told) or "no reason given"
    return ProviderError(shortened(words), status=_status(error) or _status(told) or status)


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
    """Fit for a message: one line, and not a page."""
    line = " ".join(words.split())
    return line if len(line) <= LONGEST_MESSAGE else line[:LONGEST_MESSAGE] + "…"


def _words(told: object) -> str:
    if isinstance(told, str):
        return told
    if isinstance(told, list):  # of what was wrong with the request
        return "; ".join(filter(None, map(_words, told)))
    if not isinstance(told, dict):
        return ""
    kind = next((word for key in ("type", "code") if isinstance(word := told.get(key), str) and word), "")
    words = next((found for key in ("message", "msg", "detail") if (found := _words(told.get(key)))), "")
    return f"{words} ({kind})" if words and kind and kind != "error" else words or kind


def _status(told: object) -> int | None:
    code = (
        next((told.get(key) for key in ("status_code", "code") if told.get(key)), None)
        if isinstance(told, dict)
        else None
    )
    return code if isinstance(code, int) and 400 <= code < 600 else None
