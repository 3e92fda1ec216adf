"""A server as a child process: what it says on stderr."""

import io
import os
import sys

import anyio
import pytest

from streamkit.errors import McpServerError
from streamkit.mcp import Connection
from streamkit.testing.leftovers import nothing_left

from ..calling import GUARD_SECONDS
from .servers import child


async def test_the_last_words_of_a_server_come_where_errors_go_when_it_is_closed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    connection = Connection(child("dying"))
    monkeypatch.setattr(sys, "stderr", stderr := io.StringIO())
    with anyio.fail_after(GUARD_SECONDS):
        async with nothing_left(), connection:
            with pytest.raises(McpServerError, match="lost"):
                await connection.call("die", {})
    assert stderr.getvalue() == "first\nlast w\N{REPLACEMENT CHARACTER}rds"


async def test_a_stderr_that_takes_nothing_harms_no_call(monkeypatch: pytest.MonkeyPatch) -> None:
    for stderr in (None, closed := io.StringIO()):
        closed.close()
        monkeypatch.setattr(sys, "stderr", stderr)
        with anyio.fail_after(GUARD_SECONDS):
            async with Connection(child("dying")) as connection:
                with pytest.raises(McpServerError, match="lost"):
                    await connection.call("die", {})


async def test_no_descriptor_is_left_open() -> None:
    before = len(os.listdir("/dev/fd"))
    for _ in range(3):
        async with Connection(child("dying")) as connection:
            await connection.toolkit()
    assert len(os.listdir("/dev/fd")) <= before
