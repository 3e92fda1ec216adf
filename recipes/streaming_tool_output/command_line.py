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

import httpx2

from streamkit import Model
from streamkit.local import open_model
from streamkit.providers.openai_chat import OPENAI_URL, openai_chat
from streamkit.terminal import Screen, on_one_line, open_screen, run_program

from .file_server import file_server
from .interruption import run_interruptibly
from .json_lines import JsonLines
from .recipe import described, show_answers
from .scripted import scripted_model
from .tools import ARTIFACTS, Workspace
from .under_way import UnderWay

PROJECT = Path(__file__).parents[2]
BYTES_PER_SECOND = 7_000_000
"""A download of some 20 MB takes about three seconds."""


def main(arguments: Sequence[str]) -> int:
    """Run the demo; gives the exit code."""
    options = parse(arguments)
    under_way = UnderWay()
    cut_off: list[tuple[Signals, str]] = []
    code = run_program(
        run_interruptibly,
        partial(demo, options, under_way),
        lambda received: cut_off.append((received, under_way.told())),
    )
    for received, what in cut_off:
        print(f"\ncancelled {on_one_line(what)}", file=sys.stderr)
        return 128 + received
    return code


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
    parser.add_argument("--base-url", default=OPENAI_URL, help="another server that speaks OpenAI's protocol")
    parser.add_argument("--json", action="store_true", help="print each event as a line of JSON")
    options = parser.parse_args(arguments)
    if options.model.startswith("openai:") and options.base_url == OPENAI_URL and not os.environ.get("OPENAI_API_KEY"):
        parser.error("OPENAI_API_KEY is not in the environment; name a server that needs no key with --base-url")
    return options


def model_name(text: str) -> str:
    if text in ("local", "scripted") or text.removeprefix("openai:") not in ("", text):
        return text
    raise argparse.ArgumentTypeError(f"there is no model {text!r}: say local, scripted or openai:NAME")


def screen_for(options: argparse.Namespace) -> AbstractAsyncContextManager[Screen]:
    return nullcontext(JsonLines(sys.stdout.buffer)) if options.json else open_screen(describe=described)


async def demo(options: argparse.Namespace, under_way: UnderWay) -> None:
    """Everything that the recipe needs, opened around it and closed behind it."""
    with TemporaryDirectory(prefix="streamkit-") as folder:
        async with (
            screen_for(options) as screen,
            model_for(options, screen) as model,
            file_server(ARTIFACTS, bytes_per_second=BYTES_PER_SECOND) as url,
            # no proxy stands before this machine itself
            httpx2.AsyncClient(base_url=url, timeout=60, trust_env=False) as files,
        ):
            await show_answers(model, Workspace(files, Path(folder), PROJECT, model), screen, under_way=under_way)


@asynccontextmanager
async def model_for(options: argparse.Namespace, screen: Screen) -> AsyncIterator[Model]:
    if options.model.startswith("openai:"):
        yield openai_chat(options.model.removeprefix("openai:"), base_url=options.base_url)
        return
    if options.model == "local":
        await screen.wait("the model starts on this machine")
    async with open_model(options.model, scripted=scripted_model) as model:
        yield model
