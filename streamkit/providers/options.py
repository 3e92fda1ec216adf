"""What every model behind HTTP can be told about its connection."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypedDict


class HttpOptions(TypedDict, total=False):
    """The keyword arguments that every factory of a model passes on to its connection."""

    headers: Mapping[str, str]
    """Added to each request, over those of the dialect."""
    connect_timeout_seconds: float
    """Until the server is reached; default 10."""
    idle_timeout_seconds: float
    """The longest silence of the provider, the one before its first word too; default 300."""
