"""The run that `run_crashes` kills: one tool of each kind, a person who decides, and a sub-agent with a run of its own.

What happens to the world is a line of a file, which outlives the process that wrote it.
"""

import os
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import anyio.lowlevel

from streamkit import (
    ApprovalDesk,
    ApprovalRequested,
    Flow,
    Message,
    RunEvent,
    Sink,
    ToolContext,
    Toolkit,
    Turn,
    TurnEvent,
    TurnRequest,
    converse,
    last,
    streaming_tool,
    tool,
    user,
)
from streamkit.journal.journals import Journal
from streamkit.journal.log import RunLog
from streamkit.testing import ScriptedModel, call
from streamkit.tool_events import walk

from .calling import last_text
from .crash_points import Points

RUN = "r"
GO = (user("Do all of it."),)

PAUSE = object()
"""The model takes so long that all it has said is written down."""

TURNS: tuple[tuple[Any, ...], ...] = (
    (
        "I see. ",
        PAUSE,
        call("look", {"at": "lake"}, call_id="look", split=2),
        call("upload", {"photo": "lake", "pieces": 3}, call_id="upload"),
        call("mail", {"to": "Ann"}, call_id="mail"),
        call("label", {"on": "box"}, call_id="label"),
        call("pay", {"euros": 5}, call_id="pay"),
        call("erase", {"disk": "C"}, call_id="erase"),
        call("delegate", {"task": "tidy"}, call_id="delegate"),
    ),
    (
        "More. ",
        PAUSE,
        call("mail", {"to": "Bob"}, call_id="mail 2"),
        call("upload", {"photo": "sea", "pieces": 2}, call_id="up 2"),
    ),
    ("Do", PAUSE, "ne."),
)
INNER_TURNS: tuple[tuple[Any, ...], ...] = (
    (
        "I tidy. ",
        call("mail", {"to": "Cid"}, call_id="mail"),  # the ids of the outer run, once more
        PAUSE,
        call("upload", {"photo": "hall", "pieces": 2}, call_id="upload"),
        call("pay", {"euros": 9}, call_id="pay"),
    ),
    ("Tidy.",),
)
TEXTS = {
    "look": "a lake",
    "upload": "3",
    "mail": "Ann has mail",
    "label": "a label on the box",
    "pay": "paid 4",
    "erase": "The call of erase was denied: never",
    "delegate": "Tidy.",
    "mail 2": "Bob has mail",
    "up 2": "2",
}
INNER_TEXTS = {"mail": "Cid has mail", "upload": "2", "pay": "paid 8"}
"""What the model reads of each call that was not interrupted."""

EFFECTS = {"look": "none", "upload": "idempotent", "delegate": "idempotent"}
"""All others may happen once."""


class Deed(NamedTuple):
    """What a tool did."""

    execution_id: str
    attempt: str
    tool: str
    what: str


@dataclass(frozen=True)
class World:
    """deeds: the file. journal: of the run, and of the one inside of it."""

    deeds: Path
    journal: Journal
    desk: ApprovalDesk
    points: Points

    def do(self, context: ToolContext["World"], what: str) -> None:
        deed = Deed(context.execution_id, str(context.attempt), context.tool, what)
        self.points.pass_by("deed")
        file = os.open(self.deeds, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
        os.write(file, ("\t".join(deed) + "\n").encode())
        os.close(file)
        self.points.pass_by("deed")


def read_deeds(path: Path) -> list[Deed]:
    return [Deed(*line.split("\t")) for line in path.read_text().splitlines()] if path.exists() else []


@tool(effects="none")
async def look(context: ToolContext[World], at: str) -> str:
    """Looks."""
    context.context.do(context, at)
    await anyio.lowlevel.checkpoint()
    return f"a {at}"


@streaming_tool(effects="idempotent", reduce=last(int))
async def upload(context: ToolContext[World], photo: str, pieces: int) -> AsyncIterator[int]:
    """Uploads a photo piece by piece."""
    for piece in range(1, pieces + 1):
        context.context.do(context, f"{photo} {piece}")
        await anyio.lowlevel.checkpoint()
        yield piece


@tool
async def mail(context: ToolContext[World], out: Sink[str], to: str) -> str:
    """Sends a mail."""
    await out.send("connected")
    context.context.do(context, to)
    await out.send("sent")
    return f"{to} has mail"


@tool
def label(context: ToolContext[World], on: str) -> str:
    """Prints a label, on a thread."""
    context.context.do(context, on)
    return f"a label on the {on}"


@tool(approval=True)
async def pay(context: ToolContext[World], euros: int) -> str:
    """Pays."""
    await anyio.lowlevel.checkpoint()
    context.context.do(context, f"{euros}")
    return f"paid {euros}"


@tool(approval=True)
async def erase(context: ToolContext[World], disk: str) -> str:
    """Erases a disk; nobody allows that."""
    context.context.do(context, disk)
    return "gone"


@tool(effects="idempotent")
def delegate(context: ToolContext[World], task: str) -> Flow[RunEvent, str]:
    """Somebody else does it, in a run that is written down under the id of this call."""

    async def work(out: Sink[RunEvent]) -> str:
        async with context.context.journal.drive(context.execution_id) as run:
            start = run.conversation or (user(task),)
            model = Planned(INNER_TURNS, run)
            world = context.context
            inner = converse(model, INNER_TOOLKIT, start, authorize=world.desk.authorize, context=world, journal=run)
            return last_text(await out.forward(inner))

    return Flow(work)


INNER_TOOLKIT = Toolkit(mail, upload, pay)
TOOLKIT = Toolkit(look, upload, mail, label, pay, erase, delegate)


@dataclass(frozen=True)
class Planned:
    """A model that says the turn which comes next in the history, so it needs to remember nothing. All have text."""

    turns: tuple[tuple[Any, ...], ...]
    run: RunLog | None = None
    name: str = "planned"

    def stream_turn(self, request: TurnRequest) -> Flow[TurnEvent, Turn]:
        said = [item for item in request.history if isinstance(item, Message) and item.role == "assistant"]
        pause = anyio.lowlevel.checkpoint if self.run is None else self.run.flush
        parts = [pause if part is PAUSE else part for part in self.turns[len(said)]]
        return ScriptedModel(parts).stream_turn(request)


def decide(desk: ApprovalDesk, event: RunEvent) -> None:
    """What the person says: all but the disk, and a euro less."""
    question = walk(event)[1]
    if isinstance(question, ApprovalRequested):
        if question.tool == "erase":
            desk.deny(question.execution_id, "never")
        else:
            desk.allow(question.execution_id, arguments={"euros": question.arguments["euros"] - 1})


async def live(journal: Journal, deeds: Path, points: Points) -> None:
    """Begin the run, or go on with it, to its end."""
    world = World(deeds, journal, ApprovalDesk(), points)
    async with journal.drive(RUN) as run:
        flow = converse(
            Planned(TURNS, run),
            TOOLKIT,
            run.conversation or GO,
            authorize=world.desk.authorize,
            context=world,
            journal=run,
        )
        async with flow.open() as events:
            async for event in events:
                points.pass_by("event")
                decide(world.desk, event)
        assert events.value.ended == "answer"
