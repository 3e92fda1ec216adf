"""A run as lines."""

from __future__ import annotations

from streamkit import Failure, Intermediate, Output, RunEvent, ToolStarted, TurnEnded, Value
from streamkit.terminal import on_one_line

from .recipe import PIECES


def say(line: str) -> None:
    print(line, flush=True)


def show(event: RunEvent) -> None:
    """Say what has happened; most events are no news."""
    match event:
        case ToolStarted(tool=tool, arguments=arguments, attempt=attempt):
            again = "" if attempt == 1 else f" (attempt {attempt}, under the same id)"
            say(f"  ▸ {tool} {on_one_line(' '.join(map(str, arguments.values())))}{again}")
        case Intermediate(data={"photo": photo, "pieces": pieces}):  # from a journal: what JSON knows of a Progress
            say(f"    {photo} {'█' * pieces}{'░' * (PIECES - pieces)} {pieces} of {PIECES}")
        case Output(tool=tool, result=Value()):
            say(f"  ✓ {tool}")
        case Output(tool=tool, result=Failure(kind=kind, message=message)):
            say(f"  ✗ {tool}, {kind}: {on_one_line(message)}")
        case TurnEnded(turn=turn):
            for call in turn.calls:
                say(f"  the model calls {on_one_line(f'{call.name} {call.arguments}')}")
            if turn.text.strip():
                say(f"  the model says: {on_one_line(turn.text)}")
