"""`python -m recipes.basic_usage --model local|scripted|PROVIDER:NAME [QUESTION]`"""

from __future__ import annotations

import argparse
import sys

from streamkit.local import open_model
from streamkit.terminal import run_program, show
from streamkit.testing import ScriptedModel, call

from .recipe import answer

QUESTION = "Count the letter r in the word strawberry."


async def main(model_name: str, question: str) -> None:
    print(question, flush=True)
    async with open_model(model_name, scripted=scripted_model) as model:
        conversation = await show(answer(model, question))
    print(f"({conversation.ended} after turn {conversation.turns})", flush=True)


def scripted_model() -> ScriptedModel:
    return ScriptedModel([call("count_letter", {"word": "strawberry", "letter": "r"}, split=4)], ["There are three."])


def run() -> int:
    parser = argparse.ArgumentParser(
        prog="python -m recipes.basic_usage", description="Ask a model that has two tools."
    )
    parser.add_argument("--model", default="local", help="local (the default), scripted, or PROVIDER:NAME")
    parser.add_argument("question", nargs="?", help="instead of the one about a strawberry")
    options = parser.parse_args()
    if options.model == "scripted" and options.question is not None:
        parser.error("the scripted model answers only its own question")
    return run_program(main, options.model, options.question or QUESTION)


if __name__ == "__main__":
    sys.exit(run())
