"""Lines of stdin, however the bytes are cut."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

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
