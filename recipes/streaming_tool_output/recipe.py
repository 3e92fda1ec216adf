"""A model calls tools, and a person watches: the loop is one's own, and so is what becomes of the events.

The tools are in `tools.py`; how it looks is a matter of `streamkit.terminal`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from streamkit import (
    Conversation,
    Flow,
    Model,
    Next,
    RunEvent,
    Sink,
    Stop,
    TurnRequest,
    execute_all,
    loop,
    user,
)
from streamkit.terminal import Screen

from .tools import TOOLS, Hit, Saved, Workspace
from .under_way import UnderWay


@dataclass(frozen=True)
class Question:
    """What a person asks. tools: the names of those that are offered for it. several_calls: at once, in one turn."""

    text: str
    tools: tuple[str, ...]
    several_calls: bool = False


QUESTIONS = (
    Question("Download the files mountain.bin and river.bin.", ("download_artifact",), several_calls=True),
    Question("Search the project for the word reducer, 3 hits.", ("search_project",)),
    Question(
        "Download the file forest.bin and ask the sub-agent: How does a tree grow?",
        ("download_artifact", "ask_subagent"),
        several_calls=True,
    ),
)


def answer(model: Model, workspace: Workspace, question: Question) -> Flow[RunEvent, Conversation]:
    """The run that answers one question: a turn with calls, the calls side by side, a turn without tools."""
    tools = TOOLS.only(*question.tools)

    async def step(out: Sink[RunEvent], state: Conversation) -> Next[Conversation] | Stop[Conversation]:
        # A small model cannot tell whether to call once more or to answer: after the results it has nothing to call.
        offered = tools.specs if state.turns == 0 else ()
        request = TurnRequest(state.history, offered, parallel_calls=question.several_calls)
        turn = await out.forward(model.stream_turn(request))
        if not turn.wants_more:
            return Stop(state.add(turn))
        results = await out.forward(execute_all(tools, turn.calls, context=workspace))
        return Next(state.add(turn, results))

    return loop(step, Conversation((user(question.text),)))


def described(data: Any) -> Any:
    """What a person sees of what a tool sends; as it is, progress is a bar."""
    match data:
        case Hit(file=file, line=line, text=text):
            return f"{file}:{line}  {text}"
        case Saved(verified=verified):
            return "✓ saved, and its checksum is right" if verified else "saved, its checksum is not known"
    return data


async def show_answers(
    model: Model,
    workspace: Workspace,
    screen: Screen,
    *,
    under_way: UnderWay,
    questions: Sequence[Question] = QUESTIONS,
) -> None:
    """Ask one question after another, and show all that happens."""
    for question in questions:
        under_way.questions += 1
        await screen.ask(question.text)
        await screen.show(answer(model, workspace, question).tap(under_way.feed))
