"""A run as lines, for pipes, logs and terminals that can do no more.

? Download the file mountain.bin.

  model calls   download_artifact {"file":"mountain.bin"}
  tool runs     download_artifact mountain.bin: 10 % of 20.0 MB
  model gets    download_artifact mountain.bin: {"bytes":20000000}
  model says    Here it is.

The text of the model goes out as it comes; that of an inner run line by line, since several may talk at once.
"""

from __future__ import annotations

import textwrap
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from time import monotonic
from typing import TextIO

import anyio
import anyio.lowlevel

from ..bars import Bar
from ..items import ProviderTool, UnknownItem
from ..tool_events import ApprovalRequested, Intermediate, Output, ToolInputField, ToolStarted, walk
from ..turns import (
    ReasoningDelta,
    RefusalDelta,
    TextDelta,
    ToolInputAbandoned,
    ToolInputAvailable,
    ToolInputDelta,
    ToolInputStart,
    TurnEnded,
    TurnRestarted,
    TurnStarted,
)
from .blocks import Describe, described
from .output import PIECE_CHARACTERS, TextOutput
from .screen import Screen
from .words import on_one_line, outcome, shown, titled, visible, why_cut, why_dropped

TURN_SECONDS = 0.05
TEXT_WIDTH = 84
LABEL_WIDTH = 14
LINE_CHARACTERS = 2_000
"""Of arguments and results; what is longer is cut."""

SILENT = (TurnStarted, ReasoningDelta, ToolInputDelta, ToolInputField, ToolInputAbandoned, UnknownItem)
"""Events that are no news by themselves, or not in an inner run."""

Path = tuple[str, ...]
Line = tuple[str, str]
"""Who does something, and what it is."""


@asynccontextmanager
async def line_screen(file: TextIO, describe: Describe) -> AsyncIterator[Screen]:
    screen = LineScreen(file, describe)
    yield screen
    await screen.close()


