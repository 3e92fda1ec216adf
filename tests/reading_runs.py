"""Runs whose model reads files and sends mail, and what was done in them."""

import anyio

from streamkit.conversation import Conversation
from streamkit.flows.flow import Flow
from streamkit.items import user
from streamkit.testing.grammar import check_grammar
from streamkit.testing.histories import check_items
from streamkit.tool_events import RunEvent
from streamkit.tools.decorators import tool
from streamkit.tools.toolkit import Toolkit

from .calling import GUARD_SECONDS, collect

ran: list[str] = []


@tool
async def read(p: str = "a") -> str:
    """Read a file."""
    ran.append(p)
    return f"content of {p}"


@tool(approval=True)
async def send(to: str) -> str:
    """Send a mail."""
    ran.append(to)
    return f"sent to {to}"


@tool
async def hang() -> str:
    """Take for ever."""
    await anyio.sleep_forever()
    return ""


KIT = Toolkit(read, send, hang)
GO = (user("go"),)


async def seen(flow: Flow[RunEvent, Conversation], *pending: str) -> tuple[list[RunEvent], Conversation]:
    with anyio.fail_after(GUARD_SECONDS):
        collected, state = await collect(flow)
    check_grammar(collected, pending=pending)
    if state.turn is None:
        check_items(state.history)
    return collected, state
