"""The recipe with a scripted model: no network, no weights."""

from __future__ import annotations

import subprocess
import sys

import pytest

from streamkit import Failure, Output, RunEvent, ToolOutput, ToolStarted
from streamkit.testing import ScriptedModel, call, check_grammar

from .lines import labelled, show_scene
from .recipe import MAX_REPAIRS, SCENES, TOOLS, Scene, mended, play, untyped
from .scripted import scripted_model

WRONG = call("book_table", {"guests": "two", "day": "Sunday"})
RIGHT = call("book_table", {"guests": 2, "day": "Sunday"})
SCENE = Scene("Book a table for two guests on Sunday.")


async def run(model: ScriptedModel, scene: Scene = SCENE) -> tuple[list[RunEvent], str | None]:
    async with play(model, scene).open() as events:
        seen = [event async for event in events]
    check_grammar(seen)
    return seen, events.value.ended


async def test_what_can_be_read_in_one_way_is_mended_without_a_word() -> None:
    model = ScriptedModel([call("book_table", {"guests": "6", "day": "Sunday", "outside": "true"})], ["Booked."])
    events, ended = await run(model)

    (started,) = [event for event in events if isinstance(event, ToolStarted)]
    assert started.arguments == {"guests": 6, "day": "Sunday", "outside": True}
    assert (ended, len(model.requests)) == ("answer", 2)


async def test_what_is_wrong_goes_to_the_model_and_the_second_try_runs() -> None:
    model = ScriptedModel([WRONG], [RIGHT], ["Booked."])
    events, ended = await run(model)

    told = model.requests[1].history[-1]
    assert isinstance(told, ToolOutput)
    assert told.failed
    assert 'guests: expected integer, but got "two"' in told.text
    assert [event.arguments["guests"] for event in events if isinstance(event, ToolStarted)] == [2]
    assert ended == "answer"


async def test_a_model_that_never_gets_it_right_is_stopped() -> None:
    model = ScriptedModel(*[[WRONG]] * (MAX_REPAIRS + 1))
    events, ended = await run(model)

    failed = [event.result for event in events if isinstance(event, Output) and isinstance(event.result, Failure)]
    assert [failure.kind for failure in failed] == ["invalid_input"] * (MAX_REPAIRS + 1)
    assert ended == "repair_limit"


@pytest.mark.parametrize(("then_held", "types"), [(True, "integer"), (False, "string")])
async def test_a_model_is_told_the_types_only_when_it_has_erred(then_held: bool, types: str) -> None:
    model = ScriptedModel([WRONG], [RIGHT], ["Booked."])
    await run(model, Scene("Book a table.", then_held=then_held))

    told = [request.tools[0].parameters["properties"]["guests"]["type"] for request in model.requests]
    assert told == ["string", types, "string"]
    assert [request.tool_choice for request in model.requests] == ["auto", "required", "auto"]


def test_a_text_stands_beside_its_label_or_below_it() -> None:
    told = "- day: expected one\n- guests: required"
    assert list(labelled("model is told", told, 80)) == [
        "  model is told    - day: expected one",
        "                   - guests: required",
    ]
    assert list(labelled("model is told", told, 20)) == [
        "  model is told",
        "    - day: expected",
        "      one",
        "    - guests:",
        "      required",
    ]


def test_without_types_every_argument_is_text_and_has_its_description() -> None:
    (spec,) = TOOLS.specs
    fields = untyped(spec).parameters["properties"]
    assert {field["type"] for field in fields.values()} == {"string"}
    assert all(field["description"] for field in fields.values())


def test_only_what_runs_otherwise_than_it_was_written_was_mended() -> None:
    assert mended('{"a": "1", "b": 2, "c": true}', {"a": 1, "b": 2, "c": True, "d": False}) == 'a "1" → 1'


async def test_the_scenes_are_printed(capsys: pytest.CaptureFixture[str]) -> None:
    model = scripted_model()
    for scene in SCENES:
        await show_scene(model, scene)

    lines = capsys.readouterr().out.splitlines()
    assert lines[:5] == [
        "? Book a table for 6 guests on Sunday, outside.",
        '  model writes     {"guests":"6","day":"Sunday","outside":"true"}',
        '  mended silently  guests "6" → 6, outside "true" → true',
        "  tool gives       A table for 6 on Sunday is booked, outside.",
        "  ended            answer",
    ]
    assert lines[-2] == "  ended            repair_limit: max_repairs=2, and one more did not fit"


def test_a_reader_who_leaves_ends_it_quietly() -> None:
    command = [sys.executable, "-m", "recipes.self_heal", "--model", "scripted"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        process.stdout.close()
        assert process.stderr is not None
        assert (process.stderr.read(), process.wait(timeout=60)) == ("", 0)
