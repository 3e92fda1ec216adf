"""The calls of a step that nobody has taken care of yet.

A call that the model has finished must not stay open for ever on somebody's screen. So `loop` notes each that became
available, `execute_all` strikes out each that it takes, and what is left when the step ends is abandoned. The two meet
in a context variable: the step between them is the user's, and may await what it runs instead of forwarding it.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar

from .turns import ToolInputEvent

Hook = Callable[[ToolInputEvent], Awaitable[None]]
Ledger = dict[str, Hook | None]
"""By call id, in the order of arrival: who else wants to hear what becomes of the call."""

_current: ContextVar[Ledger | None] = ContextVar("streamkit_ledger", default=None)


@contextmanager
def new_ledger() -> Iterator[Ledger]:
    """An empty ledger for one step of a loop."""
    ledger: Ledger = {}
    outer = _current.set(ledger)
    try:
        yield ledger
    finally:
        _current.reset(outer)


def hide_ledger() -> None:
    """Called in the task of a tool call: equal ids of an inner run must touch nothing outside."""
    _current.set(None)


def strike_out(call_ids: Iterable[str]) -> None:
    """These calls have been taken."""
    ledger = _current.get()
    if ledger is not None:
        for call_id in call_ids:
            ledger.pop(call_id, None)


def listen_for(call_id: str, hook: Hook) -> None:
    """Let the hook hear it when this call, noted before, is abandoned in the end."""
    ledger = _current.get()
    if ledger is not None and call_id in ledger:
        ledger[call_id] = hook
