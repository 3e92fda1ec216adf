"""A server as a child process, whose last words are heard.

What it says on stderr goes, line by line, where the errors of this program go. Given our own descriptor, as the SDK
does it, it would write into the middle of what stands in a terminal, and past whatever a program has put in the place
of `sys.stderr`.
"""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from typing import Any

import anyio

from ..flows.groups import LoneErrorGroup
from ..flows.threads import run_in_thread
from .lines import ENCODING
from .sdk import StdioServerParameters, stdio_client
from .unreadable import Readable, mended

_LINE_BYTES = 64 * 1024
"""A longer line goes out in pieces."""

_LAST_WORDS_SECONDS = 0.5
"""A process that the server has left behind may hold on to its stderr."""


@asynccontextmanager
async def spawned(server: StdioServerParameters) -> AsyncIterator[Any]:
    """A transport to the server, whose process runs as long as the block."""
    reading, writing = os.pipe()
    async with LoneErrorGroup() as tasks:
        tasks.start_soon(partial(run_in_thread, partial(_pass_on, reading), name="MCP stderr"))
        with os.fdopen(writing, "w", encoding="utf-8") as stderr:
            async with stdio_client(_forgiving(server), errlog=stderr) as (read, write):
                stderr.close()  # it is the server's alone now, and ends with it
                yield Readable(read, mended), write
        tasks.cancel_scope.deadline = anyio.current_time() + _LAST_WORDS_SECONDS


def _forgiving(server: StdioServerParameters) -> StdioServerParameters:
    """At a byte that is no UTF-8 the SDK stops to read, and nobody hears of it: it becomes a replacement character.

    And what it reads comes to it in whole lines (see `lines`).
    """
    ours = {"encoding_error_handler": "replace", "encoding": ENCODING}
    given = server.model_fields_set
    return server.model_copy(update={name: value for name, value in ours.items() if name not in given})


def _pass_on(reading: int) -> None:
    with open(reading, "rb") as said:
        while line := said.readline(_LINE_BYTES):
            with contextlib.suppress(Exception):  # the server must not wait for what is wrong with our stderr
                sys.stderr.write(line.decode(errors="replace"))
                sys.stderr.flush()
