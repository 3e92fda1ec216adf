"""`child_store`: a store of a journal that is in another process."""

import itertools
import sys
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import anyio.abc
import anyio.streams.buffered
import msgspec

from streamkit import errors
from streamkit.journal.entry import Entry, Numbered, decode, encode
from streamkit.journal.store import PAGE

from .sqlite_child import Answer, Request


class ChildStore:
    """Passes everything on to the other process."""

    def __init__(self, process: anyio.abc.Process) -> None:
        self.process = process
        self._numbers = itertools.count(1)
        self._sending = anyio.Lock()
        self._waiting: dict[int, tuple[anyio.Event, list[Answer]]] = {}

    async def append(self, run_id: str, entries: Sequence[Entry], *, durable: bool) -> int:
        written = tuple(encode(entry).decode() for entry in entries)
        number: int = await self.ask("append", run_id=run_id, entries=written, durable=durable)
        return number

    async def read(self, run_id: str, after: int = 0, *, limit: int = PAGE, shown: bool = True) -> Sequence[Numbered]:
        found = await self.ask("read", run_id=run_id, after=after, limit=limit, shown=shown)
        return [Numbered(number, decode(entry)) for number, entry in found]

    async def last(self, run_id: str) -> int:
        number: int = await self.ask("last", run_id=run_id)
        return number

    async def wait(self, run_id: str, after: int) -> None:
        await self.ask("wait", run_id=run_id, after=after)

    @asynccontextmanager
    async def hold(self, run_id: str) -> AsyncIterator[None]:
        number = next(self._numbers)
        await self.ask("hold", number, run_id=run_id)
        try:
            yield
        finally:
            with anyio.CancelScope(shield=True):
                await self.ask("release", number)

    async def is_held(self, run_id: str) -> bool:
        return bool(await self.ask("is_held", run_id=run_id))

    async def ask(self, do: str, number: int | None = None, **fields: Any) -> Any:
        number = number or next(self._numbers)
        came, answers = self._waiting[number] = anyio.Event(), []
        assert self.process.stdin is not None
        async with self._sending:
            await self.process.stdin.send(msgspec.json.encode(Request(number, do, **fields)) + b"\n")
        await came.wait()
        answer: Answer = answers[0]
        if answer.error is not None:
            kind, message = answer.error
            raise getattr(errors, kind)(message)
        return answer.result

    async def listen(self) -> None:
        assert self.process.stdout is not None
        lines = anyio.streams.buffered.BufferedByteReceiveStream(self.process.stdout)
        while True:
            try:
                line = await lines.receive_until(b"\n", 1_000_000)
            except anyio.IncompleteRead:  # it was killed
                return
            answer = msgspec.json.decode(line, type=Answer)
            came, answers = self._waiting.get(answer.number) or (anyio.Event(), [])
            answers.append(answer)
            came.set()


@asynccontextmanager
async def child_store(path: Path) -> AsyncIterator[ChildStore]:
    command = [sys.executable, "-m", "tests.journal.sqlite_child", str(path)]
    root = Path(__file__).parents[2]
    async with await anyio.open_process(command, stderr=None, cwd=root) as process:
        child = ChildStore(process)
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(child.listen)
            try:
                yield child
            finally:
                assert process.stdin is not None
                with anyio.CancelScope(shield=True):
                    await process.stdin.aclose()
                    await process.wait()
