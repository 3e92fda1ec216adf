"""What tests of executions and runs share: making calls, collecting events and results."""

import gc
import itertools
import json
from collections.abc import Sequence
from typing import Any, TypeVar

from streamkit.conversation import Conversation
from streamkit.execution.execute import execute_all
from streamkit.flows.flow import Flow
from streamkit.items import Message, ToolCall, ToolOutput
from streamkit.tool_events import Intermediate, Output, ToolEvent, ToolResult
from streamkit.tools.tool import Tool
from streamkit.tools.toolkit import Toolkit

GUARD_SECONDS = 120
"""How long a test may hang before it fails, on a machine that stands still for a while; no test measures time."""

E = TypeVar("E")
R = TypeVar("R")

_numbers = itertools.count(1)


def call(tool: Tool[..., Any] | str, arguments: dict[str, Any] | str | None = None, **fields: Any) -> ToolCall:
    """A call as a turn holds it; its id is new unless given."""
    name = tool if isinstance(tool, str) else tool.name
    text = arguments if isinstance(arguments, str) else json.dumps(arguments or {})
    number = next(_numbers)
    return ToolCall(**{"call_id": f"c{number}", "name": name, "arguments": text, "turn_id": f"t{number}", **fields})


async def collect(flow: Flow[E, R]) -> tuple[list[E], R]:
    """All events of a flow, and its value."""
    async with flow.open() as events:
        seen = [event async for event in events]
    return seen, events.value


async def run(*tools: Tool[..., Any], **options: Any) -> tuple[list[ToolEvent], tuple[ToolResult, ...]]:
    """Call each tool once, without arguments."""
    return await collect(execute_all(Toolkit(*tools), [call(tool) for tool in tools], **options))


def last_text(state: Conversation) -> str:
    """The text of the last item of a history, an answer or the output of a call."""
    item = state.history[-1]
    assert isinstance(item, Message | ToolOutput)
    return item.text


def intermediates(events: Sequence[ToolEvent], tool: str) -> list[Any]:
    """What a tool showed, in order."""
    return [event.data for event in events if isinstance(event, Intermediate) and event.tool == tool]


def outputs(events: Sequence[ToolEvent]) -> list[str]:
    """The names of the tools in the order in which they ended."""
    return [event.tool for event in events if isinstance(event, Output)]


def collect_garbage() -> None:
    """Whatever was not closed warns when it is collected, and a warning is an error."""
    gc.collect()
