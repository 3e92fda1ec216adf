"""`ScriptedModel`: a model that says what a script says, through the same pump and the same rules as a real one.

    model = ScriptedModel(
        ["Let me look.", call("search", {"query": "x"}, split=4)],
        lambda request: [f"I was asked with {len(request.history)} items."],
    )

What may stand in a script is said by the class.
"""

from __future__ import annotations

import copy
import itertools
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec

from ..flows.flow import Flow, Sink
from ..items import StopReason
from ..parts import Finished, InputDelta, InputEnd, InputStart, Part
from ..providers.model import run_turn
from ..turns import TextDelta, Turn, TurnEvent, TurnRequest


@dataclass(frozen=True)
class ScriptedCall:
    """Made by `call`."""

    name: str
    pieces: tuple[str, ...]
    call_id: str | None
    ends: bool


@dataclass(frozen=True)
class Interleaved:
    """Made by `interleave`."""

    calls: tuple[ScriptedCall, ...]


ScriptPart = (
    str | ScriptedCall | Interleaved | Part | BaseException | type[BaseException] | Callable[[], Awaitable[Any]]
)
ScriptTurn = Sequence[ScriptPart] | Callable[[TurnRequest], Sequence[ScriptPart]]


def call(
    name: str,
    arguments: dict[str, Any] | str | None = None,
    *,
    call_id: str | None = None,
    split: int | None = None,
    ends: bool = True,
) -> ScriptedCall:
    """A tool call of a script.

    arguments: an object, written as compact JSON, or the text itself. call_id: None gives `call_1`, `call_2` and so on
    over all turns. split: how many characters a piece has; None sends all at once. ends: False never ends the call.
    """
    text = arguments if isinstance(arguments, str) else msgspec.json.encode(arguments or {}).decode()
    width = split or max(len(text), 1)
    pieces = tuple(text[start : start + width] for start in range(0, len(text), width))
    return ScriptedCall(name, pieces, call_id, ends)


def interleave(*calls: ScriptedCall) -> Interleaved:
    """Several calls at once: they start in order, then a piece of each in turn."""
    return Interleaved(calls)


def stop(reason: StopReason, word: str | None = None) -> Finished:
    """The end of a turn for this reason. word: the provider's own."""
    return Finished(reason, word)


class ScriptedModel:
    """A `Model` that plays one scripted turn for each request, from the first turn on, whatever the history is.

    A turn is a list of parts, or a function of the request that returns one. A part is

    - text: a piece of the answer
    - `call(…)`: a tool call, cut into pieces; `interleave(call(…), call(…))`: several, their pieces in turn
    - `stop(reason)`: the end of the turn, such as `stop("length")`; without one it ends well
    - an exception: raised here
    - an async function without parameters: awaited here; `anyio.sleep_forever` hangs
    - any part of a decoder (`streamkit.backends`), such as `ReasoningDelta` or `UsageReported`: as it is

    requests: deep copies of what it was asked, in order. Raises AssertionError in a turn for which there is no script,
    and TypeError for anything that is not a turn, or not a part of one.
    """

    def __init__(self, *turns: ScriptTurn, name: str = "scripted") -> None:
        for turn in turns:
            if isinstance(turn, str) or not (isinstance(turn, Sequence) or callable(turn)):
                raise TypeError(f"a turn of a script is a list of parts, or a function that gives one, not {turn!r}")
        self.name = name
        self.requests: list[TurnRequest] = []
        self._turns = list(turns)
        self._numbers = itertools.count(1)

    def stream_turn(self, request: TurnRequest) -> Flow[TurnEvent, Turn]:
        return Flow(lambda out: self._play(out, request))

    async def _play(self, out: Sink[TurnEvent], request: TurnRequest) -> Turn:
        self.requests.append(copy.deepcopy(request))
        number = len(self.requests)
        if number > len(self._turns):
            raise AssertionError(f"the script has {len(self._turns)} turns, and was asked for turn {number}")
        script = self._turns[number - 1]
        parts = script(request) if callable(script) else script
        return await run_turn(out, self.name, request, _Played(self._expand(parts)))

    def _expand(self, parts: Sequence[ScriptPart]) -> Iterator[Any]:
        """The parts of a decoder, and in their places the exceptions and functions of the script."""
        calls = False
        for part in parts:
            match part:
                case str():
                    yield TextDelta(part)
                case ScriptedCall():
                    calls = True
                    yield from itertools.chain(*self._pieces(part))
                case Interleaved():
                    calls = True
                    rounds = itertools.zip_longest(*map(self._pieces, part.calls), fillvalue=())
                    yield from itertools.chain.from_iterable(itertools.chain.from_iterable(rounds))
                case msgspec.Struct() | BaseException() | type() | Callable():
                    yield part
                case _:
                    raise TypeError(f"{part!r} is not a part of a script")
        if not any(isinstance(part, Finished) for part in parts):
            yield Finished("tool_calls" if calls else "stop")

    def _pieces(self, scripted: ScriptedCall) -> list[tuple[Part, ...]]:
        call_id = scripted.call_id or f"call_{next(self._numbers)}"
        start = InputStart(None, call_id, scripted.name)
        deltas = [(InputDelta(piece, call_id=call_id),) for piece in scripted.pieces]
        end = (InputEnd(call_id=call_id),) if scripted.ends else ()
        return [(start,), *deltas, end]


class _Played:
    """The expanded script as an async iterator; a class, since the pump may leave it at any moment."""

    def __init__(self, items: Iterator[Any]) -> None:
        self._items = items

    def __aiter__(self) -> AsyncIterator[Sequence[Part]]:
        return self

    async def __anext__(self) -> Sequence[Part]:
        for item in self._items:
            if isinstance(item, BaseException) or (isinstance(item, type) and issubclass(item, BaseException)):
                raise item
            if not callable(item):
                return (item,)
            await item()
        raise StopAsyncIteration
