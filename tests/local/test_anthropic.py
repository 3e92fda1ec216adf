"""The Messages API of the local server, asked and read by its dialect: tools, calls, results, an answer."""

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Literal

import pytest

from streamkit import (
    Conversation,
    Model,
    TextDelta,
    Toolkit,
    ToolOutput,
    TurnRequest,
    execute_all,
    tool,
    user,
)
from streamkit.local.model import chat_template, for_small_model
from streamkit.local.server import ServerSettings, local_server
from streamkit.providers.anthropic import anthropic
from streamkit.testing import check_grammar
from streamkit.turns import ToolInputAvailable, ToolInputDelta, Turn

KEY = "a-key-for-this-test"


@tool
def download(file: Literal["photos.bin", "report.bin"]) -> str:
    """Download one file from the file server."""
    return f"{file} is downloaded."


TOOLS = Toolkit(download)


@pytest.fixture(scope="module")
async def model(weights: Path) -> AsyncIterator[Model]:
    settings = ServerSettings(str(weights), chat_template(), context_tokens=4096, api_key=KEY)
    async with local_server(settings, ready_timeout_seconds=60) as server:
        # One connection a turn, for the same reason as that of the local model.
        yield anthropic("small", base_url=server.address, api_key=KEY, headers={"connection": "close"})


async def test_a_tool_is_called_and_its_result_is_answered(model: Model) -> None:
    state = Conversation((user("Download report.bin."),))
    called = await turn_of(model, TurnRequest(state.history, TOOLS.specs))
    assert (called.stop_reason, called.stop_word) == ("tool_calls", "tool_use")
    state = state.add(called, await execute_all(TOOLS, called.calls))
    assert isinstance(state.history[-1], ToolOutput)
    # This server shows the small model also tools that it must not call, and then it calls them.
    answered = await turn_of(model, TurnRequest(state.history, TOOLS.specs, extra={"tools": [], "tool_choice": None}))
    assert answered.text
    assert answered.stop_reason in ("stop", "length")
    assert answered.usage.output_tokens
    assert not answered.calls


async def test_each_of_several_calls_is_whole(model: Model) -> None:
    question = user("Download two files: report.bin and photos.bin.")
    turn = await turn_of(model, TurnRequest((question,), TOOLS.specs, parallel_calls=True))
    assert turn.calls or turn.stop_reason == "length"


async def turn_of(model: Model, request: TurnRequest) -> Turn:
    """A turn whose events say what it holds, piece by piece."""
    async with model.stream_turn(for_small_model(request)).open() as events:
        seen = [event async for event in events]
    turn = events.value
    check_grammar(seen, complete=False)
    assert "".join(event.text for event in seen if isinstance(event, TextDelta)) == turn.text
    for made in turn.calls:
        TOOLS.validate(made)
        deltas = [event.delta for event in seen if isinstance(event, ToolInputDelta) and event.call_id == made.call_id]
        assert len(deltas) > 1
        assert "".join(deltas) == made.arguments
        assert ToolInputAvailable(made.call_id, made.arguments) in seen
    return turn
