"""The life of the local server's process: however a block, or our whole process, ends, nothing is left behind."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import AsyncExitStack
from pathlib import Path

import anyio
import anyio.to_thread
import httpx2
import msgspec
import pytest

from streamkit.errors import LocalModelError
from streamkit.local.server import LocalServer, ServerSettings, local_server

GUARD_SECONDS = 60
PROC = Path("/proc")
needs_proc = pytest.mark.skipif(not (PROC / "self/stat").exists(), reason="processes are looked up in /proc")
PARENT = """
import sys

import anyio
import msgspec

from streamkit.local.server import ServerSettings, local_server


async def main():
    settings = msgspec.json.decode(sys.argv[2], type=ServerSettings)
    async with local_server(settings, ready_timeout_seconds=60):
        print("ready", flush=True)
        await anyio.sleep_forever()


anyio.run(main, backend=sys.argv[1])
"""


@pytest.fixture
def settings(weights: Path) -> ServerSettings:
    return ServerSettings(str(weights), chat_template="{{ messages }}", context_tokens=512, api_key="k")


async def test_a_server_answers_on_loopback_and_only_who_has_the_key(settings: ServerSettings) -> None:
    async with (
        local_server(settings, ready_timeout_seconds=GUARD_SECONDS) as server,
        httpx2.AsyncClient(timeout=GUARD_SECONDS, trust_env=False) as client,
    ):
        assert server.address.startswith("http://127.0.0.1:")
        assert (await client.get(server.address + "/props")).status_code == 401
        authorized = await client.get(server.address + "/props", headers={"authorization": "Bearer k"})
        assert authorized.status_code == 200
    assert not is_running(server.process.pid)


async def test_two_servers_have_a_port_each_and_end_with_a_body_that_raises(settings: ServerSettings) -> None:
    servers: list[LocalServer] = []
    with pytest.raises(KeyError):
        async with AsyncExitStack() as stack:
            for _ in range(2):
                starting = local_server(settings, ready_timeout_seconds=GUARD_SECONDS)
                servers.append(await stack.enter_async_context(starting))
            raise KeyError
    assert servers[0].address != servers[1].address
    assert not any(is_running(server.process.pid) for server in servers)


@needs_proc
async def test_a_start_that_is_cancelled_leaves_no_process(settings: ServerSettings) -> None:
    others = children_of(os.getpid())

    async def start() -> None:
        async with local_server(settings, ready_timeout_seconds=GUARD_SECONDS):
            await anyio.sleep_forever()  # where this machine was away while it loaded the weights

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(start)
        await anyio.to_thread.run_sync(until, lambda: any(map(has_weights, children_of(os.getpid()) - others)))
        tasks.cancel_scope.cancel()
    assert children_of(os.getpid()) == others


async def test_a_start_that_fails_says_why(settings: ServerSettings, tmp_path: Path) -> None:
    (tmp_path / "weights.gguf").write_bytes(b"nonsense")
    settings = msgspec.structs.replace(settings, weights=str(tmp_path / "weights.gguf"))
    with pytest.raises(LocalModelError, match=r"(?s)did not start:\n.*failed to load model.*weights\.gguf"):
        async with local_server(settings, ready_timeout_seconds=GUARD_SECONDS):
            pass


@needs_proc
async def test_a_start_that_takes_too_long_is_given_up(settings: ServerSettings) -> None:
    others = children_of(os.getpid())
    with pytest.raises(LocalModelError, match="not ready after 0 seconds"):
        async with local_server(settings, ready_timeout_seconds=0):
            pass
    assert children_of(os.getpid()) == others


async def test_a_server_that_ended_by_itself_is_told_from_one_that_runs(settings: ServerSettings) -> None:
    async with local_server(settings, ready_timeout_seconds=GUARD_SECONDS) as server:
        assert await server.why_ended() is None
        os.kill(server.process.pid, signal.SIGKILL)
        assert await server.why_ended() == "its process ended with code -9"


@needs_proc
@pytest.mark.parametrize("moment", ["while it loads the weights", "when it is ready"])
def test_the_server_ends_with_a_killed_parent(settings: ServerSettings, anyio_backend_name: str, moment: str) -> None:
    command = [sys.executable, "-c", PARENT, anyio_backend_name, msgspec.json.encode(settings).decode()]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as parent:
        assert parent.stdout is not None
        if moment == "when it is ready":
            assert parent.stdout.readline() == b"ready\n"
        else:
            until(lambda: any(map(has_weights, children_of(parent.pid))))
        (server,) = children_of(parent.pid)
        parent.kill()
    until(lambda: not is_running(server))


def until(holds: Callable[[], bool]) -> None:
    """Wait for something that only /proc tells."""
    deadline = time.monotonic() + GUARD_SECONDS
    while not holds():
        assert time.monotonic() < deadline, "it never came"
        time.sleep(0.005)


def children_of(parent: int) -> set[int]:
    found = set()
    for folder in PROC.glob("[0-9]*"):
        state, pid_of_parent = state_and_parent(int(folder.name))
        if pid_of_parent == parent and state not in "ZX":
            found.add(int(folder.name))
    return found


def is_running(pid: int) -> bool:
    return state_and_parent(pid)[0] not in "ZX"  # nobody may be there to reap one whose parent is gone


def state_and_parent(pid: int) -> tuple[str, int]:
    try:
        _, _, rest = (PROC / str(pid) / "stat").read_text().rpartition(")")  # the name before it may hold anything
    except OSError:
        return "X", 0
    state, parent, *_ = rest.split()
    return state, int(parent)


def has_weights(pid: int) -> bool:
    try:
        return ".gguf" in (PROC / str(pid) / "maps").read_text()
    except OSError:
        return False
