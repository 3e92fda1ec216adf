"""What a person sees of a run, and what a program reads of it."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console

from streamkit import (
    Failure,
    Intermediate,
    Output,
    RunEvent,
    TextDelta,
    ToolInputAbandoned,
    ToolInputDelta,
    ToolInputStart,
    Turn,
    TurnEnded,
    TurnStarted,
    Value,
)
from streamkit.turns import AbandonedReason

from .lines import JsonLines, PlainLines, json_line
from .recipe import show_answers
from .screen import Screen, visible
from .scripted import scripted_model
from .tally import Tally
from .terminal import Terminal
from .test_recipe import workspace


async def show_on(screen: Screen, folder: Path) -> None:
    model, tally = scripted_model(pause_seconds=0), Tally()
    async with workspace(folder, model) as work:
        await show_answers(model, work, screen, tally=tally)
    await screen.end(tally.summary(1.23))


async def test_plain_lines_tell_each_step(tmp_path: Path) -> None:
    out = io.BytesIO()
    await show_on(PlainLines(out), tmp_path)

    lines = out.getvalue().decode().splitlines()
    for line in (
        "? Download the files mountain.bin and river.bin.",
        "  model writes  a call of download_artifact",
        '  model calls   download_artifact {"file":"river.bin"}',
        "  tool runs     mountain.bin: 100 % of 0.2 MB",
        "  tool runs     river.bin is saved, its checksum is right",
        "  sub-agent     A tree adds a new layer of wood beneath its bark each year, with water from its",
        "  sub-agent     roots, and light.",
        "  model gets    ask_subagent: A tree adds a new layer of wood beneath its bark each year, "
        "with water from its roots, and light.",
        "  in all        3 questions, 5 calls, 7 model turns, 1.2 seconds",
    ):
        assert line in lines
    assert any(line.startswith("  found         streamkit/") for line in lines)
    assert any(line.startswith("  model says    Both files are here.") for line in lines)


async def test_plain_lines_have_no_control_characters() -> None:
    out = io.BytesIO()
    screen = PlainLines(out)
    for event in (
        TurnStarted("turn_1", "m"),
        TextDelta("\x1b[31mred\x07 \x9b2J\r\nnext \ud83d"),
        TurnEnded(Turn("turn_1")),
        Output("call_1", "t", Value("call_1", "t", None, "a\x00b\tc")),
    ):
        await screen.show(event)

    assert out.getvalue().decode().replace("\n", "").isprintable()


async def test_a_terminal_shows_each_step_within_its_width(tmp_path: Path) -> None:
    console = Console(file=io.StringIO(), width=60, force_terminal=True, color_system=None, highlight=False)
    await show_on(Terminal(console), tmp_path)

    assert isinstance(console.file, io.StringIO)
    lines = console.file.getvalue().splitlines()
    assert max(map(len, lines)) <= 60
    text = " ".join(" ".join(lines).split())
    for shown in (
        "▸ Download the files mountain.bin and river.bin.",
        'model calls download_artifact {"file":"river.bin"}',
        "✓ verified",
        "sub-agent A tree adds a new layer of wood",
        "model says Both files are here.",
        "in all 3 questions · 5 calls · 7 model turns · 1.2 seconds",
    ):
        assert shown in text


async def test_a_terminal_keeps_what_moves_apart_until_it_has_ended() -> None:
    console = Console(file=io.StringIO(), width=60, force_terminal=True, color_system=None)
    screen = Terminal(console)
    await screen.show(TurnStarted("turn_1", "m"))
    await screen.show(TextDelta("It is "))

    with console.capture() as moving:
        console.print(screen)
    assert "It is▌" in moving.get()
    await screen.show(TurnEnded(Turn("turn_1", stop_reason="length")))
    assert isinstance(console.file, io.StringIO)
    assert "It is (cut at its token limit)" in console.file.getvalue()


async def test_of_what_moves_a_low_terminal_shows_the_end() -> None:
    console = Console(file=io.StringIO(), width=60, height=5, force_terminal=True, color_system=None)
    screen = Terminal(console)
    await screen.show(TurnStarted("turn_1", "m"))
    await screen.show(TextDelta("\n".join(f"line {number}" for number in range(9))))

    with console.capture() as moving:
        console.print(screen)
    assert [line for line in moving.get().split() if line.isdigit()] == ["6", "7"]
    assert "line 8▌" in moving.get()


@pytest.mark.parametrize("abandoned", [None, "malformed", "incomplete"])
async def test_calls_that_cannot_run_are_shown_with_the_reason(abandoned: AbandonedReason | None) -> None:
    console, out = Console(file=io.StringIO(), width=80, force_terminal=True, color_system=None), io.BytesIO()
    events: list[RunEvent] = [TurnStarted("turn_1", "m")]
    if abandoned:
        events += [
            ToolInputStart("call_1", "t"),
            ToolInputDelta("call_1", "{"),
            ToolInputAbandoned("call_1", abandoned),
        ]
    if abandoned != "incomplete":
        events.append(Output("call_1", "t", Failure("call_1", "t", "invalid_input", "This is no call.")))
    for screen in (Terminal(console), PlainLines(out)):
        for event in events:
            await screen.show(event)

    assert isinstance(console.file, io.StringIO)
    for shown in (console.file.getvalue(), out.getvalue().decode()):
        assert ("call dropped" in shown) == (abandoned == "incomplete")
        assert ("This is no call." in shown) == (abandoned != "incomplete")


@pytest.mark.parametrize("text", ["\x1b]0;title\x07", "a\rb", "\u202egnp.exe", "\ud800"])
def test_text_of_others_cannot_steer_a_terminal(text: str) -> None:
    assert visible(text).isprintable()


async def test_json_lines_are_the_events_and_nothing_else(tmp_path: Path) -> None:
    out = io.BytesIO()
    await show_on(JsonLines(out), tmp_path)

    events = [msgspec.json.decode(line, type=RunEvent) for line in out.getvalue().splitlines()]
    kinds = [type(event) for event in events]
    assert (kinds[0], kinds[-1]) == (TurnStarted, TurnEnded)
    assert kinds.count(Output) == 5


class Unspeakable:
    def __repr__(self) -> str:
        raise ValueError("no words")


def in_itself() -> list[Any]:
    items: list[Any] = []
    items.append(items)
    return items


TEXT = st.text(st.characters(exclude_categories=()))
DATA = st.recursive(
    TEXT
    | st.binary()
    | st.integers()
    | st.floats()
    | st.none()
    | st.sampled_from([object(), {1, "a"}, range(3), ValueError("\ud800")])
    | st.builds(Unspeakable)
    | st.builds(in_itself),
    lambda inner: st.lists(inner) | st.dictionaries(TEXT | st.integers() | st.tuples(TEXT), inner) | st.tuples(inner),
)


@given(DATA, TEXT)
def test_any_event_is_one_line_of_json_that_decodes_to_it(data: Any, text: str) -> None:
    for event in (
        Intermediate("call_1", "t", data),
        Output("call_1", "t", Value("call_1", "t", data, text)),
        Intermediate("call_1", "t", None, TextDelta(text)),
    ):
        line = json_line(event)

        assert line.count(b"\n") == 1
        json.loads(line.decode(), parse_constant=pytest.fail)
        assert type(msgspec.json.decode(line, type=RunEvent)) is type(event)
