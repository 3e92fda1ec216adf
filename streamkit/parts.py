"""Parts: what a decoder says of an answer, in the words of no provider; `TurnBuilder` makes a turn of them.

Some parts are events already: `TextDelta`, `RefusalDelta`, `ReasoningDelta`, `ProviderTool` and `UnknownItem` go on as
they are. The others are here: those about a call, which may come whole or in pieces, and those about the turn.
"""

from __future__ import annotations

from typing import Any

import msgspec

from .errors import ModelError
from .items import Opaque, ProviderTool, StopReason, UnknownItem, Usage
from .turns import ReasoningDelta, RefusalDelta, TextDelta


class InputStart(msgspec.Struct, frozen=True, gc=False):
    """The provider says that a call begins, and will say when it is whole.

    custom: its arguments are plain text. without_id: the provider gives it no id, so it need not wait for one.
    """

    index: int | None = None
    call_id: str | None = None
    name: str | None = None
    custom: bool = False
    without_id: bool = False


class InputDelta(msgspec.Struct, frozen=True, gc=False):
    """A piece of a call: argument text, id, name, whichever came. It begins a call where it belongs to none.

    custom: the arguments of the call that it begins are plain text.
    """

    text: str = ""
    index: int | None = None
    call_id: str | None = None
    name: str | None = None
    custom: bool = False


class InputEnd(msgspec.Struct, frozen=True):
    """The provider says that a call is whole. arguments: all of them, where it repeats them; they win."""

    index: int | None = None
    call_id: str | None = None
    arguments: str | dict[str, Any] | None = None


class InputOpaque(msgspec.Struct, frozen=True):
    """What the provider wants back with a call that has begun, unread. Its keys are added to those before."""

    opaque: dict[str, Any]
    dialect: str
    index: int | None = None
    call_id: str | None = None


class WholeCall(msgspec.Struct, frozen=True):
    """A call that came in one piece. opaque: what the provider wants back with it, unread, by dialect."""

    name: str
    arguments: str | dict[str, Any]
    call_id: str | None = None
    custom: bool = False
    opaque: Opaque | None = None


InputPart = InputStart | InputDelta | InputEnd | InputOpaque | WholeCall


class NextItem(msgspec.Struct, frozen=True):
    """What comes next begins an item of its own, even if it is of the same kind."""


class ReasoningOpaque(msgspec.Struct, frozen=True):
    """What the provider wants back with the reasoning that came last, unread. Its keys are added to those before.

    Where no reasoning came since the last NextItem, it makes one without text.
    """

    opaque: dict[str, Any]
    dialect: str


class TextOpaque(msgspec.Struct, frozen=True):
    """What the provider wants back with the text that is under way, unread; the text ends with it.

    Where no text is under way, it makes one without text.
    """

    opaque: dict[str, Any]
    dialect: str


class UsageReported(msgspec.Struct, frozen=True):
    """The tokens of the turn until now; a later report replaces it."""

    usage: Usage


class Finished(msgspec.Struct, frozen=True):
    """The end of the turn is declared; nothing is read after it. stop_word: the provider's own word for the reason."""

    stop_reason: StopReason
    stop_word: str | None = None


class Failed(msgspec.Struct, frozen=True):
    """The turn has failed: what came before counts, then the error is raised. Nothing is read after it.

    stop_word: the provider's own word for the reason to stop, if it gave one.
    """

    error: ModelError
    stop_word: str | None = None


Part = (
    TextDelta | RefusalDelta | ReasoningDelta | NextItem | TextOpaque | ReasoningOpaque | InputPart
    | ProviderTool | UnknownItem | UsageReported | Finished | Failed
)  # fmt: skip
