"""Text, reasoning and refusals of the native protocol: a piece belongs to a part, which has a beginning and an end."""

from __future__ import annotations

from collections.abc import Callable

from . import native_frames as frames
from .encoding import json_of
from .native_frames import Frame

Path = tuple[str, ...]


class Parts:
    """What is open, in each run one part at most. text_head: see `head_of`, while text of the outer run is open.

    Each method gives the frames to send.
    """

    def __init__(self) -> None:
        self.text_head: bytes | None = None
        self._open: dict[Path, tuple[str, str]] = {}  # kind and id
        self._begun = 0

    def piece(self, kind: str, text: str, path: Path) -> list[Frame]:
        said: list[Frame] = []
        open_kind, part_id = self._open.get(path, ("", ""))
        if open_kind != kind:
            said += self.end(path)
            part_id = self._begin(kind, path)
            said.append(_STARTS[kind](part_id, path))
        said.append(_DELTAS[kind](part_id, text, path=path))
        return said

    def _begin(self, kind: str, path: Path) -> str:
        self._begun += 1
        part_id = f"{_NAMES.get(kind, kind)}-{self._begun}"
        self._open[path] = kind, part_id
        if kind == "text" and not path:
            self.text_head = head_of(frames.TextDelta(part_id, ""))
        return part_id

    def end(self, path: Path) -> list[Frame]:
        kind, part_id = self._open.pop(path, ("", ""))
        if not path:
            self.text_head = None
        return [_ENDS[kind](part_id, path=path)] if kind else []

    def end_inside(self, call_id: str) -> list[Frame]:
        return [end for path in list(self._open) if call_id in path for end in self.end(path)]

    def end_all(self) -> list[Frame]:
        return [end for path in list(self._open) for end in self.end(path)]


def head_of(empty: Frame) -> bytes:
    """A frame up to its last field, whose text is empty in this one: what comes is that text as JSON and a brace."""
    return json_of(empty).removesuffix(b'""}')


_NAMES = {"trace": "reasoning", "summary": "reasoning"}
_STARTS: dict[str, Callable[[str, Path], Frame]] = {
    "text": lambda part_id, path: frames.TextStart(part_id, path=path),
    "refusal": lambda part_id, path: frames.RefusalStart(part_id, path=path),
    "trace": lambda part_id, path: frames.ReasoningStart(part_id, "trace", path=path),
    "summary": lambda part_id, path: frames.ReasoningStart(part_id, "summary", path=path),
}
_DELTAS: dict[str, type[frames.TextDelta | frames.RefusalDelta | frames.ReasoningDelta]] = {
    "text": frames.TextDelta,
    "refusal": frames.RefusalDelta,
    "trace": frames.ReasoningDelta,
    "summary": frames.ReasoningDelta,
}
_ENDS: dict[str, type[frames.TextEnd | frames.RefusalEnd | frames.ReasoningEnd]] = {
    "text": frames.TextEnd,
    "refusal": frames.RefusalEnd,
    "trace": frames.ReasoningEnd,
    "summary": frames.ReasoningEnd,
}
