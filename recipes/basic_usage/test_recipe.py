"""The recipe with a scripted model: no network, no weights."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from streamkit import Message, ToolOutput
from streamkit.testing import ScriptedModel, call, check_grammar

from .recipe import answer, count_letter, show_answer


def scripted() -> ScriptedModel:
    return ScriptedModel([call("count_letter", {"word": "strawberry", "letter": "r"}, split=4)], ["There are three."])


def test_a_tool_is_still_the_function() -> None:
    assert count_letter("Strawberry", "R") == 3


async def test_the_result_of_a_call_goes_back_to_the_model() -> None:
    model = scripted()

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
    async with answer(scripted(), "How many r are in strawberry?").open() as events:
        check_grammar([event async for event in events])


async def test_what_happens_is_printed(capsys: pytest.CaptureFixture[str]) -> None:
    await show_answer(scripted(), "How many r are in strawberry?")

    assert capsys.readouterr().out.splitlines() == [
        "How many r are in strawberry?",
        "count_letter runs with {'word': 'strawberry', 'letter': 'r'}",
        "count_letter gives 3",
        "There are three.",
        "(answer after 2 turns)",
    ]


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["--model", "nope"], "there is no model 'nope'"),
        (["--model", "openai:"], "there is no model 'openai:'"),
        (["--model", "openai:x"], "OPENAI_API_KEY is not in the environment"),
        (["--model", "scripted", "Why?"], "the script answers its own question only"),
    ],
)
def test_a_wrong_word_on_the_command_line_is_told_at_once(arguments: list[str], says: str) -> None:
    environment = {name: value for name, value in os.environ.items() if name != "OPENAI_API_KEY"}
    command = [sys.executable, "-m", "recipes.basic_usage", *arguments]
    ended = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=60, check=False)
    assert (ended.returncode, ended.stdout) == (2, "")
    assert says in ended.stderr
