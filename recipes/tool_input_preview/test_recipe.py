"""The recipe with a scripted model: no network, no weights."""

from __future__ import annotations

import io
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from rich.console import Console

from streamkit import Conversation, Output, RunEvent, ToolContext, ToolError, ToolOutput
from streamkit.errors import ProviderError
from streamkit.testing import ScriptedModel, call, check_grammar, stop

from .drafts import Draft, Drafts
from .lines import Lines
from .recipe import EXAMPLES, write, write_file
from .scripted import WISHES, scripted_model
from .terminal import Terminal, framed

DOUBLE = "def double(number):\n    return number * 2\n"
NOTE = {"path": "note.md", "content": "# A note\n"}


async def run(model: ScriptedModel, folder: Path) -> tuple[list[RunEvent], Conversation]:
    async with write(model, folder, "Write a file.").open() as events:
        seen = [event async for event in events]
    check_grammar(seen)
    return seen, events.value


def fed(events: list[RunEvent]) -> tuple[list[str], Drafts]:
    """The endings of all drafts in the order in which they came, and the drafts."""
    drafts = Drafts()
    told = [draft.told() for event in events if (draft := drafts.feed(event)) and draft.ending]
    return told, drafts


def files(folder: Path) -> list[str]:
    return [path.name for path in folder.rglob("*") if path.is_file()]


# The files


async def test_a_file_grows_while_its_call_is_written(tmp_path: Path) -> None:
    model = ScriptedModel([call("write_file", {"path": "double.py", "content": DOUBLE}, split=3)], ["Done."])
    events, conversation = await run(model, tmp_path)

    drafts = Drafts()
    shown = ["\n".join(draft.lines) for event in events if (draft := drafts.feed(event)) and draft.name == "double.py"]
    assert all(DOUBLE.startswith(text) for text in shown)
    assert len(set(shown)) > 10
    assert (tmp_path / "double.py").read_text() == DOUBLE
    assert conversation.ended == "answer"
    assert model.requests[0].history[: len(EXAMPLES)] == EXAMPLES


async def test_a_call_that_is_cut_is_not_written(tmp_path: Path) -> None:
    model = ScriptedModel([call("write_file", '{"path": "note.md", "content": "# A no', ends=False), stop("length")])
    events, conversation = await run(model, tmp_path)

    assert fed(events)[0] == ["✗ note.md is not written: the turn was cut at its token limit"]
    assert files(tmp_path) == []
    assert conversation.ended == "length"


async def test_a_call_that_is_no_json_is_not_written(tmp_path: Path) -> None:
    model = ScriptedModel([call("write_file", '{"path": "note.md", "content": "# A no', ends=True)], ["I gave up."])
    events, _ = await run(model, tmp_path)

    (told,) = fed(events)[0]
    assert told.startswith("✗ note.md is not written: The call of write_file did not run")
    assert files(tmp_path) == []


async def test_nothing_stays_open_when_the_model_fails(tmp_path: Path) -> None:
    model = ScriptedModel([call("write_file", NOTE, ends=False), ProviderError("overloaded")])
    drafts = Drafts()
    with pytest.raises(ProviderError):
        async with write(model, tmp_path, "Write a file.").open() as events:
            async for event in events:
                drafts.feed(event)
    assert drafts.open == []


async def test_a_path_that_leads_out_is_told_to_the_model(tmp_path: Path) -> None:
    model = ScriptedModel(
        [call("write_file", {**NOTE, "path": "../note.md"})], [call("write_file", NOTE, split=5)], ["There it is."]
    )
    events, _ = await run(model, tmp_path / "folder")

    assert fed(events)[0] == [
        "✗ ../note.md is not written: that path leads out of the folder; give one within it",
        "✓ note.md is written: 1 line",
    ]
    answer = model.requests[1].history[-1]
    assert isinstance(answer, ToolOutput)
    assert answer.failed
    assert files(tmp_path) == ["note.md"]


@pytest.mark.parametrize("path", ["../a", "b/../../a", "/a", "out/a", "", "old", "old/a", "\0", "\ud800"])
def test_what_cannot_be_a_new_file_of_the_folder_is_refused(path: str, tmp_path: Path) -> None:
    folder = tmp_path / "folder"
    folder.mkdir()
    (folder / "old").write_text("old")
    (folder / "out").symlink_to(tmp_path)
    context = ToolContext("turn_1/0", "call_1", "turn_1", "write_file", 1, folder)
    with pytest.raises(ToolError) as refused:
        write_file(context, path, "new")
    assert str(tmp_path) not in str(refused.value)
    assert files(tmp_path) == ["old"]
    assert (folder / "old").read_text() == "old"


