"""The smallest whole thing: two tools, and a loop written as expressions."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta

from streamkit import (
    Conversation,
    Flow,
    Model,
    Next,
    RunEvent,
    Stop,
    Toolkit,
    Turn,
    TurnRequest,
    execute_all,
    loop,
    next_state_from,
    stream_until_complete,
    tool,
    user,
)


@tool
def count_letter(
    word: Annotated[str, Meta(max_length=30)], letter: Annotated[str, Meta(min_length=1, max_length=1)]
) -> int:
    """Count how often a letter occurs in a word."""
    return word.lower().count(letter.lower())


@tool
def write_backwards(word: Annotated[str, Meta(max_length=30)]) -> str:
    """Write a word backwards."""
    return word[::-1]


TOOLS = Toolkit(count_letter, write_backwards)


def answer(model: Model, question: str) -> Flow[RunEvent, Conversation]:
    """The run that answers a question: ask, run the calls, ask again, until there are no more calls."""

    def step(state: Conversation) -> Flow[RunEvent, Next[Conversation] | Stop[Conversation]]:
        def decide(turn: Turn) -> Stop[Conversation] | Flow[RunEvent, Next[Conversation]]:
            if not turn.wants_more:
                return Stop(state.add(turn))
            return next_state_from(execute_all(TOOLS, turn.calls), lambda results: state.add(turn, results))

        return stream_until_complete(model.stream_turn(TurnRequest(state.history, TOOLS.specs)), decide)

    return loop(step, Conversation((user(question),)))
