"""`python -m recipes.pause_resume [--model local|scripted|PROVIDER:NAME] [FILE]`"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

import anyio

from streamkit import Conversation, Intermediate, Model, Output, RunEvent, TextDelta, ToolStarted, Value
from streamkit.local import open_model
from streamkit.terminal import run_program, visible

from .hands import Hand, hand
from .recipe import QUESTION, Made, Valve, store, stored, watch, work
from .scripted import scripted_model


class Lines:
    """Prints what comes. Primes and text share a line until something else comes."""

    def __init__(self) -> None:
        self._in_line = False

    def say(self, line: str) -> None:
        print(f"\n{line}" if self._in_line else line, flush=True)
        self._in_line = False

    def add(self, text: str) -> None:
        print(text if self._in_line else f"    {text}", end="", flush=True)
        self._in_line = True

    def show(self, event: RunEvent) -> None:
        match event:
            case ToolStarted(tool=tool, arguments=arguments):
                self.say(f"  ▸ {tool} {arguments}")
            case Intermediate(data=int(prime)):
                self.add(f"{prime} ")
            case Output(tool=tool, result=Value(text=text)):
                self.say(f"  ✓ {tool}: {text}")
            case TextDelta(text=text):
                self.add(visible(text))


async def main(name: str, file: Path | None) -> None:
    lines = Lines()
    with hand() as (turns, how):
        async with open_model(name, scripted=scripted_model) as model:
            if file is not None:
                await go_on(model, file, turns, lines, how)
                return
            with TemporaryDirectory(prefix="streamkit-") as folder:
                file = Path(folder) / "run.json"
                if (await go_on(model, file, turns, lines, how)).ended is None:
                    lines.say("\n… and later, from the file:")
                    await go_on(model, file, never_turns, lines, "to its end")


async def go_on(model: Model, file: Path, turns: Hand, lines: Lines, how: str) -> Conversation:
    """Begin the run of a file, or go on with it, and store where it has come to."""
    state, made = stored(file), Made()
    if state.ended is not None:
        lines.say(f"({file.name} has ended with {state.ended}; without it a new run begins)")
        return state
    lines.say(f"? {QUESTION} ({how})" if state.turns == 0 else f"? {QUESTION} (goes on after turn {state.turns})")

    def told_of(is_paused: bool) -> None:
        behind = f"goes on; meanwhile the tool has come to its prime {made.primes}, and waited"
        lines.say("  ‖ paused" if is_paused else f"  ▶ {behind}")

    valve = Valve(told_of)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(turns, valve)
        state = await watch(work(model, state, made, must_stop=lambda: valve.must_stop), valve, lines.show)
        tasks.cancel_scope.cancel()
    store(state, file)
    lines.say(f"  ({file.name}: {state.ended or 'stopped'} after turn {state.turns})")
    return state


async def never_turns(valve: Valve) -> None:
    """Nobody is there."""


def run() -> int:
    parser = argparse.ArgumentParser("python -m recipes.pause_resume", description="Pause a run, stop it, continue it.")
    parser.add_argument("--model", default="local", help="local (the default), scripted, or PROVIDER:NAME")
    parser.add_argument("file", nargs="?", type=Path, help="where the run is stored; by default a temporary file")
    options = parser.parse_args()
    return run_program(main, options.model, options.file)


if __name__ == "__main__":
    sys.exit(run())
