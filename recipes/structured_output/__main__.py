"""`python -m recipes.structured_output --model local|scripted|PROVIDER:NAME [TITLE …]`"""

from __future__ import annotations

import argparse
import sys

from streamkit.local import open_model
from streamkit.terminal import run_program

from .recipe import Book, show_book
from .scripted import TITLES as SCRIPTED_TITLES
from .scripted import scripted_model

TITLES = ("Frankenstein by Mary Shelley", "The Hobbit by J. R. R. Tolkien", "1984 by George Orwell")
OUTPUT_TOKENS = 300


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser("python -m recipes.structured_output", description="Ask a model about books.")
    parser.add_argument("--model", default="local", help="local (the default), scripted, or PROVIDER:NAME")
    parser.add_argument(
        "--max-tokens", type=int, default=OUTPUT_TOKENS, help="the limit of an answer; a cut one has no value"
    )
    parser.add_argument("--pydantic", action="store_true", help="use a pydantic model as the type")
    parser.add_argument("titles", nargs="*", metavar="TITLE", help="the books")
    options = parser.parse_args()
    if options.model == "scripted" and options.titles:
        parser.error("the scripted model knows only its own books")
    options.titles = options.titles or (SCRIPTED_TITLES if options.model == "scripted" else TITLES)
    return options


async def main(options: argparse.Namespace) -> None:
    async with open_model(options.model, scripted=scripted_model) as model:
        kind = type_of_a_book(options.pydantic)
        for title in options.titles:
            await show_book(model, title, kind, max_tokens=options.max_tokens)


def type_of_a_book(is_of_pydantic: bool) -> type[object]:
    if not is_of_pydantic:
        return Book
    from . import pydantic_book  # noqa: PLC0415 - only here is pydantic needed

    return pydantic_book.Book


def run() -> int:
    options = parse()
    return run_program(main, options)


if __name__ == "__main__":
    sys.exit(run())
