"""Events of a run, as a terminal is shown them, and the strangest of texts in them."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

from streamkit.tool_events import Intermediate, Output, RunEvent, ToolStarted, Value
from streamkit.turns import ToolInputDelta, ToolInputStart


def written(tool: str, *deltas: str, call_id: str = "a") -> list[RunEvent]:
    return [ToolInputStart(call_id, tool), *(ToolInputDelta(call_id, delta) for delta in deltas)]


def ran(tool: str, arguments: dict[str, Any], *intermediates: Any, text: str = "done") -> list[RunEvent]:
    data = [Intermediate("a", tool, each) for each in intermediates]
    return [ToolStarted("x", "a", tool, arguments), *data, Output("a", tool, Value("a", tool, text, text))]


def within(*events: RunEvent, call_id: str = "outer") -> list[RunEvent]:
    return [Intermediate(call_id, "agent", None, event) for event in events]


TEXT = st.text(st.characters(exclude_categories=())) | st.sampled_from(
    [
        "\x1b[2J",
        "\x1b]0;title\x07",
        "\r\rover",
        "[bold]x[/bold]",
        "\u202eabc",
        "a\tb\r\nc",
        "世界" * 30,
        "👩‍👩‍👧" * 9,
        "\ud83d",
        "x" * 300,
    ]
)


DATA = st.one_of(TEXT, st.integers(), st.dictionaries(TEXT, TEXT, max_size=3), st.binary(), st.none())
