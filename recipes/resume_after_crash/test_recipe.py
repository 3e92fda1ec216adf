"""The recipe with real processes that are really killed; only the model is scripted."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import anyio
import pytest

from streamkit import Failure, Output, RunEvent, ToolContext, ToolOutput, ToolStarted

from .recipe import PIECES, Progress, follow, upload, what_the_model_knows, work
from .scripted import PHOTOS, scripted_model
from .supervisor import DEATHS, DEEDS, supervise
from .world import World

ONCE = {f"{photo}, piece {piece}": 1 for photo in PHOTOS for piece in range(1, PIECES + 1)} | {"mail to Ann": 1}


def quick_world(folder: Path) -> World:
    return World(folder / DEEDS, piece_seconds=0)


def program(*arguments: str) -> list[str]:
    return [sys.executable, "-m", "recipes.resume_after_crash", *arguments]


async def followed(folder: Path) -> list[RunEvent]:
    seen: list[RunEvent] = []
    await follow(folder, seen.append)
    return seen


@pytest.mark.parametrize("anyio_backend", ["trio"])  # of the one that watches; the workers run on asyncio
async def test_nothing_happens_twice_and_what_is_not_known_is_told(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert await supervise(tmp_path, "scripted") == 0

    assert World(tmp_path / DEEDS).counts() == ONCE
    shown = capsys.readouterr().out
    for die_after in filter(None, DEATHS):
        assert f"was killed by SIGKILL right after “{die_after}”" in shown
    assert "▸ upload lake.jpg (attempt 2, under the same id)" in shown
    assert "✗ send_mail, interrupted: The call of send_mail was interrupted" in shown

    events = await followed(tmp_path)
    failures = [event.result for event in events if isinstance(event, Output) and isinstance(event.result, Failure)]
    assert [(failure.tool, failure.kind) for failure in failures] == [("send_mail", "interrupted")]
    attempts = [event for event in events if isinstance(event, ToolStarted) and event.attempt > 1]
    assert len({event.execution_id for event in attempts}) == 1
    knows = await what_the_model_knows(tmp_path)
    (told,) = [item for item in knows.history if isinstance(item, ToolOutput) and item.failed]
    assert (knows.ended, told.text) == ("answer", failures[0].message)


async def test_a_run_that_nobody_kills_needs_one_worker(tmp_path: Path) -> None:
    conversation = await work(scripted_model(), tmp_path, world := quick_world(tmp_path))

    assert (conversation.ended, conversation.turns) == ("answer", 3)
    assert world.counts() == ONCE
    assert await work(scripted_model(), tmp_path, world) == conversation
    assert world.counts() == ONCE


async def test_whoever_follows_before_the_run_begins_sees_it_from_the_start(tmp_path: Path) -> None:
    early: list[RunEvent] = []
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(follow, tmp_path, early.append)
        await work(scripted_model(), tmp_path, quick_world(tmp_path))

    assert early == await followed(tmp_path)


@pytest.mark.parametrize("arrived", [0, 2, PIECES])
async def test_an_upload_goes_on_where_it_was(tmp_path: Path, arrived: int) -> None:
    world = quick_world(tmp_path)
    for piece in range(1, arrived + 1):
        world.do("key", f"lake.jpg, piece {piece}")
    context = ToolContext("key", "call_1", "turn_1", "upload", 2, world)

    seen = [each async for each in upload(context, "lake.jpg")]

    assert seen == [Progress("lake.jpg", pieces) for pieces in range(arrived, PIECES + 1)]
    assert world.done("key") == PIECES


# The program


def test_a_worker_that_is_killed_leaves_a_run_that_the_next_one_ends(tmp_path: Path) -> None:
    def ended(*more: str) -> subprocess.CompletedProcess[str]:
        command = program("work", str(tmp_path), *more)
        return subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)

    assert ended("--die-after", "forest.jpg, piece 1").returncode == -signal.SIGKILL
    last = ended()
    assert (last.returncode, last.stdout, last.stderr) == (0, "(ended with answer after turn 3)\n", "")
    assert World(tmp_path / DEEDS).counts() == ONCE


def test_an_interruption_ends_it_with_130() -> None:
    with subprocess.Popen(program(), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        while "worker 1 begins" not in process.stdout.readline():
            pass
        process.send_signal(signal.SIGINT)
        _, errors = process.communicate(timeout=60)
    assert (errors, process.returncode) == ("", 130)


def test_a_reader_who_leaves_ends_it_quietly() -> None:
    with subprocess.Popen(program(), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        process.stdout.readline()
        process.stdout.close()
        assert process.stderr is not None
        assert (process.stderr.read(), process.wait(timeout=120)) == ("", 0)
