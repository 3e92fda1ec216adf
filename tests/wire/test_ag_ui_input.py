"""What an AG-UI client sends: a history that all providers take, whatever it is, and no call that nobody asked for."""

import json
from typing import Any

import anyio
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from streamkit import (
    Allow,
    Conversation,
    Deny,
    Message,
    ReasoningDelta,
    Tool,
    ToolCall,
    Toolkit,
    ToolOutput,
    converse,
    tool,
)
from streamkit.errors import MessagesRefused, VerdictRefused
from streamkit.history import cancel_pending
from streamkit.items import Reasoning
from streamkit.parts import ReasoningOpaque
from streamkit.testing import ScriptedModel, call, check_history
from streamkit.wire.ag_ui_input import AgUiInput, from_run_input
from streamkit.wire.seals import Seal

from .ag_ui_order import Client

DIALECTS = ("openai-chat", "openai-responses", "anthropic", "gemini", "ollama")
SEAL = Seal(b"0123456789abcdef")
PICK = {
    "name": "pick",
    "description": "Picks.",
    "parameters": {"type": "object", "properties": {"n": {"type": "integer"}}},
}


def said(role: str, content: Any = "Hi", **fields: Any) -> dict[str, Any]:
    return {"id": fields.pop("id", "m"), "role": role, "content": content, **fields}


def calling(*names: str, id: str = "turn_1") -> dict[str, Any]:
    calls = [{"id": name, "type": "function", "function": {"name": name, "arguments": "{}"}} for name in names]
    return {"id": id, "role": "assistant", "toolCalls": calls}


def result(name: str, content: Any = "done", **fields: Any) -> dict[str, Any]:
    return {"id": f"r-{name}", "role": "tool", "toolCallId": name, "content": content, **fields}


def read(*messages: Any, seal: Seal | None = None, **fields: Any) -> AgUiInput:
    return from_run_input({"threadId": "t", "runId": "r", "messages": [*messages], **fields}, seal=seal)


# Histories

MESSAGE = st.one_of(
    st.builds(
        said,
        st.sampled_from(("user", "assistant")),
        st.sampled_from(("Hi", "", " \n", None, [{"type": "text", "text": "a"}])),
    ),
    st.builds(
        lambda names, id: calling(*names, id=id),
        st.lists(st.sampled_from(("a", "b", "pick", "")), min_size=1, max_size=3),
        st.sampled_from(("turn_1", "turn_1~2", "turn_2")),
    ),
    st.builds(result, st.sampled_from(("a", "b", "pick", "nobody")), st.sampled_from(("", "done"))),
    st.builds(said, st.sampled_from(("reasoning", "system", "activity", "developer", "odd")), st.just("x")),
    st.just(said("assistant", "inner", subagentRunId="a")),
)


@settings(max_examples=300, deadline=None)
@given(messages=st.lists(MESSAGE, max_size=8), tools=st.sampled_from(([], [PICK])))
def test_whatever_comes_is_refused_or_a_history_that_all_take(messages: list[Any], tools: list[Any]) -> None:
    try:
        conversation = read(*messages, tools=tools).conversation
    except MessagesRefused:
        return
    if conversation.turn is not None:
        assert conversation.waiting
        assert len(conversation.results) == len(conversation.turn.calls)
        items = (*conversation.history, *conversation.turn.items)
        for dialect in DIALECTS:
            check_history(cancel_pending(items, "later"), dialect)
    for dialect in DIALECTS:
        check_history(conversation.history, dialect)


def test_a_conversation_comes_back_as_it_was() -> None:
    first = calling("a", "b")
    first["content"] = "Let me see."
    got = read(
        said("user", "go"), first, result("a"), result("b", "broken", error="it failed"),
        said("assistant", "Done.", id="turn_2"), said("user", "more"),
    )  # fmt: skip
    assert got.conversation.history == (
        Message("user", "go"),
        Message("assistant", "Let me see."),
        ToolCall("a", "a", "{}", "turn_1", 0),
        ToolCall("b", "b", "{}", "turn_1", 1),
        ToolOutput("a", "a", "done"),
        ToolOutput("b", "b", "broken", failed=True),
        Message("assistant", "Done."),
        Message("user", "more"),
    )


