"""The signals that end the program. Imports nothing else, so that they are heard before anything is imported."""

from __future__ import annotations

import signal
from types import FrameType

SIGNALS = tuple(
    each
    for each in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
    if each != signal.SIGHUP or signal.getsignal(each) is not signal.SIG_IGN  # `nohup` wants it to be ignored
)


def interrupt_on_signals() -> None:
    """From now on the first of the signals raises KeyboardInterrupt with its number; later ones change nothing."""
    for each in SIGNALS:
        signal.signal(each, _interrupt)


def _interrupt(number: int, _frame: FrameType | None) -> None:
    for each in SIGNALS:
        signal.signal(each, signal.SIG_IGN)
    raise KeyboardInterrupt(number)
