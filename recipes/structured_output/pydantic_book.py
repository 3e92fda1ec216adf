"""The same book for those who have their types in pydantic: `answer` takes a model of it as it takes a Struct."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BaseModel, Field, field_validator

Name = Annotated[str, Field(min_length=3, max_length=24)]
Year = Annotated[int, Field(ge=1000, le=2100)]


class Author(BaseModel):
    name: Name
    born: Year


class Book(BaseModel):
    title: Annotated[str, Field(min_length=3, max_length=40)]
    author: Author
    published: Year
    genre: Literal["novel", "poetry", "science", "history"]
    characters: Annotated[list[Name], Field(min_length=1, max_length=3)]
    about: Annotated[str, Field(min_length=10, max_length=80)]

    @field_validator("characters")
    @classmethod
    def each_is_named_once(cls, characters: list[str]) -> list[str]:
        for name in characters:
            if characters.count(name) > 1:
                raise ValueError(f"they name {name} more than once; name each only once")
        return characters
