"""The recipe as a program: what it says when something is missing, and how it ends when it is cut off."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import anyio
import pytest

from .command_line import PROJECT, main, model_name
from .interruption import run_interruptibly
from .signals import SIGNALS


@contextlib.contextmanager
def program(folder: Path, *arguments: str, stdout: int = subprocess.PIPE) -> Iterator[subprocess.Popen[str]]:
    """The recipe in a process of its own, which puts what it downloads into this folder."""
    with subprocess.Popen(
        [sys.executable, "-m", "recipes.streaming_tool_output", "--model", "scripted", *arguments],
        cwd=PROJECT,
        env={**os.environ, "TMPDIR": str(folder)},
        stdout=stdout,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        try:
            yield process
        finally:
            process.kill()


def read_until(process: subprocess.Popen[str], text: str) -> None:
    assert process.stdout is not None
    for line in process.stdout:
        if text in line:
            return
    pytest.fail(f"no line with {text!r} came")


@pytest.mark.parametrize(("received", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_signal_in_mid_download_ends_it_in_order(tmp_path: Path, received: signal.Signals, code: int) -> None:
    with program(tmp_path) as process:
        read_until(process, "river.bin: 10 %")
        assert list(tmp_path.rglob("*.part"))
        process.send_signal(received)
        process.send_signal(received)
        _, errors = process.communicate(timeout=60)

    assert process.returncode == code
    assert errors == "\ncancelled while download_artifact mountain.bin and download_artifact river.bin ran\n"
    assert list(tmp_path.iterdir()) == []


def test_a_reader_who_leaves_ends_it_quietly(tmp_path: Path) -> None:
    with program(tmp_path, "--json") as process:
        assert process.stdout is not None
        process.stdout.readline()
        process.stdout.close()
        process.wait(timeout=60)
        assert process.stderr is not None
        errors = process.stderr.read()

    assert (process.returncode, errors) == (0, "")
    assert list(tmp_path.iterdir()) == []


def test_a_signal_is_heard_while_the_reader_does_not_read(tmp_path: Path) -> None:
    reading, writing = os.pipe()
    os.set_blocking(writing, False)
    with contextlib.suppress(BlockingIOError):
        while os.write(writing, b" " * 4096):
            pass
    os.set_blocking(writing, True)
    with program(tmp_path, stdout=writing) as process:
        while not list(tmp_path.iterdir()):  # it has begun, and its first line has no place to go
            time.sleep(0.01)
        process.send_signal(signal.SIGINT)
        assert process.wait(timeout=60) == 130
    os.close(reading)
    os.close(writing)


@pytest.fixture(autouse=True)
def restored_signals() -> Iterator[None]:
    handlers = {each: signal.getsignal(each) for each in SIGNALS}
    yield
    for each, handler in handlers.items():
        signal.signal(each, handler)


async def test_work_is_cancelled_by_the_first_signal_only() -> None:
    told: list[signal.Signals] = []
    cleaned_up = False

    async def work() -> None:
        nonlocal cleaned_up
        os.kill(os.getpid(), signal.SIGTERM)
        try:
            await anyio.sleep_forever()
        finally:
            os.kill(os.getpid(), signal.SIGINT)
            with anyio.CancelScope(shield=True):
                await anyio.wait_all_tasks_blocked()
            cleaned_up = True

    await run_interruptibly(work, told.append)

    os.kill(os.getpid(), signal.SIGHUP)
    assert told == [signal.SIGTERM]
    assert cleaned_up


async def test_work_that_ends_by_itself_is_not_waited_on() -> None:
    async def work() -> None:
        await anyio.lowlevel.checkpoint()

    await run_interruptibly(work, lambda _: None)


def test_a_missing_package_is_told_in_one_sentence(tmp_path: Path) -> None:
    (tmp_path / "httpx2.py").write_text("raise ModuleNotFoundError(name='httpx2')")
    run = subprocess.run(
        [sys.executable, "-m", "recipes.streaming_tool_output"],
        cwd=PROJECT,
        env={**os.environ, "PYTHONPATH": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
    )

    assert run.returncode == 1
    assert run.stderr == "streamkit: httpx2 is not installed; run `make demo`, or `pip install -e '.[http,cli]'`\n"


@pytest.mark.parametrize("text", ["gpt-4.1", "openai:", "openai", ""])
def test_an_unknown_model_is_refused_with_the_known_ones(text: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit, match="2"):
        main(["--model", text])

    assert f"there is no model {text!r}: say local, scripted or openai:NAME" in capsys.readouterr().err


@pytest.mark.parametrize("text", ["local", "scripted", "openai:gpt-4.1-mini"])
def test_the_known_models(text: str) -> None:
    assert model_name(text) == text


def test_a_missing_key_is_told_in_one_sentence(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)

    with pytest.raises(SystemExit, match="2"):
        main(["--model", "openai:any"])

    assert "OPENAI_API_KEY is not in the environment" in capfd.readouterr().err


def test_a_server_that_is_not_there_is_told_in_one_sentence(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "a key")

    assert main(["--model", "openai:any", "--base-url", "http://127.0.0.1:1/v1"]) == 1
    (line,) = capfd.readouterr().err.splitlines()
    assert line.startswith("streamkit: ")
