"""What a recording holds: exchanges with a provider, as JSON that a person can read.

Bodies that are text are kept line by line, others as base64. How a body was cut into pieces is not kept, since decoders
do not depend on it.
"""

from __future__ import annotations

import base64
import itertools
import os
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import msgspec

from .failures import shortened


class RecordedRequest(msgspec.Struct, frozen=True, omit_defaults=True):
    """What was asked. path: with the query. body: its JSON, or its text."""

    method: str
    path: str
    body: Any = None


class RecordedAnswer(msgspec.Struct, frozen=True, omit_defaults=True):
    """What was answered. lines: of the body; where it is no text, base64 has it instead."""

    status: int
    reason: str = ""
    headers: dict[str, str] = {}
    lines: list[str] = []
    base64: str = ""


class RecordedFailure(msgspec.Struct, frozen=True):
    """An error of the connection. name: of its class in httpx2."""

    name: str
    message: str


class Exchange(msgspec.Struct, frozen=True, omit_defaults=True):
    """A request, and what came of it: an answer, a failure, or an answer that failed on the way."""

    request: RecordedRequest
    answer: RecordedAnswer | None = None
    failure: RecordedFailure | None = None


def difference(recorded: Any, asked: Any, where: str = "") -> str:
    """Where two requests differ first, in words."""
    if isinstance(recorded, dict) and isinstance(asked, dict):
        for key in [*recorded, *asked]:
            if recorded.get(key, ...) != asked.get(key, ...):
                inner = f"{where}.{key}" if where else key
                return difference(recorded.get(key, ...), asked.get(key, ...), inner)
    if isinstance(recorded, list) and isinstance(asked, list):
        for place, (one, other) in enumerate(itertools.zip_longest(recorded, asked, fillvalue=...)):
            if one != other:
                return difference(one, other, f"{where}[{place}]")
    return f"{where} is {_shown(asked)}, recorded was {_shown(recorded)}"


def _shown(value: Any) -> str:
    return "not there" if value is ... else shortened(msgspec.json.encode(value).decode())[:200]


# The file


def with_body(answer: RecordedAnswer, body: bytes) -> RecordedAnswer:
    try:
        return msgspec.structs.replace(answer, lines=body.decode().split("\n") if body else [])
    except UnicodeDecodeError:
        return msgspec.structs.replace(answer, base64=base64.b64encode(body).decode())


def pieces_of(answer: RecordedAnswer) -> Iterator[bytes]:
    """The body: each line with its end, which the last has not."""
    if answer.base64:
        yield base64.b64decode(answer.base64)
    for line in answer.lines[:-1]:
        yield f"{line}\n".encode()
    if answer.lines and answer.lines[-1]:
        yield answer.lines[-1].encode()


def with_texts(exchange: Exchange, change: Callable[[str], str]) -> Exchange:
    def changed(value: Any) -> Any:
        if isinstance(value, dict):
            return {key: changed(each) for key, each in value.items()}
        if isinstance(value, list):
            return [changed(each) for each in value]
        return change(value) if isinstance(value, str) else value

    return msgspec.convert(changed(msgspec.to_builtins(exchange)), Exchange)


def write(path: Path, exchanges: Sequence[Exchange]) -> None:
    """Put a whole file in the place of the one before."""
    text = msgspec.json.format(msgspec.json.encode(exchanges), indent=2) + b"\n"
    path.parent.mkdir(parents=True, exist_ok=True)
    new = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        new.write_bytes(text)
        new.replace(path)
    except BaseException:
        new.unlink(missing_ok=True)
        raise
