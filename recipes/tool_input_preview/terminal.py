"""A run in a terminal: the files that grow stand at the bottom, and what has ended scrolls up.

    ▸ Write factorial.py: a function that computes the factorial of a number.

    ╭─ factorial.py ──────────────────────────────────────────╮
    │   1 def factorial(n):                                   │
    │   2     return 1 if n == 0 else n * fact▌               │
    ╰─────────────────────────────────────────────────────────╯

Of a file that is longer than the terminal the end is seen. A file that is not written leaves one line, with the reason.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import anyio
from rich.console import Console, ConsoleOptions, Group, RenderableType, RenderResult
from rich.live import Live
from rich.panel import Panel
from rich.segment import Segment
from rich.spinner import Spinner
from rich.syntax import Syntax
from rich.text import Text

from streamkit import RunEvent, TurnEnded
from streamkit.terminal import visible

from .drafts import Draft, Drafts

FRAMES_PER_SECOND = 10
MARGIN = 3
"""Columns that stay free at the right: a terminal writes `^C` there."""


@asynccontextmanager
async def terminal() -> AsyncIterator[Terminal]:
    """A terminal to show a run on. When the block is left, however that is, no file on it is open."""
    screen = Terminal(Console(highlight=False))
    with Live(screen, console=screen.console, auto_refresh=False, transient=True) as live:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(_draw, live)  # rich's own thread might draw in the middle of what is printed
            try:
                yield screen
            finally:
                screen.end()
                tasks.cancel_scope.cancel()


async def _draw(live: Live) -> None:
    while True:
        live.refresh()
        await anyio.sleep(1 / FRAMES_PER_SECOND)


class Terminal:
    """A screen that draws again what grows: what stands at the bottom is itself."""

    def __init__(self, console: Console) -> None:
        self.console = console
        self.drafts = Drafts()
        self._waits = Spinner("dots", Text("the model starts", "dim"), style="cyan")

    def ask(self, wish: str) -> None:
        self.console.print(Text.assemble(("▸ ", "bold cyan"), (wish, "bold")))
        self._waits.text = Text("the model reads", "dim")

    def show(self, event: RunEvent) -> None:
        draft = self.drafts.feed(event)
        if draft is not None and draft.ending is not None:
            self._print_ended(draft)
        elif isinstance(event, TurnEnded) and (text := event.turn.text.strip()):
            self.console.print(Text(visible(text), "italic"))

    def end(self) -> None:
        for draft in self.drafts.open:
            draft.interrupt()
            self._print_ended(draft)

    def _print_ended(self, draft: Draft) -> None:
        if draft.is_written:
            self.console.print(framed(draft, self.console, rows=self.console.height - 4))
        self.console.print(Text(draft.told(), "green" if draft.is_written else "yellow"))

    def __rich__(self) -> RenderableType:
        drafts = self.drafts.open
        rows = (self.console.height - 1) // max(len(drafts), 1) - 2  # of each, between the lines of its frame
        return Group(*(framed(draft, self.console, rows) for draft in drafts)) if drafts else self._waits


def framed(draft: Draft, console: Console, rows: int) -> RenderableType:
    title = Text(draft.name, "bold", no_wrap=True, overflow="ellipsis")
    style = "green" if draft.is_written else "cyan"
    tail = _Tail(draft, max(rows, 1))
    return Panel(tail, title=title, title_align="left", border_style=style, width=console.width - MARGIN)


class _Tail:
    """The last rows of a file. Only they are coloured, so a long file costs no more than a short one."""

    def __init__(self, draft: Draft, rows: int) -> None:
        self._draft = draft
        self._rows = rows

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        lines = self._draft.lines
        text = "\n".join(lines[-self._rows :])[-self._rows * options.max_width :]  # a line may be long, too
        first = len(lines) - text.count("\n")
        lexer = Syntax.guess_lexer(self._draft.name, text)
        text += "" if self._draft.ending else "▌"
        code = Syntax(text, lexer, theme="ansi_dark", line_numbers=True, start_line=first, word_wrap=True)
        for row in console.render_lines(code, options)[-self._rows :]:
            yield from row
            yield Segment.line()
