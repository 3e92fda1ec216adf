"""The recipe without a browser: the page's protection, the tools, the scripted model, the program. No network."""

from __future__ import annotations

import re
import signal
import socket
import subprocess
import sys
from base64 import b64encode
from hashlib import sha256
from pathlib import Path

import httpx2
import pytest
from starlette.testclient import TestClient

from streamkit import (
    Allow,
    Conversation,
    Deny,
    Intermediate,
    Message,
    Output,
    Question,
    RunEvent,
    Running,
    ToolContext,
    ToolError,
    ToolInputAbandoned,
    Verdict,
    allow_all,
    user,
    walk,
)
from streamkit.testing import check_grammar
from streamkit.web.requests import RunRequest

from .__main__ import listen
from .recipe import PAGE, chat, site
from .scripted import SQUARES, Scripted
from .tools import Progress, Workspace, read_file, write_file

WISHES = re.findall(r"<li><button[^>]*><span>(.*?)</span>", PAGE)
START = chat(Scripted(pause_seconds=0), Path(), httpx2.AsyncClient())


# The page


def test_the_page_lets_nothing_in_but_itself() -> None:
    policy = TestClient(site(START), base_url="http://127.0.0.1").get("/").headers["content-security-policy"]
    for tag in ("script", "style"):
        (text,) = re.findall(f"<{tag}>(.*?)</{tag}>", PAGE, re.DOTALL)
        assert f"{tag}-src 'sha256-{b64encode(sha256(text.encode()).digest()).decode()}';" in policy
    assert "default-src 'none'" in policy
    assert "unsafe" not in policy


def test_the_page_names_nothing_of_elsewhere() -> None:
    assert re.findall(r"https?://|@import|url\(|src=|innerHTML|insertAdjacent|document\.write|eval\(", PAGE) == []


def test_another_name_that_leads_to_this_machine_gets_nothing() -> None:
    client = TestClient(site(START), base_url="http://evil.example")
    assert client.get("/").status_code == 400
    assert client.post("/api/runs", json={"message": "hello"}).status_code == 400


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_all_text_has_the_contrast_that_wcag_asks_for(scheme: str) -> None:
    light, dark = re.findall(r":root \{(.*?)\}", PAGE, re.DOTALL)[:2]
    colors = dict(re.findall(r"--([\w-]+): (#\w+);", light if scheme == "light" else dark))
    for ground in ("ground", "card", "fill", "wash"):
        for ink in ("ink", "soft", "faint", "accent", "red"):
            assert contrast(colors[ink], colors[ground]) >= 4.5, f"{ink} on {ground}"
    assert contrast(colors["on-accent"], colors["accent"]) >= 4.5
    assert contrast(colors["edge"], colors["card"]) >= 3


def contrast(one: str, other: str) -> float:
    """The ratio of WCAG 2.2 between two colours."""
    darker, lighter = sorted(map(_luminance, (one, other)))
    return (lighter + 0.05) / (darker + 0.05)


