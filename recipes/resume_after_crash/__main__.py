"""`python -m recipes.resume_after_crash [--model scripted|local|PROVIDER:NAME] [work FOLDER | follow FOLDER]`"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

from streamkit.local import open_model
from streamkit.terminal import run_program

from .lines import say, show
from .recipe import follow, work
from .scripted import scripted_model
from .supervisor import DEEDS, supervise
from .world import World


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        "python -m recipes.resume_after_crash",
        description="Kill a run, and continue it. Without a command: all of it.",
    )
    parser.add_argument("--model", default="scripted", help="scripted (the default), local, or PROVIDER:NAME")
    commands = parser.add_subparsers(dest="command")
    working = commands.add_parser("work", help="start the run in a folder, or continue it")
    working.add_argument("folder", type=Path)
    working.add_argument("--die-after", metavar="DEED", help='be killed after this, such as "lake.jpg, piece 2"')
    following = commands.add_parser("follow", help="watch the run in a folder from its start, in another terminal")
    following.add_argument("folder", type=Path)
    return parser.parse_args()


async def main(options: argparse.Namespace) -> int:
    if options.command is None:
        with TemporaryDirectory(prefix="streamkit-") as folder:
            return await supervise(Path(folder), options.model)
    options.folder.mkdir(parents=True, exist_ok=True)
    if options.command == "follow":
        await follow(options.folder, show)
        return 0
    async with open_model(options.model, scripted=scripted_model) as model:
        conversation = await work(model, options.folder, World(options.folder / DEEDS, options.die_after))
    say(f"(ended with {conversation.ended} after turn {conversation.turns})")
    return 0


def run() -> int:
    options = parse()
    return run_program(main, options)


if __name__ == "__main__":
    sys.exit(run())
