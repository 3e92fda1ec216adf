"""`python -m recipes.tool_input_preview --model local|scripted|PROVIDER:NAME [WISH …]`"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager, nullcontext
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

import anyio

from streamkit import Model, StreamkitError
from streamkit.local import local_model
from streamkit.providers import named

from .drafts import visible
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
    parser.add_argument("--folder", type=Path, help="where the files go; left out: into a temporary one")
    parser.add_argument("--max-tokens", type=int, help="of a turn; a call that they cut goes nowhere")
    parser.add_argument("wishes", nargs="*", metavar="WISH", help="what to write")
    options = parser.parse_args()
    if options.model == "scripted" and options.wishes:
        parser.error("the script fulfils its own wishes only")
    return options


async def main(options: argparse.Namespace) -> None:
    wishes = options.wishes or (SCRIPTED_WISHES if options.model == "scripted" else WISHES)
    with TemporaryDirectory(prefix="streamkit-") as temporary:
        folder = options.folder or Path(temporary)
        async with screen_for(sys.stdout.isatty()) as screen, model_called(options.model) as model:
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


@asynccontextmanager
async def model_called(name: str) -> AsyncIterator[Model]:
    if name == "local":
        async with local_model() as model:
            yield model
    else:
        yield scripted_model() if name == "scripted" else named.model(name)


def run() -> int:
    options = parse()
    code = 0
    try:
        anyio.run(main, options)
    except* StreamkitError as failed:
        print(f"streamkit: {visible(str(failed.exceptions[0]))}", file=sys.stderr)
        code = 1
    except* BrokenPipeError:  # who reads has seen enough; Python would complain of it once more at its end
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    except* KeyboardInterrupt:
        code = 130
    return code


if __name__ == "__main__":
    sys.exit(run())
