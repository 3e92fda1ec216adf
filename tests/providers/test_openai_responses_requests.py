"""What the Responses API is asked: wishes, tools, what was said, and what goes back as it came."""

import logging
from typing import Any

import pytest

from streamkit.history import append_turn
from streamkit.items import (
    Message,
    ProviderTool,
    Reasoning,
    ToolCall,
    ToolOutput,
    ToolSpec,
    UnknownItem,
    assistant,
    image,
    user,
)
from streamkit.providers.openai_responses import encode_request, openai_responses
from streamkit.providers.openai_responses_decoder import OpenAIResponsesDecoder
from streamkit.tool_events import Value
from streamkit.turns import TurnRequest

from ..streams import case_body, cases, outcome
from .loopback import answer, serve
from .responses_events import (
    OBJECT,
    call,
    completed,
    custom,
    done,
    incomplete,
    message,
    read,
    reasoning,
    sent,
    sse,
    text,
)

SPEC = ToolSpec("search", "Searches.", {"type": "object", "properties": {"q": {"type": "string"}}})


def test_a_plain_request_stores_nothing_and_asks_for_what_goes_back() -> None:
    assert encode_request(TurnRequest((user("hi"),), instructions=""), "m") == {
        "model": "m",
        "input": [{"type": "message", "role": "user", "content": "hi"}],
        "stream": True,
        "store": False,
        "include": ["reasoning.encrypted_content"],
    }


@pytest.mark.parametrize(
    ("model", "reasons"),
    [
        ("gpt-4o", False), ("gpt-4.1-mini", False), ("openai/gpt-4o", False), ("ft:gpt-4o:us", False),
        ("gpt-5-chat-latest", False), ("chatgpt-4o-latest", False), ("gpt-3.5-turbo", False),
        ("gpt-5", True), ("o4-mini", True), ("gpt-5.1-chat-latest", True), ("grok-4", True), ("my-gpt-4-like", True),
    ],
)  # fmt: skip
def test_models_that_never_reason_are_not_asked_for_it(model: str, reasons: bool) -> None:
    assert ("include" in encode_request(TurnRequest(()), model)) == reasons


ANY = {"type": "object", "x": 1, "properties": {}}


def test_all_wishes_are_written(caplog: pytest.LogCaptureFixture) -> None:
    answer = {"title": "The City!", "type": "object", "properties": {"name": {"type": "string"}}}
    with caplog.at_level(logging.WARNING, "streamkit"):
        body = encode_request(
            TurnRequest(
                (user("hi"),),
                (
                    SPEC,
                    ToolSpec("find", "Finds.", SPEC.parameters, strict=True),
                    ToolSpec("any", "", {"x": 1}, strict=True),
                ),
                instructions="Be brief.",
                tool_choice="required",
                parallel_calls=False,
                max_output_tokens=9,
                temperature=0.0,
                stop=("END",),
                output=answer,
                reasoning_effort="low",
            ),
            "m",
        )
    assert [message.partition(":")[0] for message in caplog.messages] == [
        "openai_responses has no stop texts",
        "the parameters of any cannot be a strict schema",
    ]
    strict = {**SPEC.parameters, "required": ["q"], "additionalProperties": False}
    assert body.pop("tools") == [
        {
            "type": "function",
            "name": "search",
            "description": "Searches.",
            "parameters": SPEC.parameters,
            "strict": False,
        },
        {"type": "function", "name": "find", "description": "Finds.", "parameters": strict, "strict": True},
        {"type": "function", "name": "any", "description": "", "parameters": ANY, "strict": False},
    ]
    schema = {"type": "object", "properties": answer["properties"], "required": ["name"], "additionalProperties": False}
    assert body == {
        **encode_request(TurnRequest((user("hi"),)), "m"),
        "instructions": "Be brief.",
        "tool_choice": "required",
        "parallel_tool_calls": False,
        "max_output_tokens": 9,
        "temperature": 0.0,
        "reasoning": {"effort": "low"},
        "text": {"format": {"type": "json_schema", "name": "The_City", "schema": schema, "strict": True}},
    }


def test_a_schema_that_cannot_be_strict_is_a_hint() -> None:
    body = encode_request(TurnRequest((), output={"type": "array"}), "m")
    assert body["text"]["format"] == {
        "type": "json_schema",
        "name": "answer",
        "schema": {"type": "array"},
        "strict": False,
    }


@pytest.mark.parametrize(
    ("choice", "written"),
    [("none", "none"), ("required", "required"), ("search", {"type": "function", "name": "search"}), ("auto", None)],
)
def test_the_choice_of_tools_is_written_as_the_dialect_has_it(choice: str, written: object) -> None:
    assert encode_request(TurnRequest((), (SPEC,), tool_choice=choice), "m").get("tool_choice") == written
    assert "tool_choice" not in encode_request(TurnRequest((), tool_choice=choice), "m")


