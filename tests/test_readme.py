"""The README is true: its example runs, its layout names every module, its events have the fields that it says."""

import ast
import re
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, get_args

import msgspec
import pytest

import streamkit
from streamkit import RunEvent
from streamkit.journal.memory import memory_journal
from streamkit.testing import ScriptedModel, call, check_model

ROOT = Path(__file__).parent.parent
README = (ROOT / "README.md").read_text("utf-8")


@dataclass
class Progress:
    name: str
    done: int


async def fetch(name: str) -> AsyncIterator[bytes]:
    """Stands for whatever a reader downloads with."""
    for _ in range(3):
        yield b"1234"


async def test_the_first_example_runs_as_it_stands(capsys: pytest.CaptureFixture[str]) -> None:
    example = README.split("```python\n")[1].split("```")[0]
    model = ScriptedModel([call("download", {"name": "report.bin"}, split=5)], ["Here ", "it is."])
    given: dict[str, Any] = {"Progress": Progress, "fetch": fetch, "model": model}
    exec(example, scope := {**given, "__name__": __name__})
    await scope["main"]()
    shown = capsys.readouterr().out
    assert '{"name":"report.bin"}\rreport.bin: 4 bytes\rreport.bin: 8 bytes\rreport.bin: 12 bytesHere it is.' in shown
    assert "answer Usage(" in shown
    assert model.requests[1].history[-1] == streamkit.ToolOutput(
        "call_1", "download", '{"name":"report.bin","done":12}'
    )


def test_the_layout_names_every_module() -> None:
    layout = README.split("## Layout")[1].split("## ")[0]
    package = ROOT / "streamkit"
    for path in package.rglob("*.py"):
        module = path.relative_to(package).with_suffix("").as_posix()
        if path.name != "__init__.py":
            assert f"`{module}`" in layout or f"`{module.split('/')[0]}/…`" in layout, f"{module} is not in the README"


def test_the_events_have_the_fields_that_are_said() -> None:
    section = README.split("## Events")[1].split("## ")[0]
    told = {}
    for names, fields in re.findall(r"^\| ((?:`\w+`(?:, )?)+) \| (.*) \|$", section, re.MULTILINE):
        for name in re.findall(r"`(\w+)`", names):
            told[name] = set(re.findall(r"`(\w+)`", fields))
    for event in get_args(RunEvent):
        if event.__name__ not in ("ProviderTool", "UnknownItem", "ToolInputField"):
            assert set(event.__struct_fields__) <= told[event.__name__], event.__name__


def example(saying: str) -> str:
    """The one block of Python in the README that says this."""
    (found,) = [block.split("```")[0] for block in README.split("```python\n")[1:] if saying in block.split("```")[0]]
    return found


async def test_the_backend_of_ones_own_works() -> None:
    scope: dict[str, Any] = {name: getattr(streamkit, name) for name in streamkit.__all__}
    scope |= {"AsyncIterator": AsyncIterator, "__name__": __name__}
    exec(example("class Generated:"), scope)
    model = scope["Generated"]()

    @streamkit.tool
    async def read(path: str) -> str:
        """Read a file."""
        return path

    toolkit = streamkit.Toolkit(read)
    await check_model(model, streamkit.TurnRequest((streamkit.user("go"),), toolkit.specs))
    state = await streamkit.converse(model, toolkit, (streamkit.user("go"),))
    assert (state.ended, state.history[-1]) == ("answer", streamkit.assistant("It says: more.txt"))


async def test_a_value_comes_instead_of_text() -> None:
    model = ScriptedModel(['{"name": "Oslo", "population": "709037"}'])
    scope: dict[str, Any] = {name: getattr(streamkit, name) for name in streamkit.__all__}
    scope |= {"model": model, "msgspec": msgspec, "Annotated": Annotated, "__name__": __name__}
    code = compile(example("class City("), "README", "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
    await eval(code, scope)
    assert (scope["city"].name, scope["city"].population) == ("Oslo", 709037)


async def test_a_run_goes_on_with_the_lines_that_began_it() -> None:
    journal = memory_journal()
    model = ScriptedModel(["Done."])
    scope: dict[str, Any] = {name: getattr(streamkit, name) for name in streamkit.__all__}
    scope |= {"model": model, "toolkit": streamkit.Toolkit(), "sqlite_journal": lambda path: journal}
    block = example('journal.drive("run-1")').replace("        ...\n", "        async for _ in events: pass\n")
    code = compile(block, "README", "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
    for _ in range(2):
        await eval(code, scope)
        assert scope["events"].value.ended == "answer"
    assert len(model.requests) == 1
