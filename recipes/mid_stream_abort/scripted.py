"""A stand-in for the model. The last answer repeats what it was told, so one sees that the conversation went on."""

from __future__ import annotations

from functools import partial

import anyio

from streamkit import Message, ToolOutput, TurnRequest
from streamkit.testing.scripted import ScriptedModel, ScriptPart, call

STORY = "Once there was a fox who counted the trees of the forest: " + ", ".join(f"tree {n}" for n in range(1, 400))


def scripted_model(*, pause_seconds: float = 0.03) -> ScriptedModel:
    """pause_seconds: between two words."""

    def says(text: str) -> list[ScriptPart]:
        return [part for word in text.split(" ") for part in (partial(anyio.sleep, pause_seconds), f"{word} ")]

    def answers(request: TurnRequest) -> list[ScriptPart]:
        if isinstance(request.history[-1], ToolOutput):  # nobody has stopped it
            return says("The report is written.")
        asked = [item.text for item in request.history if isinstance(item, Message) and item.role == "user"]
        return says(f"You have asked {len(asked)} things. The first was: {asked[0]}")

    return ScriptedModel(says(STORY), [call("write_report", {"pages": 40}, split=4)], answers, answers)
