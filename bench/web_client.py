"""A client in a process of its own, so that its work does not count: `python -m bench.web_client PORT`.

A line of its input is a command: `read PATH` reads a stream to its end, `hold COUNT PATH` opens so many and reads their
beginning, `drop` closes them, `late PATH` reads one whose events say when they were sent. It answers each with a line.
"""

from __future__ import annotations

import re
import socket
import sys
import time
from statistics import median

END = b"0\r\n\r\n"
SENT_AT = re.compile(rb'"at":([0-9.]+)')


class Client:
    def __init__(self, port: int) -> None:
        self._port = port
        self._held: list[socket.socket] = []

    def do(self, command: str) -> object:
        match command.split():
            case ["read", path]:
                return self.read(path)
            case ["hold", count, path]:
                return self.hold(int(count), path)
            case ["drop"]:
                return self.drop()
            case ["late", path]:
                return self.late(path)
        raise ValueError(command)

    def read(self, path: str) -> int:
        """The number of bytes."""
        count, tail = 0, b""
        with self._ask(path) as stream:
            while not tail.endswith(END):
                data = stream.recv(1 << 20)
                count += len(data)
                tail = (tail + data)[-len(END) :]
        return count

    def hold(self, count: int, path: str) -> int:
        for _ in range(count):
            self._held.append(self._ask(path))
        for stream in self._held:
            while b"data: " not in stream.recv(1 << 16):
                """The head comes alone, maybe."""
        return count

    def drop(self) -> int:
        for stream in self._held:
            stream.close()
        self._held.clear()
        return 0

    def late(self, path: str) -> float:
        """Microseconds from the event to here, the median."""
        seconds = []
        with self._ask(path) as stream:
            while data := stream.recv(1 << 16):
                now = time.monotonic()
                seconds += [now - float(sent_at) for sent_at in SENT_AT.findall(data)]
                if data.endswith(END):
                    break
        return 1e6 * median(seconds)

    def _ask(self, path: str) -> socket.socket:
        stream = socket.create_connection(("127.0.0.1", self._port))
        stream.sendall(f"GET {path} HTTP/1.1\r\nhost: localhost\r\n\r\n".encode())
        return stream


def main() -> None:
    client = Client(int(sys.argv[1]))
    for line in sys.stdin:
        print(client.do(line), flush=True)


if __name__ == "__main__":
    main()
