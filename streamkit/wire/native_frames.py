"""The frames of the native protocol: what each server-sent event of a run holds.

A frame is one JSON object with its `type`, which is the name of its record here (`ToolCallStart`: `tool-call-start`),
and fields in camelCase; those with a default are left out where they have it. `id` names a part (text, reasoning, a
call). Whoever reads frames skips those of a type, and fields, that it does not know: there may be more of them later.

The ids of calls are unique in a response: where a provider gives `c` again, it is `c~2` here. A value that is longer
than the encoder's limit goes out as `{"truncated": true, "bytes": …, "head": "…"}`, half a character as U+FFFD.
"""

from __future__ import annotations

from typing import Any

import msgspec

from ..items import Usage, snake_case

PROTOCOL = "streamkit.1"


def _kebab_case(name: str) -> str:
    return snake_case(name).replace("_", "-")


class Frame(
    msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, rename="camel", tag_field="type", tag=_kebab_case
):
    """path: the ids of the calls around it, outermost first; empty in the outer run."""

    path: tuple[str, ...] = ()


class Start(Frame, frozen=True):
    """The first frame."""

    message_id: str
    protocol: str


class TurnStart(Frame, frozen=True):
    """The model begins a turn. id: of the turn."""

    id: str
    model: str


class TextStart(Frame, frozen=True):
    """A text of the model begins."""

    id: str


class TextDelta(Frame, frozen=True):
    """The next piece of a text."""

    id: str
    delta: str


class TextEnd(Frame, frozen=True):
    """A text is whole, or was cut."""

    id: str


class ReasoningStart(Frame, frozen=True):
    """Reasoning of the model begins. kind: trace or summary."""

    id: str
    kind: str


class ReasoningDelta(Frame, frozen=True):
    """The next piece of what the model thinks."""

    id: str
    delta: str


class ReasoningEnd(Frame, frozen=True):
    """The reasoning is whole, or was cut."""

    id: str


class RefusalStart(Frame, frozen=True):
    """What the model says instead of an answer begins."""

    id: str


class RefusalDelta(Frame, frozen=True):
    """The next piece of a refusal."""

    id: str
    delta: str


class RefusalEnd(Frame, frozen=True):
    """A refusal is whole, or was cut."""

    id: str


class ToolCallStart(Frame, frozen=True):
    """The model begins to write a call. id: of the call, in all frames about it."""

    id: str
    tool_name: str


class ToolCallDelta(Frame, frozen=True):
    """The next piece of the arguments: text, not JSON by itself."""

    id: str
    args_text_delta: str


class ToolCallEnd(Frame, frozen=True):
    """The model has written a call. args_text: its arguments, if the deltas do not join to them.

    dropped: the call goes nowhere, for this reason.
    """

    id: str
    args_text: str | None = None
    dropped: bool = False
    reason: str = ""
    detail: str = ""


class ToolField(Frame, frozen=True):
    """The next piece of one field of the arguments. field: keys and places from the top."""

    id: str
    field: tuple[str | int, ...]
    text: str


class ApprovalRequest(Frame, frozen=True):
    """Somebody has to decide about a call. execution_id: names it in the verdict. card: see `Card`."""

    id: str
    execution_id: str
    tool_name: str
    args: Any
    card: Any


class ToolStart(Frame, frozen=True):
    """A call runs now, with these arguments. attempt: 1, or more if it runs again."""

    id: str
    execution_id: str
    tool_name: str
    args: Any
    attempt: int


class ToolProgress(Frame, frozen=True):
    """What a running call shows of its work."""

    id: str
    data: Any


class CallError(msgspec.Struct, frozen=True, omit_defaults=True):
    """Why a call failed; see `Failure`."""

    kind: str
    message: str
    partial: Any = None


class Tokens(msgspec.Struct, frozen=True, rename="camel"):
    """The fields of `Usage`."""

    input_tokens: int = 0
    output_tokens: int = 0
    cached_tokens: int = 0
    reasoning_tokens: int = 0


class ToolResult(Frame, frozen=True):
    """What became of a call: it has a result, or an error, or is dropped: it never ran, and reason says why.

    result: the value; an empty text if there is none. text: what the model reads of it. id: of this frame alone.
    usage: of the runs inside the call.
    """

    id: str
    tool_call_id: str
    tool_name: str
    result: Any
    text: str | None = None
    seconds: float | None = None
    error: CallError | None = None
    dropped: bool = False
    reason: str = ""
    detail: str = ""
    usage: Tokens | None = None


class ProviderTool(Frame, frozen=True):
    """A tool that the provider runs itself; sent twice, under one id, if the output comes later."""

    id: str
    tool_name: str
    input: Any
    output: Any
    kind: str = ""


class Unknown(Frame, frozen=True):
    """What the provider sent that nobody here knows."""

    item: Any
    dialect: str | None = None


class TurnRestart(Frame, frozen=True):
    """Drop what this turn has shown."""

    reason: str


class TurnEnd(Frame, frozen=True):
    """A turn has ended. id: of the turn. stop_word: the provider's own word for the reason."""

    id: str
    stop_reason: str
    stop_word: str | None
    usage: Tokens


class Error(Frame, frozen=True):
    """The last frame of a run that failed. code: which error, in one word."""

    message: str
    code: str


class Stopped(Frame, frozen=True):
    """The last frame of a run that somebody stopped."""

    reason: str


class Finish(Frame, frozen=True):
    """The last frame of a run that ended. All but the first are those of a `Conversation`.

    pending: the execution ids of the calls that wait for a verdict.
    """

    message_id: str
    ended: str | None = None
    turns: int | None = None
    usage: Tokens | None = None
    pending: tuple[str, ...] | None = None


def tokens(usage: Usage) -> Tokens:
    return Tokens(*msgspec.structs.astuple(usage))


def usage(tokens: Tokens) -> Usage:
    return Usage(*msgspec.structs.astuple(tokens))


AnyFrame = (
    Start | TurnStart | TextStart | TextDelta | TextEnd | ReasoningStart | ReasoningDelta | ReasoningEnd | RefusalStart
    | RefusalDelta | RefusalEnd | ToolCallStart | ToolCallDelta | ToolCallEnd | ToolField | ApprovalRequest | ToolStart
    | ToolProgress | ToolResult | ProviderTool | Unknown | TurnRestart | TurnEnd | Error | Stopped | Finish
)  # fmt: skip
