"""Where one model fails another one goes on, of another provider and another dialect: the history is the same for all.

Of what a turn had shown when it broke, somebody has to decide whether it stays: `Fallback` takes it back, `with_any`
keeps it.
"""

from __future__ import annotations

from collections.abc import Sequence

from streamkit import (
    Conversation,
    History,
    Message,
    Model,
    ModelError,
    RunEvent,
    Sink,
    Toolkit,
    Transcript,
    converse,
    flow,
    tool,
    user,
)

from .fallback import may_go_better_elsewhere

GO_ON = user("You were interrupted. Go on from there.")


@flow
async def with_any(out: Sink[RunEvent], models: Sequence[Model], toolkit: Toolkit, history: History) -> Conversation:
    """A whole run that the next model goes on with. What was shown stays: the next model reads it, too."""
    *first, last = models
    for model in first:
        transcript = Transcript(history)
        try:
            return await out.forward(converse(model, toolkit, history).tap(transcript.feed))
        except ModelError as error:
            if not may_go_better_elsewhere(error):
                raise
            history = transcript.history()
            if isinstance(said := history[-1], Message) and said.role == "assistant":
                history += (GO_ON,)  # some models refuse to be asked by what they seem to have said
    return await out.forward(converse(last, toolkit, history))


@tool(effects="none")
async def population(city: str) -> int | str:
    """How many people live in a city of Norway."""
    return {"Oslo": 724_000, "Bergen": 294_000, "Trondheim": 215_000}.get(city, "unknown")


TOOLS = Toolkit(population)
