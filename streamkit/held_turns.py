"""`hold_back`: a turn of which nothing is shown until it was checked.

`hold_back` and `edit_calls` take a turn and give one, so they nest. Tools that hear their input (`on_input=`) hear what
is left of it when they listen outside: `toolkit.listen(hold_back(edit_calls(model.stream_turn(request), f), check))`.
Inside they hear what the model writes, and nobody tells them that a call of it was taken away.
"""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Iterator

from .flows.flow import Flow, Sink, flow
from .items import Message, Reasoning, ToolCall
from .shown_calls import ShownCalls, closing_calls, events_of_call, refuse_bad_call
from .turns import ReasoningDelta, RefusalDelta, TextDelta, Turn, TurnEnded, TurnEvent, TurnStarted

Check = Callable[[Turn], Turn | Awaitable[Turn | None] | None]
"""The turn that is to be shown, for the one that was written, None for itself: plain or async. What it raises ends the
turn."""


@flow
async def hold_back(out: Sink[TurnEvent], turn: Flow[TurnEvent, Turn], check: Check) -> Turn:
    """The turn that check returns for the one that was written; nothing of either is shown before.

    Only TurnStarted is sent at once, as a sign of life; for more, `tap` the turn inside. Then the items of the checked
    turn follow in order: a text as one delta, a call as start, delta and end, and last a refusal. Abandoned calls are
    left out, because nobody has heard of them. A turn with another id, such as one that check has got from another
    model, has a TurnStarted of its own.

    If check raises, or the turn fails, that error leaves as itself, and nothing of the turn has been shown. Raises
    ValueError for a turn with two calls that share an id, or with a new call whose arguments are not one JSON object.
    """
    started = ""

    def is_start(event: TurnEvent) -> bool:
        nonlocal started
        if type(event) is TurnStarted:
            started = event.turn_id
        return type(event) is TurnStarted

    written = await out.forward(turn.filter(is_start))
    checked = check(written)
    if inspect.isawaitable(checked):
        checked = await checked
    checked = written if checked is None else checked
    _refuse_bad_turn(checked, written)

    async def show(telling: Sink[TurnEvent], _: ShownCalls) -> Turn:
        if checked.turn_id != started:
            await telling.send(TurnStarted(checked.turn_id, checked.model))
        for event in _events_of(checked):
            await telling.send(event)
        await telling.send(TurnEnded(checked))
        return checked

    return await closing_calls(out, show)


def _events_of(turn: Turn) -> Iterator[TurnEvent]:
    for item in turn.items:
        match item:
            case ToolCall():
                if item.abandoned is None:
                    yield from events_of_call(item)
            case Message(text=text):
                if text:
                    yield TextDelta(text)
            case Reasoning(text=text, kind=kind):
                if text:
                    yield ReasoningDelta(text, kind)
            case _:
                yield item
    if turn.refusal:
        yield RefusalDelta(turn.refusal)


def _refuse_bad_turn(checked: object, written: Turn) -> None:
    if not isinstance(checked, Turn):
        raise TypeError(f"check returns the turn, or another one, not {type(checked).__name__}")
    calls = [item for item in checked.items if type(item) is ToolCall]
    if len({call.call_id for call in calls}) < len(calls):
        raise ValueError("check returned a turn that has two calls with one id")
    for call in checked.calls:
        if call not in written.calls:
            refuse_bad_call(call)
