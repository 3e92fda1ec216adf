"""An SqliteStore in a process of its own: `python sqlite_child.py PATH` reads requests and writes answers, one a line.

Requests run side by side. An answer is what the request gave, or the class and the message of what it raised. At the
end of its input the process ends.
"""

import os
import resource
import sys

import anyio
import anyio.to_thread
import msgspec

from streamkit.errors import JournalError
from streamkit.journal.entry import decode, encode
from streamkit.journal.sqlite import SqliteStore


class Request(msgspec.Struct):
    number: int
    do: str
    run_id: str = ""
    after: int = 0
    limit: int = 1000
    shown: bool = True
    durable: bool = True
    entries: tuple[str, ...] = ()


class Answer(msgspec.Struct):
    number: int
    result: bool | int | list[tuple[int, str]] | None = None
    error: tuple[str, str] | None = None


class Child:
    def __init__(self, path: str) -> None:
        self.store = SqliteStore(path)
        self.releases: dict[int, anyio.Event] = {}

    async def answer(self, request: Request) -> None:
        if request.do == "release":  # answered by the request that holds, which has the same number
            self.releases.pop(request.number).set()
            return
        try:
            reply(Answer(request.number, await self.do(request)))
        except JournalError as error:
            reply(Answer(request.number, error=(type(error).__name__, str(error))))

    async def do(self, request: Request) -> bool | int | list[tuple[int, str]] | None:
        run_id = request.run_id
        match request.do:
            case "append":
                entries = [decode(entry) for entry in request.entries]
                return await self.store.append(run_id, entries, durable=request.durable)
            case "read":
                found = await self.store.read(run_id, request.after, limit=request.limit, shown=request.shown)
                return [(numbered.number, encode(numbered.entry).decode()) for numbered in found]
            case "last":
                return await self.store.last(run_id)
            case "wait":
                await self.store.wait(run_id, request.after)
            case "is_held":
                return await self.store.is_held(run_id)
            case "hold":
                async with self.store.hold(run_id):
                    reply(Answer(request.number))
                    self.releases[request.number] = anyio.Event()
                    await self.releases[request.number].wait()
            case "limit_file_size":
                resource.setrlimit(resource.RLIMIT_FSIZE, (request.limit, resource.RLIM_INFINITY))
            case "become_nobody" if os.geteuid() == 0:  # root may write everywhere
                os.setuid(65534)
        return None


def reply(answer: Answer) -> None:
    os.write(1, msgspec.json.encode(answer) + b"\n")


async def main(path: str) -> None:
    child = Child(path)
    async with anyio.create_task_group() as tasks:
        while line := await anyio.to_thread.run_sync(sys.stdin.buffer.readline):
            tasks.start_soon(child.answer, msgspec.json.decode(line, type=Request))
        tasks.cancel_scope.cancel()


if __name__ == "__main__":
    anyio.run(main, sys.argv[1])
