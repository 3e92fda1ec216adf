"""A run in a terminal: what moves stands at the bottom, and what has ended scrolls up and stays.

Frames are drawn by a task, and by whoever sends events faster than that task gets its turn. So a frame shows any number
of events, and however fast they come, nothing waits for its frame but a bounded piece of text.
"""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from time import monotonic
from typing import TextIO

import anyio
import anyio.lowlevel
from rich.console import Console
from rich.text import Text

from ..flows.groups import LoneErrorGroup
from ..tool_events import walk
from ..turns import ReasoningDelta, RefusalDelta, TextDelta
from .blocks import Called, Describe, Run, Said
from .cards import card_rows, finished_rows, said_rows, spinner
from .output import TextOutput
from .prints import Printed, prints_kept
from .region import Region
from .rows import wrapped
from .screen import Screen
from .words import on_one_line, visible

FRAME_SECONDS = 1 / 12
MARGIN = 2
NARROW = 40
"""Columns; with fewer there is no margin at the left."""
UNSEEN_CHARACTERS = 16_000
"""How much text may come before it is drawn, and how much may wait behind a call that has not ended."""
OPEN_BLOCKS = 50
"""Of more, those that have ended no longer wait for those before them."""
ENDED_ROWS = 40
"""Of each long part of a call that has ended."""
WAITS = "waits for the model"


@asynccontextmanager
async def card_screen(file: TextIO, describe: Describe) -> AsyncIterator[Screen]:
    """The screen for a terminal. What others print while it is open is shown above what moves."""
    printed = Printed()
    screen = CardScreen(file, describe, printed)
    async with LoneErrorGroup() as tasks:
        tasks.start_soon(screen.draw_again_and_again)
        try:
            with prints_kept(printed, file):
                yield screen
            await screen.close()
        finally:
            screen.leave()
            tasks.cancel_scope.cancel()


