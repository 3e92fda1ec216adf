"""`python -m recipes.modify_output_stream [--model local|scripted|PROVIDER:NAME] [--as sse|jsonl]`"""

from __future__ import annotations

import argparse
import sys

try:
    import aiostream  # noqa: F401
except ImportError:
    sys.exit("streamkit: the pipes are those of aiostream: pip install '.[pipes]'")

from streamkit.local import open_model
from streamkit.terminal import run_program

from .recipe import WRITERS, answer
from .scripted import scripted_model

QUESTION = "Find the orders from Oslo."


async def main(model_name: str, protocol: str) -> None:
    async with open_model(model_name, scripted=scripted_model) as model:
        await WRITERS[protocol](answer(model, QUESTION), write)


async def write(piece: bytes) -> None:
    """To the standard output, where a server would send it to its client."""
    sys.stdout.buffer.write(piece)
    sys.stdout.buffer.flush()


def run() -> int:
    parser = argparse.ArgumentParser("python -m recipes.modify_output_stream", description="Change what leaves a run.")
    parser.add_argument("--model", default="local", help="local (the default), scripted, or PROVIDER:NAME")
    parser.add_argument(
        "--as", dest="protocol", choices=tuple(WRITERS), default="sse", help="sse (the default) or jsonl"
    )
    options = parser.parse_args()
    return run_program(main, options.model, options.protocol)


if __name__ == "__main__":
    sys.exit(run())
