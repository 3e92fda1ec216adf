"""Lines of stdin, however the bytes are cut."""

import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as some

from streamkit.mcp.stdin import Lines, lines_of_stdin


@contextmanager
def holding(*pieces: bytes) -> Iterator[int]:
    """The reading end of a pipe that holds the pieces, and has ended."""
    reading, writing = os.pipe()
    try:
        for piece in pieces:
            os.write(writing, piece)
        os.close(writing)
        yield reading
    finally:
        os.close(reading)


@given(lines=some.lists(some.text(some.characters(exclude_characters="\n", exclude_categories=["Cs"]), max_size=9)))
async def test_every_line_comes_whole_and_a_cut_one_is_none(lines: list[str]) -> None:
    with holding(*(line.encode() + b"\n" for line in lines), b"cut") as file:
        assert [line async for line in Lines(file)] == lines


@pytest.mark.parametrize(
    ("given", "told"),
    [
        (r'{"a": "half \ud83d"}', '{"a": "half \N{REPLACEMENT CHARACTER}"}'),
        (r'{"a": "whole \uD83D\uDE00"}', '{"a": "whole \N{GRINNING FACE}"}'),
    ],
)
async def test_half_a_character_is_replaced(given: str, told: str) -> None:
    with holding(given.encode() + b"\n") as file:
        (line,) = [line async for line in Lines(file)]
    assert json.loads(line) == json.loads(told)


@pytest.mark.parametrize("line", [r'{"a": "\ud83d"', "[" * 30_000 + r'"\ud83d"', r"no JSON \ud83d"])
async def test_what_is_no_message_comes_as_it_is(line: str) -> None:
    with holding(line.encode() + b"\n") as file:
        assert [each async for each in Lines(file)] == [line]


async def test_a_long_line_comes_whole(tmp_path: Path) -> None:
    long = "x" * 300_000
    path = tmp_path / "lines"
    path.write_text(f"{long}\nshort\n", "utf-8")
    file = os.open(path, os.O_RDONLY)
    try:
        assert [line async for line in Lines(file)] == [long, "short"]
    finally:
        os.close(file)


async def test_meanwhile_nobody_else_reads_from_stdin() -> None:
    with holding(b"one\n") as file:
        kept = os.dup(0)
        os.dup2(file, 0)
        try:
            with lines_of_stdin() as lines:
                assert os.read(0, 100) == b""
                assert [line async for line in lines] == ["one"]
            assert os.fstat(0).st_ino == os.fstat(file).st_ino
        finally:
            os.dup2(kept, 0)
            os.close(kept)
