"""What is kept of a run, as a person reads it."""

from __future__ import annotations

from collections.abc import Iterator

from streamkit import History, Message, ToolCall, ToolOutput
from streamkit.terminal import on_one_line


def kept(history: History) -> Iterator[str]:
    """What a history says, an item a line."""
    for item in history:
        match item:
            case Message(role="user", text=text):
                yield f"the person   {_shortened(text)}"
            case Message(text=text):
                yield f"the model    {_shortened(text)}"
            case ToolCall(name=name, arguments=arguments):
                yield f"its call     {_shortened(f'{name} {arguments}')}"
            case ToolOutput(text=text, failed=failed):
                yield f"{'no result' if failed else 'its result'}{'':<{4 if failed else 3}}{_shortened(text)}"


def _shortened(text: str) -> str:
    line = on_one_line(text)
    return line if len(line) <= 60 else f"{line[:40]} … {line[-17:]}"
