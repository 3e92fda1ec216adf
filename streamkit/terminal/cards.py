"""How blocks look: rows of text that are no wider than the terminal.

✓ download_artifact  file: mountain.bin  2.9 s
│ ━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━  20.0 of 20.0 MB
╰ model gets {"file":"mountain.bin","bytes":20000000,"sha256":"af55…"}
⠹ ask_subagent  question: How does a tree grow?
│ A tree grows by adding▌
"""

from __future__ import annotations

from collections.abc import Iterator
from time import monotonic

from rich.cells import cell_len, chop_cells, set_cell_size
from rich.text import Text

from ..bars import Bar
from .blocks import Called, Run, Said, Voice
from .rows import wrapped
from .tails import TAIL_CHARACTERS, Tail
from .words import on_one_line, outcome, shown, visible

CURSOR = "▌"
SPINNER = "⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏"
SPINS_PER_SECOND = 10
MIN_WIDTH = 16
"""Where there is less room, nothing is indented any more."""
INLINE_CELLS = 48
"""A field that is shorter stands beside the name of the tool."""
RESULT_ROWS = 3
FIELD_ROWS = 12
"""Of a field that is long."""
BAR_CELLS, MIN_BAR_CELLS = 48, 6
RATE_WIDTH = 50
"""Where there is less room, the rate of bytes is left out."""
BESIDE_CELLS = 24
"""Room for what stands beside a bar, so that bars of several calls are of one length."""

STYLES: dict[Voice, str] = {"text": "", "reasoning": "dim italic", "refusal": "yellow", "note": "dim yellow"}


def spinner() -> str:
    return SPINNER[int(monotonic() * SPINS_PER_SECOND) % len(SPINNER)]


def finished_rows(said: Said, width: int) -> Iterator[Text]:
    """The rows that will not change any more; they are taken off. All of them, where it has ended."""
    *lines, last = visible(said.rest).split("\n")
    rows = [row for line in lines for row in wrapped(line, width)]
    rows += wrapped(last, width)
    said.rest = "" if said.ended else rows.pop()
    if said.ended:
        while rows and not rows[-1].strip():
            rows.pop()
    return (Text(row.rstrip(), STYLES[said.voice]) for row in rows)


def said_rows(said: Said, width: int, limit: int) -> list[Text]:
    """The last rows of what is not out yet. Of very much, only the end is looked at."""
    text = visible(said.rest[-limit * width * 2 :])
    text = text.rstrip() if said.ended else text + CURSOR
    rows = [row for line in text.split("\n") for row in wrapped(line, width)]
    return [Text(row.rstrip(), STYLES[said.voice]) for row in rows[-limit:]]


def card_rows(call: Called, width: int, limit: int) -> list[Text]:
    """A call. limit: so many rows of each of its long parts."""
    inline, long = _fields(call, width)
    rows = [_head(call, inline, width)]
    inner_width = width - 2 if width - 2 >= MIN_WIDTH else width
    for name, tail in long:
        field = _long_field(name, tail, inner_width, limit, grows=name == _growing(call))
        rows += _within(field, inner_width < width)
    rows += _within(_work(call, inner_width, limit), inner_width < width)
    return [*rows, *_ending(call, width)]


def run_rows(run: Run, width: int, limit: int) -> list[Text]:
    """An inner run: the last rows of it."""
    rows: list[Text] = []
    is_cut = run.omitted > 0
    for block in reversed(run.blocks):
        if len(rows) >= limit:
            is_cut = True
            break
        rows[:0] = said_rows(block, width, limit) if isinstance(block, Said) else card_rows(block, width, limit)
    return [*([Text("…", "dim")] if is_cut or len(rows) > limit else []), *rows[-limit:]]


def _within(rows: list[Text], has_room: bool) -> list[Text]:
    return [Text.assemble(("│ ", "dim"), row) for row in rows] if has_room else rows


def _head(call: Called, inline: Text, width: int) -> Text:
    sign, style = _sign(call)
    row = Text.assemble((sign, style), " ", (on_one_line(call.tool, 60), "bold"))
    if inline:
        row.append("  ").append_text(inline)
    seconds = call.seconds if call.ended else monotonic() - (call.began or monotonic())
    if seconds >= (0.05 if call.ended else 2):
        row.append(f"  {seconds:.1f} s" if call.ended else f"  {seconds:.0f} s", "dim")
    row.truncate(width, overflow="ellipsis")
    return row


def _sign(call: Called) -> tuple[str, str]:
    if call.result is not None:
        return ("✗", "red") if call.failed else ("✓", "green")
    if call.ended:
        return "⊘", "yellow"
    if call.stage == "asked":
        return "?", "bold magenta"
    return ("○", "cyan") if call.stage == "whole" else (spinner(), "cyan")


