"""A stand-in for the model. What it says depends on the history alone, so it does not matter which process asks."""

from __future__ import annotations

from streamkit import ToolOutput, TurnRequest
from streamkit.testing.scripted import ScriptedModel, ScriptPart, call

TEXT = "We meet at noon."


def scripted_model() -> ScriptedModel:
    return ScriptedModel(*[_next_turn] * 2)


def _next_turn(request: TurnRequest) -> list[ScriptPart]:
    results = [item for item in request.history if isinstance(item, ToolOutput) and item.tool == "send_mail"]
    if not results:
        return [
            call("find_address", {"name": "Ann"}, call_id="address"),
            call("send_mail", {"to": "Ann", "text": TEXT}, call_id="ann"),
            call("send_mail", {"to": "Bob", "text": TEXT}, call_id="bob"),
        ]
    sent = sum(not result.failed for result in results)
    told = "".join(f"\nI was told: {result.text}" for result in results if result.failed)
    return [f"{sent} of {len(results)} mails are sent.{told}"]
