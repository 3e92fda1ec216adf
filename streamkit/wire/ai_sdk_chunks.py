"""What the chunks of an AI SDK UI message stream are made of."""

from __future__ import annotations

from typing import Any

from .encoding import frame, json_of

DONE = b"data: [DONE]\n\n"
DELTA_END = b"}\n\n"


def chunk(kind: str, /, **fields: Any) -> bytes:
    """One chunk, as the event that it is on the wire."""
    return frame({"type": kind, **fields})


def delta_head(kind: str, *, field: str, **fields: str) -> bytes:
    """A chunk up to its last field: what comes is the text of that field as JSON, and DELTA_END."""
    return b"data: " + json_of({"type": kind, **fields, field: ""}).removesuffix(b'""}')


def own_metadata(**fields: Any) -> dict[str, Any]:
    """What rides on a part for us alone: under our name, so that it meets nobody else's."""
    return {"streamkit": fields}


def tool_part(name: str, *, dynamic: bool) -> dict[str, Any]:
    """What tells a part of the message that is a call of a tool from others."""
    return {"type": "dynamic-tool", "toolName": name} if dynamic else {"type": f"tool-{name}"}


def kept_part(kept: str) -> dict[str, Any]:
    """The part in which a client keeps the turn that its step was, see `kept_turns`; as a chunk it is the same."""
    return {"type": "custom", "kind": "streamkit.turn", "providerMetadata": own_metadata(turn=kept)}
