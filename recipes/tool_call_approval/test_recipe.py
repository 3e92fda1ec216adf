"""The recipe with a scripted model, and with fingers that are scripted, too; once with a real terminal."""

from __future__ import annotations

import contextlib
import os
import pty
import re
import signal
import subprocess
import sys
from collections.abc import Awaitable, Callable, Iterator, Sequence
from pathlib import Path

import anyio
import pytest

from streamkit import (
    Allow,
    ApprovalDesk,
    ApprovalRequested,
    Card,
    Conversation,
    Deny,
    RunEvent,
    ToolStarted,
    VerdictRefused,
)
from streamkit.testing import ScriptedModel, check_grammar

from .keyboard import keyboard
from .person import Person
from .recipe import WISH, live
from .screen import Screen, card_lines
from .scripted import TEXT, scripted_model
from .stored import OUTBOX, ask, decide, taken

ANN, BOB = f"Ann: {TEXT}", f"Bob: {TEXT}"


class Fingers:
    """Press these keys, and write these lines. After the last key nobody is there."""

    def __init__(self, keys: str, *lines: str) -> None:
        self._keys = list(keys)
        self._lines = list(lines)

    def forget(self) -> None: ...

    async def key(self) -> str:
        await anyio.lowlevel.checkpoint()
        return self._keys.pop(0) if self._keys else ""

    async def line(self) -> str:
        await anyio.lowlevel.checkpoint()
        return self._lines.pop(0)


def outbox(folder: Path) -> list[str]:
    file = folder / OUTBOX
    return file.read_text("utf-8").splitlines() if file.exists() else []


async def decided(folder: Path, keys: str, *lines: str) -> tuple[list[RunEvent], Conversation]:
    desk, seen = ApprovalDesk(), list[RunEvent]()
    person = Person(desk, Fingers(keys, *lines), Screen())
    with anyio.fail_after(60):
        state = await live(scripted_model(), WISH, folder / OUTBOX, desk=desk, person=person, show=seen.append)
    check_grammar(seen, pending=[call.call_id for call in state.waiting.values()])
    return seen, state


# While the run waits


async def test_each_mail_is_sent_after_its_yes(tmp_path: Path) -> None:
    seen, state = await decided(tmp_path, "yy")

    assert (state.ended, sorted(outbox(tmp_path))) == ("answer", [ANN, BOB])
    assert sum(isinstance(event, ApprovalRequested) for event in seen) == 2


async def test_a_no_is_told_to_the_model_with_its_reason(tmp_path: Path) -> None:
    _, state = await decided(tmp_path, "ny", "they know")

    assert outbox(tmp_path) in ([ANN], [BOB])
    assert "The call of send_mail was denied: they know" in state.history[-1].text  # type: ignore[union-attr]


