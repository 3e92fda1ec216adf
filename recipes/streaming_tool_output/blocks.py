"""What stands on a terminal: a label at the left that says who does something, and beside it what it is.

Each block shows what it has been told until now, so it can be drawn again at any time.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from time import monotonic
from typing import Any

from rich.console import Group, RenderableType
from rich.padding import Padding
from rich.progress_bar import ProgressBar
from rich.spinner import Spinner
from rich.table import Table
from rich.text import Text

from streamkit import Failure, ToolResult

from .screen import CALLS, DROPPED, FOUND, RUNS, SAYS, SUBAGENT, megabytes, on_one_line, outcome, shown, visible
from .tools import Hit, Progress, Saved

LABEL_WIDTH = 12
CURSOR = "▌"


@dataclass
class Said:
    """What the model answers. why_cut: where it was not done."""

    text: str = ""
    ended: bool = False
    why_cut: str = ""

    def __rich__(self) -> RenderableType:
        text = Text(visible(self.text).strip(), "bold")
        if self.why_cut:
            text.append(f"{' ' if text else ''}({self.why_cut})", "not bold yellow")
        return labelled(SAYS, text if self.ended else text.append(CURSOR))


@dataclass
class Called:
    """A call while it is written, while it runs, and what comes of it."""

    tool: str
    arguments: str = ""
    is_written: bool = False
    began: float | None = None
    seconds: float | None = None
    progress: Progress | None = None
    saved: Saved | None = None
    inner_text: str = ""
    sent: list[Any] = field(default_factory=list)
    result: ToolResult | None = None
    dropped: str | None = None
    _spinner: Spinner = field(default_factory=lambda: Spinner("dots", style="cyan"))

    @property
    def ended(self) -> bool:
        return self.result is not None or self.dropped is not None

    def __rich__(self) -> RenderableType:
        return Group(self._call(), *self._work(), *self._outcome())

    def _call(self) -> RenderableType:
        text = Text.assemble((self.tool, "bold cyan"), " ", (on_one_line(self.arguments), "cyan"))
        return labelled(CALLS, text if self.is_written else text.append(CURSOR))

    def _work(self) -> Iterator[RenderableType]:
        if self.progress is not None:
            yield labelled(RUNS, self._bar(self.progress))
        for event in self.sent:
            yield labelled(FOUND if isinstance(event, Hit) else RUNS, one_line(event))
        if self.inner_text:
            text = Text(visible(self.inner_text).strip(), "italic")
            yield labelled(SUBAGENT, text if self.ended else text.append(CURSOR))
        elif self.began is not None and not (self.ended or self.progress or self.sent):
            yield labelled(RUNS, self._spinner)

    def _bar(self, progress: Progress) -> RenderableType:
        seconds = self.seconds or monotonic() - (self.began or monotonic())
        rate = f"{megabytes(progress.bytes / seconds)} MB/s" if seconds > 0.3 else ""
        row = Table.grid(padding=(0, 2, 0, 0), expand=True)
        row.add_column(ratio=1)
        row.add_column(justify="right", no_wrap=True)
        row.add_column(justify="right", no_wrap=True, min_width=10)
        row.add_row(
            ProgressBar(progress.total_bytes, progress.bytes, complete_style="cyan", finished_style="green"),
            f"{megabytes(progress.bytes)} of {megabytes(progress.total_bytes)} MB",
            Text("✓ verified", "green") if self.saved is not None and self.saved.verified else rate,
        )
        return row

    def _outcome(self) -> Iterator[RenderableType]:
        if self.result is not None:
            label, text = outcome(self.result)
            yield labelled(label, Text(on_one_line(text), "red" if isinstance(self.result, Failure) else "green"))
        if self.dropped is not None:
            yield labelled(DROPPED, Text(self.dropped, "yellow"))


def one_line(event: Any) -> Text:
    """What a tool has sent; its end may be cut off."""
    line = Text(no_wrap=True, overflow="ellipsis")
    if isinstance(event, Hit):
        return line.append(f"{visible(event.file)}:{event.line}  ", "magenta").append(on_one_line(event.text))
    return line.append(on_one_line(shown(event)))


def labelled(label: str, body: RenderableType) -> RenderableType:
    row = Table.grid(padding=(0, 2, 0, 0), expand=True)
    row.add_column(width=LABEL_WIDTH, no_wrap=True, style="dim")
    row.add_column(ratio=1, overflow="fold")
    row.add_row(label, body)
    return Padding(row, (0, 0, 0, 2))