def test_extra_goes_over_everything_else() -> None:
    body = encode_request(
        TurnRequest((), temperature=1.0, extra={"temperature": 0.5, "store": True, "include": []}), "m"
    )
    assert (body["temperature"], body["store"], body["include"]) == (0.5, True, [])


PNG = b"\x89PNG\r\n\x1a\nrest"
PICTURE = {"type": "input_image", "image_url": "data:image/png;base64,iVBORw0KGgpyZXN0", "detail": "auto"}


def test_images_are_sent_in_messages_and_in_results() -> None:
    assert sent(
        user("What is it?", image(PNG), image("https://example.org/a.png")),
        user("", image(PNG)),
        ToolCall("a", "f", "{}"),
        ToolOutput("a", "f", "Look:", images=(image(PNG),)),
        ToolCall("b", "f", "", custom=True),
        ToolOutput("b", "f", "", images=(image(PNG),), custom=True),
    ) == [
        {
            "type": "message",
            "role": "user",
            "content": [
                PICTURE,
                {**PICTURE, "image_url": "https://example.org/a.png"},
                {"type": "input_text", "text": "What is it?"},
            ],
        },
        {"type": "message", "role": "user", "content": [PICTURE]},
        {"type": "function_call", "call_id": "a", "name": "f", "arguments": "{}"},
        {"type": "function_call_output", "call_id": "a", "output": [{"type": "input_text", "text": "Look:"}, PICTURE]},
        {"type": "custom_tool_call", "call_id": "b", "name": "f", "input": ""},
        {"type": "custom_tool_call_output", "call_id": "b", "output": [PICTURE]},
    ]


def written(text: str, **fields: Any) -> dict[str, Any]:
    content = [{"type": "output_text", "text": text, "annotations": []}]
    return {"type": "message", "role": "assistant", "content": content, **fields}


def test_items_of_other_dialects_go_without_what_is_theirs() -> None:
    theirs = {"anthropic": {"signature": "s"}}
    assert sent(
        user("hi"),
        user(""),
        assistant(" "),
        Reasoning("Hm", "trace", theirs),
        Reasoning("Hm"),
        Message("assistant", "a", opaque=theirs),
        ProviderTool("x", "search", opaque={"anthropic": {"type": "server_tool_use"}}),
        UnknownItem({"type": "x"}, "anthropic"),
        UnknownItem({"type": "x"}),
        ToolCall("functions.f:0", "f", "", opaque=theirs),
        ToolOutput("functions.f:0", "f", ""),
    ) == [
        {"type": "message", "role": "user", "content": "hi"},
        written("a"),
        {"type": "function_call", "call_id": "call_d6bdd4de328a22edd610f954", "name": "f", "arguments": "{}"},
        {"type": "function_call_output", "call_id": "call_d6bdd4de328a22edd610f954", "output": ""},
    ]


def test_a_turn_goes_back_as_it_came() -> None:
    thought = reasoning("Look up.", "Then tell.", id="rs_1", encrypted_content="x")
    searched = {"type": "web_search_call", "id": "ws_1", "status": "completed", "action": {"type": "search"}}
    said = message("a", id="msg_1", phase="commentary", status="completed", role="assistant")
    caller = {"type": "program", "caller_id": "p"}
    called = call(OBJECT, id="fc_1", caller=caller, namespace=None, status="completed")
    output = (thought, searched, said, called)
    turn = read(*(done(item, index) for index, item in enumerate(output)), completed(*output)).turn
    history = append_turn((user("hi"),), turn, [Value("a", "f", 1, "1")])
    assert sent(*history) == [
        {"type": "message", "role": "user", "content": "hi"},
        thought,
        searched,
        written("a", id="msg_1", status="completed", phase="commentary"),
        {"type": "function_call", "id": "fc_1", "call_id": "a", "name": "f", "arguments": OBJECT, "caller": caller},
        {"type": "function_call_output", "call_id": "a", "output": "1", "caller": caller},
    ]


@pytest.mark.parametrize("thought", [{"encrypted_content": None}, {"content": []}, {}])
def test_reasoning_that_cannot_go_back_takes_the_ids_behind_it_along(thought: dict[str, Any]) -> None:
    turn = read(
        done(reasoning("Hm", id="rs_1", **thought)),
        done(message("a", id="msg_1"), 1),
        done(call(OBJECT, id="fc_1"), 2),
        done({"type": "web_search_call", "id": "ws_1"}, 3),
        completed(),
    ).turn
    assert [(item["type"], item.get("id")) for item in sent(*turn.items)] == [
        ("message", None), ("function_call", None), ("web_search_call", "ws_1")
    ]  # fmt: skip