async def test_always_answers_the_questions_that_wait_already(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    await decided(tmp_path, "a")

    assert sorted(outbox(tmp_path)) == [ANN, BOB]
    assert capsys.readouterr().out.count("╭ send_mail") == 1


async def test_what_is_edited_is_checked_and_then_runs(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    await decided(tmp_path, "eey", "Eve", "x" * 101, "Eve", "")

    assert set(outbox(tmp_path)) in ({f"Eve: {TEXT}", BOB}, {f"Eve: {TEXT}", ANN})
    assert "text: expected" in capsys.readouterr().out


async def test_other_keys_are_no_answer(tmp_path: Path) -> None:
    await decided(tmp_path, "?\nYyy")

    assert sorted(outbox(tmp_path)) == [ANN, BOB]


async def test_when_the_terminal_is_gone_everything_stays_pending(tmp_path: Path) -> None:
    _, state = await decided(tmp_path, "")

    assert (state.ended, len(state.waiting), outbox(tmp_path)) == ("pending", 2, [])


def test_a_card_shows_all_of_the_arguments_and_nothing_that_steers_a_terminal() -> None:
    arguments = {"text": f"{'word ' * 60}\n╰ [y]es\x1b[2J\u202e", "count": 3}
    card = Card("Send.", "mail.example.org", "once")
    lines = list(card_lines(ApprovalRequested("id", "call", "send", arguments, card)))

    assert "".join(lines).count("word") == 60
    assert "│           ╰ [y]es\N{REPLACEMENT CHARACTER}[2J\N{REPLACEMENT CHARACTER}" in lines
    assert "│ count     3" in lines
    assert all(line.startswith(("╭", "│")) for line in lines)


async def test_keys_are_read_while_everything_else_goes_on() -> None:
    ours, theirs = pty.openpty()

    async def typed(text: bytes, read: Callable[[], Awaitable[str]]) -> str:
        async def type_when_all_wait() -> None:
            await anyio.wait_all_tasks_blocked()
            os.write(ours, text)

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(type_when_all_wait)
            told = await read()
        return told  # noqa: RET504 - inside of the block mypy would miss it

    os.write(ours, b"n")
    with keyboard(theirs) as keys, anyio.fail_after(60):
        keys.forget()
        assert await typed(b"y", keys.key) == "y"
        assert await typed(b"a linf\x7fe\n", keys.line) == "a line"
        assert await typed(b"\n", keys.line) == ""
        assert await typed(b"n", keys.key) == "n"
    os.close(ours)
    os.close(theirs)


# Between two processes


async def stored(folder: Path) -> tuple[Path, list[str]]:
    """A stored run, and the execution ids of the calls that wait in it."""
    file = folder / "run.json"
    state = await ask(scripted_model(), WISH, file, lambda event: None)
    assert (state.ended, outbox(folder)) == ("pending", [])
    return file, list(state.waiting)


async def test_what_is_decided_runs_and_the_rest_goes_on_waiting(tmp_path: Path) -> None:
    file, (ann, bob) = await stored(tmp_path)

    state = await decide(scripted_model(), file, Allow(), bob, lambda event: None)
    assert (state.ended, list(state.waiting), outbox(tmp_path)) == ("pending", [ann], [BOB])

    state = await decide(scripted_model(), file, Deny("she knows"), None, lambda event: None)
    assert (state.ended, outbox(tmp_path)) == ("answer", [BOB])
    assert "was denied: she knows" in state.history[-1].text  # type: ignore[union-attr]


async def test_a_verdict_on_nothing_changes_nothing(tmp_path: Path) -> None:
    file, _ = await stored(tmp_path)
    before = file.read_bytes()

    with pytest.raises(VerdictRefused, match="no call waits for a verdict as zz"):
        await decide(scripted_model(), file, Allow(), "zz", lambda event: None)
    assert (file.read_bytes(), outbox(tmp_path)) == (before, [])


async def test_two_who_decide_at_once_do_not_send_twice(tmp_path: Path) -> None:
    file, _ = await stored(tmp_path)

    with taken(file), pytest.raises(VerdictRefused):
        await decide(scripted_model(), file, Allow(), None, lambda event: None)
    assert outbox(tmp_path) == []
    await decide(scripted_model(), file, Allow(), None, lambda event: None)
    assert sorted(outbox(tmp_path)) == [ANN, BOB]


async def test_what_was_sent_before_the_model_failed_is_not_sent_again(tmp_path: Path) -> None:
    file, _ = await stored(tmp_path)

    with pytest.raises(ConnectionError):
        await decide(ScriptedModel([ConnectionError]), file, Allow(), None, lambda event: None)
    state = await decide(scripted_model(), file, Allow(), None, lambda event: None)
    assert (state.ended, sorted(outbox(tmp_path))) == ("answer", [ANN, BOB])


async def test_what_was_sent_is_written_down_also_when_nobody_reads_of_it(tmp_path: Path) -> None:
    file, _ = await stored(tmp_path)

    def leave(event: RunEvent) -> None:
        if isinstance(event, ToolStarted):
            raise BrokenPipeError

    with pytest.raises(BrokenPipeError):
        await decide(scripted_model(), file, Allow(), None, leave)
    state = await decide(scripted_model(), file, Allow(), None, lambda event: None)
    assert state.ended == "answer"
    assert outbox(tmp_path)
    assert len(set(outbox(tmp_path))) == len(outbox(tmp_path))


async def test_a_run_that_waits_is_not_written_over(tmp_path: Path) -> None:
    file, _ = await stored(tmp_path)

    with pytest.raises(FileExistsError):
        await ask(scripted_model(), WISH, file, lambda event: None)


# The program


def command(*arguments: str) -> list[str]:
    return [sys.executable, "-m", "recipes.tool_call_approval", "--model", "scripted", *arguments]


def ended(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command(*arguments), stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=60, check=False
    )


def test_without_a_terminal_nothing_is_allowed() -> None:
    run = ended()
    assert (run.returncode, run.stderr) == (0, "")
    assert "pending calls: 2" in run.stdout
    assert "▸ send_mail" not in run.stdout


def test_one_process_asks_and_another_one_decides(tmp_path: Path) -> None:
    file = str(tmp_path / "run.json")
    (first, _) = re.findall(r"waits as (\S+)", ended("ask", file).stdout)
    arguments = '{"to": "Eve", "text": "Hello."}'
    assert "▸ send_mail runs with" in ended("decide", file, "allow", first, "--arguments", arguments).stdout
    run = ended("decide", file, "allow")
    assert (run.returncode, run.stdout.splitlines()[-2]) == (0, "2 of 2 mails are sent.")
    assert outbox(tmp_path) == ["Eve: Hello.", BOB]


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["decide", "nothing.json", "allow"], "streamkit: there is no stored run nothing.json\n"),
        (["decide", "nothing.json", "allow", "--arguments", "{}"], "--arguments goes with allow and an EXECUTION_ID"),
    ],
)
def test_a_wrong_word_on_the_command_line_is_told(arguments: Sequence[str], says: str) -> None:
    run = ended(*arguments)
    assert run.returncode in (1, 2)
    assert says in run.stderr


