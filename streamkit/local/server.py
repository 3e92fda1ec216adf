"""The life of the process that serves the local model: started, waited for, and ended for certain.

However our own process ends, the child ends with it: it watches the stdin that we hold (`child.py`). It is in a session
of its own, so that Ctrl-C in a terminal reaches only us, and we end it in order.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO

import anyio
import msgspec
from anyio.abc import Process
from anyio.streams.buffered import BufferedByteReceiveStream

from ..durations import in_seconds
from ..errors import LocalModelError

CHILD = Path(__file__).with_name("child.py")
END_SECONDS = 5
"""How long a killed process may take to be gone: only one that is stuck in the kernel takes any time."""
LOG_TAIL_BYTES = 1000


class ServerSettings(msgspec.Struct, frozen=True):
    """What the child is told. context_tokens: shared by all turns that are written at the same time."""

    weights: str
    chat_template: str
    context_tokens: int
    api_key: str


@dataclass(frozen=True, eq=False)
class LocalServer:
    """A server that took requests when this was made. address: its URL on loopback, without a path."""

    address: str
    process: Process
    log: IO[bytes]

    async def why_ended(self) -> str | None:
        """How the process ended, with its last words; None while it runs."""
        if self.log.closed:
            return "its block was left"
        with anyio.move_on_after(1):  # a broken connection is seen earlier than the end of the process that broke it
            await self.process.wait()
        if not _has_ended(self.process):
            return None
        return f"its process ended with code {await self.process.wait()}{_last_words(self.log)}"


@asynccontextmanager
async def local_server(settings: ServerSettings, *, ready_timeout_seconds: float) -> AsyncIterator[LocalServer]:
    """A server that takes requests, ended when the block is left. Raises LocalModelError where it does not start."""
    with tempfile.TemporaryFile() as log:
        with anyio.CancelScope(shield=True):  # one that is started, but not handed to us, is nobody's to end
            process = await _start_process(log)
        try:
            address = await _wait_until_ready(process, settings, log, ready_timeout_seconds)
            yield LocalServer(address, process, log)
        finally:
            # It keeps nothing that a gentler end would save.
            with suppress(ProcessLookupError):
                process.kill()
            with anyio.move_on_after(END_SECONDS, shield=True):
                await process.aclose()


async def _start_process(log: IO[bytes]) -> Process:
    return await anyio.open_process(
        [sys.executable, "-P", str(CHILD)],  # -P: our folder must not become a place to import from
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=log,
        start_new_session=True,
    )


async def _wait_until_ready(process: Process, settings: ServerSettings, log: IO[bytes], timeout_seconds: float) -> str:
    assert process.stdin is not None
    assert process.stdout is not None
    try:
        with anyio.fail_after(timeout_seconds):
            with suppress(anyio.BrokenResourceError):  # it has ended already; then its answer ends, too
                await process.stdin.send(msgspec.json.encode(settings) + b"\n")
            answer = await BufferedByteReceiveStream(process.stdout).receive_until(b"\n", LOG_TAIL_BYTES)
    except TimeoutError:
        words = _last_words(log)
        raise LocalModelError(f"the local model was not ready after {in_seconds(timeout_seconds)}{words}") from None
    except anyio.IncompleteRead:
        raise LocalModelError(f"the local model did not start{_last_words(log)}") from None
    address: str = msgspec.json.decode(answer)["address"]
    return address


def _has_ended(process: Process) -> bool:
    """Asks the system: the event loop may not have heard of it yet."""
    if process.returncode is not None:
        return True
    if not hasattr(os, "waitid"):
        return False
    try:
        return os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None
    except ChildProcessError:  # somebody has heard of it
        return True


def _last_words(log: IO[bytes]) -> str:
    """The end of the log, to be put behind a sentence; nothing when the log is empty."""
    size = log.seek(0, 2)
    log.seek(max(0, size - LOG_TAIL_BYTES))
    words = log.read().decode(errors="replace").strip()
    return f":\n{words}" if words else ""
