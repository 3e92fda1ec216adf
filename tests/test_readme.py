"""The README is true: its example runs, its layout names every module, its events have the fields that it says."""

import ast
import os
import re
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from textwrap import indent
from typing import Annotated, Any, get_args
from uuid import uuid4

import anyio
import msgspec
import pytest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.routing import Mount

import streamkit
from streamkit import RunEvent
from streamkit.journal.memory import memory_journal
from streamkit.testing import ScriptedModel, call, check_model, stop
from streamkit.web import FlowResponse
from streamkit.wire.ag_ui_input import from_run_input
from streamkit.wire.ai_sdk import AiSdkEncoder
from streamkit.wire.seals import Seal
from streamkit.wire.ui_messages import from_ui_messages

from .web.asgi import ask
from .web.serving import JSON, json_request, text_of

ROOT = Path(__file__).parent.parent
README = (ROOT / "README.md").read_text("utf-8")


def first_example() -> dict[str, Any]:
    exec(README.split("```python\n")[1].split("```")[0], scope := {"__name__": __name__})
    return scope


async def test_the_first_example_runs_as_it_stands(capsys: pytest.CaptureFixture[str]) -> None:
    scope = first_example()
    await scope["main"]()
    shown = capsys.readouterr().out
    assert "tool runs     download report.bin: 20 %, 100 of 500" in shown
    assert 'model gets    download report.bin: {"name":"report.bin","done":500,"total":500}' in shown
    assert "answer It is here." in shown
    assert len(scope["model"].requests) == 2


