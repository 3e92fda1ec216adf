"""What the chunks of an AI SDK UI message stream are made of."""

from __future__ import annotations

from typing import Any

from .encoding import frame, json_of

DONE = b"data: [DONE]\n\n"
DELTA_END = b"}\n\n"


def chunk(kind: str, **fields: Any) -> bytes:
    """One chunk, as the event that it is on the wire."""
    return frame({"type": kind, **fields})


def delta_head(kind: str, *, field: str, **fields: str) -> bytes:
    """A chunk up to its last field: what comes is the text of that field as JSON, and DELTA_END."""
    return b"data: " + json_of({"type": kind, **fields, field: ""}).removesuffix(b'""}')


def own_metadata(**fields: Any) -> dict[str, Any]:
    """What rides on a part for us alone: under our name, so that it meets nobody else's."""
    return {"streamkit": fields}
