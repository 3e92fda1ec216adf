"""What `redact` hides is in no byte that goes out."""

import dataclasses
from collections.abc import AsyncIterator
from typing import Any

from streamkit import (
    Flow,
    RunEvent,
    ToolError,
    Toolkit,
    converse,
    count,
    fields,
    streaming_tool,
    tool,
    user,
)
from streamkit.testing import ScriptedModel, call, interleave
from streamkit.wire.native import NativeEncoder

from .native_grammar import check_frames, encoded, frames_of

SECRET = "hunter2"


def without_secret(tool: str, value: Any) -> Any:
    """What a user would write: it knows which fields of which tool are secret, and looks into text, too."""
    match value:
        case dict():
            return {key: "[hidden]" if key == "password" else without_secret(tool, item) for key, item in value.items()}
        case list() | tuple():
            return [without_secret(tool, item) for item in value]
        case str():
            return value.replace(SECRET, "[hidden]")
    return value


@tool
async def log_in(password: str) -> dict[str, Any]:
    """Says what it got."""
    return {"password": password, "said": f"{password} is wrong"}


@tool
def ask_inside(password: str) -> Flow[RunEvent, str]:
    """An inner run with the same secret."""
    model = ScriptedModel([call("log_in", {"password": password}, split=2)], [f"I know {password[:3]}"])
    return converse(model, Toolkit(log_in), (user("go"),)).then(lambda state: f"done with {password}")


@streaming_tool(reduce=count())
async def leaks(password: str) -> AsyncIterator[Any]:
    """Shows it, and fails."""
    yield {"password": password, "deep": [password]}
    raise ToolError("no")


async def test_a_secret_is_in_no_byte() -> None:
    calls = [call(name, {"password": SECRET}, split=3) for name in ("log_in", "ask_inside", "leaks", "gated")]
    gated = dataclasses.replace(log_in, name="gated", approval=True)
    seen: list[RunEvent] = []
    model, kit = ScriptedModel([interleave(*calls)], ["."]), Toolkit(log_in, ask_inside, leaks, gated)
    run = fields(converse(model, kit, (user("go"),)))
    async with run.open() as events:
        seen += [event async for event in events]
    body = encoded(seen, events.value)
    assert SECRET.encode() in body
    body = encoded(seen, events.value, NativeEncoder(run_id="run", redact=without_secret))
    frames = frames_of(body)
    check_frames(frames)
    assert SECRET.encode() not in body
    whole = [frame["argsTextDelta"] for frame in frames if frame["type"] == "tool-call-delta"]
    assert whole == ['{"password":"[hidden]"}'] * 5
