"""Four ways in which a provider fails, and what becomes of the run."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from streamkit import Conversation, Flow, Model, RunEvent, converse, user

from .fallback import Fallback
from .recipe import TOOLS, with_any
from .stand_ins import Answers, claude, claude_calls, claude_says, overloaded

QUESTION = (user("How many people live in Oslo?"),)
CALLS = claude_calls("population", {"city": "Oslo"})
BREAKS = claude_says("Oslo has, as far as I have been told, about", breaks=True)


@dataclass(frozen=True)
class Scene:
    """told: for the person. answers: of the first provider, new ones for each run. run: with it and the next model."""

    told: str
    answers: Callable[[], Answers]
    run: Callable[[Model, Model], Flow[RunEvent, Conversation]]


def takes_back(first: Model, second: Model) -> Flow[RunEvent, Conversation]:
    return converse(Fallback(first, second), TOOLS, QUESTION)


def keeps(first: Model, second: Model) -> Flow[RunEvent, Conversation]:
    return with_any([first, second], TOOLS, QUESTION)


def first_provider(scene: Scene) -> Model:
    return claude(scene.answers())


SCENES = (
    Scene(
        "It is overloaded for a moment: nothing was shown, so it is asked again, and nobody notices.",
        lambda: Answers(overloaded(0.2), claude_says("Oslo has 724,000 inhabitants.")),
        takes_back,
    ),
    Scene(
        "It stays overloaded: the next model answers.",
        lambda: Answers(overloaded(0.2), overloaded(30)),
        takes_back,
    ),
    Scene(
        "It breaks in the middle of its second turn: that is taken back, and the next model has the same history.",
        lambda: Answers(CALLS, BREAKS),
        takes_back,
    ),
    Scene(
        "The same, but what was shown stays, and the next model goes on from there.",
        lambda: Answers(CALLS, BREAKS),
        keeps,
    ),
)
