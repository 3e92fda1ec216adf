"""The small model: what it is asked, and that it answers with calls and with text. Never which words it says."""

import os
import signal
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Annotated, Any, Literal, TypeVar

import pytest
from msgspec import Meta

from streamkit import (
    Flow,
    History,
    Model,
    TextDelta,
    ToolCall,
    Toolkit,
    ToolOutput,
    ToolStarted,
    TurnRequest,
    assistant,
    collect,
    converse,
    streaming_tool,
    tool,
    user,
)
from streamkit.answers import answer
from streamkit.errors import LocalModelError
from streamkit.local import local_model
from streamkit.local.model import CALL_BEGINS, CALL_ENDS, OUTPUT_TOKENS, LocalModel, encode_request, for_small_model
from streamkit.local.server import ServerSettings, local_server
from streamkit.testing import check_grammar

E = TypeVar("E")
R = TypeVar("R")
File = Literal["music.bin", "photos.bin", "report.bin"]


@streaming_tool(reduce=collect())
def download(file: Annotated[File, Meta(description="The file's name")]) -> Iterator[str]:
    """Download one file from the file server."""
    yield from ("half of it", f"{file} is downloaded.")


@tool
def search(word: Literal["cancel", "stream"], limit: Annotated[int, Meta(ge=1, le=5)]) -> str:
    """Search the project's files for a word."""
    return f"{limit} times {word}"


TOOLS = Toolkit(download, search)
QUESTION: History = (user("Download report.bin."),)
CALL = ToolCall("c1", "download", '{"file": "report.bin"}')
ANSWERED: History = (*QUESTION, CALL, ToolOutput("c1", "download", "report.bin is downloaded."))


# What it is asked


@pytest.mark.parametrize(
    ("choice", "history", "offered"),
    [
        ("auto", QUESTION, ("download", "search")),
        ("auto", ANSWERED, ()),
        ("auto", (*ANSWERED, assistant("Done."), *QUESTION), ("download", "search")),
        ("required", ANSWERED, ("download", "search")),
        ("search", QUESTION, ("search",)),
        ("none", QUESTION, ()),
    ],
)
def test_it_must_call_what_it_is_offered(choice: str, history: History, offered: tuple[str, ...]) -> None:
    asked = for_small_model(TurnRequest(history, TOOLS.specs, tool_choice=choice))
    assert tuple(spec.name for spec in asked.tools) == offered
    assert asked.tool_choice == ("required" if offered else "auto")
    assert asked.history == ((*history, assistant(CALL_BEGINS)) if offered else history)


@pytest.mark.parametrize(("parallel_calls", "stop"), [(None, (CALL_ENDS,)), (False, (CALL_ENDS,)), (True, ())])
def test_one_call_ends_the_turn_unless_several_are_wanted(parallel_calls: bool | None, stop: tuple[str, ...]) -> None:
    asked = for_small_model(TurnRequest(QUESTION, TOOLS.specs, parallel_calls=parallel_calls, stop=("!",)))
    assert asked.stop == ("!", *stop)


def test_limits_of_the_request_win() -> None:
    asked = for_small_model(TurnRequest(QUESTION, max_output_tokens=7, temperature=0.5))
    assert (asked.max_output_tokens, asked.temperature) == (7, 0.5)
    asked = for_small_model(TurnRequest(QUESTION))
    assert (asked.max_output_tokens, asked.temperature) == (OUTPUT_TOKENS, 0)


def test_a_tool_that_is_not_there_cannot_be_chosen() -> None:
    with pytest.raises(ValueError, match="names 'fly', which is not among the tools"):
        for_small_model(TurnRequest(QUESTION, TOOLS.specs, tool_choice="fly"))


@pytest.mark.parametrize(("extra", "wins"), [(None, "json_schema"), ({"response_format": {"type": "text"}}, "text")])
def test_the_schema_of_an_answer_goes_out_whole(extra: dict[str, Any] | None, wins: str) -> None:
    schema = {"type": "object", "properties": {"name": {"type": "string", "maxLength": 5}}}
    body = encode_request(TurnRequest(QUESTION, output=schema, extra=extra), "small")
    assert body["response_format"]["type"] == wins
    assert wins == "text" or body["response_format"]["json_schema"]["schema"] == schema
    assert "response_format" not in encode_request(TurnRequest(QUESTION), "small")


# What it does


@pytest.fixture(scope="module")
async def model(weights: Path) -> AsyncIterator[Model]:
    async with local_model() as opened:
        yield opened


async def test_a_call_fits_its_tool(model: Model) -> None:
    turn = await model.stream_turn(TurnRequest(QUESTION, TOOLS.specs))
    (made,) = turn.calls
    assert turn.stop_reason == "tool_calls"
    TOOLS.validate(made)


async def test_a_chosen_tool_is_the_one_it_calls(model: Model) -> None:
    turn = await model.stream_turn(TurnRequest(QUESTION, TOOLS.specs, tool_choice="search"))
    assert [made.name for made in turn.calls] == ["search"]
    TOOLS.validate(turn.calls[0])


async def test_each_of_several_calls_fits_its_tool(model: Model) -> None:
    question = user("Download two files: report.bin and photos.bin.")
    request = TurnRequest((question,), TOOLS.only("download").specs, parallel_calls=True)
    turn = await model.stream_turn(request)
    assert turn.calls or turn.stop_reason == "length"
    for made in turn.calls:
        TOOLS.validate(made)


async def test_an_answer_keeps_to_the_lengths_of_its_type(model: Model) -> None:
    short = Annotated[str, Meta(min_length=3, max_length=6)]
    words = await answer(model, TurnRequest((user("Name three rivers."),)), Annotated[list[short], Meta(max_length=2)])
    assert len(words) <= 2
    assert all(3 <= len(word) <= 6 for word in words)


async def test_results_are_answered_with_text(model: Model) -> None:
    events, turn = await run(model.stream_turn(TurnRequest(ANSWERED, TOOLS.specs)))
    assert turn.usage.output_tokens
    assert not turn.calls
    assert "".join(event.text for event in events if isinstance(event, TextDelta)) == turn.text


async def test_a_whole_conversation_calls_and_then_answers(model: Model) -> None:
    events, conversation = await run(converse(model, TOOLS.only("download"), QUESTION))
    check_grammar(events)
    assert any(isinstance(event, ToolStarted) for event in events)
    assert conversation.turns == 2
    assert conversation.ended in ("answer", "length")


async def test_a_turn_that_is_left_does_not_keep_the_next_one_waiting(model: Model) -> None:
    async with model.stream_turn(TurnRequest(QUESTION, max_output_tokens=2000)).open() as events:
        async for event in events:
            if isinstance(event, TextDelta):
                break
    turn = await model.stream_turn(TurnRequest(QUESTION, max_output_tokens=1))
    assert turn.usage.output_tokens == 1


async def test_a_model_that_is_gone_says_how(weights: Path) -> None:
    settings = ServerSettings(str(weights), "{{ messages }}", context_tokens=512, api_key="k")
    async with local_server(settings, ready_timeout_seconds=60) as server:
        model = LocalModel("small", server, settings.api_key)
        os.kill(server.process.pid, signal.SIGKILL)
        with pytest.raises(LocalModelError, match="is gone: its process ended with code -9"):
            await model.stream_turn(TurnRequest(QUESTION))
    with pytest.raises(LocalModelError, match="is gone: its block was left"):
        await model.stream_turn(TurnRequest(QUESTION))


async def run(flow: Flow[E, R]) -> tuple[list[E], R]:
    async with flow.open() as events:
        seen = [event async for event in events]
    return seen, events.value
