"""The recipe with a scripted model: no network, no weights."""

from __future__ import annotations

import contextlib
import os
import pty
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import anyio
import msgspec

from streamkit import Conversation, Intermediate, RunEvent, user
from streamkit.testing import check_grammar

from .recipe import QUESTION, Made, Valve, store, stored, watch, work
from .scripted import scripted_model

START = Conversation((user(QUESTION),))
MOST_UNDER_WAY = 65
"""Events that nobody has taken, and the one that the tool would send."""


async def test_a_paused_run_stands_still_as_far_as_the_tool() -> None:
    made, seen = Made(seconds_each=0), list[RunEvent]()
    paused = anyio.Event()
    valve = Valve(lambda is_paused: paused.set())

    def show(event: RunEvent) -> None:
        seen.append(event)
        if sum(isinstance(each, Intermediate) for each in seen) == 20:
            valve.pause()

    async def resume() -> None:
        await paused.wait()
        await anyio.wait_all_tasks_blocked()
        assert 20 <= made.primes <= 20 + MOST_UNDER_WAY
        valve.resume()

    with anyio.fail_after(60):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(resume)
            run = work(scripted_model(), START, made, must_stop=lambda: valve.must_stop)
            state = await watch(run, valve, show)
    check_grammar(seen)
    assert (state.ended, made.primes) == ("answer", 168)


async def test_a_run_that_is_stopped_after_a_step_goes_on_from_its_file(tmp_path: Path) -> None:
    file, made, valve = tmp_path / "run.json", Made(seconds_each=0), Valve()
    valve.stop()
    half = await watch(work(scripted_model(), stored(file), made, must_stop=lambda: valve.must_stop), valve, print)
    assert (half.ended, half.turns, half.turn) == (None, 1, None)

    store(half, file)
    assert stored(file) == half
    state = await work(scripted_model(), stored(file), made, must_stop=lambda: False)
    assert (state.ended, state.turns, made.primes) == ("answer", 2, 168)


async def test_a_stop_lets_a_paused_run_come_to_the_end_of_its_step() -> None:
    valve = Valve()
    valve.pause()
    valve.stop()
    assert (valve.is_paused, valve.must_stop) == (False, True)


# The program


COMMAND = [sys.executable, "-m", "recipes.pause_resume", "--model", "scripted"]


def test_in_a_pipe_it_pauses_stops_and_goes_on() -> None:
    run = subprocess.run(COMMAND, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=120, check=False)
    assert (run.returncode, run.stderr) == (0, "")
    told = [line.strip() for line in run.stdout.splitlines()]
    assert "‖ paused" in told
    assert "(run.json: stopped after turn 1)" in told
    assert told[-2:] == ["I have counted 168 primes, the largest is 997.", "(run.json: answer after turn 2)"]


@contextlib.contextmanager
def at_a_terminal(file: Path) -> Iterator[tuple[subprocess.Popen[bytes], int]]:
    """The program at a terminal, and our end of it. It goes on until it is paused: keys are best pressed before."""
    ours, theirs = pty.openpty()
    command = [*COMMAND, os.fspath(file)]
    with subprocess.Popen(command, stdin=theirs, stdout=theirs, stderr=theirs, start_new_session=True) as process:
        os.close(theirs)
        try:
            yield process, ours
        finally:
            process.kill()
            os.close(ours)


def read_until(terminal: int, text: str) -> None:
    read = b""
    while text.encode() not in read:
        read += os.read(terminal, 1)


def test_a_person_pauses_resumes_and_stops_with_keys(tmp_path: Path) -> None:
    file = tmp_path / "run.json"
    with at_a_terminal(file) as (process, terminal):
        os.write(terminal, b" ")
        read_until(terminal, "‖ paused")
        os.write(terminal, b"q")
        read_until(terminal, "run.json: stopped after turn 1")
        assert process.wait(timeout=60) == 0
    assert msgspec.json.decode(file.read_bytes(), type=Conversation).ended is None

    with at_a_terminal(file) as (process, terminal):
        os.write(terminal, b" ")
        read_until(terminal, "goes on after turn 1")
        read_until(terminal, "‖ paused")
        os.write(terminal, b" ")
        read_until(terminal, "▶ goes on")
        read_until(terminal, "run.json: answer after turn 2")
        assert process.wait(timeout=60) == 0


def test_an_interruption_ends_it_with_130_also_while_it_is_paused(tmp_path: Path) -> None:
    with at_a_terminal(tmp_path / "run.json") as (process, terminal):
        os.write(terminal, b" ")
        read_until(terminal, "‖ paused")
        process.send_signal(signal.SIGINT)
        assert process.wait(timeout=60) == 130


def test_a_reader_who_leaves_ends_it_quietly() -> None:
    with subprocess.Popen(COMMAND, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        process.stdout.readline()
        process.stdout.close()
        assert process.stderr is not None
        assert (process.stderr.read(), process.wait(timeout=60)) == ("", 0)
