"""What a provider wants back unread, where the client holds the conversation: it comes back as it was, or not."""

import copy
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from streamkit import (
    Conversation,
    Flow,
    Pending,
    ReasoningDelta,
    RunEvent,
    Toolkit,
    TurnRequest,
    Value,
    converse,
    from_verdicts,
    tool,
    user,
)
from streamkit.errors import MessagesRefused
from streamkit.items import History, ToolCall, UnknownItem
from streamkit.parts import NextItem, ReasoningOpaque, TextOpaque
from streamkit.testing import ScriptedModel, call, check_history
from streamkit.testing.histories import check_items
from streamkit.wire.ai_sdk import AiSdkEncoder
from streamkit.wire.kept_turns import items_of, kept_turn
from streamkit.wire.seals import Seal
from streamkit.wire.ui_messages import from_ui_messages, to_ui_messages

from .runs import PARTS, Made, play
from .signed import SIGNED
from .ui_client import UiClient

SEAL = Seal(b"a secret of sixteen bytes")
SAID = {"id": "u1", "role": "user", "parts": [{"type": "text", "text": "go"}]}
Json = dict[str, Any]


@tool(approval=True)
async def send(to: str) -> str:
    """Must be allowed."""
    return f"sent to {to}"


class Server:
    """Answers requests, and keeps nothing but its secret. states: what its runs ended with."""

    def __init__(self, *turns: Any) -> None:
        self.model = ScriptedModel(*turns)
        self.states: list[Conversation] = []

    async def answer(self, *messages: Json) -> bytes:
        chat = from_ui_messages(list(messages), seal=SEAL, chat_id="chat")
        authorize = from_verdicts(chat.verdicts, chat.conversation if chat.conversation.turn else None)
        run: Flow[RunEvent, Conversation] = converse(self.model, Toolkit(send), chat.conversation, authorize=authorize)
        encoder = AiSdkEncoder(run_id=chat.message_id or "a1", known_calls=chat.known_calls, seal=SEAL, chat_id="chat")
        body = encoder.open()
        async with run.open() as events:
            async for event in events:
                body += encoder.event(event)
        self.states.append(events.value)
        return body + encoder.end(events.value)


async def asked_with(turn: list[Any]) -> tuple[Server, UiClient]:
    """A client that was asked, and says yes."""
    server = Server(turn, ["Done."])
    client = UiClient().read(await server.answer(SAID))
    client.answer(client.call("call_1")["approval"]["id"], approved=True)
    return server, client


def settled(state: Conversation) -> History:
    """The history with the result of the call that waits."""
    return state.settle([Value("call_1", "send", "sent to Ann", "sent to Ann")]).history


def kept_part_of(client: UiClient) -> Json:
    (part,) = (part for part in client.parts if part["type"] == "custom")
    return part


@pytest.mark.parametrize("dialect", list(SIGNED))
async def test_a_history_is_the_same_after_it_was_with_the_client(dialect: str) -> None:
    server, client = await asked_with(SIGNED[dialect])
    await server.answer(SAID, client.message)
    asked: TurnRequest = server.model.requests[-1]
    assert asked.history == settled(server.states[0])
    check_history(asked.history, dialect)


@pytest.mark.parametrize("dialect", list(SIGNED))
async def test_a_history_that_is_shown_again_is_the_same_when_it_comes_back(dialect: str) -> None:
    server, _ = await asked_with(SIGNED[dialect])
    waiting = server.states[0]
    messages = to_ui_messages(waiting, seal=SEAL, chat_id="chat")
    assert from_ui_messages(messages, seal=SEAL, chat_id="chat").conversation.turn == _without_answer(waiting)
    history = (*settled(waiting), user("And?"))
    messages = to_ui_messages(history, seal=SEAL, chat_id="chat")
    assert from_ui_messages(messages, seal=SEAL, chat_id="chat").conversation.history == history


def _without_answer(state: Conversation) -> Any:
    """The turn as one that comes from a client: who wrote it, and what it cost, is nobody's business."""
    assert state.turn is not None
    return type(state.turn)(state.turn.turn_id, items=state.turn.items, stop_reason="tool_calls")


@pytest.mark.parametrize("how", ["another secret", "another chat", "no seal", "changed", "nonsense", "no text"])
async def test_what_does_not_open_is_left_out(how: str) -> None:
    _, client = await asked_with(SIGNED["anthropic"])
    metadata = kept_part_of(client)["providerMetadata"]["streamkit"]
    if how in ("changed", "nonsense", "no text"):
        metadata["turn"] = {"changed": metadata["turn"][:-9] + "A" * 9, "nonsense": "é", "no text": 5}[how]
    seal = {"another secret": Seal(b"another secret of ours"), "no seal": None}.get(how, SEAL)
    chat_id = "other" if how == "another chat" else "chat"
    messages = [SAID, client.message, SAID]  # so that no question has to be signed for what is asked here
    history = from_ui_messages(messages, seal=seal, chat_id=chat_id).conversation.history
    assert not [item for item in history if getattr(item, "opaque", None) is not None]
    assert [item.call_id for item in history if isinstance(item, ToolCall)] == ["call_1"]
    check_history(history, "anthropic")