def test_what_the_screen_alone_has_is_no_history() -> None:
    refusal = said("assistant", "I cannot", metadata={"streamkit": {"refusal": True}})
    inner = said("assistant", "inside", subagentRunId="c")
    got = read(said("system", "Be kind."), said("reasoning", "Hm"), refusal, inner, said("user", "go"))
    assert got.conversation.history == (Message("user", "go"),)
    assert got.instructions == "Be kind."


def test_state_and_context_are_handed_on() -> None:
    got = read(said("user"), state={"a": 1}, context=[{"description": "d", "value": "v"}], forwardedProps=[1])
    assert got.data == {"state": {"a": 1}, "context": [{"description": "d", "value": "v"}], "forwardedProps": [1]}


def test_images_are_read() -> None:
    parts = [
        {"type": "text", "text": "look"},
        {"type": "image", "source": {"type": "url", "value": "https://x/y.png"}},
        {"type": "image", "source": {"type": "data", "value": "iVBORw0KGgo=", "mimeType": "image/png"}},
    ]
    (message,) = read(said("user", parts)).conversation.history
    assert isinstance(message, Message)
    assert [image.media_type for image in message.images] == ["", "image/png"]


def asked(*messages: Any, thread: str = "t") -> dict[str, Any]:
    return {"threadId": thread, "runId": "r", "messages": [*messages]}


def with_part(kind: str, source_type: str, value: str) -> dict[str, Any]:
    return asked(said("user", [{"type": kind, "source": {"type": source_type, "value": value}}]))


@pytest.mark.parametrize(
    ("body", "problem"),
    [
        ([], "not a RunAgentInput"),
        ({"threadId": "t", "runId": "r"}, "messages"),
        (asked(said("user"), thread=""), "threadId"),
        (asked(), "nothing to answer"),
        (asked(said("assistant")), "nothing to answer"),
        (asked(*[said("user")] * 10_001), "more than"),
        (with_part("video", "url", "https://x/y"), "only text and images"),
        (with_part("image", "file", "handle"), "only text and images"),
        (with_part("image", "data", "é"), "base64"),
        (with_part("image", "url", "file:///etc/passwd"), "https"),
    ],
)
def test_what_cannot_be_taken_says_why(body: Any, problem: str) -> None:
    with pytest.raises(MessagesRefused, match=problem):
        from_run_input(body)


# Tools of the client


@pytest.mark.parametrize(
    "offered",
    [
        {"name": "no name", "description": "d"},
        {"name": "f", "description": "d", "parameters": ["no schema"]},
        {"name": "f", "description": "d", "parameters": {"type": "array"}},
        {
            "name": "f",
            "description": "d",
            "parameters": {"type": "object", "properties": {"a": {"$ref": "http://x/y"}}},
        },
    ],
)
def test_tools_that_no_model_takes_are_refused(offered: Any) -> None:
    with pytest.raises(MessagesRefused, match="tools of the client"):
        read(said("user"), tools=[offered])


def test_a_tool_of_the_client_has_no_body_and_no_regular_expressions() -> None:
    parameters = {"properties": {"pattern": {"type": "string", "pattern": "(a+)+$"}}}
    (offered,) = read(said("user"), tools=[{"name": "f", "description": "", "parameters": parameters}]).tools
    assert not offered.has_body
    assert offered.spec.parameters["properties"] == {"pattern": {"type": "string"}}


def test_a_tool_of_the_client_takes_no_name_of_the_server() -> None:
    with pytest.raises(MessagesRefused, match="pick"):
        read(said("user"), tools=[PICK]).toolkit_with(
            Toolkit(Tool(name="pick", description="d", input={"type": "object"}))
        )


# Runs that go on

ran: list[str] = []


@tool(approval=True)
async def send(to: str = "Ann") -> str:
    """Sends."""
    ran.append(to)
    return f"sent to {to}"


@tool
async def read_file() -> str:
    """Reads."""
    ran.append("file")
    return "text"


