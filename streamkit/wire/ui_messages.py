"""The messages of an AI SDK client as our history, and back.

`useChat` sends the whole conversation with each request, as its screen has it. So a server that keeps nothing between
two requests can answer it:

    chat = from_ui_messages(body["messages"])
    run = converse(model, toolkit, chat.conversation, authorize=from_verdicts(chat.verdicts))
    encoder = AiSdkEncoder(run_id=chat.message_id or run_id, known_calls=chat.known_calls)

What a client says is not believed: a history can be made up. What must not be made up is a call that runs because
somebody approved it: a `Seal`, given here and to the encoder, signs what is asked, and refuses anything else.
"""

from __future__ import annotations

import base64
from collections.abc import Collection, Iterable, Iterator, Sequence
from typing import Any, NamedTuple

import msgspec

from ..approval import Verdict
from ..errors import MessagesRefused
from ..history import Conversation, append_turn
from ..items import History, Image, Item, Message, ProviderTool, Reasoning, ToolCall, ToolOutput
from ..tool_events import Failure, Pending, ToolResult, Value
from .ai_sdk_seals import Asked, sealed
from .seals import Seal
from .ui_parts import UiMessage, messages_in, said_by_person, steps_of
from .ui_turns import StepTaken


class UiChat(NamedTuple):
    """What a client sent.

    conversation: to go on with; where calls of it wait, verdicts has what the person decided, by execution id.
    message_id: of the message that goes on, None where a new one begins. parts: of it, as they came.
    known_calls: the ids that the client knows.
    """

    conversation: Conversation
    verdicts: dict[str, Verdict]
    message_id: str | None
    known_calls: frozenset[str]
    parts: tuple[dict[str, Any], ...] = ()


def from_ui_messages(messages: object, *, seal: Seal | None = None, chat_id: str = "") -> UiChat:
    """The conversation that the `messages` of a request hold, as decoded JSON.

    Calls whose approval was asked for in the last step wait in the conversation, which goes on with them. A call that
    the client has answered has the value that it gave. All others without a result are answered as cut off. Reasoning
    comes back without what its provider signed, and values as far as they had gone out.

    seal, chat_id: as for the encoder: a call that was not asked about in this chat is refused then, or was changed
    since. Without a seal, whoever may start a run can have any tool run that waits for approvals, with any arguments.

    Raises MessagesRefused for what is no conversation, or leaves nothing to answer.
    """
    read = messages_in(messages)
    last = read[-1]
    history: History = ()
    state = Conversation()
    verdicts: dict[str, Verdict] = {}
    for message in read:
        if message.role == "user":
            history = (*history, said_by_person(message))
            continue
        steps = list(steps_of(message))
        for number, parts in enumerate(steps, 1):
            step = StepTaken(f"{message.id}-{number}", parts, is_last=message is last and number == len(steps))
            if step.waiting:
                verdicts = step.verdicts(seal, chat_id)
                state = Conversation(history, step.turn, tuple(step.results), ended="pending")
            else:
                history = append_turn(history, step.turn, step.results)
    if state.turn is None:
        _check_answerable(history)
        state = Conversation(history)
    if last.role == "user":
        return UiChat(state, verdicts, None, _ids_in(read))
    return UiChat(state, verdicts, last.id, _ids_in(read), _parts_as_they_came(messages))


def _parts_as_they_came(messages: Any) -> tuple[dict[str, Any], ...]:
    """Of the last one of messages that were read."""
    return tuple(messages[-1]["parts"])


def _check_answerable(history: History) -> None:
    last = history[-1] if history else None
    if not (isinstance(last, ToolOutput) or (isinstance(last, Message) and last.role == "user")):
        raise MessagesRefused("there is nothing to answer: the assistant has said the last word")


def _ids_in(messages: Iterable[UiMessage]) -> frozenset[str]:
    ids = ((part.tool_call_id, part.id) for message in messages for part in message.parts)
    return frozenset(each for both in ids for each in both if each)


def to_ui_messages(
    state: Conversation | Iterable[Item],
    *,
    client_tools: Collection[str] = (),
    seal: Seal | None = None,
    chat_id: str = "",
) -> list[dict[str, Any]]:
    """The messages that show a history, or a conversation with calls that wait: for a client that opens an old chat.

    The ids of messages say their place, so they stay as the history grows. client_tools: the names of the tools that
    the client answers: nobody is asked about their calls. seal, chat_id: as for `from_ui_messages`.
    """
    conversation = state if isinstance(state, Conversation) else Conversation(tuple(state))
    messages: list[dict[str, Any]] = []
    for items in _messages_of(conversation.history):
        first = items[0]
        if isinstance(first, Message) and first.role == "user":
            messages.append(_message(messages, "user", _person_parts(first)))
        else:
            messages.append(_message(messages, "assistant", _assistant_parts(items)))
    if conversation.turn is not None:
        if not messages or messages[-1]["role"] == "user":
            messages.append(_message(messages, "assistant", []))
        waiting = _Waiting(conversation, client_tools, seal, chat_id)
        messages[-1]["parts"] += [{"type": "step-start"}, *waiting.parts()]
    return messages


