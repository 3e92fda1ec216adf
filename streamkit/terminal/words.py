"""What others wrote, made harmless: in a terminal it can be read, and does nothing else."""

from __future__ import annotations

import re
from typing import Any

import msgspec

from ..tool_events import Failure, Pending, ToolResult, Value
from ..turns import ToolInputAbandoned, Turn

TITLE_CHARACTERS = 60

REPLACEMENT = "\N{REPLACEMENT CHARACTER}"

# Controls, halves of characters, what turns the direction of text around, and what takes no room and so hides. Not the
# joiners of emoji and of Persian words. Source: Unicode, categories Cc, Cf, Cs, Zl and Zp.
_STEERING = re.compile(
    r"[\x00-\x09\x0b-\x1f\x7f-\x9f\xad\u061c\u180e\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f\ud800-\udfff\ufeff"
    r"\ufff9-\ufffb\U000e0000-\U000e007f]"
)
_KEPT = {"\t": "    "}


def visible(text: str) -> str:
    """Text of a model or a tool, without what would steer a terminal, hide something, or cannot be encoded.

    Lines stay lines, a tab becomes spaces, everything else of that kind a replacement character.
    """
    if text.isprintable():
        return text
    return _STEERING.sub(lambda found: _KEPT.get(found[0], REPLACEMENT), text.replace("\r\n", "\n"))


def on_one_line(text: str, limit: int | None = None) -> str:
    """The same with every gap as one space; behind the limit it is cut, and no more of it is looked at."""
    if limit is None or len(text) <= limit:
        return " ".join(visible(text).split())
    return f"{' '.join(visible(text[:limit]).split())}…"


def shown(data: Any) -> str:
    """Anything that a tool has sent, as text: JSON, where it is none itself."""
    if isinstance(data, str):
        return data
    try:
        return msgspec.json.encode(data, enc_hook=repr).decode()
    except Exception:  # half a character, an object in itself, a key that is no text
        pass
    try:
        return repr(data)
    except Exception:
        return object.__repr__(data)


def titled(tool: str, arguments: Any) -> str:
    """A call in a few words, to tell it from others of the same tool."""
    values = map(shown, arguments.values()) if isinstance(arguments, dict) else ()
    said = " ".join(value for value in values if len(value) <= TITLE_CHARACTERS)
    return on_one_line(f"{tool} {said}", TITLE_CHARACTERS)


def outcome(result: ToolResult) -> tuple[str, str]:
    """What became of a call, and what the model reads of it."""
    match result:
        case Value(text=text):
            return "model gets", text
        case Failure(kind=kind, message=message):
            return kind.replace("_", " "), message
        case Pending():
            return "model gets", "nothing yet"


def why_cut(turn: Turn) -> str:
    """What to say behind a turn that did not come to its own end, or said nothing; mostly nothing."""
    if turn.stop_reason in ("stop", "tool_calls", "refusal"):
        return "" if turn.items or turn.refusal else "the model said nothing"
    return "cut at its token limit" if turn.stop_reason == "length" else f"ended: {on_one_line(turn.stop_reason)}"


def why_dropped(event: ToolInputAbandoned) -> str:
    return f"{event.reason}: {event.detail}" if event.detail else event.reason
