"""How a program around a run ends: in a pipe, at a terminal, when it is cut off."""

from __future__ import annotations

import os
import pty
import signal
import subprocess
import sys
from pathlib import Path

import anyio
import pytest

from streamkit.errors import ProviderError
from streamkit.terminal import run_program

from .emulator import Emulator

ROOT = Path(__file__).parents[2]
PROGRAM = """
import sys
import anyio
from streamkit import ToolStarted, Intermediate, TextDelta
from streamkit.terminal import run_program, show

async def endless():
    yield ToolStarted("x", "a", "copy", {"file": "a.bin"})
    number = 0
    while True:
        number += 1
        yield Intermediate("a", "copy", f"part {number}")
        await anyio.sleep(0.001)

sys.exit(run_program(lambda: show(endless()), backend=sys.argv[1]))
"""


async def returns(code: int | None) -> int | None:
    await anyio.lowlevel.checkpoint()
    return code


async def raises(error: BaseException) -> None:
    await anyio.lowlevel.checkpoint()
    raise error


@pytest.mark.parametrize("backend", ["asyncio", "trio"])
@pytest.mark.parametrize(("gives", "code"), [(None, 0), (0, 0), (3, 3)])
def test_the_exit_code_is_that_of_the_program(gives: int | None, code: int, backend: str) -> None:
    assert run_program(returns, gives, backend=backend) == code


@pytest.mark.parametrize("backend", ["asyncio", "trio"])
@pytest.mark.parametrize(
    "error",
    [
        ProviderError("over\x1bloaded"),
        ExceptionGroup("several", [ExceptionGroup("one", [ProviderError("over\x1bloaded")])]),
    ],
)
def test_an_error_that_a_person_can_read_is_one_line(
    error: Exception, backend: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run_program(raises, error, backend=backend) == 1
    assert capsys.readouterr().err == "streamkit: over\N{REPLACEMENT CHARACTER}loaded\n"


def test_other_errors_are_raised_or_told_where_the_program_says_so(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(FileNotFoundError, match="gone"):
        run_program(raises, FileNotFoundError("gone"))
    assert run_program(raises, FileNotFoundError("gone"), tells=(OSError,)) == 1
    assert capsys.readouterr().err == "streamkit: gone\n"


def test_ctrl_c_is_130() -> None:
    assert run_program(raises, KeyboardInterrupt()) == 130


def test_ctrl_c_cuts_off_what_waits_in_its_cleanup() -> None:
    reached: list[str] = []

    async def waits() -> None:
        try:
            signal.raise_signal(signal.SIGINT)  # asyncio cancels one task; trio would raise it right here
            await anyio.sleep_forever()
        finally:
            reached.append("cleanup")
            await anyio.sleep_forever()  # as who leaves the block of a process waits for its end

    assert run_program(waits) == 130
    assert reached == ["cleanup"]


@pytest.mark.parametrize(
    "shell", ["PYTHONIOENCODING=ascii", "LC_ALL=C PYTHONUTF8=0 PYTHONCOERCECLOCALE=0", "exec >&-;", "exec >&- 2>&-;"]
)
def test_no_program_ends_for_what_its_standard_output_lacks(shell: str) -> None:
    program = (
        'import sys\nfrom streamkit.terminal import *\nasync def main():\n    print(sys.stdout.isatty(), "\\u2713")'
    )
    ends = f"{program}\nsys.exit(run_program(main))"
    command = f'{shell} "$0" -c "$1"'
    ended = subprocess.run(["sh", "-c", command, sys.executable, ends], cwd=ROOT, capture_output=True, check=False)
    assert (ended.returncode, ended.stderr) == (0, b"")
    assert ended.stdout in (b"False ?\n", b"")


@pytest.mark.parametrize("backend", ["asyncio", "trio"])
def test_a_reader_who_leaves_ends_it_quietly(backend: str) -> None:
    command = [sys.executable, "-c", PROGRAM, backend]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        process.stdout.readline()
        process.stdout.close()
        assert process.stderr is not None
        assert (process.stderr.read(), process.wait(timeout=60)) == ("", 0)


@pytest.mark.parametrize("backend", ["asyncio", "trio"])
def test_ctrl_c_leaves_a_terminal_clean(backend: str) -> None:
    ours, theirs = pty.openpty()
    emulator, written = Emulator(), b""
    with subprocess.Popen(
        [sys.executable, "-c", PROGRAM, backend],
        cwd=ROOT,
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
        start_new_session=True,
    ) as process:
        os.close(theirs)
        while b"part" not in written:
            written += os.read(ours, 4096)
        process.send_signal(signal.SIGINT)
        try:
            while read := os.read(ours, 4096):
                written += read
        except OSError:  # nobody writes any more
            pass
        assert process.wait(timeout=60) == 130
    os.close(ours)
    emulator.feed(written.decode().replace("\r\n", "\n"))

    assert emulator.shows_cursor
    assert emulator.wraps
    assert emulator.text.count("copy") == 1
    assert emulator.lines[-3:] == ["  ╰ cut off", "", ""]
