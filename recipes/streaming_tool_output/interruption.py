"""Work that ends in order when somebody interrupts it: Ctrl-C, a closed terminal, a `kill`."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from signal import Signals

import anyio
from anyio.abc import TaskStatus

from .signals import SIGNALS, ignore_signals


async def run_interruptibly(work: Callable[[], Awaitable[None]], on_signal: Callable[[Signals], None]) -> None:
    """Run the work; the first signal is told, then cancels it.

    Later signals, and those after the work, change nothing: what is left to do is on its way already, and impatience
    would leave half of it undone.
    """
    async with anyio.create_task_group() as tasks:
        with anyio.CancelScope() as scope:
            await tasks.start(_watch, scope, on_signal)
            await work()
        tasks.cancel_scope.cancel()


async def _watch(
    scope: anyio.CancelScope, on_signal: Callable[[Signals], None], *, task_status: TaskStatus[None]
) -> None:
    try:
        with anyio.open_signal_receiver(*SIGNALS) as signals:
            task_status.started()
            async for received in signals:
                if not scope.cancel_called:
                    on_signal(received)
                    scope.cancel()
    finally:
        ignore_signals()
