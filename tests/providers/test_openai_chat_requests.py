"""What servers of chat completions are asked: wishes, tools, what was said, and what goes back as it came."""

import logging
import re
from typing import Any

import pytest

from streamkit.items import (
    History,
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
from streamkit.providers.openai_chat import (
    Encode,
    encode_for,
    encode_mistral_request,
    encode_openai_request,
    encode_request,
    encode_thinking_request,
)
from streamkit.providers.openai_chat_decoder import OpenAIChatDecoder
from streamkit.turns import TurnRequest

from ..streams import case_body, cases, outcome
from .chat_events import STOP, body_of, delta, messages, read, written_call

SPEC = ToolSpec("search", "Searches.", {"type": "object", "properties": {}})
OPTIONAL = {"type": "object", "properties": {"a": {"type": "string", "default": "x"}}}
STRICT = {"type": "object", "properties": {"a": {"type": "string"}}, "required": ["a"], "additionalProperties": False}


def test_a_plain_request_holds_nothing_that_was_not_asked_for() -> None:
    assert body_of(TurnRequest((user("hi"),))) == {
        "model": "m",
        "messages": [{"role": "user", "content": "hi"}],
        "stream": True,
        "stream_options": {"include_usage": True},
    }


def test_all_wishes_are_written() -> None:
    body = body_of(
        TurnRequest(
            (user("hi"),),
            (SPEC, ToolSpec("find", "Finds.", OPTIONAL, strict=True)),
            instructions="Be brief.",
            tool_choice="required",
            parallel_calls=False,
            max_output_tokens=9,
            temperature=0.0,
            stop=("END",),
            reasoning_effort="low",
        )
    )
    assert body["messages"][0] == {"role": "system", "content": "Be brief."}
    assert [tool["function"] for tool in body["tools"]] == [
        {"name": "search", "description": "Searches.", "parameters": {"type": "object", "properties": {}}},
        {"name": "find", "description": "Finds.", "parameters": STRICT, "strict": True},
    ]
    assert {key: body[key] for key in ("tool_choice", "parallel_tool_calls", "max_tokens", "temperature", "stop")} == {
        "tool_choice": "required",
        "parallel_tool_calls": False,
        "max_tokens": 9,
        "temperature": 0.0,
        "stop": ["END"],
    }
    assert body["reasoning_effort"] == "low"


@pytest.mark.parametrize(
    ("choice", "written"),
    [
        ("none", "none"),
        ("required", "required"),
        ("search", {"type": "function", "function": {"name": "search"}}),
        ("auto", None),
    ],
)
def test_the_choice_of_tools_is_written_as_the_dialect_has_it(choice: str, written: object) -> None:
    assert body_of(TurnRequest((), (SPEC,), tool_choice=choice)).get("tool_choice") == written
    assert "tool_choice" not in body_of(TurnRequest((), tool_choice=choice))


def test_extra_goes_over_everything_else() -> None:
    body = body_of(TurnRequest((), temperature=1.0, extra={"temperature": 0.5, "seed": 1, "stream_options": None}))
    assert (body["temperature"], body["seed"], body["stream_options"]) == (0.5, 1, None)


def test_openai_itself_has_another_name_for_the_token_limit() -> None:
    request = TurnRequest((), max_output_tokens=9)
    assert "max_tokens" not in encode_openai_request(request, "m")
    assert encode_openai_request(request, "m")["max_completion_tokens"] == 9
    wish = TurnRequest((), max_output_tokens=9, extra={"max_tokens": 5})
    assert encode_openai_request(wish, "m")["max_tokens"] == 5
    wish = TurnRequest((), max_output_tokens=9, extra={"max_completion_tokens": 5})
    assert encode_openai_request(wish, "m")["max_completion_tokens"] == 5


def test_what_the_model_said_in_a_row_is_one_message() -> None:
    assert messages(
        user("go"),
        assistant("Look"),
        ToolCall("a", "f", '{"x": 1}'),
        UnknownItem({"annotations": []}),
        assistant("ing"),
        ToolCall("b", "f", "{}"),
        ProviderTool("s", "search"),
        ToolOutput("a", "f", "1"),
        ToolOutput("b", "f", "no", failed=True),
        assistant("Done."),
        user("thanks"),
    ) == [
        {"role": "user", "content": "go"},
        {
            "role": "assistant",
            "content": "Looking",
            "tool_calls": [written_call("a", '{"x": 1}'), written_call("b")],
        },
        {"role": "tool", "tool_call_id": "a", "content": "1"},
        {"role": "tool", "tool_call_id": "b", "content": "no"},
        {"role": "assistant", "content": "Done."},
        {"role": "user", "content": "thanks"},
    ]


def test_a_message_without_text_says_so_and_a_blank_one_is_left_out() -> None:
    assert messages(
        ToolCall("a", "f", "{}"), ToolOutput("a", "f", ""), assistant(" \n"), Reasoning("Hm"), user("x")
    ) == [
        {"role": "assistant", "content": None, "tool_calls": [written_call("a")]},
        {"role": "tool", "tool_call_id": "a", "content": ""},
        {"role": "user", "content": "x"},
    ]


def test_reasoning_of_others_is_not_sent() -> None:
    history: History = (Reasoning("Hm", "trace", {"anthropic": {"signature": "s"}}), Reasoning("Hm"), assistant("Yes"))
    assert messages(*history) == [{"role": "assistant", "content": "Yes"}]


@pytest.mark.parametrize("field", ["reasoning", "reasoning_content"])
def test_reasoning_goes_back_into_the_field_it_came_from(field: str) -> None:
    turn = read(delta(**{field: "Need "}), delta(**{field: "weather"}), delta(content="Yes"), STOP).turn
    assert messages(*turn.items) == [{"role": "assistant", "content": "Yes", field: "Need weather"}]


def test_reasoning_from_the_content_goes_back_into_the_content() -> None:
    thinking = {"type": "thinking", "thinking": [{"type": "text", "text": "Hm"}]}
    turn = read(delta(content=[thinking]), delta(content="Yes"), STOP).turn
    assert messages(*turn.items) == [{"role": "assistant", "content": [thinking, {"type": "text", "text": "Yes"}]}]


def test_reasoning_details_go_back_unread() -> None:
    details = [{"type": "reasoning.encrypted", "data": "", "id": "r", "index": 0}]
    call = {"index": 0, "id": "a", "function": {"name": "f", "arguments": "{}"}}
    turn = read(delta(reasoning_details=details), delta(tool_calls=[call]), STOP).turn
    assert messages(*turn.items) == [
        {"role": "assistant", "content": None, "reasoning_details": details, "tool_calls": [written_call("a")]}
    ]


def test_reasoning_goes_back_to_nobody_who_refuses_it() -> None:
    turn = read(delta(reasoning="Hm"), delta(reasoning_details=[{"text": "Hm"}]), delta(content="Yes"), STOP).turn
    for encode in (encode_openai_request, encode_mistral_request):
        assert encode(TurnRequest(turn.items), "m")["messages"] == [{"role": "assistant", "content": "Yes"}]
    thinking = {"type": "thinking", "thinking": [{"type": "text", "text": "Hm"}]}
    turn = read(delta(content=[thinking]), delta(content="Yes"), STOP).turn
    assert encode_mistral_request(TurnRequest(turn.items), "m")["messages"][0]["content"][0] == thinking
    assert encode_openai_request(TurnRequest(turn.items), "m")["messages"][0]["content"] == "Yes"


LONG = "chatcmpl-tool-" + "0123456789abcdef" * 2


@pytest.mark.parametrize(
    ("encode", "taken", "refused", "legal"),
    [
        (encode_openai_request, "functions.f:0", LONG, r"call_[0-9a-f]{24}"),
        (encode_mistral_request, "aB3dE6gH9", "call_1", r"[0-9a-f]{9}"),
        (encode_request, LONG, None, None),
    ],
)
def test_an_id_is_rewritten_only_where_it_is_refused(
    encode: Encode, taken: str, refused: str | None, legal: str | None
) -> None:
    ids = [taken] if refused is None else [taken, refused]
    history: History = (*(ToolCall(each, "f", "{}") for each in ids), *(ToolOutput(each, "f", "1") for each in ids))
    said, *results = encode(TurnRequest(history), "m")["messages"]
    sent = [call["id"] for call in said["tool_calls"]]
    assert sent[0] == taken
    assert sent == [result["tool_call_id"] for result in results]
    assert legal is None or re.fullmatch(legal, sent[1])


def test_a_name_that_cannot_be_of_a_tool_is_written_in_another_way() -> None:
    history: History = (ToolCall("a", "functions.f", "{}"), ToolOutput("a", "functions.f", "no"))
    assert messages(*history)[0]["tool_calls"][0]["function"]["name"] == "functions_f"


def test_mistral_gets_each_id_once() -> None:
    turn: History = (ToolCall("functions.f:0", "f", "{}"), ToolOutput("functions.f:0", "f", "1"))
    sent = encode_mistral_request(TurnRequest(turn * 2), "m")["messages"]
    ids = [message["tool_calls"][0]["id"] for message in sent[::2]]
    assert ids == [message["tool_call_id"] for message in sent[1::2]]
    assert len(set(ids)) == 2
    assert encode_mistral_request(TurnRequest(turn * 2), "m")["messages"] == sent
    assert {message["tool_calls"][0]["id"] for message in messages(*turn, *turn)[::2]} == {"functions.f:0"}


def test_mistral_hears_the_model_before_the_person_goes_on() -> None:
    history: History = (ToolCall("a", "f", "{}"), ToolOutput("a", "f", "1"), user("stop"), user("now"))
    sent = encode_mistral_request(TurnRequest(history), "m")["messages"]
    assert [message["role"] for message in sent] == ["assistant", "tool", "assistant", "user", "user"]
    assert [message["role"] for message in messages(*history)] == ["assistant", "tool", "user", "user"]


PNG = b"\x89PNG\r\n\x1a\nrest"
PICTURE = {"type": "image_url", "image_url": {"url": "data:image/png;base64,iVBORw0KGgpyZXN0"}}
LINKED = {"type": "image_url", "image_url": {"url": "https://example.org/a.png"}}


def test_images_come_before_the_text_that_speaks_of_them() -> None:
    sent = messages(user("Which?", image(PNG), image("https://example.org/a.png")), user("", image(PNG)))
    assert [message["content"] for message in sent] == [
        [PICTURE, LINKED, {"type": "text", "text": "Which?"}],
        [PICTURE],
    ]


def test_images_of_results_follow_behind_all_of_them() -> None:
    history: History = (
        ToolCall("a", "f", "{}"), ToolCall("b", "g", "{}"),
        ToolOutput("a", "f", "1", images=(image(PNG),)), ToolOutput("b", "g", "2"),
        assistant("Done."),
    )  # fmt: skip
    _, *rest = messages(*history)
    assert rest == [
        {"role": "tool", "tool_call_id": "a", "content": "1"},
        {"role": "tool", "tool_call_id": "b", "content": "2"},
        {
            "role": "user",
            "content": [PICTURE, {"type": "text", "text": "The images are from the results of: f"}],
        },
        {"role": "assistant", "content": "Done."},
    ]
    sent = encode_mistral_request(TurnRequest(history), "m")["messages"]
    assert [message["role"] for message in sent] == ["assistant", "tool", "tool", "assistant"]
    assert sent[1]["content"] == [PICTURE, {"type": "text", "text": "1"}]


def test_an_answer_by_schema_is_asked_for() -> None:
    wish = body_of(TurnRequest((), output={"title": "My answer", **OPTIONAL}))["response_format"]
    assert wish == {"type": "json_schema", "json_schema": {"name": "My_answer", "schema": STRICT, "strict": True}}
    free = {"type": "object", "additionalProperties": {"type": "string"}}
    wish = body_of(TurnRequest((), output=free))["response_format"]
    assert wish["json_schema"] == {"name": "answer", "schema": free, "strict": False}


def test_a_tool_that_cannot_be_strict_is_told_of_once(caplog: pytest.LogCaptureFixture) -> None:
    free = ToolSpec("free", "", {"type": "object", "additionalProperties": True}, strict=True)
    with caplog.at_level(logging.WARNING, "streamkit"):
        tools = [body_of(TurnRequest((), (free,)))["tools"][0] for _ in range(2)]
    assert tools[1]["function"] == {
        "name": "free",
        "description": "",
        "parameters": {**free.parameters, "properties": {}},
    }
    assert caplog.messages == ["the parameters of free cannot be a strict schema: the model may get them wrong"]


@pytest.mark.parametrize(
    ("reasoning", "sent"),
    [
        ((), " "),
        ((Reasoning("Hm", "trace", {"openai_chat": {"field": "reasoning_content"}}),), "Hm"),
        ((Reasoning("Hm", "trace", {"openai_chat": {"field": "reasoning"}}),), "Hm"),
        ((Reasoning("", "trace", {"openai_chat": {"field": "reasoning_content"}}),), " "),
        ((Reasoning("Hm", "trace", {"anthropic": {"signature": "s"}}),), " "),
    ],
)
def test_servers_that_want_all_reasoning_back_get_some_with_each_message(
    reasoning: tuple[Reasoning, ...], sent: str
) -> None:
    history: History = (user("?"), *reasoning, assistant("a"), ToolCall("c", "f", "{}"), ToolOutput("c", "f", "1"))
    said = encode_thinking_request(TurnRequest(history), "m")["messages"][1]
    assert said == {
        "role": "assistant", "content": "a", "reasoning_content": sent, "tool_calls": [written_call("c")]
    }  # fmt: skip


def test_mistral_is_not_asked_for_what_it_does_not_know() -> None:
    body = encode_mistral_request(TurnRequest((user("hi"),), max_output_tokens=9), "m")
    assert body == {"model": "m", "messages": [{"role": "user", "content": "hi"}], "stream": True, "max_tokens": 9}


@pytest.mark.parametrize(
    ("base_url", "encode"),
    [
        ("https://api.openai.com/v1", encode_openai_request),
        ("https://team.openai.azure.com/openai/v1?api-version=preview", encode_openai_request),
        ("https://eu.api.openai.com/v1", encode_openai_request),
        ("https://team.cognitiveservices.azure.com/openai/v1/", encode_openai_request),
        ("https://team.services.ai.azure.com/models", encode_request),
        ("https://notapi.openai.com/v1", encode_request),
        ("https://api.mistral.ai/v1/", encode_mistral_request),
        ("https://api.deepseek.com", encode_thinking_request),
        ("https://api.moonshot.cn/v1", encode_thinking_request),
        ("http://localhost:8080/v1", encode_request),
        ("https://openai.com.example.org/v1", encode_request),
    ],
)
def test_each_server_is_asked_in_its_own_way(base_url: str, encode: Encode) -> None:
    assert encode_for(base_url) is encode


@pytest.mark.parametrize(
    ("base_url", "fields"),
    [
        ("https://api.groq.com/openai/v1", {"reasoning"}),
        ("https://api.cerebras.ai/v1", {"reasoning"}),
        ("https://api.fireworks.ai/inference/v1", {"reasoning_content"}),
    ],
)
def test_a_server_that_refuses_what_others_want_back_gets_only_its_own(base_url: str, fields: set[str]) -> None:
    sent: set[str] = set()
    for known in ({"field": "reasoning"}, {"field": "reasoning_content"}, {"reasoning_details": [{"text": "Hm"}]}):
        call = ToolCall("c", "f", "{}", opaque={"openai_chat": {"extra_content": {"google": {}}}})
        history = (user("?"), Reasoning("Hm", "trace", {"openai_chat": known}), call, ToolOutput("c", "f", "1"))
        said = encode_for(base_url)(TurnRequest(history), "m")["messages"][1]
        assert said["tool_calls"] == [written_call("c")]
        sent |= said.keys()
    assert sent == {"role", "content", "tool_calls"} | fields


def test_gemini_gets_back_what_it_wants_with_a_call_and_no_reasoning_of_others() -> None:
    call = ToolCall("c", "f", "{}", opaque={"openai_chat": {"extra_content": {"google": {}}}})
    history = (Reasoning("Hm", "trace", {"openai_chat": {"field": "reasoning"}}), call, ToolOutput("c", "f", "1"))
    encode = encode_for("https://generativelanguage.googleapis.com/v1beta/openai")
    said = encode(TurnRequest((user("?"), *history)), "m")["messages"][1]
    written = {**written_call("c"), "extra_content": {"google": {}}}
    assert said == {"role": "assistant", "content": None, "tool_calls": [written]}


@pytest.mark.parametrize("case", cases("stream_openai_chat.json"))
def test_what_a_case_wants_sent_back_is_sent(case: dict[str, Any]) -> None:
    wanted = case["expect"].get("replay", [])
    turn = outcome(OpenAIChatDecoder(), case_body(case)).turn
    sent = messages(*turn.items)
    for item in wanted:
        assert item["reasoning"] in (sent[0].get("reasoning_content"), sent[0].get("reasoning"))
