"""The smallest whole thing: two tools, a loop written as expressions, and what becomes of its events."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta

from streamkit import (
    Conversation,
    Failure,
    Flow,
    Model,
    Next,
    Output,
    RunEvent,
    Stop,
    TextDelta,
    Toolkit,
    ToolStarted,
    Turn,
    TurnRequest,
    Value,
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


async def show_answer(model: Model, question: str) -> None:
    """Print the question, and what happens."""
    print(question)
    async with answer(model, question).open() as events:
        async for event in events:
            match event:
                case ToolStarted(tool=name, arguments=arguments):
                    print(f"{name} runs with {arguments}")
                case Output(tool=name, result=Value(text=text)):
                    print(f"{name} gives {text}")
                case Output(tool=name, result=Failure(message=message)):
                    print(f"{name} failed: {message}")
                case TextDelta(text=text):
                    print(text, end="", flush=True)
    print(f"\n({events.value.ended} after {events.value.turns} turns)")
