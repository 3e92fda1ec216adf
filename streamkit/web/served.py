"""What the routes of all protocols share."""

from __future__ import annotations

from typing import NamedTuple

from ..redaction import Redact
from ..wire.seals import Seal
from .claims import Claims
from .guards import Guards
from .hosting import Host


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
