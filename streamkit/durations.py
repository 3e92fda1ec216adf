"""Durations as a person or a model reads them."""

from __future__ import annotations


def in_seconds(duration: float) -> str:
    """`1 second`, `0.2 seconds`, `1500 seconds`. duration: in seconds."""
    return f"{duration:g} second{'' if duration == 1 else 's'}"
