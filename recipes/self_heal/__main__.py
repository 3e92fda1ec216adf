"""`python -m recipes.self_heal --model local|scripted|PROVIDER:NAME`"""

from __future__ import annotations

import argparse
import sys

from streamkit.local import open_model
from streamkit.terminal import run_program

from .lines import show_scene
from .recipe import SCENES
from .scripted import scripted_model


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser("python -m recipes.self_heal", description="A model gets its arguments wrong.")
    parser.add_argument("--model", default="local", help="local (the default), scripted, or PROVIDER:NAME")
    return parser.parse_args()


async def main(options: argparse.Namespace) -> None:
    async with open_model(options.model, scripted=scripted_model) as model:
        for scene in SCENES:
            await show_scene(model, scene)


def run() -> int:
    options = parse()
    return run_program(main, options)


if __name__ == "__main__":
    sys.exit(run())
