"""A stand-in for the model, for where none is to be had. It shows each way in which a call may end."""

from __future__ import annotations

from functools import partial
from itertools import count

import anyio
import msgspec

from streamkit.items import StopReason
from streamkit.parts import InputDelta, InputEnd, InputStart
from streamkit.testing.scripted import ScriptedModel, ScriptPart, stop

WISHES = (
    "Write squares.py: the squares of the numbers up to 60.",
    "Write novel.md: a long novel.",
    "Write a note.",
)
PIECE_CHARACTERS = 4
"""About a token of a real model."""

SQUARES = "SQUARES = {\n" + "".join(f"    {number}: {number**2},\n" for number in range(1, 61)) + "}\n"
NOVEL = "# The Long Way\n\nIt was a long way, and they had only just begun when the words r"


def scripted_model(*, pause_seconds: float = 0.02) -> ScriptedModel:
    """A model that knows the wishes above. pause_seconds: between two pieces of what it writes."""
    ids = map("call_{}".format, count(1))

    def writes(path: str, content: str, reason: StopReason = "tool_calls") -> list[ScriptPart]:
        call_id = next(ids)
        text = msgspec.json.encode({"path": path, "content": content}).decode()
        text = text if reason == "tool_calls" else text[:-2]  # where it is cut, the end is missing
        parts: list[ScriptPart] = [InputStart(None, call_id, "write_file")]
        for start in range(0, len(text), PIECE_CHARACTERS):
            parts += partial(anyio.sleep, pause_seconds), InputDelta(text[start:][:PIECE_CHARACTERS], call_id=call_id)
        return [*parts, *([InputEnd(call_id=call_id)] if reason == "tool_calls" else []), stop(reason)]

    return ScriptedModel(
        writes("squares.py", SQUARES),
        ["The squares are written."],
        writes("novel.md", NOVEL, "length"),
        writes("../note.md", "# A note\n"),
        writes("note.md", "# A note\n"),
        ["The note is written, in the folder this time."],
    )
