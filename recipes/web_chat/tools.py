"""What the model may call: tools that one would like to watch, each in its own way.

- `download` yields how far it is: the page draws a bar
- `write_file` is watched while its call is written: the content grows
- `send_message` waits for a person, who may edit it
- `research` is another run, with a tool of its own: cards within a card; `search` yields hits, shown as lines
- `wait` takes its time; `read_file` fails where there is no such file
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Annotated, Literal

import anyio
import httpx2
from msgspec import Meta, Struct

from streamkit import (
    Authorize,
    Message,
    Model,
    RunEvent,
    Running,
    Sink,
    ToolContext,
    ToolError,
    Toolkit,
    collect,
    converse,
    last,
    streaming_tool,
    tool,
    user,
)

PROJECT = Path(__file__).parents[2]
Seconds = Annotated[int, Meta(ge=1, le=60, description="How many seconds")]
Path_ = Annotated[str, Meta(max_length=80, description="Name of the file")]


@dataclass(frozen=True)
class Workspace:
    """What the tools work with. folder: where files are. archive: a client of the server with the downloads.

    model, authorize, running: of the run that calls them, for runs inside of it.
    """

    folder: Path
    archive: httpx2.AsyncClient
    model: Model
    authorize: Authorize
    running: Running

    def path(self, name: str) -> Path:
        """Of a file in the folder. Raises ToolError for one that would be elsewhere."""
        path = (self.folder / name).resolve() if "\0" not in name else self.folder
        if path.parent != self.folder.resolve():
            raise ToolError("that name leads out of the folder; give one without slashes")
        return path


class Progress(Struct, frozen=True):
    file: str
    bytes: int
    total_bytes: int


@streaming_tool(reduce=last(Progress), effects="idempotent")
async def download(
    context: ToolContext[Workspace], file: Annotated[Literal["atlas.bin", "songs.bin"], Meta(description="Its name")]
) -> AsyncIterator[Progress]:
    """Download a file from the archive."""
    workspace, received = context.context, 0
    try:
        with workspace.path(file).open("wb") as saved:
            async with workspace.archive.stream("GET", f"/archive/{file}") as response:
                response.raise_for_status()
                async for chunk in response.aiter_bytes():
                    received += saved.write(chunk)
                    yield Progress(file, received, int(response.headers["Content-Length"]))
    except httpx2.HTTPError as error:
        raise ToolError(f"{file} could not be downloaded") from error


@tool(serial="folder")
def write_file(
    context: ToolContext[Workspace],
    path: Path_,
    content: Annotated[str, Meta(description="All of its text")],
) -> str:
    """Write a text file."""
    try:
        context.context.path(path).write_text(content, "utf-8")
    except (OSError, UnicodeEncodeError) as error:
        raise ToolError("the file cannot be written") from error
    return f"{path} is written."


@tool(effects="none")
def read_file(context: ToolContext[Workspace], path: Path_) -> str:
    """Read a text file."""
    try:
        return context.context.path(path).read_text("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise ToolError(f"there is no text file {path}") from error


@tool(approval=True, origin="messages.example.org, as you")
async def send_message(
    context: ToolContext[Workspace],
    to: Annotated[str, Meta(max_length=20, description="Name of the person")],
    text: Annotated[str, Meta(max_length=400, description="The message")],
) -> str:
    """Send a message to somebody."""
    async with await anyio.open_file(context.context.folder / "outbox.txt", "a", encoding="utf-8") as outbox:
        await outbox.write(f"{to}: {text}\n")
    return f"The message to {to} is sent."


@streaming_tool(finalize=lambda ticks: f"Seconds waited: {len(ticks)}.", effects="none")
async def wait(seconds: Seconds) -> AsyncIterator[str]:
    """Wait for some seconds."""
    for second in range(seconds):
        await anyio.sleep(1)
        yield f"second {second + 1} of {seconds}"


class Hit(Struct, frozen=True):
    place: str
    text: str


@streaming_tool(reduce=collect(), effects="none")
def search(
    word: Annotated[str, Meta(min_length=3, max_length=30, description="The word to look for")],
) -> Iterator[Hit]:
    """Search the sources of this project for a word."""
    yield from islice((hit for path in sorted(PROJECT.glob("streamkit/**/*.py")) for hit in hits(path, word)), 12)


def hits(path: Path, word: str) -> Iterator[Hit]:
    for number, line in enumerate(path.read_text("utf-8").splitlines(), 1):
        if word.lower() in line.lower():
            yield Hit(f"{path.relative_to(PROJECT)}:{number}", line.strip())
            return


@tool(effects="none")
async def research(
    context: ToolContext[Workspace],
    out: Sink[RunEvent],
    question: Annotated[str, Meta(max_length=120, description="The question")],
) -> str:
    """Ask a researcher who can search the sources of this project."""
    workspace = context.context
    inner = converse(
        workspace.model,
        Toolkit(search),
        (user(question),),
        max_turns=3,
        authorize=workspace.authorize,
        running=workspace.running,
    )
    ended = await out.forward(inner)
    found = ended.history[-1]
    if ended.ended != "answer" or not isinstance(found, Message):
        raise ToolError("the researcher has come to no answer")
    return found.text


TOOLS = Toolkit(download, write_file, read_file, send_message, wait, research)
