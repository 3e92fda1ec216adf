"""A run as lines: in words for people and logs, or as JSON, an event a line, for programs.

A line goes out as soon as it is whole. Who reads them, at the other end of a pipe, may be slow or gone: we wait where
an interruption is heard, and BrokenPipeError ends the run.
"""

from __future__ import annotations

import contextlib
import textwrap
from collections import defaultdict
from collections.abc import Iterator, Sequence
from typing import Any, BinaryIO

import anyio
import msgspec

from streamkit import (
    Intermediate,
    Output,
    RefusalDelta,
    RunEvent,
    TextDelta,
    ToolInputAbandoned,
    ToolInputAvailable,
    ToolInputStart,
    TurnEnded,
    walk,
)
from streamkit.items import Tagged

from .screen import (
    CALLS,
    DROPPED,
    FOUND,
    IN_ALL,
    MODEL,
    RUNS,
    SAYS,
    SUBAGENT,
    WRITES,
    megabytes,
    on_one_line,
    outcome,
    shown,
    why_cut,
    why_dropped,
)
from .tools import Hit, Progress, Saved

TEXT_WIDTH = 84
LABEL_WIDTH = 14

Line = tuple[str, str]
"""Who does something, and what it is."""


class PlainLines:
    """A `Screen` of lines without control characters."""

    def __init__(self, out: BinaryIO) -> None:
        self._out = out
        self._tools: dict[str, str] = {}  # by the id of a call that is being written
        self._tenths: dict[str, int] = {}  # of its download that a call has shown, by its id
        self._text: defaultdict[tuple[str, ...], str] = defaultdict(str)  # not out yet, by the path of who says it

    async def wait(self, what: str) -> None:
        await self._put(MODEL, what)

    async def ask(self, question: str) -> None:
        await put(self._out, f"\n? {question}\n\n".encode())

    async def show(self, event: RunEvent) -> None:
        path, innermost = walk(event)
        for label, text in self._said(path, innermost) if path else self._happened(event):
            await self._put(label, text)

    async def end(self, summary: Sequence[str]) -> None:
        await put(self._out, b"\n")
        await self._put(IN_ALL, ", ".join(summary))

    async def _put(self, label: str, text: str) -> None:
        await put(self._out, f"  {label:<{LABEL_WIDTH}}{on_one_line(text)}\n".encode())

    def _happened(self, event: RunEvent) -> Iterator[Line]:
        match event:
            case ToolInputStart(call_id=call_id, tool=tool):
                self._tools[call_id] = tool
                yield WRITES, f"a call of {tool}"
            case ToolInputAvailable(call_id=call_id, arguments=arguments):
                yield CALLS, f"{self._tools[call_id]} {arguments}"
            case ToolInputAbandoned(call_id=call_id, reason=reason) if reason != "malformed":  # that is answered
                yield DROPPED, f"{self._tools[call_id]}: {why_dropped(event)}"
            case Intermediate(call_id=call_id, data=Progress() as progress):
                yield from self._got_on(call_id, progress)
            case Intermediate(data=Hit() as hit):
                yield FOUND, shown(hit)
            case Intermediate(data=Saved() as saved):
                yield RUNS, shown(saved)
            case Intermediate(tool=tool, data=data):
                yield RUNS, f"{tool}: {shown(data)}"
            case Output(tool=tool, result=result):
                label, text = outcome(result)
                yield label, f"{tool}: {text}"
            case _:
                yield from self._said((), event)

    def _got_on(self, call_id: str, progress: Progress) -> Iterator[Line]:
        tenths = progress.bytes * 10 // progress.total_bytes
        if tenths > self._tenths.get(call_id, 0):
            self._tenths[call_id] = tenths
            yield RUNS, f"{progress.file}: {tenths * 10} % of {megabytes(progress.total_bytes)} MB"

    def _said(self, path: tuple[str, ...], event: RunEvent) -> Iterator[Line]:
        """Text in lines of some width, each when it is full; the last when the turn has ended."""
        match event:
            case TextDelta(text=text) | RefusalDelta(text=text):
                self._text[path] += text
                *full, self._text[path] = wrapped(self._text[path])
            case TurnEnded(turn=turn):
                why = why_cut(turn)
                full = [*wrapped(self._text.pop(path, "")), *([f"({why})"] if why else [])]
            case _:
                full = []
        yield from ((SUBAGENT if path else SAYS, line) for line in full if line.strip())


class JsonLines:
    """A `Screen` for programs: each event as one line of JSON, and nothing else."""

    def __init__(self, out: BinaryIO) -> None:
        self._out = out

    async def wait(self, what: str) -> None: ...

    async def ask(self, question: str) -> None: ...

    async def show(self, event: RunEvent) -> None:
        await put(self._out, json_line(event))

    async def end(self, summary: Sequence[str]) -> None: ...


async def put(out: BinaryIO, line: bytes) -> None:
    with contextlib.suppress(OSError, ValueError):  # a file is always writable, and there is no waiting for it
        await anyio.wait_writable(out)
    out.write(line)
    out.flush()


def wrapped(text: str) -> list[str]:
    """The lines of a text; the last one may still grow."""
    *whole, last = text.split("\n")
    lines = [part for line in whole for part in textwrap.wrap(line, TEXT_WIDTH)]
    return [*lines, *(textwrap.wrap(last, TEXT_WIDTH, drop_whitespace=False) or [""])]


def json_line(event: RunEvent) -> bytes:
    """The event as a line of JSON, which decodes to a RunEvent, whatever a tool has put into it.

    What has no JSON form is shown as Python shows it.
    """
    try:
        return msgspec.json.encode(event, enc_hook=repr) + b"\n"
    except Exception:  # half a character, a key that is no text, an object in itself, a repr that raises
        return msgspec.json.encode(_as_far_as_possible(event)) + b"\n"


def _as_far_as_possible(value: Any) -> Any:
    if isinstance(value, Tagged):
        fields = {name: _as_far_as_possible(getattr(value, name)) for name in value.__struct_fields__}
        return {"type": value.__struct_config__.tag, **fields}
    if isinstance(value, tuple):
        return [_as_far_as_possible(each) for each in value]
    with contextlib.suppress(Exception):
        return msgspec.Raw(msgspec.json.encode(value, enc_hook=repr))
    try:
        return _whole_characters(value if isinstance(value, str) else repr(value))
    except Exception:
        return object.__repr__(value)


def _whole_characters(text: str) -> str:
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
