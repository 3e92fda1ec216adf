"""Characters that a server cut in two.

A server that cuts text by UTF-16 units sends `"\\ud83d"` in one event and `"\\ude00"` in the next. Both are JSON, but
neither is text that can be encoded. The halves find each other here; one that stays alone becomes U+FFFD.
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any

import msgspec


class Halves:
    """The first halves that wait for their second, each in a text of its own.

    waiting: by text. While it is not empty, each piece of these texts must come here, however whole it looks.
    """

    def __init__(self) -> None:
        self.waiting: dict[Hashable, str] = {}

    def mend(self, where: Hashable, piece: str) -> str:
        """The next piece of one of the texts, without the half character at its end, which is kept for the next."""
        text = self.waiting.pop(where, "") + piece
        if "\ud800" <= text[-1:] <= "\udbff":
            self.waiting[where] = text[-1]
            text = text[:-1]
        mended: str = whole(text)
        return mended


def whole(value: Any) -> Any:
    """The same value; halves of characters that stand alone in it are U+FFFD now.

    value: of JSON, or of records. What is JSON already (msgspec.Raw) has no halves.
    """
    if isinstance(value, str):
        return _whole_text(value)
    if isinstance(value, list):
        return [whole(item) for item in value]
    if isinstance(value, tuple):
        return tuple(whole(item) for item in value)
    if isinstance(value, dict):
        return {whole(key): whole(item) for key, item in value.items()}
    if isinstance(value, msgspec.Struct):
        fields = {name: whole(getattr(value, name)) for name in value.__struct_fields__}
        return msgspec.structs.replace(value, **fields)
    return value


def _whole_text(text: str) -> str:
    try:
        text.encode()  # mostly it is whole, and this is the cheapest way to see it
    except UnicodeEncodeError:
        return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return text