class CardScreen(Screen):
    def __init__(self, file: TextIO, describe: Describe, printed: Printed) -> None:
        super().__init__()
        self.console = Console(file=file, force_terminal=True, highlight=False, markup=False, emoji=False)
        self._output = TextOutput(file)
        self._region = Region(self.console)
        self._describe = describe
        self._printed = printed
        self._run = Run(describe)
        self._done: list[Text] = []  # rows that go above the region with the next frame
        self._above: Said | Called | None = None  # the last block of which something is up there
        self._waits = ""  # for what, while nothing moves
        self._unseen = 0  # characters that came since the last frame
        self._next_frame = 0.0

    async def put(self, event: object) -> None:
        self._counts.feed(walk(event)[1])  # type: ignore[arg-type]  # anything else is not counted
        self._waits = WAITS
        if isinstance(event, TextDelta | RefusalDelta | ReasoningDelta):
            await self._put_text(event)
        else:
            self._run.feed(event)
        if monotonic() >= self._next_frame or self._unseen > UNSEEN_CHARACTERS:
            await self._draw_in_turn()

    async def _put_text(self, event: TextDelta | RefusalDelta | ReasoningDelta) -> None:
        """A very long text in pieces, with frames between them."""
        for start in range(0, len(event.text), UNSEEN_CHARACTERS):
            if start:
                await self._draw_in_turn()
            piece = event.text[start : start + UNSEEN_CHARACTERS]
            self._unseen += len(piece)
            self._run.feed(type(event)(piece))

    async def end(self) -> None:
        self.cut("")
        await self._draw_in_turn()

    def cut(self, why: str) -> None:
        self._run.close(on_one_line(why))
        self._settle()
        self._run, self._waits = Run(self._describe), ""

    async def ask(self, question: str) -> None:
        first, *more = self._wrapped(question, 2) or [""]
        self._settle()
        rows = [Text.assemble(("▸ ", "bold cyan"), (first, "bold")), *(Text(f"  {row}", "bold") for row in more)]
        self._put_above(Said("note"), [row for row in rows if row.plain], margin=0)
        await self.wait(WAITS)

    async def say(self, text: str = "") -> None:
        self._settle()
        said = self._above if isinstance(self._above, Said) and self._above.voice == "note" else Said("note")
        self._put_above(said, [Text(row) for row in self._wrapped(text)])
        await self._draw_in_turn()

    async def wait(self, what: str) -> None:
        self._waits = on_one_line(what, 200)
        await self._draw_in_turn()

    async def close(self) -> None:
        """Say what it all came to, where anything was shown."""
        self.cut("")
        if summary := self._counts.summary():
            self._put_above(Said("note"), [Text(row, "dim") for row in self._wrapped(summary)])
        await self._draw_in_turn()

    def leave(self) -> None:
        """Nothing moves any more, however the screen was left."""
        self.cut("cut off")
        with contextlib.suppress(OSError):  # the terminal may be gone, and there is an error on its way that says so
            self._draw()

    async def draw_again_and_again(self) -> None:
        while True:
            await self._output.ready()
            self._draw()
            await anyio.sleep(FRAME_SECONDS)

    async def _draw_in_turn(self) -> None:
        """Whoever never waits by themselves lets others run here, and hears cancellation."""
        await anyio.lowlevel.checkpoint()
        await self._output.ready()
        self._draw()

    def _draw(self) -> None:
        self._settle()
        frame = self._region.frame(self._done, self._moving())
        self._done.clear()
        self._unseen, self._next_frame = 0, monotonic() + FRAME_SECONDS
        if frame:
            self._output.write_now(frame)

    # What goes up, and what moves

    def _settle(self) -> None:
        """Put above the region what will not change any more."""
        for line in self._printed.take():
            self._put_above(Said("note"), [Text.from_ansi(line)], margin=0, spaced=False)
        blocks = self._run.blocks
        while blocks:
            block = blocks[0]
            if isinstance(block, Said):
                self._put_above(block, list(finished_rows(block, self._width)))
            if not block.ended:
                break
            if isinstance(block, Called):
                self._put_above(block, self._card(block))
            del blocks[0]
        waiting = sum(len(block.rest) for block in blocks if isinstance(block, Said))
        for block in blocks[1:] if len(blocks) > OPEN_BLOCKS or waiting > UNSEEN_CHARACTERS else ():
            if isinstance(block, Said):
                self._put_above(block, list(finished_rows(block, self._width)))
            elif block.ended:
                self._put_above(block, self._card(block))
            if block.ended:
                blocks.remove(block)

    def _card(self, call: Called) -> list[Text]:
        return card_rows(call, self._width, ENDED_ROWS)

    def _put_above(
        self, block: Said | Called, rows: list[Text], *, margin: int | None = None, spaced: bool = True
    ) -> None:
        if rows:
            if spaced and self._is_spaced(self._above, block):
                self._done.append(Text())
            self._done += self._with_margin(rows, margin)
            self._above = block

    def _moving(self) -> list[Text]:
        height = self.console.height - 1
        blocks = self._run.blocks
        cards = sum(isinstance(block, Called) for block in blocks)
        limit = max(height // max(cards, 1) - 3, 2)  # rows of a long part, so that all cards are seen
        rows: list[Text] = []
        for place in reversed(range(len(blocks))):
            block, before = blocks[place], blocks[place - 1] if place else self._above
            drawn = (
                said_rows(block, self._width, height)
                if isinstance(block, Said)
                else card_rows(block, self._width, limit)
            )
            rows[:0] = [Text(), *drawn] if self._is_spaced(before, block) else drawn
            if len(rows) >= height:
                break
        if self._waits and all(block.ended for block in blocks):
            waits = Text.assemble((spinner(), "cyan"), " ", (self._waits, "dim"), no_wrap=True)
            waits.truncate(self._width, overflow="ellipsis")
            rows += [Text(), waits] if self._above or rows else [waits]
        return self._with_margin(rows[-height:] if height > 0 else [])

    @staticmethod
    def _is_spaced(before: Said | Called | None, block: Said | Called) -> bool:
        """Cards stand close together."""
        return before is not None and before is not block and not (type(before) is type(block) is Called)

    # Columns

    @property
    def _margin(self) -> int:
        return MARGIN if self.console.width >= NARROW else 0

    @property
    def _width(self) -> int:
        return max(self.console.width - 1 - self._margin, 8)

    def _with_margin(self, rows: list[Text], margin: int | None = None) -> list[Text]:
        indent = " " * (self._margin if margin is None else margin)
        return [Text.assemble(indent, row) if row.plain else row for row in rows]

    def _wrapped(self, text: str, indent: int = 0) -> list[str]:
        width = self._width - indent
        return [row.rstrip() for line in visible(text).split("\n") for row in wrapped(line, width)]
