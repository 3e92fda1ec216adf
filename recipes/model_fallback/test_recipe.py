"""The recipe with two stand-ins for providers, of two dialects: no network."""

from __future__ import annotations

import subprocess
import sys

import httpx2
import pytest

from streamkit import (
    Conversation,
    Flow,
    Message,
    RunEvent,
    ToolOutput,
    TurnEnded,
    TurnRequest,
    TurnRestarted,
    TurnStarted,
    converse,
    user,
)
from streamkit.errors import ProviderError
from streamkit.testing import ScriptedModel, check_grammar, check_history, check_model
from streamkit.testing.scripted import ScriptPart

from .fallback import Fallback
from .recipe import GO_ON, TOOLS
from .scenes import BREAKS, CALLS, QUESTION, keeps, takes_back
from .stand_ins import Answers, chat, chat_says, claude, claude_says, overloaded

ANSWER = "About 724,000 people live in Oslo. "
PARTIAL = "Oslo has, as far as I have been told, about "


def quick(*answers: object) -> Answers:
    return Answers(*answers, seconds_between=0)  # type: ignore[arg-type]


async def seen(run: Flow[RunEvent, Conversation]) -> tuple[list[RunEvent], Conversation]:
    async with run.open() as events:
        collected = [event async for event in events]
    check_grammar(collected)
    for dialect in ("anthropic", "openai-chat"):
        check_history(events.value.history, dialect)
    return collected, events.value


def models(events: list[RunEvent]) -> list[str]:
    return [event.model for event in events if isinstance(event, TurnStarted)]


async def test_what_passes_is_not_noticed() -> None:
    first, second = quick(overloaded(0), claude_says("Oslo has many.")), quick()
    events, state = await seen(takes_back(claude(first), chat(second)))

    assert (models(events), state.history[-1]) == (["claude-stand-in"], Message("assistant", "Oslo has many. "))
    assert (len(first.asked), second.asked) == (2, [])


async def test_what_fails_before_it_has_begun_leaves_no_trace() -> None:
    first, second = quick(overloaded(0), overloaded(0)), quick(chat_says(ANSWER))
    events, state = await seen(takes_back(claude(first), chat(second)))

    assert (models(events), state.ended) == (["chat-stand-in"], "answer")
    assert not any(isinstance(event, TurnRestarted) for event in events)


async def test_a_turn_that_breaks_is_taken_back_and_results_stay() -> None:
    second = quick(chat_says(ANSWER))
    events, state = await seen(takes_back(claude(quick(CALLS, BREAKS)), chat(second)))

    assert models(events) == ["claude-stand-in", "claude-stand-in"]
    assert [event.turn.model for event in events if isinstance(event, TurnEnded)] == [
        "claude-stand-in",
        "chat-stand-in",
    ]
    (restarted,) = [event for event in events if isinstance(event, TurnRestarted)]
    assert restarted.reason == "claude-stand-in: Overloaded (overloaded_error)"
    assert state.history[-2:] == (ToolOutput("toolu_1", "population", "724000"), Message("assistant", ANSWER))
    assert [message["role"] for message in second.asked[0]["messages"]] == ["user", "assistant", "tool"]


async def test_what_was_shown_may_stay() -> None:
    second = quick(chat_says(ANSWER))
    events, state = await seen(keeps(claude(quick(CALLS, BREAKS)), chat(second)))

    assert not any(isinstance(event, TurnRestarted) for event in events)
    assert state.history[-3:] == (Message("assistant", PARTIAL), GO_ON, Message("assistant", ANSWER))
    assert second.asked[0]["messages"][-2]["content"] == PARTIAL


async def test_who_wants_to_be_left_alone_is_not_asked_first() -> None:
    first, second = quick(httpx2.Response(529, headers={"retry-after": "1000"})), quick(*[chat_says(ANSWER)] * 2)
    model = Fallback(claude(first, retries=0), chat(second))

    state = await converse(model, TOOLS, QUESTION)
    await converse(model, TOOLS, state.say(user("And Bergen?")))
    assert (len(first.asked), len(second.asked)) == (1, 2)


async def test_a_request_that_is_wrong_itself_is_not_passed_on() -> None:
    second = quick()
    run = takes_back(claude(quick(httpx2.Response(400, json={"error": {"message": "no such field"}}))), chat(second))

    with pytest.raises(ProviderError, match="no such field"):
        await run
    assert second.asked == []


async def test_the_failure_of_the_last_one_is_raised() -> None:
    model = Fallback(claude(quick(BREAKS)), chat(quick(httpx2.Response(401, json={"error": "who are you"}))))

    with pytest.raises(ProviderError, match="who are you"):
        await model.stream_turn(TurnRequest(QUESTION))


@pytest.mark.parametrize("shown", [["Oslo has "], []])
async def test_it_keeps_what_every_model_keeps(shown: list[str]) -> None:
    def breaks(request: TurnRequest) -> list[ScriptPart]:
        return [*shown, ProviderError("overloaded")]

    await check_model(Fallback(ScriptedModel(*[breaks] * 100), ScriptedModel(*[["Oslo ", "has many."]] * 100)))


# The program


COMMAND = [sys.executable, "-m", "recipes.model_fallback", "--model", "scripted"]


def test_all_scenes_come_to_an_answer() -> None:
    run = subprocess.run(COMMAND, capture_output=True, text=True, timeout=120, check=False)
    assert (run.returncode, run.stdout.count("(answer after ")) == (0, 4)
    assert run.stderr.splitlines() == [line for line in run.stderr.splitlines() if line.startswith("  (log: asking ")]


def test_a_reader_who_leaves_ends_it_quietly() -> None:
    with subprocess.Popen(COMMAND, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        process.stdout.readline()
        process.stdout.close()
        assert process.stderr is not None
        assert all(line.startswith("  (log: asking ") for line in process.stderr)
        assert process.wait(timeout=60) == 0
