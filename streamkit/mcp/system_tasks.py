"""Tasks that belong to the event loop.

A connection holds task groups of the SDK, and such a group has to be left in the task that entered it. But whoever
closes a connection may be another than who opened it: a web server that shuts down, a call that was interrupted. So the
connection lives in a task of its own, which no task group of its users can own: that would tie it to their blocks.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Coroutine
from contextvars import copy_context
from typing import Any

_running: set[Any] = set()
"""An event loop of asyncio holds its tasks only weakly."""


def start_system_task(function: Callable[[], Coroutine[Any, Any, None]], name: str) -> None:
    """Run the function in a task that the event loop cancels when it ends. It must not raise."""
    asyncio = sys.modules.get("asyncio")  # anyio has no such tasks, so each backend is asked for its own
    if asyncio is not None and asyncio._get_running_loop() is not None:
        task = asyncio.get_running_loop().create_task(function(), name=name)
        _running.add(task)
        task.add_done_callback(_running.discard)
    else:
        import trio  # noqa: PLC0415  # only where it runs already

        trio.lowlevel.spawn_system_task(function, name=name, context=copy_context())