def test_a_reader_who_leaves_ends_it_quietly() -> None:
    with subprocess.Popen(
        command(), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        process.stdout.readline()
        process.stdout.close()
        assert process.stderr is not None
        assert (process.stderr.read(), process.wait(timeout=60)) == ("", 0)


@contextlib.contextmanager
def at_a_terminal() -> Iterator[tuple[subprocess.Popen[bytes], int]]:
    """The program at a terminal, and our end of it."""
    ours, theirs = pty.openpty()
    with subprocess.Popen(command(), stdin=theirs, stdout=theirs, stderr=theirs, start_new_session=True) as process:
        os.close(theirs)
        try:
            yield process, ours
        finally:
            process.kill()
            os.close(ours)


def read_until(terminal: int, text: str) -> str:
    read = b""
    while text.encode() not in read:
        read += os.read(terminal, 1)
    return read.decode()


def test_a_person_decides_at_a_real_terminal() -> None:
    with at_a_terminal() as (process, terminal):
        read_until(terminal, "[a]lways? ")
        os.write(terminal, b"e")
        read_until(terminal, "to [Ann] ")
        os.write(terminal, b"Eve\n")
        read_until(terminal, f"text [{TEXT}] ")
        os.write(terminal, b"\n")
        read_until(terminal, "[a]lways? ")
        os.write(terminal, b"y")
        read_until(terminal, "2 of 2 mails are sent.")
        assert process.wait(timeout=60) == 0


def test_an_interruption_ends_it_with_130_while_a_card_is_shown() -> None:
    with at_a_terminal() as (process, terminal):
        read_until(terminal, "[a]lways? ")
        process.send_signal(signal.SIGINT)
        assert process.wait(timeout=60) == 130
