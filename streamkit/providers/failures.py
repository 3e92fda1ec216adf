"""What providers say when something failed: the shapes of their errors, and errors of ours made of them.

There is no standard. An error is an object under `error`, or the whole body; its text is `message`, or `detail`, or the
error itself; its `code` is a word, or the HTTP status that the provider would have sent, had it not begun to stream.
MiniMax puts a `base_resp` into every answer, whose `status_code` is 0 where all went well.
"""

from __future__ import annotations

import json
import re
from typing import Any

from ..codec.surrogates import whole
from ..errors import ProviderError

LONGEST_MESSAGE = 1000
_KEYS_OF_ERRORS = ("error", "errors", "detail", "error_message", "error_msg", "error_code")
_NAME_OF_ERROR = re.compile(r"(?i)(error|exception)$")
DEEPEST_WORDS = 20
"""So deep inside of an error its words are looked for; known ones have them two levels down."""


def provider_error(told: object) -> ProviderError:
    """The error that an event of a stream stands for. told: the event decoded, or its text."""
    return ProviderError(words_of(told), status=_status(_innermost(told)) or _status(told))


def words_of(told: object) -> str:
    """What an error says, in one line; where it has no words, what there is of it."""
    return shortened(_words(_innermost(told)) or _words(told) or _written(told) or "no reason given")


def parsed(text: str) -> Any:
    """The JSON that a text is, or the text."""
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return text.strip()


def tells_an_error(told: object) -> bool:
    """Whether a JSON body is an error: nothing else that providers send has these keys, or is of such a kind."""
    told = _single(told)
    if not isinstance(told, dict):
        return False
    kinds = [kind for kind in (told.get("type"), told.get("object")) if kind]
    if any(isinstance(kind, str) and _NAME_OF_ERROR.search(kind) for kind in kinds):
        return True
    if not kinds and any(isinstance(words := told.get(key), str) and words for key in ("message", "msg")):
        return True  # of gateways, and all that they say
    is_told = any(map(told.get, _KEYS_OF_ERRORS)) or tells_a_fault(told.get("base_resp"))
    return bool(is_told or told.get("status") == "error" or _exception_in(told))


def tells_a_fault(base: object) -> bool:
    """Whether the `base_resp` of MiniMax says that something went wrong."""
    return isinstance(base, dict) and bool(base.get("status_code"))


def shortened(words: str) -> str:
    """Fit for a message: one line, not a page, and text that can be encoded."""
    line = str(whole(" ".join(words.split())))
    return line if len(line) <= LONGEST_MESSAGE else line[:LONGEST_MESSAGE] + "…"


def _single(told: object) -> object:
    return told[0] if isinstance(told, list) and len(told) == 1 else told  # Google writes a list of one


def _exception_in(told: dict[str, Any]) -> str | None:
    """The field that an event of AWS has its exception in."""
    return next((key for key in told if key.endswith("Exception")), None)


def _innermost(told: object) -> object:
    told = _single(told)
    if not isinstance(told, dict):
        return told
    keys = ("error", "errors", _exception_in(told) or "", "base_resp")
    return next((inner for inner in map(told.get, keys) if inner), told)


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
    keys = ("message", "msg", "detail", "error_message", "error_msg", "status_msg")
    words = next((found for key in keys if (found := _words(told.get(key), levels - 1))), "")
    return f"{words} ({kind})" if words and kind else words or kind


def _written(told: object) -> str:
    try:
        return json.dumps(told, ensure_ascii=False) if told else ""
    except RecursionError:
        return ""


def _status(told: object) -> int | None:
    for key in ("status_code", "code", "status"):
        code = told.get(key) if isinstance(told, dict) else None
        if isinstance(code, int | str) and re.fullmatch(r"[45]\d\d", str(code)):
            return int(code)
    return None
