"""The recipe with a scripted model: no network, no weights."""

from __future__ import annotations

import subprocess
import sys

import pytest

from streamkit import Message, ToolOutput
from streamkit.testing import ScriptedModel, call, check_grammar

from .__main__ import scripted_model
from .recipe import answer, count_letter


def test_a_tool_is_still_the_function() -> None:
    assert count_letter("Strawberry", "R") == 3


async def test_the_result_of_a_call_goes_back_to_the_model() -> None:
    model = scripted_model()

    conversation = await answer(model, "How many r are in strawberry?")

    assert conversation.ended == "answer"
    assert [type(item) for item in model.requests[1].history][-1] is ToolOutput
    assert conversation.history[-2:] == (
        ToolOutput("call_1", "count_letter", "3"),
        Message("assistant", "There are three."),
    )


async def test_a_call_that_does_not_fit_is_answered_with_what_is_wrong() -> None:
    model = ScriptedModel([call("count_letter", {"word": "strawberry", "letter": "rr"})], ["I cannot count that."])

    conversation = await answer(model, "How many rr are in strawberry?")

    output = conversation.history[-2]
    assert isinstance(output, ToolOutput)
    assert output.failed
    assert "letter" in output.text


async def test_the_events_of_the_run_follow_the_grammar() -> None:
    async with answer(scripted_model(), "How many r are in strawberry?").open() as events:
        check_grammar([event async for event in events])


def program(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "recipes.basic_usage", *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)


def test_what_happens_is_printed() -> None:
    lines = program("--model", "scripted").stdout.splitlines()

    assert lines[:5] == [
        "Count the letter r in the word strawberry.",
        "  model writes  a call of count_letter",
        '  model calls   count_letter {"word":"strawberry","letter":"r"}',
        "  model gets    count_letter strawberry r: 3",
        "  model says    There are three.",
    ]
    assert lines[-1] == "(answer after turn 2)"


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["--model", "nope"], "streamkit: 'nope' is not a model"),
        (["--model", "openai:"], "streamkit: 'openai:' is not a model"),
        (["--model", "scripted", "Why?"], "the scripted model answers only its own question"),
    ],
)
def test_a_wrong_word_on_the_command_line_is_told_in_one_line(arguments: list[str], says: str) -> None:
    ended = program(*arguments)

    assert ended.returncode in (1, 2)
    assert says in ended.stderr.splitlines()[-1]
