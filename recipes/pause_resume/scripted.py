"""A stand-in for the model. What it says depends on the history alone, so it does not matter which process asks."""

from __future__ import annotations

from streamkit import ToolOutput, TurnRequest
from streamkit.testing.scripted import ScriptedModel, ScriptPart, call


def scripted_model() -> ScriptedModel:
    return ScriptedModel(*[_next_turn] * 2)


def _next_turn(request: TurnRequest) -> list[ScriptPart]:
    last = request.history[-1]
    if isinstance(last, ToolOutput):
        return ["I have ", "counted ", f"{last.text}."]
    return [call("find_primes", {"below": 1000}, split=4)]
