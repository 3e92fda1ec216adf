"""Our server as a process of its own: `python -m tests.mcp.serving_child BACKEND LOG`.

LOG: a file, to which a tool says each time that it was cleaned up.
"""

import sys
from collections.abc import AsyncIterator
from functools import partial
from typing import Any

import anyio

from streamkit import Sink, ToolError, Toolkit, last, streaming_tool, tool
from streamkit.mcp import serve

STDOUT = sys.stdout

cleaned_up = anyio.Event()


@streaming_tool(reduce=last(int))
async def count(to: int) -> AsyncIterator[int]:
    """Counts."""
    for number in range(to):
        yield number + 1


@tool
def shouts(out: Sink[str], word: str) -> dict[str, Any]:
    """Prints, which must not get into the messages; on a thread."""
    print("printed by a tool")  # noqa: T201
    print("and by who has kept stdout", file=STDOUT)
    out.send_from_thread("shouting")
    return {"said": word.upper()}


@tool
async def fails() -> None:
    """Fails."""
    raise ToolError("No such row.")


@tool
async def hangs(out: Sink[str]) -> None:
    """Hangs until it is cancelled."""
    try:
        await out.send("begun")
        await anyio.sleep_forever()
    finally:
        with open(sys.argv[2], "a", encoding="utf-8") as log:  # noqa: ASYNC230  # nobody else waits here
            log.write("cleaned up\n")
        cleaned_up.set()


@tool
async def waits() -> str:
    """Waits until the other one was cleaned up."""
    await cleaned_up.wait()
    return "cleaned up"


if __name__ == "__main__":
    anyio.run(
        partial(serve, Toolkit(count, shouts, fails, hangs, waits), name="ours", version="7"), backend=sys.argv[1]
    )
