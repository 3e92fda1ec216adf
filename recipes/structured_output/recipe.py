"""What a model knows of a book, as a value of a type: nested, with limits, and with a rule that no schema can say."""

from __future__ import annotations

from typing import Annotated, Literal, TypeVar

import msgspec
from msgspec import Meta

from streamkit import Model, RefusalDelta, TextDelta, TurnRequest, assistant, user
from streamkit.answers import answer
from streamkit.errors import AnswerError, InvalidAnswer
from streamkit.terminal import visible

T = TypeVar("T")

Name = Annotated[str, Meta(min_length=3, max_length=24)]
Year = Annotated[int, Meta(ge=1000, le=2100)]


class Author(msgspec.Struct, frozen=True):
    name: Name
    born: Year


class Book(msgspec.Struct, frozen=True):
    title: Annotated[str, Meta(min_length=3, max_length=40)]
    author: Author
    published: Year
    genre: Literal["novel", "poetry", "science", "history"]
    characters: Annotated[tuple[Name, ...], Meta(min_length=1, max_length=3)]
    about: Annotated[str, Meta(min_length=10, max_length=80)]

    def __post_init__(self) -> None:
        """What JSON Schema cannot say; the message goes to the model."""
        for name in self.characters:
            if self.characters.count(name) > 1:
                raise ValueError(f"the characters name {name} more than once; name each only once")


async def show_book(model: Model, title: str, kind: type[object], *, max_tokens: int | None = None) -> None:
    """Ask for a book and print its text as it comes, then the value, or why there is none."""
    print(f"? {title}", flush=True)
    request = TurnRequest((user(f"Describe the book {title}."),), max_output_tokens=max_tokens)
    try:
        book = await repaired(model, request, kind)
    except AnswerError as error:
        print(f"\n✗ {error.kind}: {visible(str(error))}\n", flush=True)
    else:
        print(f"\n✓ {book}\n", flush=True)


async def repaired(model: Model, request: TurnRequest, kind: type[T]) -> T:
    """The answer, or the second one where the first does not fit. Raises an AnswerError.

    `await answer(…)` asks again by itself. Here the text is shown, and no library can take back what a person has read:
    so it is ours to say that it was wrong, and to ask again.
    """
    try:
        return await shown(model, request, kind)
    except InvalidAnswer as error:
        print(f"\n✗ {visible(str(error))}\n  once more:", flush=True)
        correction = assistant(error.turn.text), user(f"That cannot be used: {error}\nAnswer again.")
        again = msgspec.structs.replace(request, history=(*request.history, *correction))
    return await shown(model, again, kind)


async def shown(model: Model, request: TurnRequest, kind: type[T]) -> T:
    """The answer, printed while it comes."""
    async with answer(model, request, kind).open() as events:
        async for event in events:
            if isinstance(event, TextDelta | RefusalDelta):
                print(visible(event.text), end="", flush=True)
    return events.value
