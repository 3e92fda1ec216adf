"""How a scene looks: who does something at the left, and beside it what it is."""

from __future__ import annotations

import shutil
import sys
import textwrap
from collections.abc import Iterator

from streamkit import (
    Conversation,
    Failure,
    Model,
    Output,
    RunEvent,
    ToolInputAbandoned,
    ToolInputAvailable,
    ToolStarted,
    Value,
)
from streamkit.terminal import visible

from .recipe import MAX_REPAIRS, Scene, mended, play

LABEL_WIDTH = 17
NARROW = 50


async def show_scene(model: Model, scene: Scene) -> None:
    """Play a scene, and print what happens."""
    print(f"? {scene.question}", flush=True)
    written: dict[str, str] = {}
    async with play(model, scene).open() as events:
        async for event in events:
            show(event, written)
    show_end(events.value)


def show(event: RunEvent, written: dict[str, str]) -> None:
    """Print what an event says. written: keeps the arguments of each call as the model wrote them, by its id."""
    match event:
        case ToolInputAvailable(call_id=call_id, arguments=arguments):
            written[call_id] = arguments
            put("model writes", " ".join(arguments.split()))
        case ToolInputAbandoned(reason=reason, detail=detail):
            put("call dropped", detail or reason)
        case ToolStarted(call_id=call_id, arguments=arguments):
            put("mended silently", mended(written[call_id], arguments))
        case Output(result=Failure(message=message)):
            put("model is told", message)
        case Output(result=Value(text=text)):
            put("tool gives", text)


def show_end(conversation: Conversation) -> None:
    used_up = f": max_repairs={MAX_REPAIRS}, and one more did not fit" if conversation.ended == "repair_limit" else ""
    put("ended", f"{conversation.ended}{used_up}")
    print(flush=True)


def put(label: str, text: str) -> None:
    columns = shutil.get_terminal_size().columns if sys.stdout.isatty() else sys.maxsize
    for row in labelled(label, text, columns):
        print(row, flush=True)


def labelled(label: str, text: str, columns: int) -> Iterator[str]:
    """The rows of a text beside its label; where there is no room for that, below it."""
    indent = LABEL_WIDTH
    if columns < NARROW:
        yield f"  {label}"
        label, indent = "", 2
    for line in visible(text).split("\n"):
        for row in textwrap.wrap(line, max(columns - indent - 3, 10), subsequent_indent="  "):
            yield f"  {label:<{indent}}{row}"
            label = ""