def test_plain_reasoning_goes_back_to_who_gave_it() -> None:
    thought = {"type": "reasoning", "id": "r", "summary": [], "content": [{"type": "reasoning_text", "text": "Hm"}]}
    assert sent(*read(done(thought), text("a", 1), completed()).turn.items) == [thought, written("a")]


def test_of_reasoning_no_status_goes_back_and_nothing_that_is_null() -> None:
    known = {"type": "reasoning", "id": "rs_1", "encrypted_content": "x"}
    told = {**known, "status": "completed", "content": None, "summary": None}
    assert sent(*read(done(told), text("a", 1), completed()).turn.items) == [{**known, "summary": []}, written("a")]


def test_no_id_of_an_item_goes_back_twice() -> None:
    thought = Reasoning("", opaque={"openai_responses": reasoning(id="rs_1", encrypted_content="x")})
    said = Message("assistant", "a", opaque={"openai_responses": {"id": "msg_1"}})
    searched = UnknownItem({"type": "computer_call", "id": ["odd"]}, "openai_responses")
    again = UnknownItem({"type": "later", "id": "msg_1"}, "openai_responses")
    first = [thought.opaque["openai_responses"] if thought.opaque else {}, written("a", id="msg_1", status="completed")]
    assert sent(thought, said, searched, thought, said, again) == [
        *first,
        searched.item,
        written("a", status="completed"),
    ]


def test_reasoning_that_nothing_follows_is_left_out() -> None:
    thought = reasoning(id="rs_1", encrypted_content="x")
    turn = read(done(thought), incomplete({"reason": "max_output_tokens"}, thought)).turn
    assert sent(user("hi"), *turn.items, user("go on")) == sent(user("hi"), user("go on"))


def test_an_id_that_comes_again_in_a_later_turn_is_another_one_and_names_are_those_of_tools() -> None:
    turn = (ToolCall("call_0", "functions.f", "{}"), ToolOutput("call_0", "functions.f", "1"))
    one, first, two, second = sent(*turn, *turn)
    assert (one["call_id"], one["name"]) == (first["call_id"], "functions_f") == ("call_0", "functions_f")
    assert two["call_id"] == second["call_id"] != "call_0"


@pytest.mark.parametrize(
    ("item", "goes_back"),
    [
        (call(OBJECT, id="fc_1"), True),
        (call(OBJECT, id="call_1"), False),
        (custom("x", id="ctc_1"), True),
        (custom("x", id="fc_1"), False),
        (message("a", id="msg_1"), True),
        (message("a", id="m1"), False),
    ],
)
def test_an_id_goes_back_only_where_it_is_of_the_kind_that_is_taken(item: dict[str, Any], goes_back: bool) -> None:
    (back,) = sent(*read(done(item), completed()).turn.items)
    assert back.get("id") == (item["id"] if goes_back else None)


@pytest.mark.parametrize("case", cases("stream_openai_responses.json"))
def test_what_a_case_wants_sent_back_is_sent(case: dict[str, Any]) -> None:
    items = sent(*outcome(OpenAIResponsesDecoder(), case_body(case)).turn.items)
    for item, wanted in zip(items, case["expect"].get("replay", []), strict=False):
        assert {key: item[key] for key in wanted} == wanted


# The model


async def test_a_turn_is_asked_for_at_the_address_that_is_given() -> None:
    async with serve(answer(sse(text("Hi"), completed()))) as server:
        turn = await openai_responses("m", base_url=f"{server.url}/?version=1", api_key="a-key").stream_turn(
            TurnRequest((user("hi"),))
        )
    assert (turn.text, turn.stop_reason, turn.model) == ("Hi", "stop", "m")
    (asked,) = server.asked
    assert (asked.target, asked.headers["authorization"]) == ("/v1/responses?version=1", "Bearer a-key")
    assert asked.body == encode_request(TurnRequest((user("hi"),)), "m")


async def test_the_key_comes_from_the_environment_when_a_turn_is_run(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    body = answer(sse(text("Hi"), completed()))
    async with serve(body, body) as server:
        model = openai_responses("m", base_url=server.url)
        await model.stream_turn(TurnRequest((user("hi"),)))
        monkeypatch.setenv("OPENAI_API_KEY", "from-environment")
        await model.stream_turn(TurnRequest((user("hi"),)))
    assert [asked.headers.get("authorization") for asked in server.asked] == [None, "Bearer from-environment"]
