"""`python -m recipes.model_fallback [--model local|scripted|PROVIDER:NAME]`"""

from __future__ import annotations

import argparse
import logging
import sys

from streamkit import Model, Output, RunEvent, TextDelta, TurnEnded, TurnRestarted, TurnStarted, Value
from streamkit.local import open_model
from streamkit.terminal import run_program, visible

from .scenes import SCENES, first_provider
from .stand_ins import Answers, chat, chat_says


class Lines:
    """Prints who says what."""

    def __init__(self) -> None:
        self._in_text = False

    def say(self, line: str) -> None:
        print(f"\n{line}" if self._in_text else line, flush=True)
        self._in_text = False

    def show(self, event: RunEvent) -> None:
        match event:
            case TurnStarted(model=model):
                self.say(f"  {model} begins")
            case TextDelta(text=text):
                print(visible(text) if self._in_text else f"    {visible(text)}", end="", flush=True)
                self._in_text = True
            case TurnRestarted(reason=reason):
                self.say(f"  ✗ taken back, for {visible(reason)}")
            case Output(tool=tool, result=Value(text=text)):
                self.say(f"  ✓ {tool}: {visible(text)}")
            case TurnEnded(turn=turn) if turn.text:
                self.say(f"  ({turn.model} has said this)")


async def main(name: str) -> None:
    lines = Lines()
    logging.basicConfig(format="  (log: %(message)s)")
    async with open_model(name, scripted=scripted_second) as second:
        for number, scene in enumerate(SCENES, 1):
            lines.say(f"{number}. {scene.told}")
            async with scene.run(first_provider(scene), second).open() as events:
                async for event in events:
                    lines.show(event)
            lines.say(f"  ({events.value.ended} after turn {events.value.turns})\n")


def scripted_second() -> Model:
    return chat(Answers(*[chat_says("About 724,000 people live in Oslo.")] * (len(SCENES) - 1)))


def run() -> int:
    parser = argparse.ArgumentParser("python -m recipes.model_fallback", description="Let the next model take over.")
    parser.add_argument(
        "--model", default="local", help="the model that takes over: local (the default), scripted, or PROVIDER:NAME"
    )
    options = parser.parse_args()
    return run_program(main, options.model)


if __name__ == "__main__":
    sys.exit(run())
