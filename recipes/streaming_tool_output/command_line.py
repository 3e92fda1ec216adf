"""The command line: which model answers, where it is shown, and what is said in the end."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import AsyncIterator, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager, nullcontext
from functools import partial
from pathlib import Path
from signal import Signals
from tempfile import TemporaryDirectory
from time import monotonic

import anyio
import httpx2

from streamkit import Model, StreamkitError
from streamkit.local import local_model
from streamkit.providers.openai_chat import OPENAI_URL, openai_chat

from .file_server import file_server
from .interruption import run_interruptibly
from .lines import JsonLines, PlainLines
from .recipe import show_answers
from .screen import Screen, on_one_line, visible
from .scripted import scripted_model
from .tally import Tally
from .tools import ARTIFACTS, Workspace

PROJECT = Path(__file__).parents[2]
BYTES_PER_SECOND = 7_000_000
"""A download of some 20 MB takes about three seconds."""


def main(arguments: Sequence[str]) -> int:
    """Run the demo; gives the exit code."""
    options = parse(arguments)
    tally = Tally()
    cut_off: list[tuple[Signals, str]] = []
    try:
        anyio.run(
            run_interruptibly,
            partial(demo, options, screen_for(options), tally),
            lambda received: cut_off.append((received, tally.under_way())),
        )
    except Exception as raised:
        error = without_groups(raised)
        if isinstance(error, BrokenPipeError):
            leave_stdout()
            return 0  # who closed it has seen what they wanted
        if not isinstance(error, StreamkitError):
            raise
        print(f"streamkit: {visible(str(error))}", file=sys.stderr)
        return 1
    for received, what in cut_off:
        print(f"\ncancelled {on_one_line(what)}", file=sys.stderr)
        return 128 + received
    return 0


def parse(arguments: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m recipes.streaming_tool_output",
        description="A model calls tools that show their work: downloads, a search, a sub-agent.",
    )
    parser.add_argument(
        "--model",
        type=model_name,
        default="local",
        help="local (a small one on this machine, the default), scripted (none at all), or openai:NAME",
    )
    parser.add_argument("--base-url", default=OPENAI_URL, help="of another server that speaks like OpenAI's")
    parser.add_argument("--json", action="store_true", help="print each event as a line of JSON")
    options = parser.parse_args(arguments)
    if options.model.startswith("openai:") and options.base_url == OPENAI_URL and not os.environ.get("OPENAI_API_KEY"):
        parser.error("OPENAI_API_KEY is not in the environment; a server that needs no key is named by --base-url")
    return options


def model_name(text: str) -> str:
    if text in ("local", "scripted") or text.removeprefix("openai:") not in ("", text):
        return text
    raise argparse.ArgumentTypeError(f"there is no model {text!r}: say local, scripted or openai:NAME")


def screen_for(options: argparse.Namespace) -> AbstractAsyncContextManager[Screen]:
    if options.json:
        return nullcontext(JsonLines(sys.stdout.buffer))
    if not sys.stdout.isatty() or os.environ.get("TERM") == "dumb":
        return nullcontext(PlainLines(sys.stdout.buffer))
    from .terminal import terminal  # noqa: PLC0415 - only here is rich needed

    return terminal()


async def demo(options: argparse.Namespace, opening: AbstractAsyncContextManager[Screen], tally: Tally) -> None:
    """Everything that the recipe needs, opened around it and closed behind it."""
    began = monotonic()
    with TemporaryDirectory(prefix="streamkit-") as folder:
        async with (
            opening as screen,
            model_for(options, screen) as model,
            file_server(ARTIFACTS, bytes_per_second=BYTES_PER_SECOND) as url,
            httpx2.AsyncClient(base_url=url, trust_env=False) as files,  # no proxy stands before this machine itself
        ):
            workspace = Workspace(files, Path(folder), PROJECT, model)
            await show_answers(model, workspace, screen, tally=tally)
            await screen.end(tally.summary(monotonic() - began))


@asynccontextmanager
async def model_for(options: argparse.Namespace, screen: Screen) -> AsyncIterator[Model]:
    if options.model == "scripted":
        yield scripted_model()
    elif options.model == "local":
        await screen.wait("starts on this machine")
        async with local_model() as model:
            yield model
    else:
        yield openai_chat(options.model.removeprefix("openai:"), base_url=options.base_url)


def without_groups(raised: Exception) -> Exception:
    """The error that is alone in the groups of the task groups it passed."""
    while isinstance(raised, ExceptionGroup) and len(raised.exceptions) == 1:
        raised = raised.exceptions[0]
    return raised


def leave_stdout() -> None:
    """Let what is still in its buffer go nowhere; when Python ends it would complain."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
