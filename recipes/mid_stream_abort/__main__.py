"""`python -m recipes.mid_stream_abort [--model local|scripted|PROVIDER:NAME]`"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

from streamkit import History, Model, RunEvent
from streamkit.local import open_model
from streamkit.terminal import Screen, open_screen, run_program

from .fingers import Finger, fingers
from .kept import kept
from .recipe import Desk, Question, answer
from .scripted import scripted_model

QUESTIONS = (
    Question("Tell me a long story about a fox."),
    Question("Write a report of 40 pages.", calls=True),
    Question("What have I asked you until now?"),
)


async def main(name: str) -> None:
    with TemporaryDirectory(prefix="streamkit-") as folder, fingers() as finger_for:
        desk = Desk(Path(folder), lambda told: print(f"  … {told}", flush=True))
        async with open_screen() as screen, open_model(name, scripted=scripted_model) as model:
            history: History = ()
            for question in QUESTIONS:
                finger = finger_for(question is not QUESTIONS[-1])
                await screen.ask(f"{question.text} ({finger.told})")
                before, history = history, await ask(model, history, question, desk=desk, finger=finger, screen=screen)
                await screen.say("\n".join(f"│ {line}" for line in kept(history[len(before) :])))


async def ask(
    model: Model, history: History, question: Question, *, desk: Desk, finger: Finger, screen: Screen
) -> History:
    async def show(event: RunEvent) -> None:
        await screen.put(event)
        finger.see(event)

    async def stop() -> None:
        await finger.press()
        screen.cut("■ stopped")

    history = await answer(model, history, question, desk=desk, stop=stop, show=show)
    await screen.end()
    return history


def run() -> int:
    parser = argparse.ArgumentParser("python -m recipes.mid_stream_abort", description="Stop a run in the middle.")
    parser.add_argument("--model", default="local", help="local (the default), scripted, or PROVIDER:NAME")
    options = parser.parse_args()
    return run_program(main, options.model)


if __name__ == "__main__":
    sys.exit(run())
