"""`python -m recipes.basic_usage --model scripted|local|openai:NAME [QUESTION]`"""

from __future__ import annotations

import argparse
import os
import sys

import anyio

from streamkit import StreamkitError
from streamkit.local import local_model
from streamkit.providers.openai_chat import openai_chat
from streamkit.testing import ScriptedModel, call

from .recipe import show_answer

QUESTION = "Count the letter r in the word strawberry."


async def main(model: str, question: str) -> None:
    if model == "local":
        async with local_model() as local:
            await show_answer(local, question)
    elif model == "scripted":
        script = [call("count_letter", {"word": "strawberry", "letter": "r"}, split=4)], ["There are three."]
        await show_answer(ScriptedModel(*script), question)
    else:
        await show_answer(openai_chat(model.removeprefix("openai:")), question)


def run() -> int:
    parser = argparse.ArgumentParser(
        prog="python -m recipes.basic_usage", description="Ask a model that has two tools."
    )
    parser.add_argument("--model", default="local", help="local (the default), scripted, or openai:NAME")
    parser.add_argument("question", nargs="?", help="another question than the one about a strawberry")
    options = parser.parse_args()
    if options.model not in ("local", "scripted"):
        if options.model.removeprefix("openai:") in ("", options.model):
            parser.error(f"there is no model {options.model!r}: say local, scripted or openai:NAME")
        if not os.environ.get("OPENAI_API_KEY"):
            parser.error("OPENAI_API_KEY is not in the environment")
    if options.model == "scripted" and options.question is not None:
        parser.error("the script answers its own question only")
    try:
        anyio.run(main, options.model, options.question or QUESTION)
    except StreamkitError as error:
        print(f"streamkit: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 130
    return 0


if __name__ == "__main__":
    sys.exit(run())
