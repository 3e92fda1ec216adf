"""The end of a program that shows a run: its exit code, and the one line that says why."""

from __future__ import annotations

import os
import sys
from collections.abc import Awaitable, Callable
from typing import TypeVarTuple, Unpack

import anyio

from ..errors import StreamkitError
from .words import visible

Args = TypeVarTuple("Args")


def run_program(
    main: Callable[[Unpack[Args]], Awaitable[int | None]],
    *args: *Args,
    backend: str = "asyncio",
    tells: tuple[type[Exception], ...] = (),
) -> int:
    """Run `main(*args)` to its end; gives the exit code: `sys.exit(run_program(main, options))`.

    What main returns, None for 0. 0 also when nobody reads any more what is printed (`… | head`). 1 for a
    StreamkitError, or an error that `tells` names, with one line on the standard error. 130 for Ctrl-C. Other errors
    are raised.
    """
    code = 0
    told: tuple[type[Exception], ...] = (StreamkitError, *tells)
    try:
        code = anyio.run(main, *args, backend=backend) or 0
        if sys.stdout is not None:
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


def _first(failed: BaseException) -> BaseException:
    while isinstance(failed, BaseExceptionGroup):
        failed = failed.exceptions[0]
    return failed