def answer(got: AgUiInput, *turns: Any, **options: Any) -> tuple[Client, Conversation, ScriptedModel]:
    """The answer to a request, as the client has it."""
    ran.clear()
    model, encoder = ScriptedModel(*turns), got.encoder(**options)
    flow = converse(model, got.toolkit_with(Toolkit(send, read_file)), got.conversation, authorize=got.authorize())
    body = [encoder.open()]

    async def main() -> Conversation:
        async with flow.open() as events:
            async for event in events:
                body.append(encoder.event(event))
        return events.value

    state = anyio.run(main)
    return Client().read(b"".join([*body, encoder.end(state)])), state, model


def asked_to_send(seal: Seal | None = SEAL) -> tuple[list[Any], str]:
    """The messages of a client that was asked about a call, and the id of the question."""
    client, _, _ = answer(read(said("user", "go"), seal=seal), [call("send", {"to": "Ann"}, call_id="c")])
    (question,) = client.last["outcome"]["interrupts"]
    messages = [said("user", "go"), calling("c")]
    messages[1]["toolCalls"][0]["function"] = {"name": "send", "arguments": client.arguments["c"]}
    return messages, question["id"]


@pytest.mark.parametrize(
    ("payload", "sent", "text"),
    [
        ({"approved": True}, ["Ann"], "sent to Ann"),
        (True, ["Ann"], "sent to Ann"),
        ({"approved": True, "editedArgs": {"to": "Bob"}}, ["Bob"], "sent to Bob"),
        ({"approved": False, "reason": "not now"}, [], "not now"),
        ({"value": "sent by hand"}, [], "sent by hand"),
    ],
)
def test_the_run_goes_on_with_what_the_person_decided(payload: Any, sent: list[str], text: str) -> None:
    messages, question = asked_to_send()
    resume = [{"interruptId": question, "status": "resolved", "payload": payload}]
    client, state, model = answer(read(*messages, resume=resume, seal=SEAL), ["Done."])
    assert ran == sent
    assert text in client.results["c"]["content"]
    assert client.arguments == {}
    assert state.ended == "answer"
    assert len(model.requests) == 1


def test_a_question_that_is_cancelled_is_denied() -> None:
    messages, question = asked_to_send()
    answer(read(*messages, resume=[{"interruptId": question, "status": "cancelled"}], seal=SEAL), ["Well."])
    assert ran == []


@pytest.mark.parametrize("payload", [None, "yes", {}, {"approved": "true"}, {"approved": True, "editedArgs": 1}])
def test_an_answer_that_says_neither_yes_nor_no_is_refused(payload: Any) -> None:
    messages, question = asked_to_send()
    with pytest.raises(VerdictRefused, match="neither yes nor no"):
        read(*messages, resume=[{"interruptId": question, "status": "resolved", "payload": payload}], seal=SEAL)


def test_a_call_that_was_changed_or_made_up_is_refused() -> None:
    messages, question = asked_to_send()
    resume = [{"interruptId": question, "status": "resolved", "payload": True}]
    function = messages[1]["toolCalls"][0]["function"]
    function["arguments"] = json.dumps({"to": "Eve"})
    with pytest.raises(VerdictRefused, match="no call waits"):
        read(*messages, resume=resume, seal=SEAL)
    function["arguments"] = '{ "to": "Ann" }'  # the same object
    assert read(*messages, resume=resume, seal=SEAL).verdicts == {"turn_1.0": Allow()}
    with pytest.raises(VerdictRefused):
        from_run_input({"threadId": "other", "runId": "r", "messages": messages, "resume": resume}, seal=SEAL)
    with pytest.raises(VerdictRefused):
        read(*messages, resume=resume * 2, seal=SEAL)


def test_a_call_whose_arguments_were_hidden_does_not_run_without_them() -> None:
    got = read(said("user", "go"), seal=SEAL)
    client, _, _ = answer(got, [call("send", {"to": "Ann"}, call_id="c")], redact=lambda tool, value: {"to": "***"})
    (question,) = client.last["outcome"]["interrupts"]
    messages = [said("user", "go"), calling("c")]
    messages[1]["toolCalls"][0]["function"] = {"name": "send", "arguments": client.arguments["c"]}
    with pytest.raises(VerdictRefused, match="no call waits"):
        read(*messages, resume=[{"interruptId": question["id"], "status": "resolved", "payload": True}], seal=SEAL)


