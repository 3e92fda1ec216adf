"""A stand-in for the model, for where none is to be had: a book that fits, one that is mended, two that are none."""

from __future__ import annotations

from functools import partial
from typing import Any

import anyio
import msgspec

from streamkit import RefusalDelta
from streamkit.testing import ScriptedModel, stop
from streamkit.testing.scripted import ScriptPart

TITLES = ("Frankenstein by Mary Shelley", "The Hobbit by J. R. R. Tolkien", "my neighbour's diary", "War and Peace")
PIECE_CHARACTERS = 4
"""About a token of a real model."""

FRANKENSTEIN: dict[str, Any] = {
    "title": "Frankenstein",
    "author": {"name": "Mary Shelley", "born": 1797},
    "published": 1818,
    "genre": "novel",
    "characters": ["Victor Frankenstein", "the creature"],
    "about": "A student gives life to a creature, and then leaves it alone.",
}
HOBBIT: dict[str, Any] = {
    "title": "The Hobbit",
    "author": {"name": "J. R. R. Tolkien", "born": 1892},
    "published": 1937,
    "genre": "novel",
    "characters": ["Bilbo Baggins", "Gandalf"],
    "about": "A hobbit who loves his home goes on a journey to a dragon.",
}
WAR_AND_PEACE = '{\n  "title": "War and Peace",\n  "author": {\n    "name": "Leo Tols'


def scripted_model(*, pause_seconds: float = 0.02) -> ScriptedModel:
    """A model that knows the titles above. pause_seconds: between two pieces of what it writes."""

    def says(value: dict[str, Any] | str) -> list[ScriptPart]:
        text = value if isinstance(value, str) else msgspec.json.format(msgspec.json.encode(value)).decode()
        pieces = [text[start : start + PIECE_CHARACTERS] for start in range(0, len(text), PIECE_CHARACTERS)]
        return [part for piece in pieces for part in (partial(anyio.sleep, pause_seconds), piece)]

    return ScriptedModel(
        says(FRANKENSTEIN),
        says({**HOBBIT, "characters": ["Bilbo Baggins", "Bilbo Baggins"]}),
        says(HOBBIT),
        [RefusalDelta("A diary is nobody's business.")],
        [*says(WAR_AND_PEACE), stop("length")],
    )
