"""A person stops a run in its middle, and the conversation goes on: nothing is lost that was there by then.

Everything that runs ends with its cancel scope: the request to the model, the tools, and what they have opened. What
the model is told of it afterwards comes from a `Transcript`, whose history is legal at every moment.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Annotated

import anyio
from msgspec import Meta, Struct

from streamkit import (
    History,
    Model,
    RunEvent,
    ToolContext,
    Toolkit,
    Transcript,
    TurnRequest,
    converse,
    last,
    streaming_tool,
    user,
)

REASON = "The person stopped this call before it was done. Its file was removed."


@dataclass(frozen=True)
class Desk:
    """Where reports are written. told: hears what the tool does behind its result."""

    folder: Path
    told: Callable[[str], None]
    page_seconds: float = 0.2


class Page(Struct, frozen=True):
    """A page is written."""

    number: int
    of: int


@streaming_tool(reduce=last(Page))
async def write_report(
    context: ToolContext[Desk], pages: Annotated[int, Meta(ge=1, le=100, description="How many pages")]
) -> AsyncIterator[Page]:
    """Write a report."""
    desk = context.context
    with draft(desk.folder / "report.txt", desk.told) as report:
        for number in range(1, pages + 1):
            await anyio.sleep(desk.page_seconds)
            report.write(f"This is page {number} of {pages}.\n")
            yield Page(number, pages)


@contextmanager
def draft(file: Path, told: Callable[[str], None]) -> Iterator[IO[str]]:
    """A file that is there when it is whole, or not at all: whoever stops the tool leaves through here."""
    part = file.with_name(f"{file.name}.part")
    try:
        with part.open("w", encoding="utf-8") as opened:
            yield opened
        part.replace(file)
    except BaseException:
        part.unlink()
        told(f"the tool cleans up: {part.name} is removed")
        raise


TOOLS = Toolkit(write_report)


@dataclass(frozen=True)
class Question:
    """What a person asks. calls: whether it takes a tool; a small model cannot tell by itself."""

    text: str
    calls: bool = False


async def answer(
    model: Model,
    history: History,
    question: Question,
    *,
    desk: Desk,
    stop: Callable[[], Awaitable[None]],
    show: Callable[[RunEvent], Awaitable[None]],
) -> History:
    """The history after the answer, or after as much of it as there is when `stop` returns."""
    asked = (*history, user(question.text))
    request = TurnRequest((), tool_choice="auto" if question.calls else "none")
    transcript = Transcript(asked)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(cancel_after, stop, tasks.cancel_scope)
        run = converse(model, TOOLS, asked, request=request, context=desk).tap(transcript.feed)
        async with run.open() as events:
            async for event in events:
                await show(event)
        tasks.cancel_scope.cancel()  # there is nothing left to stop
    return transcript.history(REASON)


async def cancel_after(stop: Callable[[], Awaitable[None]], scope: anyio.CancelScope) -> None:
    await stop()
    scope.cancel()
