"""The command line, as a process: what it prints, how it ends, and that nothing broken gives a traceback."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from streamkit.cli import main
from streamkit.providers.openai_chat_decoder import OpenAIChatDecoder
from streamkit.testing import check_decoder, decode

from .streams import recorded_body, recordings

CALL: dict[str, Any] = {
    "tool_calls": [{"index": 0, "id": "a", "function": {"name": "write", "arguments": '{"path": "x"}'}}]
}
BODY = (
    b'data: {"choices": [{"delta": {"content": "Hi \\u00e9"}}]}\n\n'
    b"data: " + json.dumps({"choices": [{"delta": CALL}]}).encode() + b"\n\n"
    b'data: {"choices": [{"delta": {}, "finish_reason": "tool_calls"}]}\n\n'
    b"data: [DONE]\n\n"
)


@pytest.fixture
def body(tmp_path: Path) -> Path:
    path = tmp_path / "body.sse"
    path.write_bytes(BODY)
    return path


def test_a_body_is_printed_as_one_object(body: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["decode", "--dialect", "openai-chat", str(body)]) == 0
    told = json.loads(capsys.readouterr().out)
    assert told == decode("openai-chat", [BODY])
    assert (told["text"], told["stop"], told["stop_reason"]) == ("Hi é", "tool_calls", "tool_calls")
    assert told["tool_calls"] == [{"id": "a", "name": "write", "arguments": {"path": "x"}}]


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        ('{"q": "\\ud83d"}', {"q": "\ufffd"}),
        ('{"n": ' + "9" * 5000 + "}", '{"n": ' + "9" * 5000 + "}"),
        ('{"n": ' + "[" * 990 + "]" * 990 + "}", None),
    ],
    ids=["half a character", "a long number", "deep"],
)
def test_arguments_that_python_cannot_read_give_no_traceback(
    arguments: str, told: object, body: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    call = {"index": 0, "id": "a", "function": {"name": "write", "arguments": arguments}}
    chunk = {"choices": [{"delta": {"tool_calls": [call]}, "finish_reason": "tool_calls"}]}
    body.write_text(f"data: {json.dumps(chunk)}\n\ndata: [DONE]\n\n")
    assert main(["decode", "--dialect", "openai-chat", str(body)]) == 0
    assert told is None or json.loads(capsys.readouterr().out)["tool_calls"][0]["arguments"] == told
    check_decoder(OpenAIChatDecoder, body.read_bytes())


def test_events_are_printed_one_a_line(body: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["decode", "--dialect", "openai-chat", "--events", str(body)]) == 0
    events = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [event["type"] for event in events] == [
        "turn_started", "text_delta", "tool_input_start", "tool_input_delta", "tool_input_available", "turn_ended"
    ]  # fmt: skip


def test_the_fields_of_arguments_are_printed_among_the_events(body: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["decode", "--dialect", "openai-chat", "--fields", str(body)]) == 0
    events = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert {"type": "tool_input_field", "call_id": "a", "path": ["path"], "text": "x"} in events


@pytest.mark.parametrize("flags", [[], ["--events"], ["--fields"]])
def test_a_stream_that_fails_ends_with_one(flags: list[str], body: Path, capsys: pytest.CaptureFixture[str]) -> None:
    body.write_bytes(BODY[:-80])
    assert main(["decode", "--dialect", "openai-chat", *flags, str(body)]) == 1
    last = capsys.readouterr().out.splitlines()[-1]
    assert "incomplete_stream" in last


@pytest.mark.parametrize("content", [b"", b"\xff", b"<html>", b"data: {\n\n", b"data: [[[[\n\n", b"[" * 100_000])
def test_a_broken_body_is_told_without_a_traceback(
    content: bytes, body: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    body.write_bytes(content)
    assert main(["decode", "--dialect", "openai-chat", str(body)]) == 1
    shown = capsys.readouterr()
    assert json.loads(shown.out)["error"]["message"]
    assert shown.err == ""


@pytest.mark.parametrize("name", ["missing.sse", "."])
def test_what_cannot_be_read_is_told(name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["decode", "--dialect", "openai-chat", str(tmp_path / name)]) == 2
    shown = capsys.readouterr()
    assert (shown.out, shown.err.count("\n")) == ("", 1)


def test_the_known_tools_put_the_pieces_of_a_name_together(body: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pieces = [{"index": 0, "id": "a", "function": {"name": "wri"}}, {"index": 0, "function": {"name": "te"}}]
    chunks = [{"choices": [{"delta": {"tool_calls": [piece]}}]} for piece in pieces]
    end = {"choices": [{"delta": {}, "finish_reason": "tool_calls"}]}
    body.write_text("".join(f"data: {json.dumps(chunk)}\n\n" for chunk in [*chunks, end]))
    assert main(["decode", "--dialect", "openai-chat", "--tools", "read,write", str(body)]) == 0
    assert json.loads(capsys.readouterr().out)["tool_calls"][0]["name"] == "write"


# As a process


def run(*arguments: str, stdin: bytes = b"") -> "subprocess.CompletedProcess[bytes]":
    return subprocess.run(
        [sys.executable, "-m", "streamkit", *arguments], input=stdin, capture_output=True, check=False
    )


def test_the_standard_input_is_read_and_the_exit_code_tells() -> None:
    good = run("decode", "--dialect", "openai-chat", "-", stdin=BODY)
    bad = run("decode", "--dialect", "openai-chat", "-", stdin=BODY[:50])
    assert (good.returncode, bad.returncode, good.stderr + bad.stderr) == (0, 1, b"")
    assert json.loads(good.stdout)["text"] == "Hi é"


def test_events_come_while_the_input_is_still_open() -> None:
    command = [sys.executable, "-m", "streamkit", "decode", "--dialect", "openai-chat", "--events", "-"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(BODY[:60])
        process.stdin.flush()
        assert b"turn_started" in process.stdout.readline()
        assert "Hi é".encode() in process.stdout.readline()
        process.stdin.close()
        assert process.wait() == 1


def test_a_reader_that_has_seen_enough_is_no_error(body: Path) -> None:
    body.write_bytes(BODY[:59] * 20_000)
    command = [sys.executable, "-m", "streamkit", "decode", "--dialect", "openai-chat", "--events", str(body)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.readline()
        process.stdout.close()
        assert (process.stderr.read(), process.wait()) == (b"", 0)


@pytest.mark.parametrize("entry", recordings("openai-chat")[:3])
def test_a_recorded_file_is_read(entry: dict[str, Any]) -> None:
    told = run("decode", "--dialect", "openai-chat", "-", stdin=recorded_body(entry))
    assert json.loads(told.stdout)["text"] == entry["expected"]["text"]


def test_json_is_utf8_also_where_text_is_not(body: Path) -> None:
    command = [sys.executable, "-m", "streamkit", "decode", "--dialect", "openai-chat", str(body)]
    for flags in ([], ["--events"]):
        done = subprocess.run([*command, *flags], capture_output=True, env={"PYTHONIOENCODING": "ascii"}, check=True)
        assert "Hi é".encode() in done.stdout
        assert done.stderr == b""


@pytest.mark.parametrize("closed", ["<&-", ">&-"])
def test_closed_ends_give_no_traceback(closed: str) -> None:
    command = f"{sys.executable} -m streamkit decode --dialect openai-chat - {closed}"
    done = subprocess.run(command, shell=True, input=BODY, capture_output=True, check=False)
    assert done.returncode == 2
    assert b"Traceback" not in done.stderr
