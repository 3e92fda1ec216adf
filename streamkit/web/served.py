"""What the routes of all protocols share."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from ..redaction import Redact
from ..wire.seals import Seal
from .claims import Claims
from .guards import Guards
from .hosting import Host

NOT_STORED: Mapping[str, str] = {"cache-control": "no-store"}
"""Of answers that are true now alone: where nothing is said, caches may keep them, a 204 and a 404 too."""


class Served(NamedTuple):
    """The runs of one app, and who may do what with them.

    redact: what is seen instead of arguments and values. claims: what was approved. seal: what clients that hold the
    conversation are asked to approve.
    """

    host: Host
    guards: Guards
    redact: Redact | None
    claims: Claims
    seal: Seal