class LineScreen(Screen):
    def __init__(self, file: TextIO, describe: Describe) -> None:
        super().__init__()
        self._output = TextOutput(file)
        self._describe = describe
        self._open = ""  # the label of the text that stands in the last line, and may go on
        self._why_cut = ""  # of a run, not out yet
        self._within: Path = ()  # the calls around what was said last
        self._calls: dict[Path, str] = {}  # titles of those that have not ended, by their ids and those around them
        self._tenths: dict[Path, int] = {}  # of its bar that a call has shown
        self._inner_text: dict[Path, str] = {}  # not out yet
        self._next_turn = 0.0

    async def put(self, event: object) -> None:
        if monotonic() >= self._next_turn:  # who never waits by themselves lets others run here, and hears cancellation
            await anyio.lowlevel.checkpoint()
            self._next_turn = monotonic() + TURN_SECONDS
        path, innermost = walk(event)  # type: ignore[arg-type]  # anything else has no path
        self._counts.feed(innermost)
        if not path and isinstance(event, TextDelta | RefusalDelta | ReasoningDelta):
            await self._put_text("model thinks" if isinstance(event, ReasoningDelta) else "model says", event.text)
            return
        for label, text in self._happened(path, innermost):
            await self._put_line(path, label, text)

    async def end(self) -> None:
        self.cut("")
        await self._end_text()

    def cut(self, why: str) -> None:
        if why and (self._calls or self._open):
            self._why_cut = on_one_line(why)
        self._calls.clear()
        self._tenths.clear()
        self._inner_text.clear()

    async def ask(self, question: str) -> None:
        await self._end_text()
        await self._output.write(f"\n? {visible(question)}\n\n")

    async def say(self, text: str = "") -> None:
        await self._end_text()
        await self._output.write(f"{visible(text)}\n")

    async def wait(self, what: str) -> None:
        await self.say(f"… {what}")

    async def close(self) -> None:
        await self._end_text()
        if summary := self._counts.summary():
            await self._output.write("\n")
            await self._put_line((), "in all", summary)

    async def _put_text(self, label: str, text: str) -> None:
        if self._open != label:
            if not text.strip():
                return
            await self._end_text()
            await self._output.write(f"  {label:<{LABEL_WIDTH}}")
            self._open, self._within, text = label, (), text.lstrip("\n")
        await self._output.write(visible(text).replace("\n", "\n" + " " * (LABEL_WIDTH + 2)))

    async def _end_text(self) -> None:
        if self._open:
            self._open = ""
            await self._output.write("\n")
        if why := self._why_cut:
            self._why_cut = ""
            await self._put_line((), why, "")

    async def _put_line(self, path: Path, label: str, text: str) -> None:
        await self._end_text()
        if path and path != self._within:
            await self._output.write(f"{'  ' * len(path)}  {'in':<{LABEL_WIDTH}}{self._calls.get(path, path[-1])}\n")
        self._within = path
        indent = "  " * (len(path) + 1)
        await self._output.write(f"{indent}{label:<{LABEL_WIDTH}}{on_one_line(text, LINE_CHARACTERS)}".rstrip() + "\n")

    def _happened(self, path: Path, event: object) -> Iterator[Line]:
        match event:
            case ToolInputStart(call_id=call_id, tool=tool):
                self._calls[*path, call_id] = on_one_line(tool, 60)
                yield from self._rest_of(path)
                yield "model writes", f"a call of {tool}"
            case ToolInputAvailable(call_id=call_id, arguments=arguments):
                yield "model calls", f"{self._title(path, call_id)} {arguments[: LINE_CHARACTERS + 1]}"
            case ToolInputAbandoned(call_id=call_id, reason=reason) if reason != "malformed":  # that one is answered
                yield "call dropped", f"{self._calls.pop((*path, call_id), call_id)}: {why_dropped(event)}"
            case ApprovalRequested(call_id=call_id, tool=tool, arguments=arguments):
                self._calls[*path, call_id] = titled(tool, arguments)
                yield "call waits", f"{self._title(path, call_id)}: for a decision"
            case ToolStarted(call_id=call_id, tool=tool, arguments=arguments):
                self._calls[*path, call_id] = titled(tool, arguments)
            case Intermediate(call_id=call_id, data=data):
                yield from self._got_on((*path, call_id), described(data, self._describe))
            case Output(call_id=call_id, tool=tool, result=result):
                label, text = outcome(result)
                self._tenths.pop((*path, call_id), None)
                yield from self._rest_of((*path, call_id))
                yield label, f"{self._calls.pop((*path, call_id), tool)}: {text[: LINE_CHARACTERS + 1]}"
            case _:
                yield from self._said(path, event)

    def _title(self, path: Path, call_id: str) -> str:
        return self._calls.get((*path, call_id), call_id)

    def _got_on(self, call: Path, data: object) -> Iterator[Line]:
        title = self._calls.get(call, call[-1])
        if not isinstance(data, Bar):
            if data is not None:
                yield "tool runs", f"{title}: {shown(data)}"
            return
        tenths = int(data.share * 10)
        if tenths != self._tenths.get(call, 0):
            self._tenths[call] = tenths
            said = "" if data.unit == "percent" else f", {data.amount}"
            yield "tool runs", f"{title}: {round(data.share * 100)} %{said}{data.text and f', {data.text}'}"

    def _said(self, path: Path, event: object) -> Iterator[Line]:
        match event:
            case TextDelta(text=text) | RefusalDelta(text=text):  # of an inner run: lines of some width, when full
                for start in range(0, len(text), PIECE_CHARACTERS):  # textwrap cuts a long word again and again
                    rest = self._inner_text.get(path, "")
                    *full, self._inner_text[path] = _wrapped(rest + text[start : start + PIECE_CHARACTERS])
                    yield from (("model says", line) for line in full if line.strip())
            case TurnEnded(turn=turn):
                yield from self._rest_of(path)
                if why := why_cut(turn):
                    yield "turn ended", why
            case TurnRestarted(reason=reason):
                self._inner_text.pop(path, None)
                yield "taken back", f"the model begins again: {reason}"
            case ProviderTool(name=name, input=given, output=output):
                yield "provider runs", f"{name}: {shown(given if output is None else output)}"
            case _ if type(event) in SILENT:
                pass
            case _:  # an event of somebody's own loop
                yield "", shown(event)

    def _rest_of(self, path: Path) -> Iterator[Line]:
        if rest := self._inner_text.pop(path, "").strip():
            yield "model says", rest


def _wrapped(text: str) -> list[str]:
    """The lines of a text; the last one may still grow."""
    *whole, last = visible(text).split("\n")
    lines = [part for line in whole for part in textwrap.wrap(line, TEXT_WIDTH)]
    return [*lines, *(textwrap.wrap(last, TEXT_WIDTH, drop_whitespace=False) or [""])]
