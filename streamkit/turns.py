"""A model turn: what is asked, what happens while the model writes, and what is left when it has ended."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

import msgspec

from .items import History, Message, ProviderTool, StopReason, Tagged, ToolCall, ToolSpec, TurnItem, UnknownItem, Usage

AbandonedReason = Literal["incomplete", "discarded", "malformed", "retried"]


class Turn(Tagged, frozen=True):
    """One generation of the model, whole or cut.

    items: text, reasoning and calls in the order in which they began; the abandoned calls too.
    stop_word: the provider's own word for the stop reason, None where it gave none.
    refusal: what the model said instead of an answer.
    """

    turn_id: str
    model: str = ""
    items: tuple[TurnItem, ...] = ()
    stop_reason: StopReason = "stop"
    stop_word: str | None = None
    usage: Usage = Usage()
    refusal: str = ""

    @property
    def calls(self) -> tuple[ToolCall, ...]:
        """The calls that must be answered, in the order in which they began; `problem` says which cannot run."""
        return tuple(item for item in self.items if type(item) is ToolCall and item.abandoned is None)

    @property
    def dropped(self) -> tuple[ToolCall, ...]:
        """The calls that go nowhere: incomplete or discarded, with their raw text."""
        return tuple(item for item in self.items if type(item) is ToolCall and item.abandoned is not None)

    @property
    def text(self) -> str:
        """All answer text, joined."""
        return "".join(item.text for item in self.items if type(item) is Message)

    @property
    def wants_more(self) -> bool:
        """Whether the model expects another turn: there are calls to answer, or it only paused."""
        return self.stop_reason == "pause" or bool(self.calls)


class TurnStarted(Tagged, frozen=True):
    """The model answers. First event of a turn."""

    turn_id: str
    model: str


class TurnEnded(Tagged, frozen=True):
    """The turn is whole, or was cut and closed. Last event of a turn; a turn that fails has none."""

    turn: Turn


class TurnRestarted(Tagged, frozen=True):
    """The stream broke and begins anew: drop what this turn has shown."""

    reason: str


class TextDelta(Tagged, frozen=True, gc=False):
    """The next piece of the answer."""

    text: str


class RefusalDelta(Tagged, frozen=True, gc=False):
    """The next piece of what the model says instead of an answer."""

    text: str


class ReasoningDelta(Tagged, frozen=True, gc=False):
    """The next piece of what the model thinks: the trace itself, or a summary of it."""

    text: str
    kind: Literal["trace", "summary"] = "trace"


class ToolInputStart(Tagged, frozen=True, gc=False):
    """The model begins to write a call."""

    call_id: str
    tool: str


class ToolInputDelta(Tagged, frozen=True, gc=False):
    """The next piece of a call's arguments. A piece is text, not JSON; join the pieces of one call."""

    call_id: str
    delta: str


class ToolInputAvailable(Tagged, frozen=True, gc=False):
    """The provider says that the call is whole: its arguments are the text of one JSON object."""

    call_id: str
    arguments: str


class ToolInputAbandoned(Tagged, frozen=True, gc=False):
    """The call goes nowhere.

    incomplete: it never became whole. discarded: it was whole, but its turn kept no such call. malformed: it ended
    well, but is not one JSON object. retried: the stream was begun anew. detail: more, for a person.
    """

    call_id: str
    reason: AbandonedReason
    detail: str = ""


ToolInputEvent = ToolInputStart | ToolInputDelta | ToolInputAvailable | ToolInputAbandoned
TurnEvent = (
    TurnStarted | TurnEnded | TurnRestarted | TextDelta | RefusalDelta | ReasoningDelta
    | ToolInputStart | ToolInputDelta | ToolInputAvailable | ToolInputAbandoned | ProviderTool | UnknownItem
)  # fmt: skip


class TurnRequest(msgspec.Struct, frozen=True):
    """What a model is asked.

    tools: what it may call. tool_choice: "auto", "none" (the tools are known, but must not be called), "required", or
    the name of one tool. parallel_calls: False asks for one call at most; None leaves the provider's default. stop:
    texts that end the answer. output: JSON Schema of the answer, whose text is JSON then; its `title` is the name that
    some providers want. reasoning_effort: in the words of the provider, such as "low". extra: goes into the body as it
    is, over everything else.
    """

    history: History
    tools: tuple[ToolSpec, ...] = ()
    instructions: str | None = None
    tool_choice: str = "auto"
    parallel_calls: bool | None = None
    max_output_tokens: int | None = None
    temperature: float | None = None
    stop: tuple[str, ...] = ()
    output: dict[str, Any] | None = None
    reasoning_effort: str | None = None
    extra: dict[str, Any] | None = None

    def __post_init__(self) -> None:
        given: object = self.history
        if isinstance(given, str) or not isinstance(given, Sequence):
            raise TypeError(f"history is a sequence of items, such as (user('…'),), not {type(given).__name__}")
        strange = {kind for kind in {*map(type, given)} if not issubclass(kind, Tagged)}  # of many items few kinds
        if strange:
            place, kind = next((place, type(item)) for place, item in enumerate(given) if type(item) in strange)
            raise TypeError(f"history[{place}] is a {kind.__name__}: items are made with user('…') and assistant('…')")
