"""A stand-in for the model, for where none is to be had: it knows the wishes that the page offers.

What it says depends on the history alone, so one of it serves any number of runs at once.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import anyio
import msgspec

from streamkit import Flow, Message, ToolOutput, Turn, TurnEvent, TurnRequest, Usage
from streamkit.backends import InputDelta, InputEnd, InputStart, UsageReported
from streamkit.testing.scripted import ScriptedModel, stop
from streamkit.turns import ReasoningDelta, TextDelta

PIECE_CHARACTERS = 5
"""About a token of a real model."""

SQUARES = "SQUARES = {\n" + "".join(f"    {number}: {number**2},\n" for number in range(1, 31)) + "}\n"
NOVEL = "# The Long Way\n\nIt was a long way, and they had only just begun when the words r"
NOON = {"to": "Ann", "text": "We meet at noon."}


class Scripted:
    """The model. pause_seconds: between two pieces of what it writes."""

    name = "scripted"

    def __init__(self, *, pause_seconds: float = 0.03) -> None:
        self._pause = partial(anyio.sleep, pause_seconds)

    def stream_turn(self, request: TurnRequest) -> Flow[TurnEvent, Turn]:
        wish, results = _asked(request)
        scene = next(scene for word, scene in SCENES if word in wish.lower())
        parts = scene(f"call_{len(request.history)}", results)
        used = UsageReported(Usage(40 * len(request.history), 4 * len(parts)))
        paced = [each for part in parts for each in (self._pause, part)]
        return ScriptedModel([used, *paced], name=self.name).stream_turn(request)


Scene = Callable[[str, list[ToolOutput]], list[Any]]
"""The parts of the next turn: an id for its calls, and the results since the wish → parts of a script."""


def _asked(request: TurnRequest) -> tuple[str, list[ToolOutput]]:
    """What the person said last, and what the tools have answered since."""
    wish, results = "", list[ToolOutput]()
    for item in request.history:
        if isinstance(item, Message) and item.role == "user":
            wish, results = item.text, []
        elif isinstance(item, ToolOutput):
            results.append(item)
    return wish, results


def _pieces(text: str) -> list[str]:
    return [text[start:][:PIECE_CHARACTERS] for start in range(0, len(text), PIECE_CHARACTERS)]


def _says(text: str) -> list[Any]:
    return [TextDelta(piece) for piece in _pieces(text)]


def _calls(call_id: str, tool: str, arguments: dict[str, Any], *, cut: bool = False) -> list[Any]:
    text = msgspec.json.encode(arguments).decode()
    deltas = [InputDelta(piece, call_id=call_id) for piece in _pieces(text[:-2] if cut else text)]
    return [InputStart(None, call_id, tool), *deltas, *([stop("length")] if cut else [InputEnd(call_id=call_id)])]


def _once(tool: str, arguments: dict[str, Any]) -> Scene:
    """Calls one tool, and says what came of it."""

    def scene(call_id: str, results: list[ToolOutput]) -> list[Any]:
        if not results:
            return _calls(call_id, tool, arguments)
        return _says(f"It did not work: {results[-1].text}" if results[-1].failed else _told(results[-1]))

    return scene


def _told(result: ToolOutput) -> str:
    return f"Done. {result.text}" if len(result.text) < 400 else "Done."


def _two(call_id: str, results: list[ToolOutput]) -> list[Any]:
    if results:
        return _says("Both are here: the atlas from the archive, and a file with the squares of the numbers up to 30.")
    thinks = [ReasoningDelta(piece) for piece in _pieces("Neither needs the other, so both can be done at once.")]
    begins = _says("I begin with both at once.")
    return [
        *thinks,
        *begins,
        *_calls(f"{call_id}_1", "download", {"file": "atlas.bin"}),
        *_calls(f"{call_id}_2", "write_file", {"path": "squares.py", "content": SQUARES}),
    ]


def _novel(call_id: str, results: list[ToolOutput]) -> list[Any]:
    return [*_says("A novel, then."), *_calls(call_id, "write_file", {"path": "novel.md", "content": NOVEL}, cut=True)]


def _searches(call_id: str, results: list[ToolOutput]) -> list[Any]:
    if not results:
        return [*_says("I look for the word."), *_calls(call_id, "search", {"word": "class reducer"})]
    return _says("A record of three functions that make one small value of many events: see reducers.py.")


def _answers(call_id: str, results: list[ToolOutput]) -> list[Any]:
    return _says("I know the wishes that a new chat offers. Say one of them.")


SCENES: Sequence[tuple[str, Scene]] = (
    ("download", _two),
    ("message", _once("send_message", NOON)),
    ("research", _once("research", {"question": "What is a reducer?"})),
    ("reducer", _searches),
    ("wait", _once("wait", {"seconds": 30})),
    ("read", _once("read_file", {"path": "missing.txt"})),
    ("novel", _novel),
    ("", _answers),
)
"""The first whose word is in the wish."""
