"""How long a turn waits for its provider, and when it is asked again.

The back-off is our own: `stamina` would sleep where the limit of the turn does not reach, carries every cancellation
through a future, and costs each turn that goes well a tenth of a millisecond.
"""

from __future__ import annotations

import math
import random
import re
from collections.abc import Awaitable, Sequence
from time import monotonic
from typing import TypeVar

import anyio

from ..durations import in_seconds
from ..errors import (
    BadModelOutput,
    ConnectionFailed,
    IdleTimeout,
    IncompleteStream,
    ModelError,
    ProviderError,
    TurnTimeout,
)
from ..parts import Part

T = TypeVar("T")

PASSING_STATUSES = frozenset({408, 409, 429, 500, 502, 503, 504, 529})
"""What is wrong may be right soon: timeouts, conflicts, limits of rate, a server that is overloaded or down."""
LONGEST_RETRY_AFTER_SECONDS = 60.0
"""A provider that wants to be left alone for longer is asked again after this time all the same."""
FIRST_WAIT_SECONDS = 0.5
LONGEST_WAIT_SECONDS = 8.0

_SOUNDS_PASSING = re.compile(
    r"overload|rate.?limit|unavailable|server.?error|api_error|timeout_error|try again", re.IGNORECASE
)
"""How the errors are called that come with status 200, since the stream had begun."""
_IS_SPENT = re.compile(r"insufficient_quota|billing", re.IGNORECASE)
"""These come with 429, and do not pass."""


def seconds_to_wait(error: ModelError, failures: int, *, has_shown: bool, restart: bool) -> float | None:
    """How long to wait before a turn that failed with this error is asked for again; None where it is not.

    failures: of this turn, this one included. has_shown: something of the turn was seen. A silence is no reason to ask
    again by itself: whoever waits has waited for long already.
    """
    if has_shown and not restart:
        return None
    if not (_may_pass(error) or (restart and isinstance(error, IdleTimeout | BadModelOutput))):
        return None
    if error.retry_after is not None:
        return min(error.retry_after, LONGEST_RETRY_AFTER_SECONDS)
    longest = min(FIRST_WAIT_SECONDS * 2.0 ** (failures - 1), LONGEST_WAIT_SECONDS)
    return longest * random.uniform(0.5, 1)  # so that who failed together does not come back together


def _may_pass(error: ModelError) -> bool:
    if isinstance(error, ConnectionFailed | IncompleteStream):
        return True
    if not isinstance(error, ProviderError) or _IS_SPENT.search(str(error)):
        return False
    if error.status in (None, 200):
        return bool(_SOUNDS_PASSING.search(str(error)))
    return error.status in PASSING_STATUSES


class Patience:
    """The time limits of one turn. They count our waiting for the provider alone, so a slow consumer is no silence.

    host: for the messages. hears_silence: the connection itself gives up after idle_seconds without a byte, as those of
    httpx2 do. Then a piece is waited for without a scope, which would cost more than to read it, as long as what comes
    says something, and the turn has no limit. left: seconds, of the whole turn.
    """

    def __init__(self, host: str, idle_seconds: float, total_seconds: float, *, hears_silence: bool) -> None:
        self.left = total_seconds
        self._host = host
        self._idle_seconds = idle_seconds
        self._total_seconds = total_seconds
        self._always_watches = math.isfinite(total_seconds) or not hears_silence
        self._watches = True
        self._silent = 0.0  # for so long nothing came that says something
        self._began = 0.0

    async def wait(self, coming: Awaitable[T]) -> T:
        """What is coming. Raises IdleTimeout or TurnTimeout where it takes too long."""
        idle_left = self._idle_seconds - self._silent
        is_last = self.left <= idle_left
        began = anyio.current_time()
        try:
            with anyio.move_on_after(min(idle_left, self.left)):
                return await coming
        finally:
            passed = anyio.current_time() - began
            self._silent += passed
            self.left -= passed
        if is_last:
            raise TurnTimeout(f"the turn took longer than {in_seconds(self._total_seconds)}")
        raise IdleTimeout(silence(self._host, self._idle_seconds))

    def wait_for_piece(self, coming: Awaitable[T]) -> Awaitable[T]:
        """The same for a piece of the answer, of which `heard` is told then."""
        if self._watches:
            return self.wait(coming)
        self._began = monotonic()
        return coming

    def heard(self, parts: Sequence[Part]) -> None:
        """What the piece said. Comments and pings are no sign of life."""
        if parts:
            self._silent = 0.0
            self._watches = self._always_watches
        elif not self._watches:
            self._silent = monotonic() - self._began
            self._watches = True

    async def sleep(self, seconds: float) -> None:
        """Wait before another try, which is given all patience again."""
        await anyio.sleep(seconds)
        self.left -= seconds
        self._silent = 0.0
        self._watches = True


def silence(host: str, seconds: float) -> str:
    """What is said where a provider says nothing."""
    return f"{host} sent nothing of the turn for {in_seconds(seconds)}"
