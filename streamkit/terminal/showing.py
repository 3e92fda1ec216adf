"""Showing a run: as cards in a terminal, as lines anywhere else."""

from __future__ import annotations

import os
import sys
from collections.abc import AsyncIterable
from contextlib import AbstractAsyncContextManager
from typing import Any, TextIO, TypeVar, overload

from ..flows.edge import Events
from ..flows.flow import Flow
from .blocks import Describe, as_it_is
from .line_screen import line_screen
from .screen import Screen

R = TypeVar("R")


@overload
async def show(  # type: ignore[overload-overlap]  # to iterate one is an error
    source: Flow[Any, R], *, describe: Describe = ..., plain: bool | None = ...
) -> R: ...
@overload
async def show(  # type: ignore[overload-overlap]  # the first that fits
    source: Events[Any, R], *, describe: Describe = ..., plain: bool | None = ...
) -> R: ...
@overload
async def show(source: AsyncIterable[Any], *, describe: Describe = ..., plain: bool | None = ...) -> None: ...
async def show(
    source: Flow[Any, Any] | AsyncIterable[Any], *, describe: Describe = as_it_is, plain: bool | None = None
) -> Any:
    """Show a run on the standard output, from its first event to its last; gives its value, if it has one.

    source: a flow, which is opened for it; the Events of one that is open; or any other iterable of a run's events,
    such as one through pipes. See `open_screen` for the rest, and for what is raised.
    """
    async with open_screen(describe=describe, plain=plain) as screen:
        return await screen.show(source)


def open_screen(
    file: TextIO | None = None, *, describe: Describe = as_it_is, plain: bool | None = None
) -> AbstractAsyncContextManager[Screen]:
    """A screen for several runs, one after the other. When the block ends, it prints their totals.

    file: None is the standard output. describe: called with what a tool has sent; it returns what to show instead:
    text, a `Bar`, or None for nothing. A value that it returns unchanged becomes a bar if it says how much of a whole
    is done, such as `done` and `total`, and otherwise a line. plain: lines instead of cards; None chooses lines unless
    file is a terminal that can show cards.

    Cards need rich, the extra `cli`; without it there are lines. Raises BrokenPipeError when nobody reads any more,
    which `run_program` turns into a quiet end.
    """
    file = sys.stdout if file is None else file
    if plain or (plain is None and not _takes_cards(file)):
        return line_screen(file, describe)
    try:
        from .card_screen import card_screen  # noqa: PLC0415 - only here is rich needed
    except ModuleNotFoundError as missing:
        if (missing.name or "").partition(".")[0] != "rich":
            raise
        return line_screen(file, describe)
    return card_screen(file, describe)


def _takes_cards(file: TextIO) -> bool:
    is_utf8 = (getattr(file, "encoding", None) or "").lower().replace("-", "") == "utf8"
    speaks = os.environ.get("TERM") not in ("dumb", "unknown") and not os.environ.get("CI")
    return file.isatty() and is_utf8 and speaks
