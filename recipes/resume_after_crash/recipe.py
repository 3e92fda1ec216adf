"""A run that is killed in the middle of its work and goes on in another process, watched from a third one.

`journal.drive` begins a run and goes on with it: the lines of `work` are the same for both.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Literal

import anyio
from msgspec import Struct

from streamkit import (
    Conversation,
    Model,
    RunEvent,
    ToolContext,
    Toolkit,
    TurnRequest,
    converse,
    last,
    streaming_tool,
    tool,
    user,
)
from streamkit.journal.sqlite import sqlite_journal

from .world import World

RUN = "photos"
JOURNAL = "journal.db"
WISH = "Upload meadow.jpg, lake.jpg and forest.jpg. Then mail Ann that they are there."

PIECES = 4
"""Of each photo."""

Photo = Literal["meadow.jpg", "lake.jpg", "forest.jpg"]


class Progress(Struct, frozen=True):
    """So much of a photo has arrived."""

    photo: str
    pieces: int


# idempotent: under one key the server goes on where it was, so a call that was cut off may run again
@streaming_tool(reduce=last(Progress), effects="idempotent", serial="upload")
async def upload(context: ToolContext[World], photo: Photo) -> AsyncIterator[Progress]:
    """Upload a photo."""
    world, key = context.context, context.execution_id  # the same after a crash
    arrived = world.done(key)
    yield Progress(photo, arrived)
    for piece in range(arrived + 1, PIECES + 1):
        await anyio.sleep(world.piece_seconds)
        world.do(key, f"{photo}, piece {piece}")
        yield Progress(photo, piece)


# "once", as every tool that says nothing else: nobody can tell whether a mail that was cut off is on its way
@tool
async def send_mail(context: ToolContext[World], to: str, text: str) -> str:
    """Send a mail."""
    context.context.do(context.execution_id, f"mail to {to}")
    return "The mail is sent."


TOOLS = Toolkit(upload, send_mail)


async def work(model: Model, folder: Path, world: World) -> Conversation:
    """Begin the run of this folder, or go on with it. Raises RunIsHeld while another process is at it."""
    async with sqlite_journal(folder / JOURNAL).drive(RUN) as run:
        start = run.conversation or (user(WISH),)
        request = TurnRequest((), parallel_calls=True)
        return await converse(model, TOOLS, start, request=request, context=world, journal=run)


async def follow(folder: Path, show: Callable[[RunEvent], None]) -> None:
    """Show the run of this folder from its start to its end, while others work at it, one after the other."""
    journal = sqlite_journal(folder / JOURNAL)
    await journal.store.wait(RUN, 0)  # until somebody has begun it
    async with journal.follow(RUN).open() as events:
        async for followed in events:
            show(followed.event)


async def what_the_model_knows(folder: Path) -> Conversation:
    """The state in which the run is written down."""
    async with sqlite_journal(folder / JOURNAL).resume(RUN) as run:
        assert run.conversation is not None
        return run.conversation
