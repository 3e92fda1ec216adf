"""Events → frames of the native protocol, against the least that a frame can cost, and how that grows."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial

import msgspec

from streamkit import Intermediate, RunEvent, TextDelta, ToolInputDelta, ToolInputStart, ToolStarted
from streamkit.wire.native import NativeEncoder

from .measure import Figure, Goal, growth, race

FRAMES = 50_000

TEXT = TextDelta("a few words ")
ARGUMENTS = ToolInputDelta("call_1", '"path": "notes')
PROGRESS = Intermediate("call_1", "download", {"done": 4096, "of": 65536})
BEFORE: list[RunEvent] = [
    ToolStarted("turn_1.0", "call_1", "download", {}),
    ToolInputStart("call_2", "write_file"),
    ToolInputStart("call_1", "write_file"),
    TEXT,
]


def figures() -> Iterator[Figure]:
    head = b'{"type":"text-delta","id":"text-1","delta":'
    yield race(
        "wire.text_delta", partial(encode, TEXT), partial(by_hand, head, TEXT.text), count=FRAMES, goal=Goal(2.0)
    )
    head = b'{"type":"tool-call-delta","id":"call_1","argsTextDelta":'
    floor = partial(by_hand, head, ARGUMENTS.delta)
    yield race("wire.argument_delta", partial(encode, ARGUMENTS), floor, count=FRAMES, goal=Goal(2.5))
    head = b'{"type":"tool-progress","id":"call_1","data":'
    yield race(
        "wire.progress", partial(encode, PROGRESS), partial(by_hand, head, PROGRESS.data), count=FRAMES, goal=Goal(3.0)
    )
    yield growth("wire.frames", partial(encode, TEXT), size=1_000_000, goal=Goal(1.3))


def encode(event: RunEvent, frames: int = FRAMES) -> None:
    encoder = NativeEncoder(run_id="run")
    for before in BEFORE:
        encoder.event(before)
    say = encoder.event
    for _ in range(frames):
        say(event)


def by_hand(head: bytes, value: object) -> None:
    """A frame as one encoding and one concatenation."""
    write: Callable[[object], bytes] = msgspec.json.Encoder().encode
    for number in range(FRAMES):
        b"id: %d\ndata: %b%b}\n\n" % (number, head, write(value))
