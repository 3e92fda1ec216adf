"""The recipe with a scripted model: stopped at every moment, and once by a real key."""

from __future__ import annotations

import contextlib
import os
import pty
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from itertools import count
from pathlib import Path

import anyio

from streamkit import History, Message, Output, RunEvent, ToolCall, ToolInputDelta, ToolOutput, ToolStarted
from streamkit.testing import ScriptedModel, call, check_history

from .__main__ import QUESTIONS
from .kept import kept
from .recipe import REASON, Desk, Question, answer
from .scripted import scripted_model

QUESTION = Question("Write a report of 3 pages.", calls=True)
DIALECTS = ("openai-chat", "openai-responses", "anthropic", "gemini", "ollama")


def model() -> ScriptedModel:
    return ScriptedModel(["I write ", "it. ", call("write_report", {"pages": 3}, split=4)], ["It is ", "written."])


async def stopped(
    folder: Path, at: Callable[[RunEvent], bool], writes: ScriptedModel | None = None
) -> tuple[History, list[str]]:
    """The history of a run that is stopped at the first such event, and what its tool said."""
    pressed, told = anyio.Event(), list[str]()

    async def see(event: RunEvent) -> None:
        if at(event):
            pressed.set()

    desk = Desk(folder, told.append, page_seconds=0)
    with anyio.fail_after(60):
        history = await answer(writes or model(), (), QUESTION, desk=desk, stop=pressed.wait, show=see)
    return history, told


async def ignore(event: RunEvent) -> None: ...


def files(folder: Path) -> list[str]:
    return [path.name for path in folder.iterdir()]


async def test_a_conversation_goes_on_wherever_it_was_stopped(tmp_path: Path) -> None:
    for number in count():
        seen = count()
        history, _ = await stopped(tmp_path, lambda event, number=number, seen=seen: next(seen) == number)  # type: ignore[misc]
        follow_up = ScriptedModel(["Fine."])
        history = await answer(
            follow_up, history, Question("And now?"), desk=Desk(tmp_path, print), stop=anyio.sleep_forever, show=ignore
        )
        for dialect in DIALECTS:
            check_history(follow_up.requests[0].history, dialect)
        assert history[-1] == Message("assistant", "Fine.")
        assert "report.txt.part" not in files(tmp_path)
        if next(seen) <= number:
            break


async def test_a_tool_that_is_stopped_cleans_up_and_the_model_is_told(tmp_path: Path) -> None:
    history, told = await stopped(tmp_path, lambda event: isinstance(event, ToolStarted))

    assert (told, files(tmp_path)) == (["the tool cleans up: report.txt.part is removed"], [])
    output = history[-1]
    assert isinstance(output, ToolOutput)
    assert (output.failed, output.text) == (True, REASON)
    assert list(kept(history))[1:3] == ["the model    I write it.", 'its call     write_report {"pages":3}']


async def test_what_was_done_before_is_kept(tmp_path: Path) -> None:
    history, told = await stopped(tmp_path, lambda event: isinstance(event, Output))

    assert (told, files(tmp_path)) == ([], ["report.txt"])
    (output,) = [item for item in history if isinstance(item, ToolOutput)]
    assert (output.failed, output.text) == (False, '{"number":3,"of":3}')


async def test_half_a_call_leaves_nothing(tmp_path: Path) -> None:
    half = ScriptedModel(["I write it. ", call("write_report", '{"pa', ends=False), anyio.sleep_forever])
    history, _ = await stopped(tmp_path, lambda event: isinstance(event, ToolInputDelta), half)

    assert history[1:] == (Message("assistant", "I write it. "),)
    assert not any(isinstance(item, ToolCall) for item in history)


async def test_the_script_has_an_answer_where_nobody_stops_anything(tmp_path: Path) -> None:
    history: History = ()
    script = scripted_model(pause_seconds=0)
    desk = Desk(tmp_path, print, page_seconds=0)
    for question in QUESTIONS:
        history = await answer(script, history, question, desk=desk, stop=anyio.sleep_forever, show=ignore)
    assert [item.text[:22] for item in history if isinstance(item, Message) and item.role == "assistant"] == [
        "Once there was a fox w",
        "The report is written.",
        "You have asked 3 thing",
    ]


# The program


COMMAND = [sys.executable, "-m", "recipes.mid_stream_abort", "--model", "scripted"]


def test_in_a_pipe_two_of_three_runs_are_stopped() -> None:
    run = subprocess.run(COMMAND, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=120, check=False)
    assert (run.returncode, run.stderr) == (0, "")
    assert run.stdout.count("■ stopped") == 2
    assert "the tool cleans up: report.txt.part is removed" in run.stdout
    assert "You have asked 3 things. The first was: Tell me a long story about a fox." in run.stdout


@contextlib.contextmanager
def at_a_terminal() -> Iterator[tuple[subprocess.Popen[bytes], int]]:
    """The program at a terminal, and our end of it."""
    ours, theirs = pty.openpty()
    with subprocess.Popen(COMMAND, stdin=theirs, stdout=theirs, stderr=theirs, start_new_session=True) as process:
        os.close(theirs)
        try:
            yield process, ours
        finally:
            process.kill()
            os.close(ours)


def test_a_key_stops_what_runs() -> None:
    with at_a_terminal() as (process, terminal):
        for text in (b"tree 2", b"2 of 40"):
            read_until(terminal, text)
            os.write(terminal, b" ")
        read_until(terminal, b"The first was: Tell me a long story about a fox.")
        assert process.wait(timeout=60) == 0


def test_an_interruption_ends_it_with_130() -> None:
    with at_a_terminal() as (process, terminal):
        read_until(terminal, b"tree 2")
        process.send_signal(signal.SIGINT)
        assert process.wait(timeout=60) == 130


def read_until(terminal: int, text: bytes) -> None:
    read = b""
    while text not in read:
        read += os.read(terminal, 1)


def test_a_reader_who_leaves_ends_it_quietly() -> None:
    with subprocess.Popen(COMMAND, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        process.stdout.readline()
        process.stdout.close()
        assert process.stderr is not None
        assert (process.stderr.read(), process.wait(timeout=60)) == ("", 0)
