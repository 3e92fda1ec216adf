"""A model writes files, and a person sees them grow: `fields` gives the parts of a call while it is written."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

from msgspec import Meta

from streamkit import (
    Conversation,
    Flow,
    History,
    Model,
    RunEvent,
    ToolCall,
    ToolContext,
    ToolError,
    Toolkit,
    ToolOutput,
    TurnRequest,
    assistant,
    converse,
    tool,
    user,
)
from streamkit.input_fields import fields


@tool(serial="folder")
def write_file(
    context: ToolContext[Path],
    path: Annotated[str, Meta(description="Name of the file")],
    content: Annotated[str, Meta(description="All of its text")],
) -> str:
    """Write a new text file."""
    folder = context.context.resolve()
    try:
        file = (folder / path).resolve()
        if not file.is_relative_to(folder):
            raise ToolError("that path leads out of the folder; give one within it")
        file.parent.mkdir(parents=True, exist_ok=True)
        with file.open("x", encoding="utf-8", newline="\n") as new:
            new.write(content)
    except OSError as error:
        raise ToolError(f"the file cannot be made: {error.strerror}") from error
    except ValueError as error:  # a NUL in the path, half a character
        raise ToolError("the path or the content has characters that no file can have") from error
    return f"{path} is written."


TOOLS = Toolkit(write_file)


def write(model: Model, folder: Path, wish: str, *, max_tokens: int | None = None) -> Flow[RunEvent, Conversation]:
    """The run that fulfils a wish for files in the folder, with the fields of each call as the model writes them."""
    limit = TurnRequest((), max_output_tokens=max_tokens)
    return fields(converse(model, TOOLS, (*EXAMPLES, user(wish)), request=limit, context=folder))


def example(wish: str, path: str, content: str) -> History:
    call = ToolCall(f"example_{path}", "write_file", json.dumps({"path": path, "content": content}))
    answers = ToolOutput(call.call_id, call.name, f"{path} is written."), assistant("It is written.")
    return (user(wish), call, *answers)


ADDING = '''\
"""Add and multiply numbers."""


def add(a, b):
    """Return the sum of a and b."""
    return a + b


def multiply(a, b):
    """Return the product of a and b."""
    return a * b


print(add(2, 3))
print(multiply(2, 3))
'''
GREETING = '''\
def greet(name):
    """Say hello to somebody."""
    return f"Hello, {name}!"


for name in ["Ada", "Grace"]:
    print(greet(name))
'''
EXAMPLES: History = (
    *example("Write adding.py: functions that add and multiply numbers.", "adding.py", ADDING),
    *example("Write greeting.py: a function that greets somebody.", "greeting.py", GREETING),
)
"""A small model writes a file only after it has seen how that is done; a large one does not need them."""
