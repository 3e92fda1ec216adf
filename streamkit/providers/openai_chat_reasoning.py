"""Reasoning in chat completions, which has no place there, so that each server has made one of its own.

Most put its text into a field beside the content, some into the content; some send it in two places. What goes back
with it stands beside it: the details of OpenRouter, the blocks of LiteLLM, the opaque value of GitHub.
"""

from __future__ import annotations

from typing import Any, Literal

from ..codec.surrogates import Halves, whole
from ..items import UnknownItem
from ..parts import Part, ReasoningOpaque
from ..turns import ReasoningDelta
from .openai_chat_wire import DIALECT, REASONING, REASONING_DETAILS, Delta

Kind = Literal["trace", "summary"]


class ReasoningReader:
    """The reasoning of one answer. halves: what waits for the other half of a character."""

    def __init__(self, halves: Halves) -> None:
        self._halves = halves
        self._field: str | None = None  # where it came from, once that is noted
        self._details: dict[str, list[dict[str, Any]]] = {}  # by their field

    def read(self, delta: Delta, parts: list[Part]) -> None:
        """The same text in two fields counts once."""
        field = next((field for field in REASONING if getattr(delta, field)), None)
        text = getattr(delta, field) if field is not None else None
        if field is not None and type(text) is str:
            parts.append(ReasoningDelta(text))
            self._note_field(field, parts)
        elif field is not None:
            parts.append(UnknownItem({field: text}))
        for name in REASONING_DETAILS:
            told = getattr(delta, name)
            details = [detail for detail in told if isinstance(detail, dict)] if isinstance(told, list) else []
            if details:
                self._details.setdefault(name, []).extend(details)
            for detail in () if text else details:
                self._show_detail(detail, parts)
        if delta.reasoning_opaque:
            parts.append(ReasoningOpaque({"reasoning_opaque": delta.reasoning_opaque}, DIALECT))

    def read_content_part(self, part: object, parts: list[Part]) -> bool:
        """Whether a part of the content is reasoning: a text, or a list of texts itself."""
        match part:
            case {"type": "thinking", "thinking": list() | str() as thoughts}:
                _show(thoughts, "trace", parts)
                self._note_field("content", parts)
            case {"type": "reasoning", "summary": list(thoughts)}:
                _show(thoughts, "summary", parts)
            case _:
                return False
        return True

    def finish(self, parts: list[Part]) -> None:
        for field, details in self._details.items():
            parts.append(ReasoningOpaque({field: whole(_joined(details))}, DIALECT))

    def _show_detail(self, detail: dict[str, Any], parts: list[Part]) -> None:
        for key in ("text", "thinking", "summary"):
            text = detail.get(key)
            kind: Kind = "summary" if key == "summary" else "trace"
            if isinstance(text, str) and (text := self._halves.mend(kind, text)):
                parts.append(ReasoningDelta(text, kind))

    def _note_field(self, field: str, parts: list[Part]) -> None:
        """Reasoning goes back into the field that it came from."""
        if self._field is None:
            self._field = field
            parts.append(ReasoningOpaque({"field": field}, DIALECT))


def _show(thoughts: list[Any] | str, kind: Kind, parts: list[Part]) -> None:
    for thought in thoughts if isinstance(thoughts, list) else [{"text": thoughts}]:
        if isinstance(thought, dict) and thought.get("text"):
            parts.append(ReasoningDelta(str(thought["text"]), kind))


def _joined(pieces: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The details of reasoning of which these are the pieces: their texts grow, everything else is as it came.

    Those of one kind that follow each other are one, up to its signature.
    """
    details: list[tuple[dict[str, Any], dict[str, list[str]]]] = []
    before: object = None
    for piece in pieces:
        kind = (piece.get("type"), piece.get("index"), piece.get("format"))
        if not details or kind != before or details[-1][0].get("signature"):
            details.append(({}, {}))
        before = kind
        detail, texts = details[-1]
        detail.update((key, value) for key, value in piece.items() if value is not None or key not in detail)
        for key in ("text", "thinking", "summary", "data"):
            if isinstance(piece.get(key), str):
                texts.setdefault(key, []).append(piece[key])
    return [{**detail, **{key: "".join(text) for key, text in texts.items()}} for detail, texts in details]
