"""The whole show: workers that are killed and started again, while this process watches and does none of the work."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import anyio

from streamkit import ToolOutput
from streamkit.terminal import on_one_line

from .lines import say, show
from .recipe import PIECES, WISH, follow, what_the_model_knows
from .world import World

DEEDS = "deeds.txt"
DEATHS = ("lake.jpg, piece 2", "mail to Ann", None)
"""After which deed each worker is killed."""
RESTART_SECONDS = 0.3
"""So long a supervisor waits before it starts again what has died; meanwhile all that was written has been read."""


async def supervise(folder: Path, model: str) -> int:
    """Let one worker after the other go on with the run until one has ended by itself; gives its exit code."""
    say(f"? {WISH}\n")
    code = 0
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(follow, folder, show)
        for number, die_after in enumerate(DEATHS, 1):
            code = await run_worker(number, folder, model, die_after)
            if code != -signal.SIGKILL:
                break
            await anyio.sleep(RESTART_SECONDS)
            say(f"  † worker {number} was killed by SIGKILL right after “{die_after}”\n")
        if code:
            tasks.cancel_scope.cancel()
    if code == 0:
        await say_what_is_left(folder)
    return code


async def run_worker(number: int, folder: Path, model: str, die_after: str | None) -> int:
    command = [sys.executable, "-m", "recipes.resume_after_crash", "--model", model, "work", str(folder)]
    command += [] if die_after is None else ["--die-after", die_after]
    # a session of its own: Ctrl-C in a terminal reaches only us, and we end it
    async with await anyio.open_process(
        command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=None, start_new_session=True
    ) as worker:
        say(f"worker {number} {'begins' if number == 1 else 'goes on'} (process {worker.pid})")
        return await worker.wait()


async def say_what_is_left(folder: Path) -> None:
    say("\nWhat happened outside, as counted there:")
    counts = World(folder / DEEDS).counts()
    photos = sorted({deed.partition(",")[0] for deed in counts if ", piece " in deed})
    for photo in photos:
        times = [counts[f"{photo}, piece {piece}"] for piece in range(1, PIECES + 1)]
        say(f"  {photo}: pieces 1 to {PIECES} arrived {', '.join(map(str, times))} times")
    for deed in sorted(counts):
        if ", piece " not in deed:
            say(f"  {deed}: {counts[deed]} time{'' if counts[deed] == 1 else 's'}")
    say("\nWhat the model was told:")
    for item in (await what_the_model_knows(folder)).history:
        if isinstance(item, ToolOutput):
            say(f"  {'✗' if item.failed else '✓'} {item.tool}: {on_one_line(item.text)}")
