"""The recipe with a scripted model: no network, no weights."""

from __future__ import annotations

import signal
import subprocess
import sys
from typing import Any

import msgspec
import pytest

from streamkit import Message, RefusalDelta
from streamkit.testing import ScriptedModel, stop

from . import pydantic_book
from .recipe import Author, Book, show_book
from .scripted import FRANKENSTEIN, HOBBIT, TITLES, scripted_model

TWICE = {**HOBBIT, "characters": ["Bilbo", "Gandalf", "Bilbo"]}


def written(value: Any) -> str:
    return msgspec.json.encode(value).decode()


async def test_the_text_is_shown_as_it_comes_and_then_the_value(capsys: pytest.CaptureFixture[str]) -> None:
    text = written(FRANKENSTEIN)
    await show_book(ScriptedModel([text[:9], text[9:]]), "Frankenstein", Book)

    book = Book(
        **{**FRANKENSTEIN, "author": Author("Mary Shelley", 1797), "characters": tuple(FRANKENSTEIN["characters"])}
    )
    assert capsys.readouterr().out == f"? Frankenstein\n{text}\n✓ {book}\n\n"


@pytest.mark.parametrize("kind", [Book, pydantic_book.Book], ids=["msgspec", "pydantic"])
async def test_an_answer_that_does_not_fit_is_asked_for_again(
    kind: type[object], capsys: pytest.CaptureFixture[str]
) -> None:
    model = ScriptedModel([written(TWICE)], [written(HOBBIT)])
    await show_book(model, "The Hobbit", kind)

    _, answer, correction = model.requests[1].history
    assert answer == Message("assistant", written(TWICE))
    assert isinstance(correction, Message)
    assert "name Bilbo more than once" in correction.text
    told = capsys.readouterr().out
    assert told.index("✗ the answer does not fit") < told.index("once more") < told.index("✓ ")


async def test_it_is_asked_for_again_only_once(capsys: pytest.CaptureFixture[str]) -> None:
    wrong = {**HOBBIT, "author": {"name": "J. R. R. Tolkien", "born": "long ago"}}
    await show_book(ScriptedModel([written(TWICE)], [written(wrong)]), "The Hobbit", Book)

    assert "✗ invalid_answer: the answer does not fit:\n- author.born: expected integer" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("turn", "says"),
    [
        ([RefusalDelta("I would rather not.")], '✗ refused: the model refused: "I would rather not."'),
        ([written(HOBBIT)[:40], stop("length")], "✗ cut_answer: the answer was cut off at the token limit"),
        ([], "✗ no_answer: the model answered without any text"),
    ],
)
async def test_what_is_no_answer_is_said_and_not_asked_for_again(
    turn: list[Any], says: str, capsys: pytest.CaptureFixture[str]
) -> None:
    await show_book(ScriptedModel(turn), "The Hobbit", Book)

    assert says in capsys.readouterr().out.splitlines()


async def test_text_does_not_steer_the_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    await show_book(ScriptedModel(["\x1b[2J"], ["\x1b[2J"]), "The Hobbit", Book)

    assert "\x1b" not in capsys.readouterr().out


async def test_the_script_knows_its_books(capsys: pytest.CaptureFixture[str]) -> None:
    model = scripted_model(pause_seconds=0)
    for title in TITLES:
        await show_book(model, title, Book)

    endings = [line[:9] for line in capsys.readouterr().out.splitlines() if line[0:1] in ("✓", "✗")]
    assert endings == ["✓ Book(ti", "✗ the ans", "✓ Book(ti", "✗ refused", "✗ cut_ans"]


def program() -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "recipes.structured_output", "--model", "scripted"]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def test_a_reader_who_leaves_ends_it_quietly() -> None:
    with program() as process:
        assert process.stdout is not None
        assert process.stdout.readline() == f"? {TITLES[0]}\n"
        process.stdout.close()
        assert process.stderr is not None
        assert (process.stderr.read(), process.wait(timeout=60)) == ("", 0)


def test_an_interruption_ends_it_with_130() -> None:
    with program() as process:
        assert process.stdout is not None
        process.stdout.readline()
        process.send_signal(signal.SIGINT)
        _, errors = process.communicate(timeout=60)
    assert (errors, process.returncode) == ("", 130)
