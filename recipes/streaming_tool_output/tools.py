"""The three tools, one for each way of showing work.

- `download_artifact` yields its progress, and at last what it saved: the model gets that last event (`last`)
- `search_project` yields its results one by one: the model gets the list of them (`collect`)
- `ask_subagent` passes on the events of another model turn: the model gets the text of it
"""

from __future__ import annotations

import hashlib
import os
import tempfile
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from textwrap import shorten
from typing import IO, Annotated, Literal

import httpx2
from msgspec import Meta, Struct

from streamkit import (
    Model,
    Sink,
    ToolContext,
    ToolError,
    Toolkit,
    TurnEvent,
    TurnRequest,
    collect,
    last,
    streaming_tool,
    tool,
    user,
)

from .file_server import digest_header

ArtifactName = Literal["forest.bin", "island.bin", "mountain.bin", "river.bin"]

ARTIFACTS: Mapping[str, int] = {
    "forest.bin": 18_000_000,
    "island.bin": 22_000_000,
    "mountain.bin": 20_000_000,
    "river.bin": 24_000_000,
}
"""The files that are served, and how many bytes each has."""


@dataclass(frozen=True)
class Workspace:
    """What the tools work with; they get it through `execute_all(context=…)`.

    files: a client whose base URL is the file server's. folder: where downloads go. project: what is searched. model:
    who answers as the sub-agent.
    """

    files: httpx2.AsyncClient
    folder: Path
    project: Path
    model: Model


class Progress(Struct, frozen=True):
    """A piece of a file has arrived and is written."""

    file: str
    bytes: int
    total_bytes: int


class Saved(Struct, frozen=True):
    """A file is complete and has its name. verified: its checksum is the one that the server has announced."""

    file: str
    bytes: int
    sha256: str
    verified: bool


@streaming_tool(reduce=last(Saved))
async def download_artifact(
    context: ToolContext[Workspace],
    file: Annotated[ArtifactName, Meta(description="The file's name")],
) -> AsyncIterator[Progress | Saved]:
    """Download one file from the file server."""
    workspace = context.context
    received, sha256 = 0, hashlib.sha256()
    try:
        with file_in_parts(workspace.folder / file) as part:
            async with workspace.files.stream("GET", f"/{file}") as response:
                response.raise_for_status()
                async for chunk in response.aiter_bytes():
                    part.write(chunk)
                    sha256.update(chunk)
                    received += len(chunk)
                    yield Progress(file, received, int(response.headers["Content-Length"]))
            if response.headers["Repr-Digest"] != digest_header(sha256.digest()):
                raise ToolError(f"The checksum of {file} is wrong, so it was not saved.")
    except httpx2.HTTPError as error:
        raise ToolError(f"{file} could not be downloaded.") from error
    yield Saved(file, received, sha256.hexdigest(), verified=True)


@contextmanager
def file_in_parts(path: Path) -> Iterator[IO[bytes]]:
    """A file to write to. It gets its name when the block ends well; otherwise nothing of it is left.

    Until then it is a `.part` of its own, so that two downloads of one file do not meet. It is written without a
    thread: a piece goes into the memory of the operating system, which takes less time than to reach a thread.
    """
    handle, part = tempfile.mkstemp(dir=path.parent, prefix=f"{path.name}.", suffix=".part")
    try:
        with open(handle, "wb") as file:
            yield file
        os.replace(part, path)
    except BaseException:
        os.unlink(part)
        raise


class Hit(Struct, frozen=True):
    """A line that has the word."""

    file: str
    line: int
    text: str


@streaming_tool(reduce=collect())
def search_project(
    context: ToolContext[Workspace],
    word: Annotated[Literal["reducer", "cancel", "stream", "channel"], Meta(description="The word to look for")],
    limit: Annotated[int, Meta(ge=1, le=5, description="How many hits at most")],
) -> Iterator[Hit]:
    """Search the project's files for a word."""
    project = context.context.project
    sources = (path for folder in ("streamkit", "recipes") for path in sorted((project / folder).rglob("*.py")))
    yield from islice((hit for path in sources for hit in first_hit(path, word, project)), limit)


def first_hit(path: Path, word: str, project: Path) -> Iterator[Hit]:
    for number, line in enumerate(path.read_text("utf-8").splitlines(), 1):
        if word in line.lower():
            yield Hit(path.relative_to(project).as_posix(), number, shorten(line, 72, placeholder=" …"))
            return


@tool
async def ask_subagent(
    context: ToolContext[Workspace],
    out: Sink[TurnEvent],
    question: Annotated[str, Meta(max_length=80, description="The question")],
) -> str:
    """Ask a second model a question and get its answer."""
    request = TurnRequest((user(f"{question} Answer in one sentence."),))
    turn = await out.forward(context.context.model.stream_turn(request))
    return turn.text


TOOLS = Toolkit(download_artifact, search_project, ask_subagent)
