"""What a person sees of a run, and what a program reads of it."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamkit import Intermediate, Output, RunEvent, TextDelta, TurnEnded, TurnStarted, Value
from streamkit.terminal import Screen, open_screen

from .json_lines import JsonLines, json_line
from .recipe import described, show_answers
from .scripted import scripted_model
from .test_recipe import workspace
from .under_way import UnderWay


async def show_on(screen: Screen, folder: Path) -> None:
    model = scripted_model(pause_seconds=0)
    async with workspace(folder, model) as work:
        await show_answers(model, work, screen, under_way=UnderWay())


async def test_each_step_is_a_line(tmp_path: Path) -> None:
    out = io.StringIO()
    async with open_screen(out, describe=described) as screen:
        await show_on(screen, tmp_path)

    lines = out.getvalue().splitlines()
    for line in (
        "? Download the files mountain.bin and river.bin.",
        "  model writes  a call of download_artifact",
        '  model calls   download_artifact {"file":"river.bin"}',
        "  tool runs     download_artifact mountain.bin: 100 %, 200.0 of 200.0 kB",
        "  tool runs     download_artifact river.bin: ✓ saved, and its checksum is right",
        "    in            ask_subagent How does a tree grow?",
        "    model says    A tree adds a new layer of wood beneath its bark each year, with water from its",
        "    model says    roots, and light.",
        "  model gets    ask_subagent How does a tree grow?: A tree adds a new layer of wood beneath its bark each "
        "year, with water from its roots, and light.",
    ):
        assert line in lines
    assert any(line.startswith("  tool runs     search_project reducer 3: streamkit/") for line in lines)
    assert any(line.startswith("  model says    Both files are here.") for line in lines)
    assert lines[-1].startswith("  in all        7 turns · 5 calls · ")


async def test_json_lines_are_the_events_and_nothing_else(tmp_path: Path) -> None:
    out = io.BytesIO()
    await show_on(JsonLines(out), tmp_path)

    events = [msgspec.json.decode(line, type=RunEvent) for line in out.getvalue().splitlines()]
    kinds = [type(event) for event in events]
    assert (kinds[0], kinds[-1]) == (TurnStarted, TurnEnded)
    assert kinds.count(Output) == 5


class Unspeakable:
    def __repr__(self) -> str:
        raise ValueError("no words")


def in_itself() -> list[Any]:
    items: list[Any] = []
    items.append(items)
    return items


TEXT = st.text(st.characters(exclude_categories=()))
DATA = st.recursive(
    TEXT
    | st.binary()
    | st.integers()
    | st.floats()
    | st.none()
    | st.sampled_from([object(), {1, "a"}, range(3), ValueError("\ud800")])
    | st.builds(Unspeakable)
    | st.builds(in_itself),
    lambda inner: st.lists(inner) | st.dictionaries(TEXT | st.integers() | st.tuples(TEXT), inner) | st.tuples(inner),
)


@given(DATA, TEXT)
def test_any_event_is_one_line_of_json_that_decodes_to_it(data: Any, text: str) -> None:
    for event in (
        Intermediate("call_1", "t", data),
        Output("call_1", "t", Value("call_1", "t", data, text)),
        Intermediate("call_1", "t", None, TextDelta(text)),
    ):
        line = json_line(event)

        assert line.count(b"\n") == 1
        json.loads(line.decode(), parse_constant=pytest.fail)
        assert type(msgspec.json.decode(line, type=RunEvent)) is type(event)
