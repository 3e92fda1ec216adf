"""A real server on loopback in a thread of its own, and scripts of Node.js that speak with it."""

from __future__ import annotations

import json
import socket
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import uvicorn

from .parts import FOLDER, NODE

KEEP_ALIVE_SECONDS = 600
"""Longer than any test: else a client may ask on a connection that is closed just then."""


@contextmanager
def serve(app: Any) -> Iterator[str]:
    """The base URL of an ASGI app under uvicorn, its lifespan included; on leaving, open connections are cut off."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        listening.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)  # as on those that uvicorn makes
        server = _Server(
            uvicorn.Config(
                app,
                loop="asyncio",
                http="h11",
                ws="none",
                log_level="warning",
                timeout_graceful_shutdown=1,
                timeout_keep_alive=KEEP_ALIVE_SECONDS,
            )
        )
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listening]}, daemon=True)
        thread.start()
        server.begun.wait()
        try:
            assert server.started, "the app did not start; its log says why"
            yield f"http://127.0.0.1:{listening.getsockname()[1]}"
        finally:
            server.should_exit = True
            thread.join()


def run_node(script: str, *arguments: str, timeout_seconds: float = 200) -> Any:
    """What a script of this folder prints, which is JSON. One that fails, or takes too long, fails the test."""
    assert NODE is not None, "a test that runs a script has the mark needs_node"
    command = [NODE, str(FOLDER / script), *arguments]
    ended = subprocess.run(  # kills the script when its time is over
        command, cwd=FOLDER, capture_output=True, text=True, encoding="utf-8", timeout=timeout_seconds, check=False
    )
    assert ended.returncode == 0, (
        f"{script} ended with {ended.returncode}:\n{ended.stdout[-2000:]}{ended.stderr[-8000:]}"
    )
    return json.loads(ended.stdout)


class _Server(uvicorn.Server):
    """begun: set when it listens, or has failed to."""

    def __init__(self, config: uvicorn.Config) -> None:
        super().__init__(config)
        self.begun = threading.Event()

    def run(self, sockets: list[socket.socket] | None = None) -> None:
        try:
            super().run(sockets)
        finally:
            self.begun.set()

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        self.begun.set()
