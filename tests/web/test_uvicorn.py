"""The same over real sockets: what a server and a kernel do to a stream that is slow, left, or shut down."""

import json
import re
import socket
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

import anyio
import anyio.lowlevel
import httpx2

from streamkit.conversation import Conversation
from streamkit.conversing import converse
from streamkit.flows.flow import Flow, Sink
from streamkit.journal.memory import memory_journal
from streamkit.testing.scripted import ScriptedModel, call
from streamkit.tool_events import RunEvent
from streamkit.tools.decorators import tool
from streamkit.tools.toolkit import Toolkit
from streamkit.web import RunRequest, app

from ..interop.serving import serve

PATIENCE_SECONDS = 60
PIECE = "x" * 1000
KERNEL_BYTES = 64 * 1024 * 1024
"""More than the buffers of two sockets take."""


class Pours:
    """A run whose tool sends so many pieces, and waits where it is told to. sent: until now."""

    def __init__(self, count: int, *, waits: bool = False) -> None:
        self.sent = 0
        self.began = threading.Event()
        self.go_on = threading.Event()
        self.ended = threading.Event()

        @tool
        async def pour(out: Sink[str]) -> str:
            """Send pieces."""
            self.began.set()
            try:
                for _ in range(count):
                    await out.send(PIECE)
                    self.sent += 1
                while waits and not self.go_on.is_set():  # noqa: ASYNC110  # the test sets it, in its own thread
                    await anyio.sleep(0.01)
                return "done"
            finally:
                with anyio.CancelScope(shield=True):
                    await anyio.lowlevel.checkpoint()
                self.ended.set()

        self.toolkit = Toolkit(pour)

    def start(self, run: RunRequest) -> Flow[RunEvent, Conversation]:
        model = ScriptedModel([call("pour")], ["Done."])
        return converse(model, self.toolkit, run.conversation, running=run.running, journal=run.journal)


@contextmanager
def asking(url: str) -> Iterator[socket.socket]:
    """A POST /runs over a socket of which nobody reads more than the test does."""
    host, port = url.removeprefix("http://").split(":")
    body = b'{"message": "Hi"}'
    head = (
        f"POST /runs HTTP/1.1\r\nhost: {host}\r\ncontent-type: application/json\r\ncontent-length: {len(body)}\r\n\r\n"
    )
    with socket.create_connection((host, int(port)), PATIENCE_SECONDS) as client:
        client.sendall(head.encode() + body)
        yield client


def read_until(client: socket.socket, part: bytes) -> bytes:
    data = bytearray()
    while part not in data[-(1 << 16) :]:
        piece = client.recv(1 << 15)
        assert piece, f"{part!r} did not come, but {data[-500:]!r}"
        data += piece
    return bytes(data)


def stands_still(url: str, run: Pours) -> int:
    """How much was sent when nothing more is, however often the server has time for others."""
    sent, rounds = -1, 0
    while rounds < 50:
        rounds = rounds + 1 if sent == run.sent else 0
        sent = run.sent
        assert httpx2.get(f"{url}/runs/nobody", timeout=PATIENCE_SECONDS).status_code == 404
    return sent


def test_a_client_reads_each_event_when_it_comes() -> None:
    run = Pours(3, waits=True)
    with serve(app(run.start)) as url, asking(url) as client:
        data = read_until(client, b"tool-progress")
        assert b"tool-result" not in data
        run.go_on.set()
        data += read_until(client, b'"finish"')
    assert b"\r\ntransfer-encoding: chunked\r\n" in data.lower()


def test_a_client_that_hangs_up_ends_its_run() -> None:
    run = Pours(1, waits=True)
    with serve(app(run.start)) as url:
        with asking(url) as client:
            read_until(client, b"tool-progress")
        assert run.ended.wait(PATIENCE_SECONDS)


def test_a_client_that_does_not_read_slows_the_tool_down_and_may_hang_up() -> None:
    run = Pours(2 * KERNEL_BYTES // len(PIECE))
    with serve(app(run.start)) as url:
        with asking(url) as client:
            assert run.began.wait(PATIENCE_SECONDS)
            assert stands_still(url, run) * len(PIECE) < KERNEL_BYTES
            assert not run.ended.is_set()
            read_until(client, b"tool-progress")
        assert run.ended.wait(PATIENCE_SECONDS)
    assert run.sent * len(PIECE) < 2 * KERNEL_BYTES


def test_a_client_that_reads_on_gets_it_all() -> None:
    run = Pours(20_000)
    with serve(app(run.start)) as url, asking(url) as client:
        assert run.began.wait(PATIENCE_SECONDS)
        stands_still(url, run)
        assert read_until(client, b'"finish"').count(b'"tool-progress"') == 20_000


def test_a_server_that_shuts_down_ends_its_runs_and_their_streams() -> None:
    run = Pours(1, waits=True)
    with ExitStack() as stack:
        with serve(app(run.start)) as url:
            client = stack.enter_context(asking(url))
            read_until(client, b"tool-progress")
        assert run.ended.is_set()
        assert b'"stopped"' in read_until(client, b"0\r\n\r\n")


def test_a_run_that_is_written_down_is_picked_up_over_another_connection() -> None:
    run = Pours(5, waits=True)
    with serve(app(run.start, journal=memory_journal(), resumable=True)) as url:
        with asking(url) as client:
            data = read_until(client, b"tool-progress")
        (run_id,) = re.findall(rb"x-run-id: (.*)\r\n", data)
        target = f"{url}/runs/{run_id.decode()}/stream"
        assert not run.ended.is_set()
        run.go_on.set()
        whole = httpx2.get(target, timeout=PATIENCE_SECONDS)
        frames = whole.text.split("\n\n")[:-1]
        assert [frame.split("\n")[0] for frame in frames] == [f"id: {number + 1}" for number in range(len(frames))]
        assert json.loads(frames[-1].split("data: ")[1])["type"] == "finish"
        after = {"last-event-id": str(len(frames))}
        assert httpx2.get(target, headers=after, timeout=PATIENCE_SECONDS).status_code == 204