def _luminance(color: str) -> float:
    digits = color[1:] if len(color) == 7 else "".join(2 * digit for digit in color[1:])
    parts = [int(digits[at : at + 2], 16) / 255 for at in (0, 2, 4)]
    red, green, blue = (part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


# The runs


def archive() -> httpx2.AsyncClient:
    """A client of an archive that is fast, and has nothing but zeros."""
    transport = httpx2.MockTransport(lambda request: httpx2.Response(200, content=bytes(100_000)))
    return httpx2.AsyncClient(transport=transport, base_url="http://archive")


async def fulfil(wish: str, folder: Path) -> tuple[list[RunEvent], Conversation]:
    """The run of a wish, by somebody who allows no message."""

    async def decide(question: Question) -> Verdict:
        return Deny("not today") if question.call.tool.approval else Allow()

    async with archive() as client:
        asked = RunRequest("run", Conversation((user(wish),)), decide, Running())
        async with chat(Scripted(pause_seconds=0), folder, client)(asked).open() as events:
            seen = [event async for event in events]
    check_grammar(seen)
    return seen, events.value


def files(folder: Path) -> list[str]:
    return [path.name for path in folder.rglob("*")]


def answer(conversation: Conversation) -> str:
    said = conversation.history[-1]
    assert isinstance(said, Message)
    return said.text


async def test_a_download_and_a_file_at_once(tmp_path: Path) -> None:
    seen, conversation = await fulfil(WISHES[0], tmp_path)
    assert answer(conversation).startswith("Both are here")
    assert (tmp_path / "squares.py").read_text() == SQUARES
    assert (tmp_path / "atlas.bin").stat().st_size == 100_000
    assert any(isinstance(event, Intermediate) and isinstance(event.data, Progress) for event in seen)


async def test_a_message_that_is_denied_is_not_sent(tmp_path: Path) -> None:
    _, conversation = await fulfil(WISHES[1], tmp_path)
    assert "not today" in answer(conversation)
    assert files(tmp_path) == []


async def test_an_inner_run_has_calls_of_its_own(tmp_path: Path) -> None:
    seen, conversation = await fulfil(WISHES[2], tmp_path)
    inner = [innermost for path, innermost in map(walk, seen) if path]
    assert [event.tool for event in inner if isinstance(event, Output)] == ["search"]
    assert "reducers.py" in answer(conversation)


async def test_a_failure_is_told(tmp_path: Path) -> None:
    _, conversation = await fulfil(WISHES[4], tmp_path)
    assert answer(conversation) == "It did not work: there is no text file missing.txt"


async def test_a_call_that_is_cut_goes_nowhere(tmp_path: Path) -> None:
    seen, conversation = await fulfil(WISHES[5], tmp_path)
    assert conversation.ended == "length"
    assert [event.reason for event in seen if isinstance(event, ToolInputAbandoned)] == ["incomplete"]
    assert files(tmp_path) == []


@pytest.mark.parametrize("name", ["../a", "/a", "b/c", "", "\0"])
def test_files_stay_in_their_folder(name: str, tmp_path: Path) -> None:
    folder = tmp_path / "folder"
    folder.mkdir()
    workspace = Workspace(folder, archive(), Scripted(), allow_all, Running())
    context = ToolContext("turn_1/0", "call_1", "turn_1", "write_file", 1, workspace)
    with pytest.raises(ToolError):
        write_file(context, name, "text")
    with pytest.raises(ToolError):
        read_file(context, name)
    assert files(tmp_path) == ["folder"]


def test_the_archive_says_how_much_there_is() -> None:
    client = TestClient(site(START), base_url="http://127.0.0.1")
    assert client.get("/archive/nothing.bin").status_code == 404


# The program


COMMAND = [sys.executable, "-m", "recipes.web_chat", "--model", "scripted", "--port", "0"]


def test_an_interruption_ends_it_with_130_while_a_run_is_watched() -> None:
    with subprocess.Popen(COMMAND, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        url = process.stdout.readline().split()[0]
        asked = {"message": WISHES[3]}
        with httpx2.stream("POST", f"{url}/api/runs", json=asked, timeout=60, trust_env=False) as response:
            assert next(response.iter_lines()) == "id: 1"
            process.send_signal(signal.SIGINT)
            _, errors = process.communicate(timeout=60)
    assert (errors, process.returncode) == ("", 130)


def test_what_is_streamed_is_sent_at_once() -> None:
    with listen(0) as listening, socket.create_connection(listening.getsockname()):
        connection, _ = listening.accept()
        with connection:
            assert connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)


def test_a_port_that_is_taken_is_said_in_one_line() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        command = [*COMMAND[:-1], str(taken.getsockname()[1])]
        run = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert run.returncode == 1
    assert run.stderr.startswith(f"streamkit: port {command[-1]} of 127.0.0.1 cannot be had: ")
    assert run.stderr.endswith("; --port 0 takes a free one\n")
    assert run.stderr.count("\n") == 1


def test_an_extra_that_is_missing_is_named_in_one_line() -> None:
    run_it = "runpy.run_module('recipes.web_chat', run_name='__main__')"
    without = f"import runpy, sys; sys.modules['uvicorn'] = None; {run_it}"
    run = subprocess.run([sys.executable, "-c", without], capture_output=True, text=True, timeout=60, check=False)
    assert (run.returncode, run.stderr) == (1, "streamkit: the page is served by uvicorn: pip install '.[web]'\n")
