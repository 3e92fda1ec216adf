"""A run in a terminal: what moves stands at the bottom, and what has ended scrolls up and stays.

    ▸ Download the files mountain.bin and river.bin.

      model calls   download_artifact {"file": "mountain.bin"}
      tool runs     ━━━━━━━━━━━━━━━━━━╸━━━━━━━━━━━  12.4 of 20.0 MB    6.9 MB/s

      model calls   download_artifact {"file": "river.bin"}
      tool runs     ━━━━━━━━━━━━━╸━━━━━━━━━━━━━━━━  10.4 of 24.0 MB    6.9 MB/s

The moving part is drawn again twelve times a second, by a task: rich's own thread for it may draw in the middle of what
we print, and then a line is lost.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from time import monotonic

import anyio
from rich.console import Console, ConsoleOptions, Group, RenderableType, RenderResult
from rich.constrain import Constrain
from rich.live import Live
from rich.segment import Segment
from rich.spinner import Spinner
from rich.text import Text

from streamkit import (
    Intermediate,
    Output,
    RefusalDelta,
    RunEvent,
    TextDelta,
    ToolInputAbandoned,
    ToolInputAvailable,
    ToolInputDelta,
    ToolInputStart,
    ToolStarted,
    TurnEnded,
    walk,
)

from .blocks import Called, Said, labelled
from .screen import IN_ALL, MODEL, READS, why_cut, why_dropped
from .tools import Progress, Saved

FRAMES_PER_SECOND = 12
MARGIN = 3
"""Columns that stay free at the right: a terminal writes `^C` there, and in a full line it would begin another one."""


@asynccontextmanager
async def terminal() -> AsyncIterator[Terminal]:
    """A terminal to show a run on. When the block is left it stays as it is, with the cursor below it."""
    screen = Terminal(Console(highlight=False))
    with Live(screen, console=screen.console, auto_refresh=False) as live:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(_draw, live)
            try:
                yield screen
            finally:
                screen.is_busy = False
                tasks.cancel_scope.cancel()


async def _draw(live: Live) -> None:
    while True:
        live.refresh()
        await anyio.sleep(1 / FRAMES_PER_SECOND)


class Terminal:
    """A `Screen`; what it shows at the bottom is itself."""

    def __init__(self, console: Console) -> None:
        self.console = console
        self.is_busy = False  # somebody works, also when nothing moves
        self._moving: list[Called | Said] = []  # in the order in which they began
        self._calls: dict[str, Called] = {}
        self._spinner = Spinner("dots", style="cyan")

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """The moving part; where it is taller than the terminal, the end of it."""
        lines = console.render_lines(self._moving_part(), options, pad=False)
        for line in lines[1 - console.height :]:
            yield from line
            yield Segment.line()

    def _moving_part(self) -> RenderableType:
        if self.is_busy and all(block.ended for block in self._moving):
            return self._within_margin(*self._moving, labelled(MODEL, self._spinner))
        return self._within_margin(*(part for block in self._moving for part in (block, "")))

    async def wait(self, what: str) -> None:
        self._spinner.text = Text(what, "dim")
        self.is_busy = True

    async def ask(self, question: str) -> None:
        self._spinner.text = Text(READS, "dim")
        self.console.print(Text.assemble(("▸ ", "bold cyan"), (question, "bold"), "\n"))
        self.is_busy = True

    async def show(self, event: RunEvent) -> None:
        path, innermost = walk(event)
        if path:
            if isinstance(innermost, TextDelta):
                self._calls[path[0]].inner_text += innermost.text
            return
        self._show_turn(event)
        self._show_call(event)
        while self._moving and self._moving[0].ended:
            self.console.print(self._within_margin(self._moving.pop(0), ""))

    async def end(self, summary: Sequence[str]) -> None:
        self.is_busy = False
        self.console.print(self._within_margin(labelled(IN_ALL, Text(" · ".join(summary), "dim"))))

    def _within_margin(self, *parts: RenderableType) -> RenderableType:
        return Constrain(Group(*parts), self.console.width - MARGIN)

    def _show_turn(self, event: RunEvent) -> None:
        match event:
            case TextDelta(text=text) | RefusalDelta(text=text):
                self._say(text)
            case ToolInputStart(call_id=call_id, tool=tool):
                self._end_saying()
                self._begin_call(call_id, tool)
            case ToolInputDelta(call_id=call_id, delta=delta):
                self._calls[call_id].arguments += delta
            case ToolInputAvailable(call_id=call_id, arguments=arguments):
                self._calls[call_id].arguments, self._calls[call_id].is_written = arguments, True
            case ToolInputAbandoned(call_id=call_id, reason="malformed"):
                self._calls[call_id].is_written = True  # it is answered, with a failure
            case ToolInputAbandoned(call_id=call_id):
                self._calls[call_id].is_written, self._calls[call_id].dropped = True, why_dropped(event)
            case TurnEnded(turn=turn):
                self._end_saying(why_cut(turn))

    def _show_call(self, event: RunEvent) -> None:
        match event:
            case ToolStarted(call_id=call_id):
                self._calls[call_id].began = monotonic()
            case Intermediate(call_id=call_id, data=Progress() as progress):
                self._calls[call_id].progress = progress
            case Intermediate(call_id=call_id, data=Saved() as saved):
                self._calls[call_id].saved = saved
            case Intermediate(call_id=call_id, data=data):
                self._calls[call_id].sent.append(data)
            case Output(call_id=call_id, tool=tool, result=result, seconds=seconds):
                if call_id not in self._calls or self._calls[call_id].ended:  # a call without a name has no input
                    self._begin_call(call_id, tool)
                self._calls[call_id].seconds, self._calls[call_id].result = seconds, result

    def _begin_call(self, call_id: str, tool: str) -> None:
        self._calls[call_id] = Called(tool)
        self._moving.append(self._calls[call_id])

    def _say(self, text: str) -> None:
        last = self._moving[-1] if self._moving else None
        if isinstance(last, Said):
            last.text += text
        elif text.strip():
            self._moving.append(Said(text))

    def _end_saying(self, why: str = "") -> None:
        if why and not self._moving:
            self._moving.append(Said())
        last = self._moving[-1] if self._moving else None
        if isinstance(last, Said):
            last.ended, last.why_cut = True, why