async def test_the_loop_by_hand_shows_both_streams(capsys: pytest.CaptureFixture[str]) -> None:
    scope = {name: getattr(streamkit, name) for name in streamkit.__all__} | first_example()
    code = compile(example("async def step(out"), "README", "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
    await eval(code, scope)
    shown = capsys.readouterr().out
    assert 'I fetch it. {"name":"report.bin"}\rreport.bin: 100 bytes\rreport.bin: 200 bytes' in shown
    assert "It is here.answer Usage(" in shown


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


@streamkit.tool(approval=True)
async def send(to: str) -> str:
    """Send a mail."""
    return f"sent to {to}"


def scope_with_gated_calls(*names: str) -> dict[str, Any]:
    scope: dict[str, Any] = {name: getattr(streamkit, name) for name in streamkit.__all__}
    calls = [call("send", {"to": name}) for name in names]
    scope |= {"model": ScriptedModel(calls, ["Done."]), "toolkit": streamkit.Toolkit(send)}
    return scope | {"history": (streamkit.user("Write to all."),), "anyio": anyio, "sys": sys, "msgspec": msgspec}


async def test_a_person_at_a_terminal_is_asked_about_each_call(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    scope = scope_with_gated_calls("Ann", "Bob")
    keyboard, fingers = os.pipe()
    os.write(fingers, b"y\nn\n")
    os.close(fingers)
    code = compile(example("open_screen()"), "README", "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
    with os.fdopen(keyboard) as typed:
        monkeypatch.setattr(sys, "stdin", typed)
        await eval(code, scope)
    results = [item.text for item in scope["events"].value.history if isinstance(item, streamkit.ToolOutput)]
    first, _ = re.findall(r"May send run with {'to': '(\w+)'}\? \[y/n\]", capsys.readouterr().out)
    assert set(results) == {f"sent to {first}", "The call of send was denied: the person said no"}


async def test_a_stored_run_goes_on_with_its_verdict() -> None:
    scope = scope_with_gated_calls("Ann")
    state = await streamkit.converse(scope["model"], scope["toolkit"], scope["history"])
    scope |= {"stored": msgspec.json.encode(state), "execution_id": next(iter(state.undecided))}
    code = compile(example("from_verdicts({execution_id"), "README", "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
    await eval(code, scope)
    assert (scope["state"].ended, scope["state"].history[-2].text) == ("answer", "sent to Ann")


async def test_the_app_serves_whom_it_knows_and_tells_the_tools_who_that_is() -> None:
    @streamkit.tool
    async def whoami(context: streamkit.ToolContext[str]) -> str:
        """Who asks."""
        return context.context

    scope: dict[str, Any] = {name: getattr(streamkit, name) for name in streamkit.__all__}
    scope |= {"model": ScriptedModel([call("whoami")], ["Done."]), "toolkit": streamkit.Toolkit(whoami)}
    scope |= {"Request": Request, "Starlette": Starlette, "Mount": Mount, "USERS": {"key": "ann"}}
    scope["sqlite_journal"] = lambda path: memory_journal()
    exec(example("def who_asks("), scope)
    body, key = json_request({"message": "Hi"}), {"authorization": "Bearer key"}
    app: Starlette = scope["app"]
    async with app.router.lifespan_context(app):
        assert (await ask(app, "POST", "/agent/runs", headers=JSON, exchange=body)).status == 401
        body = json_request({"message": "Hi"})
        asked = await ask(app, "POST", "/agent/runs", headers=JSON | key, exchange=body)
    assert text_of(asked) == "Done."
    assert scope["model"].requests[1].history[-1].text == "ann"


async def test_a_test_of_ones_own_passes() -> None:
    scope = {name: getattr(streamkit, name) for name in streamkit.__all__} | first_example()
    scope["toolkit"] = streamkit.Toolkit(scope["download"])
    exec(example("async def test_the_report_is_fetched("), scope)
    await scope["test_the_report_is_fetched"]()


async def test_a_field_is_shown_while_it_is_written(capsys: pytest.CaptureFixture[str]) -> None:
    @streamkit.tool
    async def write_file(path: str, content: str) -> str:
        """Write a file."""
        return path

    written = call("write_file", {"path": "a.txt", "content": 'He said "Hi".\n'}, split=3)
    cut = call("write_file", {"path": "b.txt", "content": "Hello"}, split=3, ends=False)
    model = ScriptedModel([written], [cut, stop("length")])
    scope: dict[str, Any] = {name: getattr(streamkit, name) for name in streamkit.__all__}
    scope |= {"model": model, "toolkit": streamkit.Toolkit(write_file), "history": (streamkit.user("Go"),)}
    code = compile(example('only="write_file"'), "README", "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
    await eval(code, scope)
    assert capsys.readouterr().out == 'He said "Hi".\nHello\n(never written: incomplete)\n'


@pytest.mark.parametrize(
    ("saying", "body", "last"),
    [
        (
            "chat = from_ui_messages(",
            {"id": "chat", "messages": [{"id": "m", "role": "user", "parts": [{"type": "text", "text": "Hi"}]}]},
            "data: [DONE]",
        ),
        (
            "asked = from_run_input(",
            {"threadId": "t", "runId": "r", "messages": [{"id": "m", "role": "user", "content": "Hi"}]},
            '"type":"RUN_FINISHED"',
        ),
    ],
    ids=["ai-sdk", "ag-ui"],
)
async def test_a_route_of_ones_own_answers_other_clients(saying: str, body: dict[str, Any], last: str) -> None:
    scope: dict[str, Any] = {name: getattr(streamkit, name) for name in streamkit.__all__}
    scope |= {"model": ScriptedModel(["Done."]), "toolkit": streamkit.Toolkit(), "uuid4": uuid4, "seal": Seal(None)}
    scope |= {"from_ui_messages": from_ui_messages, "AiSdkEncoder": AiSdkEncoder, "from_run_input": from_run_input}
    scope |= {"FlowResponse": FlowResponse}
    exec("def route(body):\n" + indent(example(saying), "    "), scope)
    asked = await ask(scope["route"](body), "POST")
    assert (asked.status, "Done." in asked.text, last in asked.text) == (200, True, True)
