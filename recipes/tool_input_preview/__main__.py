"""`python -m recipes.tool_input_preview --model local|scripted|PROVIDER:NAME [WISH …]`"""

from __future__ import annotations

import argparse
import os
import sys
from contextlib import AbstractAsyncContextManager, nullcontext
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

from streamkit.local import open_model
from streamkit.terminal import run_program

from .lines import Lines
from .recipe import write
from .scripted import WISHES as SCRIPTED_WISHES
from .scripted import scripted_model

if TYPE_CHECKING:
    from .terminal import Terminal

WISHES = (
    "Write factorial.py: a function that computes the factorial of a number.",
    "Write primes.py: a function is_prime(n), and print the primes below 50.",
)


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser("python -m recipes.tool_input_preview", description="Watch a model write files.")
    parser.add_argument("--model", default="local", help="local (the default), scripted, or PROVIDER:NAME")
    parser.add_argument("--folder", type=Path, help="where the files go; by default a temporary folder")
    parser.add_argument("--max-tokens", type=int, help="the limit of a turn; a call that it cuts is dropped")
    parser.add_argument("wishes", nargs="*", metavar="WISH", help="what to write")
    options = parser.parse_args()
    if options.model == "scripted" and options.wishes:
        parser.error("the scripted model knows only its own wishes")
    return options


async def main(options: argparse.Namespace) -> None:
    wishes = options.wishes or (SCRIPTED_WISHES if options.model == "scripted" else WISHES)
    with TemporaryDirectory(prefix="streamkit-") as temporary:
        folder = options.folder or Path(temporary)
        async with (
            screen_for(sys.stdout.isatty()) as screen,
            open_model(options.model, scripted=scripted_model) as model,
        ):
            for wish in wishes:
                screen.ask(wish)
                async with write(model, folder, wish, max_tokens=options.max_tokens).open() as events:
                    async for event in events:
                        screen.show(event)
    if options.folder is None:
        print("(in a temporary folder, which is gone now; --folder DIR keeps them)", flush=True)


def screen_for(is_terminal: bool) -> AbstractAsyncContextManager[Lines | Terminal]:
    if not is_terminal or os.environ.get("TERM") == "dumb":
        return nullcontext(Lines())
    from .terminal import terminal  # noqa: PLC0415 - only here is rich needed

    return terminal()


def run() -> int:
    options = parse()
    return run_program(main, options)


if __name__ == "__main__":
    sys.exit(run())
