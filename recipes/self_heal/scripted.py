"""A stand-in for the model, for where none is to be had: it mends its call by what it reads, and at last never does."""

from __future__ import annotations

from streamkit.testing import ScriptedModel, call


def scripted_model() -> ScriptedModel:
    """A model that plays the scenes of the recipe."""
    return ScriptedModel(
        [call("book_table", {"guests": "6", "day": "Sunday", "outside": "true"})],
        ["The table is booked."],
        [call("book_table", {"guests": "two", "day": "sunday", "outside": "yes"})],
        [call("book_table", {"guests": 2, "day": "Sunday", "outside": True})],
        ["The table is booked."],
        [call("book_table", {"guests": "Ada and her four friends", "day": "Friday evening"})],
        [call("book_table", {"guests": "five people", "day": "Friday"})],
        [call("book_table", {"people": 5, "day": "Friday"})],
    )
