"""The README is true: its example runs, its layout names every module, its events have the fields that it says."""

import re
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, get_args

import pytest

import streamkit
from streamkit import RunEvent
from streamkit.testing import ScriptedModel, call

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
