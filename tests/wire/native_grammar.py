"""What holds for the frames of every native stream, whatever the run did."""

import json
from collections.abc import Iterable
from typing import Any

from streamkit.tool_events import RunEvent
from streamkit.wire.encoding import Encoder
from streamkit.wire.native import NativeEncoder

PARTS = ("text", "reasoning", "refusal")
TERMINAL = ("finish", "error", "stopped")

Told = dict[str, Any]


def encoded(events: Iterable[RunEvent], end: object = None, encoder: Encoder | None = None) -> bytes:
    """The whole body of a run. end: its state, or what it raised."""
    encoder = encoder or NativeEncoder(run_id="run")
    body = encoder.open() + b"".join([encoder.event(event) for event in events])
    return body + (encoder.error(end) if isinstance(end, BaseException) else encoder.end(end))


def frames_of(body: bytes) -> list[Told]:
    """The frames of a body, each of them two lines and a blank one, numbered from 1."""
    assert body.endswith(b"\n\n")
    told = []
    for number, block in enumerate(body.decode().removesuffix("\n\n").split("\n\n"), 1):
        head, data = block.split("\n")
        assert head == f"id: {number}"
        assert data.startswith("data: ")
        told.append(json.loads(data.removeprefix("data: ")))
    return told


def check_frames(told: list[Told]) -> None:
    """Raise AssertionError where the frames of a body, from start to end, do not follow their grammar."""
    assert told[0]["type"] == "start"
    assert told[-1]["type"] in TERMINAL
    checker = _Checker()
    for frame in told[1:-1]:
        assert frame["type"] not in (*TERMINAL, "start")
        checker.feed(frame)
    checker.end()


class _Checker:
    def __init__(self) -> None:
        self.parts: dict[tuple[str, ...], tuple[str, str]] = {}
        self.part_ids: set[str] = set()
        self.phases: dict[str, str] = {}  # written, whole, malformed, asked, running, over
        self.paths: dict[str, list[str]] = {}

    def feed(self, frame: Told) -> None:
        kind, _, what = frame["type"].rpartition("-")
        path = tuple(frame.get("path", ()))
        for around in path:
            assert self.phases.get(around) in ("running", None), f"{frame} inside of what does not run"
        if kind in PARTS:
            getattr(self, f"part_{what}")(kind, frame, path)
        elif kind == "turn":
            assert path not in self.parts, f"{frame} beside an open part"
        elif hasattr(self, name := frame["type"].replace("-", "_")):
            call_id: str = frame.get("toolCallId") or frame["id"]
            assert self.paths.setdefault(call_id, list(path)) == list(path)
            getattr(self, name)(call_id, frame)

    def part_start(self, kind: str, frame: Told, path: tuple[str, ...]) -> None:
        assert path not in self.parts, "a part in another one"
        assert frame["id"] not in self.part_ids
        self.part_ids.add(frame["id"])
        self.parts[path] = kind, frame["id"]

    def part_delta(self, kind: str, frame: Told, path: tuple[str, ...]) -> None:
        assert self.parts.get(path) == (kind, frame["id"])

    def part_end(self, kind: str, frame: Told, path: tuple[str, ...]) -> None:
        assert self.parts.pop(path) == (kind, frame["id"])

    def tool_call_start(self, call_id: str, frame: Told) -> None:
        assert call_id not in self.phases
        assert tuple(self.paths[call_id]) not in self.parts
        self.phases[call_id] = "written"

    def tool_call_delta(self, call_id: str, frame: Told) -> None:
        assert self.phases[call_id] == "written"

    def tool_field(self, call_id: str, frame: Told) -> None:
        assert self.phases[call_id] == "written"

    def tool_call_end(self, call_id: str, frame: Told) -> None:
        assert self.phases[call_id] == "written"
        self.phases[call_id] = "whole" if not frame.get("dropped") else "malformed"
        if frame.get("dropped") and frame["reason"] != "malformed":
            self.phases[call_id] = "dropped"

    def approval_request(self, call_id: str, frame: Told) -> None:
        assert self.phases.get(call_id, "whole") == "whole"
        self.phases[call_id] = "asked"

    def tool_start(self, call_id: str, frame: Told) -> None:
        before = self.phases.get(call_id, "whole")
        assert before in ("whole", "asked") or (before == "running" and frame["attempt"] > 1)
        self.phases[call_id] = "running"

    def tool_progress(self, call_id: str, frame: Told) -> None:
        assert self.phases[call_id] == "running"

    def tool_result(self, call_id: str, frame: Told) -> None:
        before = self.phases.get(call_id)
        assert before != "over", "a second result"
        assert frame["id"] == f"r-{call_id}"
        if frame.get("dropped"):
            assert frame["reason"]
            assert frame["result"] == ""
            assert before in ("whole", "dropped", "malformed", "asked", None)
        elif before != "running":
            assert before not in ("written", "dropped")
            assert "error" in frame or before in ("asked", "whole", None)  # somebody has given its value
        self.phases[call_id] = "over"

    def end(self) -> None:
        assert not self.parts, "a part is open at the end"
        assert not {"written", "dropped", "malformed"} & set(self.phases.values()), f"open calls: {self.phases}"