# The screens


async def test_the_lines_of_a_pipe(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    model = ScriptedModel([call("write_file", {"path": "double.py", "content": DOUBLE}, split=3)], ["Done."])
    events, _ = await run(model, tmp_path)

    screen = Lines()
    screen.ask("Write a file.")
    for event in events:
        screen.show(event)

    assert capsys.readouterr().out.splitlines() == [
        "? Write a file.",
        "double.py:1: def double(number):",
        "double.py:2:     return number * 2",
        "✓ double.py is written: 2 lines",
        "Done.",
    ]


def drawn(events: Iterator[RunEvent], lines: int) -> tuple[Terminal, str]:
    """A terminal after events until a file has so many lines, and what stands at its bottom."""
    screen = Terminal(Console(file=io.StringIO(), width=60, height=12))
    for event in events:
        screen.show(event)
        if any(len(draft.lines) >= lines for draft in screen.drafts.open):
            break
    with screen.console.capture() as captured:
        screen.console.print(screen)
    return screen, captured.get()


async def test_the_end_of_a_long_file_is_seen_in_a_terminal(tmp_path: Path) -> None:
    content = "\n".join(f"line {number}" for number in range(1, 100))
    model = ScriptedModel([call("write_file", {"path": "long.txt", "content": content}, split=4)], ["Done."])
    seen, _ = await run(model, tmp_path)
    events = iter(seen)

    screen, shown = drawn(events, lines=50)
    assert "long.txt" in shown
    assert " 49 line 49" in shown
    assert "50 line" not in shown.splitlines()[1]
    assert len(shown.splitlines()) < 12

    for event in events:
        screen.show(event)
    assert screen.drafts.open == []


def test_the_end_of_a_long_line_is_seen_in_a_terminal() -> None:
    draft = Draft("long.txt")
    draft.grow("first\n" + "a" * 100_000 + "z")
    console = Console(file=io.StringIO(), width=60, height=12)
    with console.capture() as captured:
        console.print(framed(draft, console, rows=5))
    rows = captured.get().splitlines()
    assert len(rows) == 7
    assert rows[-2].rstrip("│ ").endswith("az▌")


async def test_a_file_that_is_interrupted_leaves_one_line_in_a_terminal(tmp_path: Path) -> None:
    model = ScriptedModel([call("write_file", {"path": "a\x1b[2J.py", "content": DOUBLE}, split=4)], ["Done."])
    seen, _ = await run(model, tmp_path)
    screen, shown = drawn(iter(seen), lines=2)
    assert "\x1b[2J" not in shown

    with screen.console.capture() as captured:
        screen.end()
    assert captured.get() == "✗ a�[2J.py is not written: interrupted\n"


async def test_an_interruption_while_the_tool_runs_does_not_say_that_nothing_is_written(tmp_path: Path) -> None:
    events, _ = await run(ScriptedModel([call("write_file", NOTE)], ["Done."]), tmp_path)
    drafts = Drafts()
    for event in events:
        if isinstance(event, Output):
            break
        drafts.feed(event)
    (draft,) = drafts.open
    draft.interrupt()
    assert draft.told() == "✗ note.md may be written: interrupted"


# The program


def program(*arguments: str) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "recipes.tool_input_preview", "--model", "scripted", *arguments]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def test_a_reader_who_leaves_ends_it_quietly() -> None:
    with program() as process:
        assert process.stdout is not None
        assert process.stdout.readline() == f"? {WISHES[0]}\n"
        process.stdout.close()
        assert process.stderr is not None
        assert (process.stderr.read(), process.wait(timeout=60)) == ("", 0)


def test_an_interruption_ends_it_with_130(tmp_path: Path) -> None:
    with program("--folder", os.fspath(tmp_path)) as process:
        assert process.stdout is not None
        process.stdout.readline()
        process.send_signal(signal.SIGINT)
        _, errors = process.communicate(timeout=60)
    assert (errors, process.returncode) == ("", 130)
    assert files(tmp_path) == []


async def test_the_script_shows_each_ending(tmp_path: Path) -> None:
    model = scripted_model(pause_seconds=0)
    told = [fed((await run(model, tmp_path))[0])[0] for _ in WISHES]
    assert [line[0] for lines in told for line in lines] == ["✓", "✗", "✗", "✓"]
