"""Shared by the tests of decoders: what comes out of them, and where the recorded streams and cases lie."""

import json
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, Protocol, TypeVar

import pytest

SHARED = Path(__file__).parent.parent.parent / "shared"

R_co = TypeVar("R_co", covariant=True)
R = TypeVar("R")


class SansIO(Protocol[R_co]):
    """Whatever decodes bytes."""

    def feed(self, data: bytes, /) -> Sequence[R_co]: ...

    def end(self) -> Sequence[R_co]: ...


def decode(decoder: SansIO[R], pieces: Iterable[bytes]) -> list[R]:
    """All records that a decoder makes of a body."""
    return [record for piece in pieces for record in decoder.feed(piece)] + list(decoder.end())


def cases(name: str) -> list[Any]:
    """The cases of one file, as parameters named by their ids; none where the folder is absent."""
    path = SHARED / "cases" / name
    found = json.loads(path.read_text("utf-8")) if path.exists() else []
    return [pytest.param(case, id=case["id"]) for case in found]


def recordings(dialect: str) -> list[Any]:
    """The recorded streams of a dialect, as parameters named by their files; none where the folder is absent."""
    path = SHARED / "corpus" / "streams" / "index.json"
    found = json.loads(path.read_text("utf-8")) if path.exists() else []
    return [pytest.param(entry, id=entry["file"]) for entry in found if entry["dialect"] == dialect]


def recorded_body(entry: dict[str, Any]) -> bytes:
    return (SHARED / "corpus" / "streams" / str(entry["file"])).read_bytes()


def case_body(case: dict[str, Any]) -> list[bytes]:
    """The body of a case, in the pieces that the case gives it in."""
    given = case["input"]
    if "chunks_hex" in given:
        return [bytes.fromhex(piece) for piece in given["chunks_hex"]]
    if "chunks" in given:
        return [piece.encode() for piece in given["chunks"]]
    return [f"{line}\n".encode() for line in given["lines"]]
