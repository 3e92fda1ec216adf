"""A stand-in for the model, for where none is to be had. It thinks aloud, which nobody outside is to hear."""

from __future__ import annotations

from streamkit import ReasoningDelta
from streamkit.testing import ScriptedModel, call


def scripted_model() -> ScriptedModel:
    return ScriptedModel(
        [ReasoningDelta("Oslo, they say. "), call("find_orders", {"city": "Oslo"}, split=5)],
        [ReasoningDelta("Two of them."), "There are two orders ", "from Oslo, ", "the first and the third."],
    )
