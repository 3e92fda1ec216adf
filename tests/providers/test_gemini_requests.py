"""What Gemini is asked: wishes, tools, what was said and what goes back; and a turn over a socket."""

import itertools
import json
import logging
from typing import Any

import msgspec
import pytest

from streamkit.errors import ProviderError
from streamkit.history import append_turn
from streamkit.items import (
    History,
    Image,
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
from streamkit.providers.gemini import NO_SIGNATURE, encode_request, gemini
from streamkit.providers.gemini_decoder import GeminiDecoder
from streamkit.tool_events import Value
from streamkit.turns import Turn, TurnRequest

from ..streams import case_body, cases, outcome, recorded_body, recordings
from .loopback import answer, serve

SPEC = ToolSpec("search", "Searches.", {"type": "object", "properties": {"query": {"type": "string"}}})
PNG = image(b"\x89PNG\r\n\x1a\n")
PNG_PART = {"inlineData": {"mimeType": "image/png", "data": "iVBORw0KGgo="}}


def body_of(request: TurnRequest, model: str = "gemini-3-flash") -> dict[str, Any]:
    body = encode_request(request, model)
    assert_accepted(body)
    return body


def contents(*history: Any, model: str = "gemini-3-flash") -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = body_of(TurnRequest(tuple(history)), model)["contents"]
    return found


def assert_accepted(body: dict[str, Any]) -> None:
    """The rules that the provider holds contents to: roles take turns, no part is blank, each call has its result.

    Results stand alone, and the user may go on behind them.
    """
    assert body["contents"][0]["role"] == "user"
    for content, following in itertools.pairwise(body["contents"]):
        has_results = any("functionResponse" in part for part in content["parts"])
        assert not has_results or all("functionResponse" in part for part in content["parts"])
        assert has_results or content["role"] != following["role"]
    asked: list[str] = []
    for content in body["contents"]:
        assert content["parts"]
        assert all(part for part in content["parts"])
        assert all(part["text"] or "thoughtSignature" in part for part in content["parts"] if "text" in part)
        answered = [part["functionResponse"]["name"] for part in content["parts"] if "functionResponse" in part]
        assert answered == (asked if content["role"] == "user" else [])
        asked = [part["functionCall"]["name"] for part in content["parts"] if "functionCall" in part]
    json.dumps(body)


# Wishes


def test_a_plain_request_holds_nothing_that_was_not_asked_for() -> None:
    assert body_of(TurnRequest((user("hi"),))) == {"contents": [{"role": "user", "parts": [{"text": "hi"}]}]}


@pytest.mark.parametrize("own_tools", [True, False])
def test_older_models_are_told_of_a_schema_that_they_refuse_beside_tools(own_tools: bool) -> None:
    request = TurnRequest((user("hi"),), output={"type": "object"}, instructions="Be brief.")
    changes: dict[str, Any] = {"tools": (SPEC,)} if own_tools else {"extra": {"tools": [{"googleSearch": {}}]}}
    with_tools = msgspec.structs.replace(request, **changes)
    old, new = (encode_request(with_tools, model) for model in ("gemini-2.5-flash", "gemini-3-pro"))
    assert "generationConfig" not in old
    said = [part["text"] for part in old["systemInstruction"]["parts"]]
    assert (said[0], said[1].endswith('\n{"type": "object"}')) == ("Be brief.", True)
    for body in (new, encode_request(request, "gemini-2.5-flash")):
        assert body["generationConfig"]["responseJsonSchema"] == {"type": "object"}
        assert body["systemInstruction"] == {"parts": [{"text": "Be brief."}]}


def test_all_wishes_are_written() -> None:
    body = body_of(
        TurnRequest(
            (user("hi"),),
            (SPEC, ToolSpec("now", "Tells the time.", {"type": "object", "properties": {}})),
            instructions="Be brief.",
            max_output_tokens=9,
            temperature=0.0,
            stop=("END",),
            output={"type": "object", "properties": {"a": {"const": "x"}}},
            reasoning_effort="low",
        )
    )
    assert body["systemInstruction"] == {"parts": [{"text": "Be brief."}]}
    assert body["tools"] == [
        {
            "functionDeclarations": [
                {"name": "search", "description": "Searches.", "parametersJsonSchema": SPEC.parameters},
                {"name": "now", "description": "Tells the time."},
            ]
        }
    ]
    assert body["generationConfig"] == {
        "maxOutputTokens": 9,
        "temperature": 0.0,
        "stopSequences": ["END"],
        "responseMimeType": "application/json",
        "responseJsonSchema": {"type": "object", "properties": {"a": {"type": "string", "enum": ["x"]}}},
        "thinkingConfig": {"thinkingLevel": "low", "includeThoughts": True},
    }
    assert "toolConfig" not in body


@pytest.mark.parametrize(
    ("effort", "config"),
    [
        ("high", {"thinkingLevel": "high", "includeThoughts": True}),
        ("1024", {"thinkingBudget": 1024, "includeThoughts": True}),
        ("-1", {"thinkingBudget": -1, "includeThoughts": True}),
        ("0", {"thinkingBudget": 0}),
    ],
)
def test_effort_is_a_level_or_a_number_of_tokens(effort: str, config: dict[str, Any]) -> None:
    assert body_of(TurnRequest((), reasoning_effort=effort))["generationConfig"] == {"thinkingConfig": config}


@pytest.mark.parametrize(
    ("choice", "strict", "written"),
    [
        ("auto", False, None),
        ("auto", True, {"mode": "VALIDATED"}),
        ("none", True, {"mode": "NONE"}),
        ("required", True, {"mode": "ANY"}),
        ("search", False, {"mode": "ANY", "allowedFunctionNames": ["search"]}),
    ],
)
def test_the_choice_of_tools_is_written_as_the_dialect_has_it(choice: str, strict: bool, written: object) -> None:
    spec = ToolSpec(SPEC.name, SPEC.description, SPEC.parameters, strict)
    config = body_of(TurnRequest((), (spec,), tool_choice=choice)).get("toolConfig", {})
    assert config.get("functionCallingConfig") == written
    assert "toolConfig" not in body_of(TurnRequest((), tool_choice=choice))


def test_one_call_at_a_time_cannot_be_asked_for_and_that_is_said_once(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING):
        body_of(TurnRequest((), (SPEC,), parallel_calls=True))
        assert caplog.messages == []
        for _ in range(2):
            body_of(TurnRequest((), (SPEC,), parallel_calls=False))
    assert caplog.messages == ["Gemini cannot be told to make one call at a time: parallel_calls=False has no effect"]


def test_extra_is_joined_to_the_body() -> None:
    extra = {
        "generationConfig": {"topP": 0.5, "temperature": 0.1},
        "toolConfig": {"includeServerSideToolInvocations": True, "functionCallingConfig": {"mode": "AUTO"}},
        "tools": [{"googleSearch": {}}],
        "safetySettings": [],
        "systemInstruction": None,
    }
    request = TurnRequest((), (SPEC,), instructions="x", tool_choice="required", temperature=1.0, extra=extra)
    body = body_of(request)
    assert body["generationConfig"] == {"topP": 0.5, "temperature": 0.1}
    assert body["toolConfig"] == {
        "includeServerSideToolInvocations": True,
        "functionCallingConfig": {"mode": "AUTO"},
    }
    assert [list(tool) for tool in body["tools"]] == [["functionDeclarations"], ["googleSearch"]]
    assert (body["safetySettings"], body["systemInstruction"]) == ([], None)
    assert body == body_of(request)
    assert body_of(TurnRequest((), extra={"tools": [{"googleSearch": {}}]}))["tools"] == [{"googleSearch": {}}]


# What was said


def test_what_each_said_in_a_row_is_one_content_but_results_stand_alone() -> None:
    assert contents(
        user("go"),
        user("on"),
        assistant("Look"),
        ToolCall("a", "f", '{"x": 1}'),
        ToolCall("b", "g", "{}"),
        ToolOutput("a", "f", "1"),
        ToolOutput("b", "g", "no", failed=True),
        user("and now?"),
        user("well?"),
        assistant("Done."),
        model="gemini-2.5-flash",
    ) == [
        {"role": "user", "parts": [{"text": "go"}, {"text": "on"}]},
        {
            "role": "model",
            "parts": [
                {"text": "Look"},
                {"functionCall": {"name": "f", "args": {"x": 1}}},
                {"functionCall": {"name": "g", "args": {}}},
            ],
        },
        {
            "role": "user",
            "parts": [
                {"functionResponse": {"name": "f", "response": {"output": "1"}}},
                {"functionResponse": {"name": "g", "response": {"error": "no"}}},
            ],
        },
        {"role": "user", "parts": [{"text": "and now?"}, {"text": "well?"}]},
        {"role": "model", "parts": [{"text": "Done."}]},
    ]


@pytest.mark.parametrize("history", [(), (user(""),), (assistant("Hi"),), (Reasoning("Hm"),)])
def test_the_person_speaks_first_if_only_a_blank(history: History) -> None:
    assert contents(*history)[0] == {"role": "user", "parts": [{"text": " "}]}


def test_blank_messages_are_left_out() -> None:
    assert contents(user("a"), assistant(""), user("b")) == [{"role": "user", "parts": [{"text": "a"}, {"text": "b"}]}]


def test_images_come_before_the_text() -> None:
    there = Image(url="https://example.org/a.png")
    assert contents(Message("user", "What?", (PNG, there)), Message("user", "", (there,))) == [
        {
            "role": "user",
            "parts": [
                PNG_PART,
                {"fileData": {"fileUri": "https://example.org/a.png"}},
                {"text": "What?"},
                {"fileData": {"fileUri": "https://example.org/a.png"}},
            ],
        }
    ]


def test_images_of_a_result_are_inside_of_it() -> None:
    there = image("https://example.org/a.png", "image/png")
    call, other = ToolCall("a", "look", "{}"), ToolCall("b", "peek", "{}")
    results = (ToolOutput("a", "look", "", images=(PNG, there)), ToolOutput("b", "peek", "ok"))
    answered, behind = contents(user("go"), call, other, *results)[2:]
    assert answered["parts"] == [
        {"functionResponse": {"name": "look", "response": {"output": ""}, "parts": [PNG_PART]}},
        {"functionResponse": {"name": "peek", "response": {"output": "ok"}}},
    ]
    assert behind["parts"] == [
        {"fileData": {"mimeType": "image/png", "fileUri": "https://example.org/a.png"}},
        {"text": "The images are from the results of: look"},
    ]


@pytest.mark.parametrize("model", ["gemini-2.5-pro", "models/gemini-1.5-flash", "gemma-3-27b-it", "x/gemini-2-flash"])
def test_older_models_get_them_behind_it(model: str) -> None:
    result = ToolOutput("a", "look", "ok", images=(PNG,))
    answered, behind = contents(user("go"), ToolCall("a", "look", "{}"), result, model=model)[2:]
    assert answered["parts"] == [{"functionResponse": {"name": "look", "response": {"output": "ok"}}}]
    assert behind["parts"] == [
        PNG_PART,
        {"text": "The images are from the results of: look"},
    ]


def test_what_others_want_back_is_not_sent() -> None:
    history = (
        user("go"),
        Reasoning("Hm", "trace", {"anthropic": {"signature": "s"}}),
        Reasoning("Hm"),
        Message("assistant", "Yes", opaque={"openai_responses": {"id": "m"}}),
        ProviderTool("w", "web_search", {}, kind="server_tool_use", opaque={"anthropic": {"type": "x"}}),
        UnknownItem({"type": "compaction"}, "anthropic"),
        UnknownItem({"promptFeedback": {}}),
        UnknownItem("odd", "gemini"),
    )
    assert contents(*history)[1]["parts"] == [{"text": "Yes"}]


# Calls that its models did not make


def test_the_first_call_of_another_model_is_marked_as_such() -> None:
    """Since the person has spoken: of calls before that the provider wants no signature."""
    old, new = ToolCall("toolu_1", "f", "{}"), ToolCall("toolu_2", "f", "{}")
    history = (user("a"), old, ToolOutput("toolu_1", "f", "1"), user("b"), new, ToolCall("toolu_3", "g", "{}"))
    results = (ToolOutput("toolu_2", "f", "2"), ToolOutput("toolu_3", "g", "3"))
    later = (ToolCall("toolu_4", "f", "{}"), ToolOutput("toolu_4", "f", "4"))
    written = contents(*history, *results, *later)
    said = [content["parts"] for content in written if content["role"] == "model"]
    assert [[part.get("thoughtSignature") for part in parts] for parts in said] == [
        [None],
        [NO_SIGNATURE, None],
        [NO_SIGNATURE],
    ]
    assert NO_SIGNATURE not in json.dumps(contents(*history, *results, model="gemini-2.5-flash"))


def test_a_call_that_is_signed_stays_as_it_is() -> None:
    signed = ToolCall("a", "f", "{}", opaque={"gemini": {"id": "a", "thoughtSignature": "s"}})
    written = contents(
        user("go"), signed, ToolCall("b", "g", "{}"), ToolOutput("a", "f", "1"), ToolOutput("b", "g", "2")
    )
    assert written[1]["parts"] == [
        {"functionCall": {"id": "a", "name": "f", "args": {}}, "thoughtSignature": "s"},
        {"functionCall": {"name": "g", "args": {}}},
    ]
    assert [part["functionResponse"].get("id") for part in written[2]["parts"]] == ["a", None]


# What its models said goes back as it came


def sent_back(turn: Turn, model: str) -> list[dict[str, Any]]:
    """The parts of the model in the next request."""
    results = [Value(call.call_id, call.name, "ok", "ok") for call in turn.calls]
    history = append_turn((user("go"),), turn, results)
    return [
        part for content in contents(*history, model=model) if content["role"] == "model" for part in content["parts"]
    ]


@pytest.mark.parametrize("case", cases("stream_gemini.json"))
def test_what_a_case_wants_sent_back_is_sent(case: dict[str, Any]) -> None:
    wanted = case["expect"].get("replay")
    if wanted is None:
        return
    found = sent_back(outcome(GeminiDecoder(), case_body(case)).turn, "gemini-3-pro")
    assert [(part["functionCall"]["name"], part.get("thoughtSignature")) for part in found] == [
        (item["name"], item["thoughtSignature"]) for item in wanted
    ]
    assert [set(part["functionCall"]) for part in found] == [{"name", "args"}] * len(wanted)


@pytest.mark.parametrize("entry", recordings("gemini"))
def test_what_came_whole_or_signed_goes_back_unchanged(entry: dict[str, Any]) -> None:
    body = recorded_body(entry)
    events = [json.loads(line.removeprefix("data: ")) for line in body.decode().splitlines() if line]
    candidates = [candidate for event in events for candidate in event.get("candidates", ())]
    came = [part for candidate in candidates for part in candidate["content"].get("parts", ())]
    found = sent_back(outcome(GeminiDecoder(), [body]).turn, "gemini-2.5-flash")
    signatures = [part["thoughtSignature"] for part in came if "thoughtSignature" in part]
    assert [part["thoughtSignature"] for part in found if "thoughtSignature" in part] == signatures
    for part in came:
        is_in_pieces = "text" in part and "thoughtSignature" not in part
        is_in_pieces = is_in_pieces or "args" not in part.get("functionCall", {"args": {}})
        assert is_in_pieces or part in found or "functionResponse" in part


# A turn over a socket

EVENTS = b'data: {"candidates":[{"content":{"parts":[{"text":"Hi"}],"role":"model"},"finishReason":"STOP"}]}\r\n\r\n'


async def test_a_turn_is_asked_for_and_streamed() -> None:
    async with serve(answer(EVENTS)) as server:
        model = gemini("gemini-3-flash", base_url=f"{server.url}/?key=x", api_key="secret-key")
        turn = await model.stream_turn(TurnRequest((user("hi"),)))
    assert (turn.text, turn.stop_reason, turn.model) == ("Hi", "stop", "gemini-3-flash")
    (asked,) = server.asked
    assert asked.target == "/v1/models/gemini-3-flash:streamGenerateContent?alt=sse&key=x"
    assert asked.headers["x-goog-api-key"] == "secret-key"
    assert asked.body == {"contents": [{"role": "user", "parts": [{"text": "hi"}]}]}


async def test_a_model_of_ones_own_has_a_path_of_its_own() -> None:
    async with serve(answer(EVENTS)) as server:
        await gemini("tunedModels/mine", base_url=server.url, api_key="k").stream_turn(TurnRequest((user("hi"),)))
    assert server.asked[0].target == "/v1/tunedModels/mine:streamGenerateContent?alt=sse"


@pytest.mark.parametrize(
    ("found", "key"),
    [({"GEMINI_API_KEY": "a", "GOOGLE_API_KEY": "b"}, "a"), ({"GOOGLE_API_KEY": "b"}, "b"), ({}, None)],
)
async def test_the_key_comes_from_the_environment(
    found: dict[str, str], key: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("GEMINI_API_KEY", "GOOGLE_API_KEY"):
        monkeypatch.delenv(name, raising=False)
    for name, held in found.items():
        monkeypatch.setenv(name, held)
    async with serve(answer(EVENTS)) as server:
        await gemini("m", base_url=server.url).stream_turn(TurnRequest((user("hi"),)))
    assert server.asked[0].headers.get("x-goog-api-key") == key


async def test_a_refusal_says_why_and_hides_the_key() -> None:
    refusal = b'{"error":{"code":403,"message":"API key secret-key-of-mine not valid.","status":"PERMISSION_DENIED"}}'
    async with serve(answer(refusal, status="403 Forbidden", kind="application/json")) as server:
        with pytest.raises(ProviderError) as raised:
            await gemini("m", base_url=server.url, api_key="secret-key-of-mine").stream_turn(TurnRequest((user("hi"),)))
    assert "API key [hidden] not valid." in str(raised.value)


async def test_an_error_may_come_as_a_list_of_one() -> None:
    refusal = b'[{"error":{"code":400,"message":"Bad field.","status":"INVALID_ARGUMENT"}}]'
    async with serve(answer(refusal, status="400 Bad Request", kind="application/json")) as server:
        with pytest.raises(ProviderError, match="400 Bad Request: Bad field"):
            await gemini("m", base_url=server.url, api_key="k").stream_turn(TurnRequest((user("hi"),)))
