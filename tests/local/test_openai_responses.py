"""The Responses API of the local server: a call, its result, and the answer, through our own requests and decoder."""

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Annotated, Literal

import msgspec
import pytest
from msgspec import Meta

from streamkit import (
    History,
    Model,
    TextDelta,
    ToolInputAvailable,
    ToolInputDelta,
    ToolInputStart,
    Toolkit,
    Turn,
    TurnEvent,
    TurnRequest,
    append_turn,
    execute_all,
    tool,
    user,
)
from streamkit.local.model import CALL_ENDS, chat_template, for_small_model
from streamkit.local.server import ServerSettings, local_server
from streamkit.providers.openai_responses import openai_responses
from streamkit.testing import check_grammar

KEY = "a key for this machine"
QUESTION: History = (user("Download report.bin."),)


@tool
def download(file: Annotated[Literal["photos.bin", "report.bin"], Meta(description="The file's name")]) -> str:
    """Download one file from the file server."""
    return f"{file} is downloaded."


TOOLS = Toolkit(download)


@pytest.fixture(scope="module")
async def model(weights: Path) -> AsyncIterator[Model]:
    settings = ServerSettings(str(weights), chat_template(), context_tokens=4096, api_key=KEY)
    async with local_server(settings, ready_timeout_seconds=60) as server:
        fresh = {"connection": "close"}  # on one that is kept open the server fails to answer now and then
        yield openai_responses("small", base_url=f"{server.address}/v1", api_key=KEY, headers=fresh)


def asked(history: History, output_tokens: int = 60) -> TurnRequest:
    """What makes so small a model call, then answer; this server does have texts that end an answer."""
    request = for_small_model(TurnRequest(history, TOOLS.specs, max_output_tokens=output_tokens))
    return msgspec.structs.replace(request, stop=(), extra={"stop": [CALL_ENDS]} if request.tools else None)


async def run(model: Model, request: TurnRequest) -> tuple[list[TurnEvent], Turn]:
    async with model.stream_turn(request).open() as events:
        seen = [event async for event in events]
    return seen, events.value


async def test_a_call_gets_its_result_and_then_an_answer(model: Model) -> None:
    events, turn = await run(model, asked(QUESTION))
    check_grammar(events, complete=False)
    (call,) = turn.calls
    assert (call.name, call.problem, turn.stop_reason, turn.stop_word) == ("download", None, "tool_calls", "completed")
    assert "".join(event.delta for event in events if isinstance(event, ToolInputDelta)) == call.arguments
    assert [type(event) for event in events if isinstance(event, ToolInputStart | ToolInputAvailable)] == [
        ToolInputStart,
        ToolInputAvailable,
    ]
    assert turn.usage.input_tokens
    assert turn.usage.output_tokens

    history = append_turn(QUESTION, turn, await execute_all(TOOLS, turn.calls))
    events, turn = await run(model, asked(history))
    assert turn.calls == ()
    assert turn.text
    assert "".join(event.text for event in events if isinstance(event, TextDelta)) == turn.text


async def test_two_calls_that_end_together_are_two(model: Model) -> None:
    """Without a text that ends the answer the model calls again; the limit leaves room for two calls."""
    request = msgspec.structs.replace(asked(QUESTION), extra=None)
    events, turn = await run(model, request)
    check_grammar(events, complete=False)
    calls = turn.calls or turn.dropped
    assert len({call.call_id for call in calls}) == len(calls)
    assert all(call.name == "download" for call in calls)
    for call in turn.calls:
        TOOLS.validate(call)
