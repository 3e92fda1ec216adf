"""A run as lines."""

from __future__ import annotations

import contextlib
import io
import os
from typing import Any

import anyio
import pytest
from hypothesis import given

from streamkit.terminal.blocks import as_it_is
from streamkit.terminal.line_screen import LineScreen
from streamkit.terminal.words import on_one_line, shown, visible
from streamkit.tool_events import ApprovalRequested, Failure, Intermediate, Output, ToolStarted, Value
from streamkit.turns import (
    ReasoningDelta,
    TextDelta,
    ToolInputAbandoned,
    ToolInputAvailable,
    ToolInputStart,
    Turn,
    TurnEnded,
    TurnRestarted,
    TurnStarted,
)

from .shown_events import TEXT, within, written


async def lines(*events: object) -> list[str]:
    out = io.StringIO()
    screen = LineScreen(out, as_it_is)
    for event in events:
        await screen.put(event)
    await screen.end()
    assert out.getvalue().replace("\n", "").isprintable()
    return out.getvalue().splitlines()


async def test_each_step_of_a_call_is_a_line() -> None:
    assert await lines(
        *written("copy", '{"file"'),
        ToolInputAvailable("a", '{"file":"a.bin"}'),
        ApprovalRequested("x", "a", "copy", {"file": "a.bin"}),
        ToolStarted("x", "a", "copy", {"file": "a.bin"}),
        *(Intermediate("a", "copy", {"done": number, "total": 40}) for number in range(41)),
        Intermediate("a", "copy", {"seen": True}),
        Output("a", "copy", Value("a", "copy", None, "all\nof it")),
        Output("b", "move", Failure("b", "move", "timeout", "It took too long.")),
    ) == [
        "  model writes  a call of copy",
        '  model calls   copy {"file":"a.bin"}',
        "  call waits    copy a.bin: for a decision",
        *(f"  tool runs     copy a.bin: {tenth * 10} %, {tenth * 4} of 40" for tenth in range(1, 11)),
        '  tool runs     copy a.bin: {"seen":true}',
        "  model gets    copy a.bin: all of it",
        "  timeout       move: It took too long.",
    ]


async def test_what_is_done_between_two_tenths_is_told_as_it_is() -> None:
    assert await lines(Intermediate("a", "copy", {"done": 1, "total": 3})) == ["  tool runs     a: 33 %, 1 of 3"]


async def test_text_goes_out_as_it_comes() -> None:
    out = io.StringIO()
    screen = LineScreen(out, as_it_is)
    pieces = []
    for event in (
        ReasoningDelta("Hm"),
        ReasoningDelta("."),
        TextDelta("It is "),
        TextDelta("so.\nAnd"),
        TextDelta(" so."),
    ):
        await screen.put(event)
        pieces.append(out.getvalue())
        out.truncate(0)
        out.seek(0)

    assert pieces == ["  model thinks  Hm", ".", "\n  model says    It is ", "so.\n                And", " so."]


async def test_inner_runs_are_indented_and_say_whose_they_are() -> None:
    outer = ToolStarted("x", "outer", "agent", {"question": "How?"})
    text = [TextDelta("It grows. ") for _ in range(12)]
    assert await lines(
        outer, *within(*text, *written("search"), TurnEnded(Turn("t", items=(), stop_reason="length")))
    ) == [
        "    in            agent How?",
        f"    model says    {'It grows. ' * 8}It",
        "    model says    grows. It grows. It grows. It grows.",
        "    model writes  a call of search",
        "    turn ended    cut at its token limit",
    ]


@pytest.mark.parametrize(
    ("event", "told"),
    [
        (ToolInputAbandoned("a", "incomplete", "cut"), ["  call dropped  copy: incomplete: cut"]),
        (ToolInputAbandoned("a", "malformed"), []),
        (TurnRestarted("overloaded"), ["  taken back    the model begins again: overloaded"]),
        ({"my": "event"}, ['                {"my":"event"}']),
        (TurnStarted("t", "m"), []),
    ],
)
async def test_what_else_happens_is_told(event: object, told: list[str]) -> None:
    assert await lines(ToolInputStart("a", "copy"), event) == ["  model writes  a call of copy", *told]


@pytest.mark.parametrize("event", [TextDelta("Once there was"), ToolStarted("x", "a", "copy", {})])
async def test_a_run_that_is_cut_off_says_so(event: object) -> None:
    out = io.StringIO()
    screen = LineScreen(out, as_it_is)
    await screen.put(event)
    screen.cut("stopped\nby \x1b[2J")
    await screen.end()

    assert out.getvalue().endswith("  stopped by \N{REPLACEMENT CHARACTER}[2J\n")


async def test_a_word_of_an_inner_run_that_is_very_long_takes_no_longer_than_its_lines() -> None:
    told = await lines(ToolStarted("x", "a", "agent", {}), Intermediate("a", "agent", event=TextDelta("x" * 2_000_000)))
    assert len(told) > 2_000_000 // 84
    assert all(line.endswith("x") and len(line) < 110 for line in told[1:])


async def test_what_is_long_is_cut() -> None:
    huge = "x" * 40_000_000
    for line in await lines(
        *written("copy"), ToolInputAvailable("a", huge), Output("a", "copy", Value("a", "copy", None, huge))
    ):
        assert len(line) < 2_100


@given(TEXT)
def test_text_of_others_cannot_steer_a_terminal(text: str) -> None:
    for line in visible(text).split("\n"):
        line.encode()
        assert not set(line) & {*map(chr, range(32)), "\x7f", "\x9b", "\u202e", "\u2028"}
    assert "\n" not in on_one_line(text)


class Unspeakable:
    def __repr__(self) -> str:
        raise ValueError("no words")


@pytest.mark.parametrize(
    ("data", "text"),
    [
        ("as it is", "as it is"),
        ({"a": 1}, '{"a":1}'),
        ({"a": "\ud800"}, "{'a': '\\ud800'}"),
    ],
)
def test_anything_can_be_shown(data: Any, text: str) -> None:
    assert shown(data) == text


def test_also_what_cannot_even_be_repeated() -> None:
    assert shown(Unspeakable()).startswith("<")


async def test_an_encoding_that_lacks_characters_gets_question_marks() -> None:
    raw = io.BytesIO()
    screen = LineScreen(io.TextIOWrapper(raw, encoding="ascii"), as_it_is)
    await screen.put(TextDelta("größer\ud800"))

    assert raw.getvalue() == b"  model says    gr??er?"


async def test_a_reader_who_does_not_read_is_waited_for_where_a_cancellation_is_heard() -> None:
    reading, writing = os.pipe()
    os.set_blocking(writing, False)
    with contextlib.suppress(BlockingIOError):
        while os.write(writing, b" " * 4096):
            pass
    os.set_blocking(writing, True)
    with os.fdopen(writing, "w") as out, os.fdopen(reading, "rb"):
        screen = LineScreen(out, as_it_is)
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(screen.put, TextDelta("Is anybody there?"))
            await anyio.wait_all_tasks_blocked()
            tasks.cancel_scope.cancel()
