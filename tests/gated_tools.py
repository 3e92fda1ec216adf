"""Tools that a person is asked about, and what became of it."""

from typing import Any

import msgspec

from streamkit.items import ToolCall
from streamkit.tools.decorators import tool
from streamkit.tools.tool import Tool
from streamkit.tools.toolkit import Toolkit

sent: list[str] = []
"""To whom; a test that looks at it empties it first."""


@tool(approval=True, origin="mail.example.org")
async def send(to: str) -> str:
    """Send a mail."""
    sent.append(to)
    return f"sent to {to}"


@tool
async def read(p: str) -> str:
    """Read a file."""
    return p


TOOLS = Toolkit(send, read)

BODILESS: Tool[..., Any] = Tool(
    name="ask_person", description="Ask the person.", input={"type": "object", "properties": {}}
)


def calls(*asked: tuple[str, dict[str, Any]]) -> list[ToolCall]:
    return [
        ToolCall(f"c{place}", name, msgspec.json.encode(arguments).decode(), "t", place)
        for place, (name, arguments) in enumerate(asked)
    ]