def _message(before: Sequence[object], role: str, parts: Iterable[dict[str, Any]]) -> dict[str, Any]:
    return {"id": f"message-{len(before) + 1}", "role": role, "parts": list(parts)}


def _messages_of(history: History) -> Iterator[list[Item]]:
    """Each message of the person alone, and all that the model said and did until the next one."""
    items: list[Item] = []
    for item in history:
        is_person = isinstance(item, Message) and item.role == "user"
        if items and is_person:
            yield items
            items = []
        if is_person:
            yield [item]
        else:
            items.append(item)
    if items:
        yield items


def _person_parts(message: Message) -> Iterator[dict[str, Any]]:
    for picture in message.images:
        yield {"type": "file", "mediaType": picture.media_type or "image", "url": _url_of(picture)}
    if message.text:
        yield {"type": "text", "text": message.text}


def _url_of(picture: Image) -> str:
    return picture.url or f"data:{picture.media_type};base64,{base64.b64encode(picture.data).decode()}"


def _assistant_parts(items: Sequence[Item]) -> Iterator[dict[str, Any]]:
    """A step is what the model said, up to and with the results of its calls."""
    outputs = {item.call_id: item for item in items if isinstance(item, ToolOutput)}
    begins = True
    for item in items:
        if isinstance(item, ToolOutput):
            begins = True
            continue
        if begins:
            yield {"type": "step-start"}
            begins = False
        yield from _parts_of(item, outputs)


def _parts_of(item: Item, outputs: dict[str, ToolOutput]) -> Iterator[dict[str, Any]]:
    match item:
        case Message(text=text) | Reasoning(text=text) if text:
            yield {"type": "text" if isinstance(item, Message) else "reasoning", "text": text, "state": "done"}
        case ToolCall():
            yield _call_part(item) | _output_of(outputs.get(item.call_id))
        case ProviderTool(call_id=call_id, name=name, input=given, output=output) if output is not None:
            shown = {"toolCallId": call_id or name, "toolName": name, "input": given, "output": output}
            yield {"type": "dynamic-tool", "state": "output-available", "providerExecuted": True} | shown


def _call_part(call: ToolCall) -> dict[str, Any]:
    part = {"type": "dynamic-tool", "toolCallId": call.call_id, "toolName": call.name or "unnamed"}
    return part | {"input": call.arguments if call.custom else _value_of(call.arguments)}


def _output_of(output: ToolOutput | None) -> dict[str, Any]:
    if output is None:
        return {"state": "input-available"}
    if output.failed:
        return {"state": "output-error", "errorText": output.text}
    if output.images:
        shown = [msgspec.to_builtins(picture) for picture in output.images]
        return {"state": "output-available", "output": [*shown, *([output.text] if output.text else [])]}
    return {"state": "output-available", "output": _value_of(output.text)}


def _value_of(text: str) -> Any:
    """What a text says that is an object or a list as JSON; any other text is only itself."""
    if text[:1] not in ("{", "["):
        return text
    try:
        return msgspec.json.decode(text)
    except (msgspec.DecodeError, RecursionError, UnicodeEncodeError):
        return text


class _Waiting:
    """The unsettled turn of a conversation, as a step of its last message."""

    def __init__(
        self, conversation: Conversation, client_tools: Collection[str], seal: Seal | None, chat_id: str
    ) -> None:
        self._turn = conversation.turn
        self._execution_ids = {call.call_id: execution_id for execution_id, call in conversation.waiting.items()}
        self._results = {result.call_id: result for result in conversation.results}
        self._client_tools = client_tools
        self._seal = seal
        self._chat_id = chat_id

    def parts(self) -> Iterator[dict[str, Any]]:
        for item in self._turn.items if self._turn is not None else ():
            if isinstance(item, ToolCall):
                yield _call_part(item) | self._state_of(item)
            else:
                yield from _parts_of(item, {})

    def _state_of(self, call: ToolCall) -> dict[str, Any]:
        execution_id = self._execution_ids.get(call.call_id)
        if execution_id is None:
            return _result_of(self._results.get(call.call_id), call)
        if call.name in self._client_tools:
            return {"state": "input-available"}
        approval = {"id": execution_id}
        if self._seal is not None:
            asked = Asked(execution_id, call.call_id, call.name, _call_part(call)["input"])
            approval["signature"] = sealed(self._seal, self._chat_id, asked)
        return {"state": "approval-requested", "approval": approval}


def _result_of(result: ToolResult | None, call: ToolCall) -> dict[str, Any]:
    match result:
        case Value(value=value):
            return {"state": "output-available", "output": msgspec.to_builtins(value, enc_hook=repr, str_keys=True)}
        case Failure(message=message):
            return {"state": "output-error", "errorText": message}
        case Pending() | None:
            return {"state": "output-error", "errorText": f"the call was {call.abandoned or 'left'}"}
