"""A stand-in for the model, for where none is to be had: it asks for the right calls, and says what came of them.

Only the model is scripted. Downloads, search and loop are the same as with a real one.
"""

from __future__ import annotations

from functools import partial
from itertools import count
from typing import Any

import anyio
import msgspec

from streamkit import ToolOutput, TurnRequest
from streamkit.parts import InputDelta, InputEnd, InputStart
from streamkit.testing.scripted import ScriptedModel, ScriptPart, stop

PIECE_CHARACTERS = 4
"""About a token of a real model."""


def scripted_model(*, pause_seconds: float = 0.03) -> ScriptedModel:
    """A model that knows the questions of this recipe. pause_seconds: between two pieces of what it writes."""
    ids = map("call_{}".format, count(1))

    def calls(*wanted: tuple[str, dict[str, Any]]) -> list[ScriptPart]:
        written = [part for tool, arguments in wanted for part in _call(next(ids), tool, arguments)]
        return [*_slowly(written, pause_seconds), stop("tool_calls")]

    def says(text: str) -> list[ScriptPart]:
        return _slowly(_pieces(text), pause_seconds)

    return ScriptedModel(
        calls(("download_artifact", {"file": "mountain.bin"}), ("download_artifact", {"file": "river.bin"})),
        lambda request: says(f"Both files are here. {' '.join(_about_download(text) for text in _results(request))}"),
        calls(("search_project", {"word": "reducer", "limit": 3})),
        lambda request: says(f"The word stands in {_files_with_hits(_results(request)[0])}."),
        calls(("download_artifact", {"file": "forest.bin"}), ("ask_subagent", {"question": "How does a tree grow?"})),
        says("A tree adds a new layer of wood beneath its bark each year, with water from its roots, and light."),
        lambda request: says(f"{_about_download(_results(request)[0])} The sub-agent says: {_results(request)[1]}"),
    )


def _call(call_id: str, tool: str, arguments: dict[str, Any]) -> list[ScriptPart]:
    deltas = [InputDelta(piece, call_id=call_id) for piece in _pieces(msgspec.json.encode(arguments).decode())]
    return [InputStart(None, call_id, tool), *deltas, InputEnd(call_id=call_id)]


def _pieces(text: str) -> list[str]:
    return [text[start : start + PIECE_CHARACTERS] for start in range(0, len(text), PIECE_CHARACTERS)]


def _slowly(parts: list[Any], pause_seconds: float) -> list[ScriptPart]:
    pause = partial(anyio.sleep, pause_seconds)
    return [each for part in parts for each in (pause, part)]


def _results(request: TurnRequest) -> list[str]:
    """What the tools answered last."""
    last: list[str] = []
    for item in request.history:
        last = [*last, item.text] if isinstance(item, ToolOutput) else []
    return last


def _about_download(text: str) -> str:
    try:
        saved = msgspec.json.decode(text)
    except msgspec.DecodeError:
        return text
    return f"{saved['file']} has {saved['bytes']:,} bytes, and its checksum is right."


def _files_with_hits(text: str) -> str:
    return ", ".join(hit["file"] for hit in msgspec.json.decode(text)) or "no file"
