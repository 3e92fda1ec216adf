"""Showing whole runs: what comes back, what is raised, and how the terminal is left."""

from __future__ import annotations

import io
import os
import subprocess
import sys
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing
from pathlib import Path
from typing import Any

import anyio
import pytest

from streamkit import Conversation, Flow, RunEvent, Sink, Toolkit, converse, flow, streaming_tool, user
from streamkit.errors import ProviderError
from streamkit.terminal import Screen, open_screen, show
from streamkit.testing import ScriptedModel, call
from streamkit.tool_events import ToolStarted
from streamkit.tools.reducers import count
from streamkit.turns import TextDelta

from .emulator import TerminalFile

ROOT = Path(__file__).parents[2]


@streaming_tool(reduce=count())
async def copy(file: str) -> AsyncIterator[dict[str, int]]:
    """Copy a file."""
    for done in range(5):
        yield {"done": done, "total": 4}


def conversation(*turns: list[Any]) -> Flow[RunEvent, Conversation]:
    script = turns or ([call("copy", {"file": "a.bin"}, split=3)], ["It is ", "copied."])
    return converse(ScriptedModel(*script), Toolkit(copy), (user("Copy a.bin"),))


async def test_a_flow_is_shown_and_gives_its_value(capsys: pytest.CaptureFixture[str]) -> None:
    state = await show(conversation())

    assert state.ended == "answer"
    out = capsys.readouterr().out
    assert "  model gets    copy a.bin: 5\n  model says    It is copied.\n" in out
    assert "2 turns · 1 call" in out


async def test_in_a_terminal_the_same_is_a_card() -> None:
    file = TerminalFile()
    async with open_screen(file) as screen:
        await screen.ask("Copy a.bin")
        state = await screen.show(conversation())

    assert state.ended == "answer"
    shown = file.emulator.lines
    assert shown[:3] == ["▸ Copy a.bin", "", "  ✓ copy  file: a.bin"]
    assert shown[3].startswith("  │ ━━━━━━")
    assert shown[3].endswith("4 of 4")
    assert shown[4:7] == ["  ╰ model gets 5", "", "  It is copied."]


@pytest.mark.parametrize("plain", [True, False])
async def test_events_and_any_iterable_are_shown(plain: bool) -> None:
    async def some() -> AsyncIterator[RunEvent]:
        yield TextDelta("It is so.")

    file = TerminalFile()
    async with open_screen(file, plain=plain) as screen:
        async with conversation().open() as events:
            state = await screen.show(events)
        await screen.show(some())

    assert state is events.value
    assert "It is copied." in file.emulator.text
    assert "It is so." in file.emulator.text


@pytest.mark.parametrize("plain", [True, False])
async def test_the_error_of_a_run_is_raised_as_itself(plain: bool) -> None:
    file = TerminalFile()
    with pytest.raises(ProviderError, match="overloaded"):
        async with open_screen(file, plain=plain) as screen:
            await screen.show(
                conversation(["Let me ", call("copy", '{"file', ends=False), ProviderError("overloaded")])
            )

    assert "incomplete" in file.emulator.text


async def test_a_screen_that_is_cancelled_is_left_in_order() -> None:
    @flow
    async def never_ends(out: Sink[RunEvent]) -> None:
        await out.send(ToolStarted("x", "a", "copy", {}))
        await anyio.sleep_forever()

    file = TerminalFile()
    async with anyio.create_task_group() as tasks:

        async def watch() -> None:
            async with open_screen(file) as screen:
                await screen.show(never_ends())

        tasks.start_soon(watch)
        while "copy" not in file.emulator.text:
            await anyio.lowlevel.checkpoint()
        tasks.cancel_scope.cancel()

    assert "  ╰ cut off" in file.emulator.lines
    assert file.emulator.lines[-1] == ""
    assert file.emulator.shows_cursor


@pytest.mark.parametrize("plain", [True, False])
async def test_a_source_that_never_waits_lets_others_run(plain: bool) -> None:
    async def endless() -> AsyncGenerator[RunEvent, None]:
        while True:
            yield TextDelta("and so on ")

    file = TerminalFile()
    with anyio.CancelScope() as scope:
        async with anyio.create_task_group() as tasks:

            async def stop() -> None:
                scope.cancel()

            tasks.start_soon(stop)
            async with open_screen(file, plain=plain) as screen, aclosing(endless()) as events:
                await screen.show(events)
    assert scope.cancelled_caught


async def test_what_others_print_stands_above_what_moves(monkeypatch: pytest.MonkeyPatch) -> None:
    file = TerminalFile()
    monkeypatch.setattr(sys, "stdout", file)
    async with open_screen() as screen:
        await screen.put(ToolStarted("x", "a", "copy", {}))
        await screen.say("of the program itself")
        sys.stdout.write("of \x1b[31mthe\x1b[0m tool\nand")
        sys.stdout.write(" more")
        assert sys.stdout.encoding == "utf-8"
    assert sys.stdout is file

    shown = [line.strip() for line in file.emulator.lines if line.strip()]
    assert shown == ["of the program itself", "of the tool", "and more", "⊘ copy", "╰ not run", shown[-1]]


async def test_several_runs_are_summed_up_once(capsys: pytest.CaptureFixture[str]) -> None:
    async with open_screen() as screen:
        for _ in range(3):
            await screen.wait("starts")
            await screen.show(conversation())

    out = capsys.readouterr().out
    assert out.count("in all") == 1
    assert "6 turns · 3 calls" in out


@pytest.mark.parametrize(
    ("environment", "encoding", "is_card"),
    [
        ({"TERM": "xterm-256color"}, "utf-8", True),
        ({"TERM": "dumb"}, "utf-8", False),
        ({"TERM": "xterm", "CI": "true"}, "utf-8", False),
        ({"TERM": "xterm"}, "latin-1", False),
    ],
)
async def test_cards_need_a_terminal_that_can_show_them(
    environment: dict[str, str], encoding: str, is_card: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    file = TerminalFile()
    monkeypatch.setattr(file, "encoding", encoding, raising=False)
    async with open_screen(file) as screen:
        assert (type(screen).__name__ == "CardScreen") is is_card
    async with open_screen(io.StringIO()) as screen:
        assert isinstance(screen, Screen)
        assert type(screen).__name__ == "LineScreen"


def test_without_rich_there_are_lines(tmp_path: Path) -> None:
    (tmp_path / "rich.py").write_text("raise ModuleNotFoundError(name='rich')")
    program = (
        "import io\nfrom streamkit.terminal import open_screen\n"
        "print(open_screen(io.StringIO(), plain=False).func.__name__)"
    )
    run = subprocess.run(
        [sys.executable, "-c", program],
        env={**os.environ, "PYTHONPATH": f"{tmp_path}{os.pathsep}{ROOT}"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (run.stdout, run.stderr) == ("line_screen\n", "")


async def test_what_is_no_run_is_not_shown() -> None:
    with pytest.raises(TypeError, match=r"what is shown is a flow, such as converse\(…\), or its events, not list"):
        await show([1])  # type: ignore[call-overload]
