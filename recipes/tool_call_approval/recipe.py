"""A person allows each mail before it is sent: at the keyboard while the run waits, or between two processes.

Both are the same run, with another `authorize`: a desk that waits, or verdicts that are known from the start.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Protocol

import anyio
from msgspec import Meta

from streamkit import (
    ApprovalDesk,
    ApprovalRequested,
    Authorize,
    Conversation,
    Flow,
    Model,
    RunEvent,
    ToolContext,
    Toolkit,
    TurnRequest,
    converse,
    tool,
    user,
    walk,
)

WISH = "Send a mail to Ann and a mail to Bob: we meet at noon."
ADDRESSES = {"Ann": "ann@example.org", "Bob": "bob@example.org"}

Name = Annotated[str, Meta(max_length=20)]


@tool(effects="none")
async def find_address(name: Name) -> str:
    """Look up the address of somebody."""
    return ADDRESSES.get(name, f"There is no address of {name}.")


@tool(approval=True, origin="mail.example.org, as you")
async def send_mail(context: ToolContext[Path], to: Name, text: Annotated[str, Meta(max_length=100)]) -> str:
    """Send a mail to somebody."""
    with context.context.open("a", encoding="utf-8") as outbox:
        outbox.write(f"{to}: {text}\n")
    return f"The mail to {to} is sent."


TOOLS = Toolkit(find_address, send_mail)


def wished(wish: str) -> Conversation:
    return Conversation((user(wish),))


def fulfil(model: Model, start: Conversation, outbox: Path, *, authorize: Authorize) -> Flow[RunEvent, Conversation]:
    """The run that fulfils a wish, or goes on with it; what is sent goes into the outbox."""
    request = TurnRequest((), parallel_calls=True)
    return converse(model, TOOLS, start, request=request, authorize=authorize, context=outbox)


async def shown(run: Flow[RunEvent, Conversation], show: Callable[[RunEvent], None]) -> Conversation:
    """Run it, and show what happens."""
    async with run.open() as events:
        async for event in events:
            show(event)
    return events.value


class Decider(Protocol):
    async def decide(self, asked: ApprovalRequested) -> None:
        """Answer a question at the desk, whenever there is an answer."""


async def live(
    model: Model, wish: str, outbox: Path, *, desk: ApprovalDesk, person: Decider, show: Callable[[RunEvent], None]
) -> Conversation:
    """A run with somebody who decides beside it: the loop shows events, and is never held up by a question."""
    async with anyio.create_task_group() as tasks:
        async with fulfil(model, wished(wish), outbox, authorize=desk.authorize).open() as events:
            async for event in events:
                show(event)
                asked = walk(event)[1]  # inner runs ask at the same desk
                if isinstance(asked, ApprovalRequested):
                    tasks.start_soon(person.decide, asked)
        tasks.cancel_scope.cancel()  # of what is decided nobody need be asked any more
    return events.value