@pytest.mark.parametrize("change", ["gone", "named", "streaming", "more"])
async def test_a_turn_whose_calls_are_others_now_is_what_its_parts_say(change: str) -> None:
    _, client = await asked_with(SIGNED["gemini"])
    part = client.call("call_1")
    match change:
        case "gone":
            client.parts.remove(part)
        case "named":
            part["type"] = "tool-other"
        case "streaming":
            part["state"] = "input-streaming"
        case _:
            client.parts.append({**part, "toolCallId": "call_2"})
    history = from_ui_messages([SAID, client.message, SAID], seal=SEAL, chat_id="chat").conversation.history
    assert not [item for item in history if getattr(item, "opaque", None) is not None]
    check_history(history, "gemini")


async def test_a_kept_turn_of_another_question_does_not_run() -> None:
    """Whoever brings the question of one call with the turn of another has what was asked about run, or nothing."""
    _, client = await asked_with(
        [ReasoningOpaque({"s": 1}, "anthropic"), call("send", {"to": "Ann"}, call_id="call_1")]
    )
    _, other = await asked_with([ReasoningOpaque({"s": 1}, "anthropic"), call("send", {"to": "Eve"}, call_id="call_1")])
    client.parts[client.parts.index(kept_part_of(client))] = kept_part_of(other)
    chat = from_ui_messages([SAID, client.message], seal=SEAL, chat_id="chat")
    assert [waiting.arguments for waiting in chat.conversation.waiting.values()] == ['{"to":"Ann"}']


async def test_a_kept_turn_with_other_arguments_than_were_asked_about_is_refused() -> None:
    _, client = await asked_with(
        [ReasoningOpaque({"s": 1}, "anthropic"), call("send", {"to": "Ann"}, call_id="call_1")]
    )
    (asked,) = (item for item in _opened(client) if isinstance(item, ToolCall))
    changed = ToolCall("call_1", "send", '{"to":"Eve"}', asked.turn_id, asked.place, opaque={"gemini": {}})
    kept = kept_turn([changed], {}, SEAL, "chat", limit_bytes=10_000)
    kept_part_of(client)["providerMetadata"]["streamkit"]["turn"] = kept
    with pytest.raises(MessagesRefused, match="not the one"):
        from_ui_messages([SAID, client.message], seal=SEAL, chat_id="chat")


def _opened(client: UiClient) -> Any:
    return items_of(kept_part_of(client)["providerMetadata"]["streamkit"]["turn"], SEAL, "chat")


# Whatever a run was

OPAQUE = st.one_of(
    PARTS,
    st.sampled_from(
        (
            NextItem(),
            ReasoningOpaque({"signature": "sig"}, "anthropic"),
            ReasoningOpaque({"data": "sig"}, "anthropic"),
            ReasoningDelta("Hm."),
            TextOpaque({"thoughtSignature": "sig"}, "gemini"),
            ReasoningOpaque({"type": "reasoning", "summary": [], "encrypted_content": "x"}, "openai_responses"),
            UnknownItem({"type": "new"}, "openai_responses"),
        )
    ),
)
RUNS = st.builds(Made, st.lists(st.lists(OPAQUE, max_size=6), min_size=1, max_size=3))


@settings(max_examples=150)
@given(made=RUNS)
def test_a_client_brings_back_what_was_signed_in_any_run(made: Made) -> None:
    recorded = play(made)
    client = UiClient().read(recorded.encode(AiSdkEncoder(run_id="a1", seal=SEAL, chat_id="chat")))
    before = copy.deepcopy(client.message)
    chat = from_ui_messages([SAID, client.message, SAID], seal=SEAL, chat_id="chat")
    assert client.message == before
    check_items(chat.conversation.history)
    if recorded.state is not None:
        left = recorded.state.turn.items if recorded.state.turn is not None else ()
        assert signed_in(chat.conversation.history) == signed_in((*recorded.state.history, *left))


@settings(max_examples=50)
@given(made=RUNS)
def test_any_conversation_that_is_shown_comes_back_as_it_was(made: Made) -> None:
    state = play(made).state
    if state is None:
        return
    messages = to_ui_messages(state, seal=SEAL, chat_id="chat")
    chat = from_ui_messages([*messages, SAID], seal=SEAL, chat_id="chat")
    left = state.turn.items if state.turn is not None else ()
    assert signed_in(chat.conversation.history) == signed_in((*state.history, *left))
    if state.turn is not None and any(isinstance(result, Pending) for result in state.results):
        waiting = from_ui_messages(messages, seal=SEAL, chat_id="chat").conversation.waiting
        assert waiting.keys() == state.waiting.keys()


def signed_in(history: Any) -> list[Any]:
    """What goes back unread of a history."""
    opaque = [item.item if isinstance(item, UnknownItem) else getattr(item, "opaque", None) for item in history]
    return [each for each in opaque if each is not None]
