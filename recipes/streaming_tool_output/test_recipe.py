"""The whole recipe with a scripted model: real downloads from a real server, only smaller and faster."""

from __future__ import annotations

import hashlib
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

import httpx2
import pytest

from streamkit import Failure, Intermediate, Model, Output, RunEvent, ToolStarted, Value, walk
from streamkit.errors import LocalModelError
from streamkit.local import local_model
from streamkit.local.weights import find_weights
from streamkit.testing import ScriptedModel, call, check_grammar

from .command_line import PROJECT
from .file_server import content, file_server
from .recipe import QUESTIONS, Question, answer
from .scripted import scripted_model
from .tools import ARTIFACTS, Progress, Workspace

FILES = {name: 200_000 + number for number, name in enumerate(ARTIFACTS)}


@asynccontextmanager
async def workspace(folder: Path, model: Model, *, bytes_per_second: float = 1e9) -> AsyncIterator[Workspace]:
    async with (
        file_server(FILES, bytes_per_second=bytes_per_second) as url,
        httpx2.AsyncClient(base_url=url, timeout=60, trust_env=False) as files,
    ):
        yield Workspace(files, folder, PROJECT, model)


@pytest.fixture
async def recorded(tmp_path: Path) -> list[list[RunEvent]]:
    """The events of each question."""
    model, runs = scripted_model(pause_seconds=0), []
    async with workspace(tmp_path, model) as work:
        for question in QUESTIONS:
            async with answer(model, work, question).open() as events:
                runs.append([event async for event in events])
    return runs


async def test_every_question_is_answered(recorded: list[list[RunEvent]]) -> None:
    for events in recorded:
        check_grammar(events)
    assert [len(outputs(events)) for events in recorded] == [2, 1, 2]


async def test_downloads_are_real_and_verified(recorded: list[list[RunEvent]], tmp_path: Path) -> None:
    saved = [output.result for output in outputs(recorded[0])]

    for name, result in zip(
        ("mountain.bin", "river.bin"), sorted(saved, key=lambda result: result.call_id), strict=True
    ):
        assert isinstance(result, Value)
        assert read(tmp_path / name) == content(name, FILES[name])
        sha256 = hashlib.sha256(content(name, FILES[name])).hexdigest()
        assert result.text == f'{{"file":"{name}","bytes":{FILES[name]},"sha256":"{sha256}","verified":true}}'


async def test_two_downloads_run_side_by_side(recorded: list[list[RunEvent]]) -> None:
    kinds = [type(event) for event in recorded[0] if isinstance(event, ToolStarted | Output)]

    assert kinds == [ToolStarted, ToolStarted, Output, Output]


async def test_progress_grows_to_the_size_of_the_file(recorded: list[list[RunEvent]]) -> None:
    progress = [
        event.data
        for event in recorded[0]
        if isinstance(event, Intermediate) and isinstance(event.data, Progress) and event.data.file == "mountain.bin"
    ]

    assert len(progress) > 1
    assert progress == sorted(progress, key=lambda each: each.bytes)
    assert progress[-1].bytes == progress[-1].total_bytes == FILES["mountain.bin"]


async def test_the_model_gets_the_hits_that_were_shown(recorded: list[list[RunEvent]]) -> None:
    hits = [event.data for event in recorded[1] if isinstance(event, Intermediate)]
    (output,) = outputs(recorded[1])

    assert isinstance(output.result, Value)
    assert len(hits) == 3
    assert output.result.value == hits


async def test_the_turn_of_the_subagent_is_shown_inside_its_call(
    recorded: list[list[RunEvent]],
) -> None:
    inner = [innermost for path, innermost in map(walk, recorded[2]) if path]
    results = [output.result for output in outputs(recorded[2]) if output.tool == "ask_subagent"]

    assert isinstance(results[0], Value)
    assert "".join(getattr(event, "text", "") for event in inner) == results[0].text


async def test_the_model_is_asked_without_tools_after_the_results(tmp_path: Path) -> None:
    model = scripted_model(pause_seconds=0)
    async with workspace(tmp_path, model) as work:
        await answer(model, work, QUESTIONS[0])

    assert [[spec.name for spec in request.tools] for request in model.requests] == [["download_artifact"], []]


async def test_a_download_that_is_left_leaves_nothing_behind(tmp_path: Path) -> None:
    model = scripted_model(pause_seconds=0)
    async with (
        workspace(tmp_path, model, bytes_per_second=100_000) as work,
        answer(model, work, QUESTIONS[0]).open() as events,
    ):
        async for event in events:
            if isinstance(event, Intermediate):
                assert [name[-5:] for name in names_in(tmp_path)] == [".part", ".part"]
                break

    assert names_in(tmp_path) == []


async def test_a_call_of_a_tool_that_was_not_offered_fails(tmp_path: Path) -> None:
    model = ScriptedModel([call("search_project", {"word": "reducer", "limit": 1})], ["I cannot search."])
    async with (
        workspace(tmp_path, model) as work,
        answer(model, work, Question("Search.", ("download_artifact",))).open() as events,
    ):
        (output,) = outputs([event async for event in events])

    assert isinstance(output.result, Failure)
    assert output.result.kind == "unknown_tool"


@pytest.mark.parametrize("anyio_backend", ["asyncio"])  # it takes seconds, and the tests of streamkit.local run on both
@pytest.mark.parametrize("question", QUESTIONS, ids=lambda question: question.tools[-1])
async def test_a_real_model_makes_calls_that_run(question: Question, tmp_path: Path, local: Model) -> None:
    async with workspace(tmp_path, local) as work, answer(local, work, question).open() as events:
        seen = [event async for event in events]

    check_grammar(seen)
    assert {output.tool for output in outputs(seen)} <= set(question.tools)
    assert outputs(seen)
    assert all(isinstance(output.result, Value) for output in outputs(seen))
    assert events.value.ended in ("answer", "length")


@pytest.fixture
async def local() -> AsyncIterator[Model]:
    try:
        find_weights()
    except LocalModelError as error:
        pytest.skip(str(error))
    async with local_model() as model:
        yield model


def outputs(events: Sequence[RunEvent]) -> list[Output]:
    return [event for event in events if isinstance(event, Output)]


def names_in(folder: Path) -> list[str]:
    return [path.name for path in folder.iterdir()]


def read(path: Path) -> bytes:
    return path.read_bytes()
