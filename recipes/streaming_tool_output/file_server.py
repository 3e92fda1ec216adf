"""A file server on loopback: files of made-up content, always the same, sent no faster than a slow network would.

Real HTTP over a real socket, as far as a download needs it: GET, a length, 404, and the checksum of the whole file in
`Repr-Digest`, as RFC 9530 has it.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from functools import partial

import anyio
from anyio.abc import SocketAttribute, SocketStream
from anyio.streams.buffered import BufferedByteReceiveStream

PIECE_BYTES = 64 * 1024
REQUEST_LIMIT_BYTES = 16 * 1024


@asynccontextmanager
async def file_server(files: Mapping[str, int], *, bytes_per_second: float) -> AsyncIterator[str]:
    """A server on a free port; gives its URL, and ends it, in mid-answer too, when the block is left.

    files: how many bytes each has, by its name. bytes_per_second: of one download; several do not slow each other.
    """
    listener = await anyio.create_tcp_listener(local_host="127.0.0.1", local_port=0)
    async with listener, anyio.create_task_group() as tasks:
        tasks.start_soon(listener.serve, partial(_serve, files, bytes_per_second))
        yield f"http://127.0.0.1:{listener.extra(SocketAttribute.local_port)}"
        tasks.cancel_scope.cancel()


def content(name: str, size_bytes: int) -> bytes:
    """What stands in a file: the same bytes for the same name, and hardly to be confused with another's."""
    pattern = hashlib.shake_128(name.encode()).digest(PIECE_BYTES)
    return (pattern * (size_bytes // PIECE_BYTES + 1))[:size_bytes]


def digest_header(sha256: bytes) -> str:
    """The value of `Repr-Digest` for a file with this checksum."""
    return f"sha-256=:{base64.b64encode(sha256).decode()}:"


async def _serve(files: Mapping[str, int], bytes_per_second: float, connection: SocketStream) -> None:
    """One connection, one answer. A client that leaves is no error of ours."""
    async with connection:
        try:
            head = await BufferedByteReceiveStream(connection).receive_until(b"\r\n\r\n", REQUEST_LIMIT_BYTES)
            await _answer(files, bytes_per_second, head.split(b"\r\n")[0].decode("latin-1"), connection)
        except (anyio.BrokenResourceError, anyio.EndOfStream, anyio.IncompleteRead, anyio.DelimiterNotFound):
            pass


async def _answer(files: Mapping[str, int], bytes_per_second: float, request: str, connection: SocketStream) -> None:
    method, _, path = request.rpartition(" ")[0].partition(" ")
    size_bytes = files.get(path.removeprefix("/"))
    if method != "GET" or size_bytes is None:
        status = "405 Method Not Allowed" if method != "GET" else "404 Not Found"
        await connection.send(f"HTTP/1.1 {status}\r\nContent-Length: 0\r\nConnection: close\r\n\r\n".encode())
        return
    whole = content(path.removeprefix("/"), size_bytes)
    digest = digest_header(hashlib.sha256(whole).digest())
    head = f"HTTP/1.1 200 OK\r\nContent-Length: {size_bytes}\r\nRepr-Digest: {digest}\r\nConnection: close\r\n\r\n"
    await connection.send(head.encode())
    for start in range(0, size_bytes, PIECE_BYTES):
        await connection.send(whole[start : start + PIECE_BYTES])
        await anyio.sleep(PIECE_BYTES / bytes_per_second)  # also after a while in which the machine stood still