def _fields(call: Called, width: int) -> tuple[Text, list[tuple[str, Tail]]]:
    """The short fields in one row, and the long ones."""
    inline = Text()
    long: list[tuple[str, Tail]] = []
    grows = _growing(call)
    room = width - cell_len(call.tool) - 12
    for name, tail in call.fields.shown.items():
        text = str(tail)
        cells = cell_len(name) + 4 + cell_len(text[:INLINE_CELLS])
        if tail.lines_gone or "\n" in text or len(text) > INLINE_CELLS or cells > room:
            long.append((name, tail))
            continue
        room -= cells
        inline.append("  " if inline else "").append(f"{name}: ", "dim")
        inline.append(on_one_line(text) + (CURSOR if name == grows else ""), "cyan")
    if call.fields.omitted:
        inline.append(f"  … {call.fields.omitted:,} more", "dim")
    if not call.fields.shown:
        plain = on_one_line(str(call.plain), INLINE_CELLS)
        inline.append(plain if call.ended or not plain.startswith("{") else "", "cyan")
        inline.append(CURSOR if call.stage == "written" else "", "cyan")
    return inline, long


def _growing(call: Called) -> str | None:
    """The field that is being written."""
    return next(reversed(call.fields.shown), None) if call.stage == "written" else None


def _long_field(name: str, tail: Tail, width: int, limit: int, *, grows: bool) -> list[Text]:
    lines = (visible(str(tail)).rstrip("\n") + (CURSOR if grows else "")).split("\n")
    limit = min(limit, FIELD_ROWS)
    rows = [row for line in lines[-limit:] for row in wrapped(line, width - 2)][-limit:]
    count = tail.lines_gone + len(lines)
    label = Text(f"{name}:", "dim")
    if count == len(rows) == 1 and cell_len(f"{name}: {rows[0]}") <= width:
        return [label.append(f" {rows[0]}", "not dim cyan")]
    if count > len(rows):
        label.append(f"  … {count - len(rows):,} lines before")
    label.truncate(width, overflow="ellipsis")
    return [label, *(Text(f"  {row.rstrip()}", "cyan") for row in rows)]


def _work(call: Called, width: int, limit: int) -> list[Text]:
    rows: list[Text] = []
    if call.bar is not None:
        rows.append(_bar(call, call.bar, width))
    if before := call.lines_sent - len(call.lines):
        rows.append(Text(f"… {before:,} before", "dim"))
    for number, line in enumerate(call.lines):
        if not isinstance(line, str):  # made text when it is seen, and only once
            line = call.lines[number] = on_one_line(shown(line), TAIL_CHARACTERS)  # noqa: PLW2901
        rows.append(_one_row(line, width))
    if call.inner is not None:
        rows += run_rows(call.inner, width, limit)
    return rows


def _one_row(text: str, width: int) -> Text:
    row = Text(on_one_line(text, width * 2))
    row.truncate(width, overflow="ellipsis")
    return row


def _bar(call: Called, bar: Bar, width: int) -> Text:
    beside = bar.amount
    seconds = call.seconds if call.ended else monotonic() - (call.began or monotonic())
    if bar.unit == "bytes" and seconds > 0.3 and width >= RATE_WIDTH:
        beside += f"  {bar.done / seconds / 1e6:.1f} MB/s"
    if bar.text:
        beside += f"  {on_one_line(bar.text, 60)}"
    cells = min(BAR_CELLS, width - 2 - max(cell_len(beside), BESIDE_CELLS if width >= RATE_WIDTH else 0))
    if cells < MIN_BAR_CELLS:
        return _one_row(beside, width)
    full, half = divmod(round(bar.share * cells * 2), 2)
    done = ("━" * full + "╸" * half, "green" if bar.share >= 1 else "cyan")
    rest = ("━" * (cells - full - half), "bright_black")
    return Text.assemble(done, rest, "  ", beside)


def _ending(call: Called, width: int) -> list[Text]:
    if call.result is not None:
        label, text = outcome(call.result)
        return _last_rows(label, text, "red" if call.failed else "green", width)
    if call.dropped:
        return _last_rows("dropped", call.dropped, "yellow", width)
    if call.interrupted:
        return _last_rows(call.interrupted, "", "yellow", width)
    if call.stage == "asked":
        return _last_rows("waits for a decision", "", "magenta", width)
    return []


def _last_rows(label: str, text: str, style: str, width: int) -> list[Text]:
    """A word, and a text that is shortened to a few rows."""
    said = on_one_line(text, width * RESULT_ROWS)
    whole = f"{label} {said}".rstrip()
    is_prose = max(map(len, whole.split())) < width // 2
    rows = wrapped(whole, width - 2) if is_prose else chop_cells(whole, width - 2)
    if len(rows) > RESULT_ROWS:
        rows = [*rows[: RESULT_ROWS - 1], f"{set_cell_size(rows[RESULT_ROWS - 1], width - 3).rstrip()}…"]
    first, *more = rows
    head = Text.assemble(("╰ ", "dim"), (first[: len(label)], "dim"), (first[len(label) :].rstrip(), style))
    return [head, *(Text(f"  {row.rstrip()}", style) for row in more)]
