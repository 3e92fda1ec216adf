"""`answer`: what a model says, as a value of a type instead of text.

The type becomes a JSON Schema that the model is asked to keep to; how, or whether at all, is for its dialect. The
answer is the text of the turn: JSON and nothing else, or one fence of Markdown around it, as small models write it.
Prose beside it is not taken, since what belongs to the answer would be a guess.

What is no object in JSON, such as a list, stands in the one field `value` of an object, since providers want an object
on top. A model that leaves the object away is understood.
"""

from __future__ import annotations

import json
import re
from typing import Any, TypeVar, overload

import msgspec

from .errors import AnswerError, CutAnswer, DefinitionError, InvalidAnswer, InvalidInput, NoAnswer, Refused
from .flows.flow import Flow, Sink
from .flows.sinks import MappedSink
from .items import History, Message, StopReason, ToolCall, user
from .providers.model import Model, check_model_given, check_request_given
from .shapes.mismatch import ANSWER, excerpt
from .shapes.shape import Shape, shape_of
from .tools.arguments import parse, read_tree
from .turns import TextDelta, Turn, TurnEvent, TurnRequest

T = TypeVar("T")

_MOST_PAUSES = 16
_WRAPPED = "value"
_FENCE = "```"
_OPENING_OF_FENCE = re.compile(r"```[\w+#.-]*\s*")
_CUT: dict[StopReason, str] = {
    "length": "at the token limit",
    "content_filter": "by the filter of the provider",
    "cancelled": "since the turn was cancelled",
    "error": "since the turn failed",
    "unknown": "for a reason that is not known",
    "pause": f"after {_MOST_PAUSES} pauses",
}


@overload
def answer(model: Model, request: TurnRequest, type: type[T], *, max_repairs: int = 1) -> Flow[TurnEvent, T]: ...
@overload
def answer(model: Model, request: TurnRequest, type: Any, *, max_repairs: int = 1) -> Flow[TurnEvent, Any]: ...
def answer(model: Model, request: TurnRequest, type: Any, *, max_repairs: int = 1) -> Flow[TurnEvent, Any]:
    """Ask for a value of a type: any type that msgspec knows, a pydantic model, or a JSON Schema of an object.

    Fields that do not fit are repaired as arguments of tools are (see `coercion`). max_repairs: how often the model is
    told what is wrong with its answer and asked again. It is asked again only if nobody can have seen text of the
    answer: under `await`, but not once text has gone to an opened or tapped flow, which cannot take it back.
    The model is told of the tools of the request, because its history may have calls of them, but may not call any.

    Raises DefinitionError at once for a type that JSON Schema cannot describe. The flow raises an AnswerError with the
    last turn: InvalidAnswer, or NoAnswer, Refused or CutAnswer, after which the model is not asked again.
    """
    check_model_given(model)
    check_request_given(request)
    if max_repairs < 0:
        raise ValueError(f"max_repairs must not be negative, but is {max_repairs}")
    wanted = _Wanted(type)
    choice = "none" if request.tools else request.tool_choice
    asked = msgspec.structs.replace(request, output=wanted.schema, tool_choice=choice)
    return Flow(lambda out: _answer(out, model, asked, wanted, max_repairs))


async def _answer(out: Sink[TurnEvent], model: Model, request: TurnRequest, wanted: _Wanted, max_repairs: int) -> Any:
    shown, watched = False, out.watched

    def note(event: TurnEvent) -> TurnEvent:
        nonlocal shown
        shown = shown or (watched and type(event) is TextDelta)
        return event

    noting: Sink[TurnEvent] = MappedSink(out, note)
    repairs = pauses = 0
    while True:
        turn = await noting.forward(model.stream_turn(request))
        if turn.stop_reason == "pause" and pauses < _MOST_PAUSES:
            pauses += 1
            request = _asked_on(request, turn)
            continue
        _check_answered(turn)
        try:
            return wanted.read(turn)
        except InvalidInput as error:
            if shown or repairs == max_repairs:
                raise InvalidAnswer(str(error), turn=turn) from error
            repairs += 1
            request = _asked_on(request, turn, user(wanted.repair(error)))


def _asked_on(request: TurnRequest, turn: Turn, *items: Message) -> TurnRequest:
    """The request that follows. Calls are left out: they were discarded, and nobody answers them."""
    said: History = tuple(item for item in turn.items if type(item) is not ToolCall)
    return msgspec.structs.replace(request, history=request.history + said + items)


def _check_answered(turn: Turn) -> None:
    """Raise where the turn cannot be an answer, whatever its text is."""
    error: AnswerError | None = None
    called = [call.name for call in (*turn.calls, *turn.dropped)]
    if turn.refusal or turn.stop_reason == "refusal":
        error = Refused(f"the model refused: {excerpt(turn.refusal or turn.text)}", turn=turn)
    elif called and turn.stop_reason in ("tool_calls", "unknown", "stop"):
        error = NoAnswer(f"the model called {', '.join(called)} instead of answering", turn=turn)
    elif turn.stop_reason in _CUT:
        error = CutAnswer(f"the answer was cut off {_CUT[turn.stop_reason]}", turn=turn)
    elif not turn.text.strip():
        error = NoAnswer("the model answered without any text", turn=turn)
    if error is not None:
        raise error


class _Wanted:
    """What is asked for. schema: that a model is told."""

    def __init__(self, kind: Any) -> None:
        self._shape = _shape(kind)
        self._wraps = self._shape.schema.get("type") != "object"
        if self._wraps:
            self._shape = _shape(msgspec.defstruct("answer", [(_WRAPPED, kind)], forbid_unknown_fields=True))
        self.schema = self._shape.schema
        if isinstance(kind, type) and not self._wraps:
            self.schema = {"title": kind.__name__, **self.schema}

    def read(self, turn: Turn) -> Any:
        """The value that the turn says. Raises InvalidInput with what is wrong."""
        texts = [item.text for item in turn.items if isinstance(item, Message) and item.text.strip()]
        try:
            try:
                tree = parse(_without_fence("".join(texts)), ANSWER)
            except InvalidInput:
                if len(texts) < 2:
                    raise
                tree = parse(_without_fence(texts[-1]), ANSWER)  # what was said before something else, such as a search
            return self._value(tree)
        except RecursionError:
            raise InvalidInput("the answer is nested too deeply") from None

    def _value(self, tree: Any) -> Any:
        if not self._wraps:
            return read_tree(self._shape, tree, subject=ANSWER)
        is_wrapped = isinstance(tree, dict) and tree.keys() == {_WRAPPED}
        return read_tree(self._shape, tree if is_wrapped else {_WRAPPED: tree}, subject=ANSWER).value

    def repair(self, error: InvalidInput) -> str:
        schema = json.dumps(self.schema, ensure_ascii=False)
        return (
            f"That answer cannot be used: {error}\nAnswer again, with JSON alone that fits this JSON Schema: {schema}"
        )


def _shape(kind: Any) -> Shape:
    try:
        return shape_of(kind)
    except (DefinitionError, ImportError):
        raise
    except Exception as error:
        raise DefinitionError(f"an answer of type {kind!r} cannot be described to a model ({error})") from error


def _without_fence(text: str) -> str:
    opening, line_end, rest = text.strip().partition("\n")
    is_fenced = line_end and rest.endswith(_FENCE) and _OPENING_OF_FENCE.fullmatch(opening)
    return rest.removesuffix(_FENCE) if is_fenced else text
