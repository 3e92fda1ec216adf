"""`python -m recipes.mid_stream_abort [--model local|scripted|PROVIDER:NAME]`"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

import anyio

from streamkit import History, Model, RunEvent, StreamkitError
from streamkit.local import local_model
from streamkit.providers import named

from .fingers import Finger, fingers
from .lines import Lines, kept, visible
from .recipe import Desk, Question, answer
from .scripted import scripted_model

QUESTIONS = (
    Question("Tell me a long story about a fox."),
    Question("Write a report of 40 pages.", calls=True),
    Question("What have I asked you until now?"),
)


async def main(name: str) -> None:
    lines = Lines()
    with TemporaryDirectory(prefix="streamkit-") as folder, fingers() as finger_for:
        desk = Desk(Path(folder), lambda told: lines.say(f"  … {told}"))
        async with model_called(name) as model:
            history: History = ()
            for question in QUESTIONS:
                finger = finger_for(question is not QUESTIONS[-1])
                lines.say(f"? {question.text} ({finger.told})")
                before, history = history, await ask(model, history, question, desk=desk, finger=finger, lines=lines)
                lines.end()
                for line in kept(history[len(before) :]):
                    lines.say(f"  │ {line}")
                lines.say()


async def ask(
    model: Model, history: History, question: Question, *, desk: Desk, finger: Finger, lines: Lines
) -> History:
    def show(event: RunEvent) -> None:
        lines.show(event)
        finger.see(event)

    async def stop() -> None:
        await finger.press()
        lines.say("  ■ stopped")

    return await answer(model, history, question, desk=desk, stop=stop, show=show)


@asynccontextmanager
async def model_called(name: str) -> AsyncIterator[Model]:
    if name == "local":
        async with local_model() as model:
            yield model
    else:
        yield scripted_model() if name == "scripted" else named.model(name)


def run() -> int:
    parser = argparse.ArgumentParser("python -m recipes.mid_stream_abort", description="Stop a run in its middle.")
    parser.add_argument("--model", default="local", help="local (the default), scripted, or PROVIDER:NAME")
    options = parser.parse_args()
    code = 0
    try:
        anyio.run(main, options.model)
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
