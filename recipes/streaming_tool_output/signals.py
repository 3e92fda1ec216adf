"""The signals that end the program. Imports next to nothing, so that they are heard before all else is imported."""

from __future__ import annotations

import os
import signal
from types import FrameType

SIGNALS = tuple(
    each
    for each in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
    if each != signal.SIGHUP or signal.getsignal(each) is not signal.SIG_IGN  # `nohup` wants it to be ignored
)


def end_on_signals() -> None:
    """From now on, and until somebody else listens to them, each of the signals ends the program at once.

    For the time in which there is nothing to clean up. No KeyboardInterrupt: that may come up inside the import
    system, where it is lost.
    """
    for each in SIGNALS:
        signal.signal(each, _end)


def ignore_signals() -> None:
    """From now on none of them changes anything: the program is on its way out already."""
    for each in SIGNALS:
        signal.signal(each, signal.SIG_IGN)


def _end(number: int, _frame: FrameType | None) -> None:
    os.write(2, b"\ncancelled before it began\n")
    os._exit(128 + number)
