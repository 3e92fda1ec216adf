"""`python -m recipes.self_heal --model local|scripted|PROVIDER:NAME`"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import anyio

from streamkit import Model, StreamkitError
from streamkit.local import local_model
from streamkit.providers import named

from .lines import show_scene
from .recipe import SCENES
from .scripted import scripted_model


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser("python -m recipes.self_heal", description="A model gets its arguments wrong.")
    parser.add_argument("--model", default="local", help="local (the default), scripted, or PROVIDER:NAME")
    return parser.parse_args()


async def main(options: argparse.Namespace) -> None:
    async with model_called(options.model) as model:
        for scene in SCENES:
            await show_scene(model, scene)


@asynccontextmanager
async def model_called(name: str) -> AsyncIterator[Model]:
    if name == "local":
        async with local_model() as model:
            yield model
    else:
        yield scripted_model() if name == "scripted" else named.model(name)


def run() -> int:
    options = parse()
    try:
        anyio.run(main, options)
    except StreamkitError as error:
        print(f"streamkit: {error}", file=sys.stderr)
        return 1
    except BrokenPipeError:  # who reads has seen enough; Python would complain of it once more at its end
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    except KeyboardInterrupt:
        print("\ninterrupted", file=sys.stderr)
        return 130
    return 0


if __name__ == "__main__":
    sys.exit(run())
