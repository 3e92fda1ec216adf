"""Arguments that do not fit: what is mended silently, what the model is told, and when it has had tries enough."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta

from streamkit import (
    Conversation,
    Flow,
    History,
    Model,
    RunEvent,
    ToolCall,
    Toolkit,
    ToolOutput,
    ToolSpec,
    Turn,
    TurnEvent,
    TurnRequest,
    assistant,
    converse,
    tool,
    user,
)


@tool
def book_table(
    guests: Annotated[int, Meta(ge=1, le=8, description="How many guests come")],
    day: Annotated[Literal["Friday", "Saturday", "Sunday"], Meta(description="The day")],
    outside: Annotated[bool, Meta(description="true or false")] = False,
) -> str:
    """Book a table in the restaurant."""
    return f"A table for {guests} on {day} is booked{', outside' if outside else ''}."


TOOLS = Toolkit(book_table)
MAX_REPAIRS = 2

QUOTES: History = (
    user("Book a table for 2 guests on Saturday, outside."),
    ToolCall("example", "book_table", '{"guests": "2", "day": "Saturday", "outside": "true"}'),
    ToolOutput("example", "book_table", "A table for 2 on Saturday is booked, outside."),
    assistant("It is booked."),
)
"""An example that leads a model to write every value as text."""


@dataclass(frozen=True)
class Scene:
    """A question, and how a model comes to err.

    before: what it has seen. then_held: after an error it is held to the types.
    """

    question: str
    before: History = ()
    then_held: bool = True


SCENES = (
    Scene("Book a table for 6 guests on Sunday, outside.", before=QUOTES),
    Scene("Book a table for 2 guests on Sunday, outside."),
    Scene("Book a table for Ada and her four friends on Friday evening.", then_held=False),
)


def play(model: Model, scene: Scene) -> Flow[RunEvent, Conversation]:
    """The run of a scene. What does not fit goes back to the model by itself; that is all there is to it."""
    unheld = Unheld(model, then_held=scene.then_held)
    return converse(unheld, TOOLS, (*scene.before, user(scene.question)), max_repairs=MAX_REPAIRS)


class Unheld:
    """A model that is told that every argument is text, so that it errs as one does that nobody holds to a schema.

    After a call that did not fit it has to call again. then_held: it is told the real types then. A large model puts
    its call right by what it reads; a small one only repeats itself, unless its server holds it to the schema.
    """

    def __init__(self, model: Model, *, then_held: bool) -> None:
        self.name = model.name
        self._model = model
        self._then_held = then_held

    def stream_turn(self, request: TurnRequest) -> Flow[TurnEvent, Turn]:
        last = request.history[-1]
        tries_again = isinstance(last, ToolOutput) and last.failed
        tools = request.tools if tries_again and self._then_held else tuple(map(untyped, request.tools))
        choice = "required" if tries_again else request.tool_choice
        return self._model.stream_turn(msgspec.structs.replace(request, tools=tools, tool_choice=choice))


def untyped(spec: ToolSpec) -> ToolSpec:
    fields = spec.parameters["properties"].items()
    texts = {name: {"type": "string", "description": field["description"]} for name, field in fields}
    return msgspec.structs.replace(spec, parameters={**spec.parameters, "properties": texts})


def mended(written: str, arguments: dict[str, Any]) -> str:
    """The arguments that run otherwise than the model wrote them."""
    came = json.loads(written)
    pairs = [(name, json.dumps(came[name]), json.dumps(value)) for name, value in arguments.items() if name in came]
    return ", ".join(f"{name} {before} → {after}" for name, before, after in pairs if before != after)
