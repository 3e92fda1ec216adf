"""The messages of an AG-UI client as a history of ours.

They are what the client says, and no evidence of anything. What comes out is a history that every provider takes,
whatever came in: calls and results pair up, arguments are objects, nothing of the model is blank. Messages of
sub-agents and activities belong to the screen, not to the conversation.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Callable, Iterator, Sequence

import msgspec

from ..codec.json_object import nests_deeper_than, object_text
from ..errors import MessagesRefused
from ..items import History, Image, Item, Message, ToolCall, ToolOutput, TurnItem, image
from ..tools.coercion import MAX_NESTING
from ..turns import Turn
from .ag_ui_records import Called, ContentPart, Said

NO_RESULT = "This call has no result: it was cut off, or the person went on without it. It may have happened."


Keeping = Callable[[str], tuple[TurnItem, ...] | None]
"""The items of a turn that the client has kept for us."""


class ModelTurn:
    """What the model said up to the results of its calls. answers: by call id."""

    def __init__(self, turn_id: str) -> None:
        self.turn_id = turn_id
        self.items: list[TurnItem] = []
        self.answers: dict[str, ToolOutput] = {}
        self._told_ids: dict[str, str] = {}  # of the calls, as the client knows them
        self._is_kept = False

    @property
    def calls(self) -> list[ToolCall]:
        return [item for item in self.items if isinstance(item, ToolCall)]

    @property
    def is_open(self) -> bool:
        return len(self.answers) < len(self.calls)

    def add(self, message: Said, taken: set[str], kept: tuple[TurnItem, ...] | None) -> None:
        """Another message of the turn. kept: all of the turn, so that the other messages say nothing new."""
        if kept is not None and not self.items:
            self._is_kept = True
            self.items = [self._placed(item, taken) if isinstance(item, ToolCall) else item for item in kept]
        if self._is_kept:
            return
        text = message.content
        if isinstance(text, str) and text.strip() and not message.ours.get("refusal"):
            self.items.append(Message("assistant", text))
        for called in message.tool_calls or ():
            call_id = _free(called.id, taken)
            self._told_ids[call_id] = called.id
            place = len(self.calls)
            self.items.append(ToolCall(call_id, _name(called), _arguments(called), self.turn_id, place))

    def _placed(self, call: ToolCall, taken: set[str]) -> ToolCall:
        call_id = _free(call.call_id, taken)
        self._told_ids[call_id] = call.call_id
        return msgspec.structs.replace(call, call_id=call_id)

    def answer(self, message: Said) -> bool:
        """Whether it is the result of one of the calls."""
        open_calls = (call for call in self.calls if call.call_id not in self.answers)
        call = next((call for call in open_calls if self._told_ids[call.call_id] == message.tool_call_id), None)
        if call is None:
            return False
        text, images = _content(message)
        failed = message.error is not None or "error" in message.ours or message.ours.get("dropped") is True
        self.answers[call.call_id] = ToolOutput(call.call_id, call.name, text or message.error or "", failed, images)
        return True

    def settled(self) -> Iterator[Item]:
        yield from self.items
        for call in self.calls:
            yield self.answers.get(call.call_id) or ToolOutput(call.call_id, call.name, NO_RESULT, failed=True)

    def as_turn(self) -> Turn:
        return Turn(self.turn_id, items=tuple(self.items), stop_reason="tool_calls")


def read_messages(messages: Sequence[Said], keeping: Keeping) -> tuple[History, ModelTurn | None]:
    """The history, and behind it the last turn where calls of it have no result and nothing was said since.

    Raises MessagesRefused for what no model can read, such as a film.
    """
    groups: list[Message | ModelTurn] = []
    taken: set[str] = set()
    for message in messages:
        if message.subagent_run_id is not None:
            continue
        match message.role:
            case "user":
                text, images = _content(message)
                if text.strip() or images:
                    groups.append(Message("user", text, images))
            case "assistant":
                kept = None if message.encrypted_value is None else keeping(message.encrypted_value)
                _turn_of(message, groups).add(message, taken, kept)
            case "tool":
                turns = (group for group in reversed(groups) if isinstance(group, ModelTurn))
                any(turn.answer(message) for turn in turns)  # the result of no call is of no use
    last = groups[-1] if groups else None
    waiting = last if isinstance(last, ModelTurn) and last.is_open else None
    history: list[Item] = []
    for group in groups[:-1] if waiting is not None else groups:
        history.extend((group,) if isinstance(group, Message) else group.settled())
    return tuple(history), waiting


def _turn_of(message: Said, groups: list[Message | ModelTurn]) -> ModelTurn:
    """The turn that a message belongs to: messages of one turn of ours have its id, and maybe a number behind it."""
    turn_id = message.id.partition("~")[0]
    last = groups[-1] if groups else None
    if isinstance(last, ModelTurn) and (last.turn_id == turn_id or not last.calls):
        return last
    turn = ModelTurn(turn_id)
    groups.append(turn)
    return turn


def _free(call_id: str, taken: set[str]) -> str:
    """An id that no call before has; a client may bring messages of others, who count anew in each run."""
    if not call_id:
        raise MessagesRefused("a call has an empty id")
    free, number = call_id, 1
    while free in taken:
        number += 1
        free = f"{call_id}~{number}"
    taken.add(free)
    return free


def _name(called: Called) -> str:
    return called.function.name or "unnamed"


def _arguments(called: Called) -> str:
    """The text of one object; a call whose arguments are none did not run, and is told without them."""
    told = called.ours.get("arguments")
    written, problem = object_text(told if isinstance(told, str) else called.function.arguments)
    return "{}" if problem is not None or nests_deeper_than(MAX_NESTING, written) else written


def _content(message: Said) -> tuple[str, tuple[Image, ...]]:
    """The text of a message, and its images."""
    if not isinstance(message.content, list):
        return (message.content if isinstance(message.content, str) else ""), ()
    texts = [part.text for part in message.content if part.type == "text" and part.text]
    images = [_image(part, message) for part in message.content if part.type != "text"]
    return "\n".join(texts), tuple(images)


def _image(part: ContentPart, message: Said) -> Image:
    source = part.source
    if part.type != "image" or source is None or source.type not in ("data", "url"):
        raise MessagesRefused(f"message {message.id[:100]!r} holds what cannot be read: only text and images can")
    try:
        return image(source.value) if source.type == "url" else image(_data_of(source.value), source.mime_type)
    except ValueError as error:
        raise MessagesRefused(f"an image of message {message.id[:100]!r} cannot be read: {error}") from error


def _data_of(encoded: str) -> bytes:
    try:
        return base64.b64decode(encoded.encode("ascii"), validate=True)
    except (binascii.Error, UnicodeEncodeError):
        raise ValueError("its data is not base64") from None
