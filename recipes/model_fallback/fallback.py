"""A `Model` that is several: where one fails the next one goes on, and nobody above it has to know.

It keeps what `streamkit.testing.check_model` asks of every model. One rule takes some lines: a turn has one
`TurnStarted` and one id, also where several have written at it.
"""

from __future__ import annotations

from time import monotonic

from msgspec.structs import replace

from streamkit import (
    Flow,
    Model,
    ModelError,
    Sink,
    ToolCall,
    Turn,
    TurnEnded,
    TurnEvent,
    TurnRequest,
    TurnRestarted,
    TurnStarted,
)


class Fallback:
    """The preferred model comes first. A turn that breaks is begun anew by the next one.

    A provider that said for how long it wants to be left alone (`error.retry_after`) is not asked before.
    """

    def __init__(self, *models: Model) -> None:
        self.name = " or ".join(model.name for model in models)
        self._models = models
        self._rests_until = [0.0] * len(models)

    def stream_turn(self, request: TurnRequest) -> Flow[TurnEvent, Turn]:
        return Flow(lambda out: self._turn(out, request))

    async def _turn(self, out: Sink[TurnEvent], request: TurnRequest) -> Turn:
        places = [place for place, until in enumerate(self._rests_until) if until <= monotonic()]
        *first, last = places or range(len(self._models))
        begun: str | None = None
        for place in first:
            try:
                return await out.forward(under_id(begun, self._models[place].stream_turn(request)))
            except ModelError as error:
                if not may_go_better_elsewhere(error):
                    raise
                self._rests_until[place] = monotonic() + (error.retry_after or 0.0)
                if error.turn is not None:  # else nothing of it has begun
                    begun = begun or error.turn.turn_id
                    if error.turn.items:
                        await out.send(TurnRestarted(f"{self._models[place].name}: {error}"))
        return await out.forward(under_id(begun, self._models[last].stream_turn(request)))


def may_go_better_elsewhere(error: ModelError) -> bool:
    """Not what is wrong with the request itself: every provider would refuse it."""
    return not (error.kind == "provider_error" and error.status in (400, 413, 422))


def under_id(turn_id: str | None, turn: Flow[TurnEvent, Turn]) -> Flow[TurnEvent, Turn]:
    """A turn that goes on with one that was begun under this id; None where none was."""
    if turn_id is None:
        return turn

    def named(turn: Turn) -> Turn:
        items = tuple(replace(item, turn_id=turn_id) if isinstance(item, ToolCall) else item for item in turn.items)
        return replace(turn, turn_id=turn_id, items=items)

    rest = turn.filter(lambda event: not isinstance(event, TurnStarted))
    return rest.map(lambda event: TurnEnded(named(event.turn)) if isinstance(event, TurnEnded) else event).then(named)
