"""`check_decoder`: does a decoder give the same however its body is cut, and close what a cut leaves open?"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import NamedTuple

from ..errors import BadPayload, DecodeError, ModelError
from ..items import ToolCall
from ..parts import Failed, Finished, Part
from ..providers.model import Decoder
from ..turn_builder import TurnBuilder
from ..turns import Turn, TurnEnded, TurnEvent, TurnStarted
from .cuts import every_cut
from .turns import check, check_turn

TURN_ID = "turn_1"
MODEL = "decoded"
MOST_PREFIXES = 1000
"""At how many places, spread over it, a longer body is cut short."""


class Outcome(NamedTuple):
    """What becomes of a body: the events inside its turn, the turn, and the error that it ended in."""

    events: list[TurnEvent]
    turn: Turn
    error: ModelError | None


class Played:
    """A body that is played through a decoder: the same as `run_turn` makes of it, without any waiting.

    The turn has a fixed id, so that what became of two bodies compares. After `play`: turn, and the error in which it
    has ended, None where it ended well.
    """

    def __init__(self, model: str = MODEL) -> None:
        self.turn: Turn | None = None
        self.error: ModelError | None = None
        self._model = model

    def play(self, decoder: Decoder, pieces: Iterable[bytes], tools: Iterable[str] = ()) -> Iterator[TurnEvent]:
        """The events inside the turn, each as soon as it is known.

        tools: the names of the known tools, which decide whether pieces of a name are joined. Raises AssertionError
        where the decoder breaks a rule.
        """
        builder = TurnBuilder(TURN_ID, self._model, tools)
        events: list[TurnEvent] = []
        try:
            for parts in _batches(decoder, pieces):
                try:
                    builder.add_all(parts, events)
                finally:
                    yield from events
                    events.clear()
            check(builder.finished, "end() gives Finished or Failed at last, unless feed() has given one: neither came")
            yield from builder.end()
        except (ModelError, DecodeError) as raised:
            self.error = raised if isinstance(raised, ModelError) else BadPayload(str(raised))
            yield from builder.fail("error")
        self.turn = builder.turn()


def outcome(decoder: Decoder, pieces: Iterable[bytes], tools: Iterable[str] = ()) -> Outcome:
    """What becomes of a body; see `Played`."""
    played = Played()
    events = list(played.play(decoder, pieces, tools))
    assert played.turn is not None
    return Outcome(events, played.turn, played.error)


def same(one: Outcome, other: Outcome) -> bool:
    """Whether two bodies have become the same; errors are, when they say the same."""
    return one[:2] == other[:2] and repr(one.error) == repr(other.error)


def check_outcome(found: Outcome) -> None:
    """Raise AssertionError where the events and the turn disagree, or keep not to the grammar: see `check_turn`."""
    failed = found.error is not None or found.turn.stop_reason == "error"
    end = [] if failed else [TurnEnded(found.turn)]
    check_turn([TurnStarted(TURN_ID, MODEL), *found.events, *end], found.turn, failed=failed)


def check_decoder(make_decoder: Callable[[], Decoder], body: bytes, tools: Iterable[str] = ()) -> None:
    """Raise AssertionError, with the rule that is broken, unless a decoder keeps what `run_turn` relies on.

    Any cut of the body gives the same events, the same turn and the same error. Events and turn agree. Finished or
    Failed comes at last, and once. A body that ends too early, anywhere, gives a turn in which all calls are closed:
    one that failed has none that may run, and one that ended has none that the whole body has not.

    body: a recorded one, or one written by hand; at best one with calls. tools: the names of the known tools.
    """
    names = tuple(tools)
    whole = outcome(make_decoder(), [body], names)
    check_outcome(whole)
    check(whole.error or whole.turn.stop_reason != "error", "the end of a turn that failed is Failed, not Finished")
    for pieces in every_cut(body):
        cut = outcome(make_decoder(), pieces, names)
        check(same(whole, cut), f"cut into {len(pieces)} pieces, the body is another one: {_difference(whole, cut)}")
    known = {_said(item) for item in whole.turn.items if type(item) is ToolCall}
    for size in range(0, len(body), 1 + len(body) // MOST_PREFIXES):
        try:
            short = outcome(make_decoder(), [body[:size]], names)
            check_outcome(short)
            strange = [call.call_id for call in short.turn.calls if _said(call) not in known]
            check(not strange, f"the calls {strange} may run, though the whole body has no such calls")
        except AssertionError as broken:
            raise AssertionError(f"of the body that ends after {size} bytes: {broken}") from None


def _batches(decoder: Decoder, pieces: Iterable[bytes]) -> Iterator[Sequence[Part]]:
    for piece in pieces:
        parts = decoder.feed(piece)
        yield parts
        if _end_in(parts):
            return
    parts = decoder.end()
    yield parts
    _end_in(parts)


def _end_in(parts: Sequence[Part]) -> bool:
    """Whether the end of the turn is among these parts; nothing may come behind it."""
    ends = [at for at, part in enumerate(parts) if isinstance(part, Finished | Failed)]
    last = len(parts) - 1
    check(ends in ([], [last]), f"after {type(parts[ends[0]]).__name__ if ends else ''} come more parts: {parts}")
    return bool(ends)


def _said(call: ToolCall) -> tuple[str, str, str]:
    return call.call_id, call.name, call.arguments


def _difference(whole: Outcome, cut: Outcome) -> str:
    for number, (one, other) in enumerate(zip(whole.events, cut.events, strict=False)):
        if one != other:
            return f"event {number} is {other} instead of {one}"
    if len(whole.events) != len(cut.events):
        return f"it has {len(cut.events)} events instead of {len(whole.events)}"
    return f"it ends as {cut.turn}, {cut.error!r} instead of {whole.turn}, {whole.error!r}"
