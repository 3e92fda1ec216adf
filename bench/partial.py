"""Arguments while they are written: deltas to field events, snapshots, and the fields of a turn.

The floor of a delta is the least that any parser does: a method that keeps the delta and returns one event.
"""

from __future__ import annotations

import json
import tracemalloc
from collections.abc import Awaitable, Callable, Iterator, Sequence
from pathlib import Path

import msgspec

from streamkit.codec.partial_json import FieldEvent, FieldText, PartialJson
from streamkit.flows.flow import Flow, Sink, flow
from streamkit.input_fields import fields
from streamkit.tool_events import RunEvent
from streamkit.turns import ToolInputAvailable, ToolInputDelta, ToolInputStart

from .channel import consume
from .measure import BACKENDS, ROUNDS, Figure, Goal, figure, race_async, timed

DELTA = 8
MEGABYTE = 1_000_000
PROSE = "Some plain text, as people write it. "
CODE = Path(__file__).read_text("utf-8")
REPARSED_EACH = 2_000
"""Parsing again at each delta would take a minute, so it is done at one of so many."""


def figures() -> Iterator[Figure]:
    yield deltas("partial.deltas", arguments(PROSE), Goal(5, must=True))
    yield deltas("partial.deltas_of_code", arguments(CODE), Goal(5))
    yield deltas("partial.deltas_of_escapes", arguments("文件内容", ascii_only=True), None)
    yield deltas("partial.single_characters", arguments(CODE), Goal(5), width=1)
    yield growth_of_a_delta()
    yield reparsing("json", json.loads, Goal(1 / 1000, must=True))
    yield reparsing("msgspec", msgspec.json.decode, Goal(1 / 1000))
    yield memory()
    yield snapshot()
    for name, text in (("prose", PROSE), ("code", CODE)):
        yield one_piece(f"partial.one_piece_of_{name}", arguments(text, 10 * MEGABYTE))
    yield from fields_of_a_turn()


def arguments(text: str, size: int = MEGABYTE, *, ascii_only: bool = False) -> str:
    return json.dumps({"path": "a.txt", "content": text * (size // len(text))}, ensure_ascii=ascii_only)


def cut(text: str, width: int = DELTA) -> list[str]:
    """Pieces; equal ones are one object, so that they are as near to the processor as what has just come."""
    known: dict[str, str] = {}
    pieces = (text[start : start + width] for start in range(0, len(text), width))
    return [known.setdefault(piece, piece) for piece in pieces]


class Keeping:
    """The floor."""

    def __init__(self) -> None:
        self.pieces: list[str] = []
        self.path = ("content",)

    def feed(self, text: str) -> tuple[FieldEvent, ...]:
        self.pieces.append(text)
        return (FieldText(self.path, text),)


def feed_all(parser: PartialJson | Keeping, pieces: Sequence[str]) -> None:
    feed = parser.feed
    for piece in pieces:
        feed(piece)


def deltas(name: str, text: str, goal: Goal | None, width: int = DELTA) -> Figure:
    """What a delta costs, beyond one decoding of the whole."""
    pieces = cut(text, width)

    def ours() -> None:
        parser = PartialJson()
        feed_all(parser, pieces)
        parser.finish()

    times = [
        (timed(ours) - timed(lambda: json.loads(text)), timed(lambda: feed_all(Keeping(), pieces)))
        for _ in range(ROUNDS)
    ]
    return figure(name, times, count=len(pieces), goal=goal)


def growth_of_a_delta() -> Figure:
    """The same deltas, as one argument of 10 MB and as a hundred of 100 kB."""
    pieces = cut(PROSE * (100_000 // len(PROSE)))

    def run(parsers: int, times: int) -> None:
        for _ in range(parsers):
            parser = PartialJson()
            parser.feed('{"content": "')
            for _ in range(times):
                feed_all(parser, pieces)
            parser.feed('"}')
            parser.finish()

    times = [(timed(lambda: run(1, 100)), timed(lambda: run(100, 1))) for _ in range(ROUNDS)]
    found = figure("partial.growth_of_a_delta", times, count=100 * len(pieces), goal=Goal(1.2, must=True))
    return msgspec.structs.replace(found, note="a delta of 10 MB to one of 100 kB")


def reparsing(package: str, decode: Callable[[str], object], goal: Goal) -> Figure:
    """To a decoder in C that reads all that has come, closed up, at each delta."""
    text = arguments(PROSE)
    pieces = cut(text)
    ends = range(DELTA * 10, len(text) - DELTA, DELTA * REPARSED_EACH)

    def theirs() -> None:
        for end in ends:
            decode(text[:end] + '"}')

    times = [
        (timed(lambda: feed_all(PartialJson(), pieces)) / len(pieces), timed(theirs) / len(ends)) for _ in range(ROUNDS)
    ]
    found = figure(f"partial.reparsing_with_{package}", times, count=1, goal=goal)
    return msgspec.structs.replace(found, note="a delta to reading again what there is of 1 MB, half of it on average")


def memory() -> Figure:
    text = arguments(PROSE)
    tracemalloc.start()
    parser = PartialJson()
    for start in range(0, len(text), DELTA):
        parser.feed(text[start : start + DELTA])
    parser.finish()
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    ratio = round(peak / len(text), 2)
    return Figure("partial.memory", ratio, 2.5, ratio <= 2.5, must=True, note="the peak to the text of the argument")


def snapshot() -> Figure:
    """The first one, while the text is open; the next ones join less. To joining its pieces."""
    pieces = cut(PROSE * (MEGABYTE // len(PROSE)))
    times = []
    for _ in range(ROUNDS):
        parser = PartialJson()
        feed_all(parser, ['{"path": "a.txt", "content": "', *pieces])
        times.append((timed(parser.snapshot), timed(lambda: "".join(pieces))))
    return figure("partial.snapshot", times, count=1, goal=Goal(2))


def one_piece(name: str, text: str) -> Figure:
    times = [
        (timed(lambda: feed_all(PartialJson(), [text])), timed(lambda: json.loads(text))) for _ in range(ROUNDS // 2)
    ]
    return msgspec.structs.replace(figure(name, times, count=1, goal=None), note="10 MB at once, to json.loads")


def fields_of_a_turn() -> Iterator[Figure]:
    """To the same events without the operator: with nobody who reads the call, and with all of its fields."""
    pieces = cut(arguments(CODE, MEGABYTE // 10))
    source = written(pieces)
    for backend in BACKENDS:
        for name, ours in (("unread", fields(source, only=())), ("read", fields(source))):
            yield race_async(
                f"partial.fields_{name}", sample(ours), sample(source), count=len(pieces), backend=backend
            )  # fmt: skip


def sample(events: Flow[RunEvent, None]) -> Callable[[], Awaitable[object]]:
    return lambda: consume(events)


@flow
async def written(out: Sink[RunEvent], pieces: Sequence[str]) -> None:
    await out.send(ToolInputStart("call_1", "write_file"))
    for piece in pieces:
        await out.send(ToolInputDelta("call_1", piece))
    await out.send(ToolInputAvailable("call_1", "{}"))
