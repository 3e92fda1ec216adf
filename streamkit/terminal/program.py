"""The end of a program that shows a run: its exit code, and the one line that says why."""

from __future__ import annotations

import io
import os
import sys
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from typing import TypeVarTuple, Unpack

import anyio

from ..errors import StreamkitError
from ..flows.groups import LoneErrorGroup
from .words import visible

Args = TypeVarTuple("Args")


def run_program(
    main: Callable[[Unpack[Args]], Awaitable[int | None]],
    *args: *Args,
    backend: str = "asyncio",
    tells: tuple[type[Exception], ...] = (),
) -> int:
    """Run `main(*args)` to its end; returns the exit code: `sys.exit(run_program(main, options))`.

    The code is what main returns, with None for 0; also 0 when nobody reads the output any more (`… | head`); 1 for a
    StreamkitError, or another error that `tells` names, with one line on the standard error; 130 for Ctrl-C, which
    cancels main. Other errors are raised. Printing never ends the program: characters that the encoding of the standard
    output lacks become question marks, and without a standard output nothing is written.
    """
    code = 0
    told: tuple[type[Exception], ...] = (StreamkitError, *tells)
    with _standard_files():
        try:
            code = anyio.run(_cancellable, main, args, backend=backend) or 0
            sys.stdout.flush()
        except* BrokenPipeError:
            # What is still in the buffer goes nowhere; at its end Python would complain of it once more.
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        except* told as failed:
            print(f"streamkit: {visible(str(_first(failed)))}", file=sys.stderr)
            code = 1
        except* KeyboardInterrupt:
            if sys.stderr.isatty():
                print(file=sys.stderr)  # a terminal has written ^C into the last line
            code = 130
    return code


async def _cancellable(main: Callable[[Unpack[Args]], Awaitable[int | None]], args: tuple[*Args]) -> int | None:
    """Runs main in a task of a group, where a cancellation holds until main has ended.

    Ctrl-C cancels the first task of asyncio, and only once: whoever waits for something in their cleanup, such as the
    end of a process, would hear of it no more.
    """
    codes: list[int | None] = []

    async def run() -> None:
        codes.append(await main(*args))

    async with LoneErrorGroup() as tasks:
        tasks.start_soon(run)
    return codes[0]


@contextmanager
def _standard_files() -> Iterator[None]:
    with (
        open(os.devnull, "w", encoding="utf-8") as nowhere,
        redirect_stdout(sys.stdout or nowhere),  # None in a program that was started without
        redirect_stderr(sys.stderr or nowhere),
    ):
        if isinstance(sys.stdout, io.TextIOWrapper) and sys.stdout.errors in ("strict", "surrogateescape"):
            sys.stdout.reconfigure(errors="replace")
        yield


def _first(failed: BaseException) -> BaseException:
    while isinstance(failed, BaseExceptionGroup):
        failed = failed.exceptions[0]
    return failed