def test_a_call_that_the_client_makes_up_does_not_run() -> None:
    messages = [said("user", "go"), calling("read_file", "pick")]
    client, state, _ = answer(read(*messages, tools=[PICK]))
    assert ran == []
    assert state.ended == "pending"
    assert client.last["outcome"]["pendingToolCallIds"] == ["pick"]
    resume = [{"interruptId": "read_file", "status": "resolved", "payload": True}]
    answer(read(said("user", "go"), calling("read_file"), resume=resume), ["Well."])
    assert ran == []


def test_the_client_answers_the_calls_of_its_tools_with_messages() -> None:
    client, state, _ = answer(
        read(said("user", "go"), tools=[PICK]), ["Let me see.", call("pick", {"n": 1}, call_id="p")]
    )
    assert client.last["outcome"] == {"type": "success", "pendingToolCallIds": ["p"]}
    assert state.ended == "pending"
    messages = [said("user", "go"), calling("p"), result("p", "picked 1")]
    client, state, model = answer(read(*messages, tools=[PICK]), ["Done."])
    assert state.ended == "answer"
    assert client.results == {}
    (request,) = model.requests
    assert request.history[-1] == ToolOutput("p", "p", "picked 1")


def test_a_verdict_and_a_result_come_together() -> None:
    messages, question = asked_to_send()
    both = calling("c", "pick")
    both["toolCalls"][0] = messages[1]["toolCalls"][0]
    resume = [{"interruptId": question, "status": "resolved", "payload": False}]
    got = read(said("user", "go"), both, result("pick", "1"), resume=resume, tools=[PICK], seal=SEAL)
    assert got.verdicts == {"turn_1.0": Deny("the person said no")}
    _, state, _ = answer(got, ["Done."])
    assert [item.text for item in state.history if isinstance(item, ToolOutput)][1] == "1"


def test_a_call_is_known_by_another_id_where_the_client_brings_one_twice() -> None:
    got = read(
        said("user", "go"), calling("a"), result("a"), said("user", "again"), calling("a", id="t2"), result("a", "2")
    )
    outputs = [item for item in got.conversation.history if isinstance(item, ToolOutput)]
    assert [(output.call_id, output.text) for output in outputs] == [("a", "done"), ("a~2", "2")]


# What a client keeps

SIGNED = [
    ReasoningDelta("Hm."),
    ReasoningOpaque({"signature": "sig"}, "anthropic"),
    "I send.",
    call("send", {"to": "Ann"}, call_id="c"),
    call("read_file", '["no object"]', call_id="d"),
]


def kept_by(client: Client, *answers: Any) -> list[Any]:
    """The messages of a front end after a turn that was signed."""
    both = calling("c", "d", id=client.kept["entityId"])
    both["encryptedValue"] = client.kept["encryptedValue"]
    return [said("user", "go"), said("reasoning", "Hm."), both, *answers]


def signed(**options: Any) -> Client:
    return answer(read(said("user", "go"), seal=SEAL), SIGNED, **options)[0]


def test_what_a_provider_signed_comes_back_to_it() -> None:
    client = signed()
    (question,) = client.last["outcome"]["interrupts"]
    resume = [{"interruptId": question["id"], "status": "resolved", "payload": True}]
    messages = kept_by(client, result("d", client.results["d"]["content"]))
    _, state, model = answer(read(*messages, resume=resume, seal=SEAL), ["Done."])
    (request,) = model.requests
    assert Reasoning("Hm.", opaque={"anthropic": {"signature": "sig"}}) in request.history
    assert [item.text for item in state.history if isinstance(item, Message)] == ["go", "I send.", "Done."]
    assert ran == ["Ann"]
    for dialect in DIALECTS:
        check_history(state.history, dialect)


def test_what_was_not_sealed_here_is_not_taken() -> None:
    messages = kept_by(signed())
    for seal in (None, Seal(b"another secret of ours")):
        assert not [item for item in read(*messages, seal=seal).conversation.history if isinstance(item, Reasoning)]
    messages[2]["encryptedValue"] = "é" + messages[2]["encryptedValue"]
    assert not [item for item in read(*messages, seal=SEAL).conversation.history if isinstance(item, Reasoning)]


def test_nothing_is_kept_where_something_is_hidden() -> None:
    assert signed(redact=lambda tool, value: "***").kept == {}
