"""What must be at rest while the process forks.

A child gets a copy of our memory, but neither our threads nor our locks on files. SQLite would take the copy of an open
connection, and of what it remembers of the file's locks, for its own, and damage the file ("How To Corrupt An SQLite
Database File", 2.7). So connections are closed before a fork, and opened again by whoever needs them: the parent and
the child.
"""

from __future__ import annotations

import os
import threading
import weakref
from typing import ClassVar


class Guarded:
    """Something that is at rest while the process forks: its `lock` is held then.

    order: those with the lowest are laid to rest first. Whoever holds the lock of one may ask only for those of higher
    order.
    """

    order: ClassVar[int] = 0

    def __init__(self) -> None:
        self.lock = threading.Lock()
        with _registering:
            _guarded.add(self)

    def before_fork(self) -> None:
        """Let go of what must not be carried over."""

    def after_fork_in_child(self) -> None:
        """Forget what only the parent has."""


_registering = threading.Lock()
_guarded: weakref.WeakSet[Guarded] = weakref.WeakSet()
_resting: list[Guarded] = []  # while the process forks


def _rest() -> None:
    _registering.acquire()
    _resting.extend(sorted(_guarded, key=lambda guarded: guarded.order))
    for guarded in _resting:
        guarded.lock.acquire()
        guarded.before_fork()


def _go_on() -> None:
    for guarded in _resting:
        guarded.lock.release()
    _resting.clear()
    _registering.release()


def _go_on_in_child() -> None:
    for guarded in _resting:
        guarded.after_fork_in_child()
    _go_on()


if hasattr(os, "register_at_fork"):  # not where nothing forks
    os.register_at_fork(before=_rest, after_in_parent=_go_on, after_in_child=_go_on_in_child)
