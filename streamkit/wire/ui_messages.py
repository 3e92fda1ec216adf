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

from collections.abc import Collection, Iterable, Iterator, Sequence
from typing import Any, NamedTuple

from ..conversation import Conversation
from ..errors import MessagesRefused
from ..execution.approval import Verdict
from ..history import append_turn
from ..items import History, Item, Message, ToolOutput
from .kept_turns import items_of
from .seals import Seal
from .ui_parts import UiMessage, messages_in, said_by_person, steps_of
from .ui_shown import ShownParts, parts_of_person
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
    the client has answered has the value that it gave. All others without a result are answered as cut off. Values come
    back as far as they had gone out.

    seal, chat_id: as for the encoder: a call that was not asked about in this chat is refused then, or was changed
    since; and turns that the client has kept are what they were, with what their provider wants back unread. Without a
    seal, whoever may start a run can have any tool run that waits for approvals, with any arguments. That an approval
    which comes a second time runs nothing a second time is for whoever starts the run to see to; `web.app` does.

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
        for number, (parts, closed) in enumerate(steps, 1):
            kept = None if seal is None or closed is None else items_of(closed, seal, chat_id)
            is_last = message is last and number == len(steps)
            step = StepTaken(f"{message.id}-{number}", parts, is_last=is_last, kept=kept)
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
    dynamic: bool = False,
    seal: Seal | None = None,
    chat_id: str = "",
) -> list[dict[str, Any]]:
    """The messages that show a history, or a conversation with calls that wait: for a client that opens an old chat.

    The ids of messages say their place, so they stay as the history grows. client_tools: the names of the tools that
    the client answers: nobody is asked about their calls. dynamic, seal, chat_id: as for the encoder.
    """
    conversation = state if isinstance(state, Conversation) else Conversation(tuple(state))
    shown = ShownParts(client_tools, dynamic=dynamic, seal=seal, chat_id=chat_id)
    messages: list[dict[str, Any]] = []
    for items in _messages_of(conversation.history):
        first = items[0]
        if isinstance(first, Message) and first.role == "user":
            messages.append(_message(messages, "user", parts_of_person(first)))
        else:
            messages.append(_message(messages, "assistant", shown.of_history(items)))
    if conversation.turn is not None:
        if not messages or messages[-1]["role"] == "user":
            messages.append(_message(messages, "assistant", []))
        messages[-1]["parts"] += shown.of_unsettled(conversation, conversation.turn)
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
