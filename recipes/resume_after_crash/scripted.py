"""A stand-in for the model. What it says depends on the history alone, so it does not matter which process asks."""

from __future__ import annotations

from streamkit import ToolOutput, TurnRequest
from streamkit.testing.scripted import ScriptedModel, ScriptPart, call

PHOTOS = ("meadow.jpg", "lake.jpg", "forest.jpg")


def scripted_model() -> ScriptedModel:
    return ScriptedModel(*[_next_turn] * 3)


def _next_turn(request: TurnRequest) -> list[ScriptPart]:
    results = [item for item in request.history if isinstance(item, ToolOutput)]
    if not results:
        return [call("upload", {"photo": photo}, call_id=f"photo_{place}") for place, photo in enumerate(PHOTOS)]
    if len(results) == len(PHOTOS):
        return [call("send_mail", {"to": "Ann", "text": "The photos are there."}, call_id="mail")]
    if results[-1].failed:
        return [f"The photos are there. Ask Ann whether she got the mail, for I was told: {results[-1].text}"]
    return ["The photos are there, and Ann knows."]
