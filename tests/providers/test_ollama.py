"""The dialect of Ollama: oddities of its lines, any lines at all, requests, and a turn over a socket."""

import json
import logging
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from streamkit.errors import (
    BadModelOutput,
    BadPayload,
    DefinitionError,
    IncompleteStream,
    ModelError,
    NotAStream,
    ProviderError,
)
from streamkit.items import (
    Message,
    Reasoning,
    ToolCall,
    ToolOutput,
    ToolSpec,
    UnknownItem,
    Usage,
    assistant,
    image,
    user,
)
from streamkit.providers.ollama import encode_request, ollama, url_of_host
from streamkit.providers.ollama_decoder import OllamaDecoder
from streamkit.testing.cuts import random_cut
from streamkit.turns import ReasoningDelta, TextDelta, ToolInputDelta, TurnRequest

from ..streams import Outcome, assert_consistent, outcome, same, some_cuts
from .loopback import answer, serve

# What is sent, and what it is


def lines(*events: object) -> bytes:
    return b"".join(json.dumps(event).encode() + b"\n" for event in events)


def said(**fields: Any) -> dict[str, Any]:
    return {"model": "m", "message": {"role": "assistant", "content": "", **fields}, "done": False}


def call(name: object = "f", arguments: object = None, **fields: Any) -> dict[str, Any]:
    return {"function": {"name": name, "arguments": arguments}, **fields}


DONE = {**said(), "done": True, "done_reason": "stop", "prompt_eval_count": 9, "eval_count": 4, "total_duration": 1}


def read(*events: object, tail: bytes = b"") -> Outcome:
    return outcome(OllamaDecoder(), [lines(*events) + tail])


def test_thinking_comes_before_the_answer() -> None:
    found = read(said(thinking="Hm"), said(thinking="m", content="Yes"), said(content="."), DONE)
    assert found.events == [ReasoningDelta("Hm"), ReasoningDelta("m"), TextDelta("Yes"), TextDelta(".")]
    assert found.turn.items == (Reasoning("Hmm"), Message("assistant", "Yes."))
    assert (found.turn.stop_reason, found.turn.stop_word, found.turn.usage) == ("stop", "stop", Usage(9, 4))


@pytest.mark.parametrize(
    ("word", "reason"),
    [("stop", "stop"), ("length", "length"), ("load", "unknown"), ("unload", "unknown"), ("a_new_one", "unknown")],
)
def test_the_reason_to_stop_is_told_in_our_words_and_in_theirs(word: str, reason: str) -> None:
    turn = read(said(content="a"), {**DONE, "done_reason": word}).turn
    assert (turn.stop_reason, turn.stop_word) == (reason, word)


def test_an_end_without_a_reason_is_no_answer_to_trust() -> None:
    turn = read(said(content="a"), {"done": True}).turn
    assert (turn.stop_reason, turn.stop_word, turn.text) == ("unknown", None, "a")


def test_calls_of_several_lines_are_several_calls() -> None:
    found = read(said(tool_calls=[call("f", {"a": 1}), call("f", {"a": 1})]), said(tool_calls=[call("g", {})]), DONE)
    assert [(each.name, each.arguments) for each in found.turn.calls] == [("f", '{"a":1}')] * 2 + [("g", "{}")]
    assert len({each.call_id for each in found.turn.calls}) == 3


def test_no_call_of_a_turn_that_was_cut_runs() -> None:
    found = read(said(tool_calls=[call("f", {})]), {**DONE, "done_reason": "length"})
    assert [each.abandoned for each in found.turn.dropped] == ["discarded"]


@pytest.mark.parametrize(
    ("written", "arguments"),
    [
        ('{"n": 9223372036854775807}', '{"n":9223372036854775807}'),
        ('{"n": 123456789012345678901234567890}', '{"n":123456789012345678901234567890}'),
        ('{"n": 1.10, "m": 1e400, "s": " a : b "}', '{"n":1.10,"m":1e400,"s":" a : b "}'),
        ('"{\\"n\\": 18446744073709551616}"', '{"n": 18446744073709551616}'),
        ('"{\\"s\\": \\"\\u00e9\\"}"', '{"s": "é"}'),
        ('""', "{}"),
        ("null", "{}"),
    ],
)
def test_arguments_are_what_was_written(written: str, arguments: str) -> None:
    line = b'{"message":{"tool_calls":[{"function":{"name":"f","arguments":%b}}]}}\n' % written.encode()
    found = read(tail=line + lines(DONE))
    assert [each.arguments for each in found.turn.calls] == [arguments]
    assert [event.delta for event in found.events if isinstance(event, ToolInputDelta)] == [arguments]


@pytest.mark.parametrize("arguments", ["[1]", 5, [1], True, "{"])
def test_arguments_that_are_no_object_are_told_to_the_model(arguments: object) -> None:
    found = read(said(tool_calls=[call("f", arguments)]), DONE)
    (told,) = found.turn.calls
    assert told.problem is not None
    assert told.arguments == (arguments if isinstance(arguments, str) else json.dumps(arguments))


def test_a_call_without_a_name_or_of_another_shape_is_not_lost() -> None:
    found = read(
        said(tool_calls=[{"function": {"arguments": {"a": 1}}}, {"code": 1}, "x", call("g", {"b": 2.50})]), DONE
    )
    assert [(each.name, each.problem) for each in found.turn.calls] == [("", "the call has no name"), ("g", None)]
    assert [item.item for item in found.turn.items if isinstance(item, UnknownItem)] == [{"code": 1}, "x"]
    assert read(said(tool_calls=call("f", {})), DONE).turn.calls[0].name == "f"


def test_an_id_may_be_a_number_or_empty() -> None:
    found = read(said(tool_calls=[call("f", {}, id=7), call("f", {}, id="")]), DONE)
    assert found.turn.calls[0].call_id == "7"
    assert found.turn.calls[1].call_id


def test_what_is_not_known_is_kept() -> None:
    found = read(said(content="a", images=["aGk="]), {"status": "pulling"}, [1], said(content={"b": 1}), DONE)
    kept = [item.item for item in found.turn.items if isinstance(item, UnknownItem)]
    assert kept == [{"images": ["aGk="]}, {"status": "pulling"}, [1], {"content": {"b": 1}}]
    assert found.error is None


def test_odd_counts_are_none() -> None:
    assert read({**DONE, "prompt_eval_count": "9", "eval_count": None, "done_reason": 3}).turn.usage == Usage()


@pytest.mark.parametrize("field", ["content", "thinking"])
def test_a_character_that_the_server_cut_in_two_is_whole_again(field: str) -> None:
    (item,) = read(said(**{field: "x\ud83d"}), said(**{field: "\ude00y"}), DONE).turn.items
    assert getattr(item, "text", None) == "x😀y"


@pytest.mark.parametrize(
    "event",
    [
        said(tool_calls=[call("\ud83d", {"\ud83d": "\ude00"}, id="\ud83d")]),
        said(tool_calls=["\ud83d"]),
        said(images=["\ud83d"]),
        {**DONE, "done_reason": "\ud83d"},
        {"error": "\ud83d"},
        {"\ud83d": 1},
    ],
)
def test_half_a_character_is_nowhere_in_what_comes_out(event: dict[str, Any]) -> None:
    assert_consistent(read(event, DONE))


# How it can fail


@pytest.mark.parametrize(
    ("tail", "error", "message"),
    [
        (lines({"error": "model runner has stopped"}), ProviderError, "model runner has stopped"),
        (lines({"error": {"message": "no", "type": "overloaded"}}), ProviderError, "no (overloaded)"),
        (lines({**said(), "error": "no", "done": True}), ProviderError, "no"),
        (lines({**said(), "error": "no"}, DONE), ProviderError, "no"),
        (
            lines({"error": "error parsing tool call: raw='{', err=unexpected end of JSON input"}),
            BadModelOutput,
            "error parsing tool call",
        ),
        (b"{not json}\n", BadPayload, "an event of the stream is not JSON"),
        (b"not json\n", BadPayload, "an event of the stream is not JSON"),
        (b"{\xff}\n", BadPayload, "the stream is not UTF-8"),
        (lines(DONE)[:-3], IncompleteStream, "the answer ended before it gave a reason to stop"),
        (b"", IncompleteStream, "the answer ended before it gave a reason to stop"),
    ],
)
def test_a_failure_is_told_after_what_came_before(tail: bytes, error: type[ModelError], message: str) -> None:
    for cut in some_cuts(lines(said(content="a", tool_calls=[call("f", {})])) + tail, 20):
        found = outcome(OllamaDecoder(), cut)
        assert type(found.error) is error
        assert str(found.error).startswith(message)
        assert (found.turn.text, found.turn.stop_reason, found.turn.calls) == ("a", "error", ())


def test_the_status_of_an_error_is_told() -> None:
    found = read({"error": "no", "status_code": 503})
    assert isinstance(found.error, ProviderError)
    assert found.error.status == 503


def test_a_last_line_without_its_end_counts() -> None:
    found = read(said(content="a"), tail=lines(DONE).rstrip(b"\n"))
    assert (found.error, found.turn.stop_reason) == (None, "stop")


@pytest.mark.parametrize("body", [b"<html>\n<body>Log in</body>", b"<html>\n<body>Log in</body>\n"])
def test_a_body_that_is_no_stream_is_told(body: bytes) -> None:
    for cut in some_cuts(body, 5):
        found = outcome(OllamaDecoder(), cut)
        assert isinstance(found.error, NotAStream)
        assert str(found.error) == "the answer is not a stream of events, it begins with <html> <body>Log in</body>"


@pytest.mark.parametrize("depth", [300, 100_000])
@pytest.mark.parametrize(
    "line", [b'{"message":{"tool_calls":[{"function":{"arguments":%b}}]}}', b'{"x":%b}', b'{"error":%b}']
)
def test_what_is_nested_too_deeply_is_read_or_a_failure_of_the_server(line: bytes, depth: int) -> None:
    found = read(said(content="a"), tail=line % (b"[" * depth + b"]" * depth) + b"\n" + lines(DONE))
    assert found.error is None or isinstance(found.error, BadPayload | ProviderError)
    assert found.turn.text == "a"


# Any lines at all

NAMES = st.sampled_from(["f", "g", "", None, 3, "\ud83d"])
ARGUMENTS = st.sampled_from(['{"a": 1}', "{", "", None, 1, [1], {"a": {"b": 2**70}}, {"a": "\ud83d"}, "\ud83d"])
CALLS: st.SearchStrategy[Any] = st.builds(
    call, NAMES, ARGUMENTS, id=st.sampled_from([None, "a", "b", "", 3])
) | st.sampled_from([None, {}, 1])
TEXTS = st.sampled_from(["", "a", "é", "\ud83d", "\ude00", "\n", None, 1, ["a"]])
MESSAGES = st.fixed_dictionaries(
    {}, optional={"content": TEXTS, "thinking": TEXTS, "tool_calls": st.none() | CALLS | st.lists(CALLS, max_size=3)}
)
LINES = st.builds(lambda fields: lines(said(**fields)), MESSAGES)
FAULTS = st.sampled_from([b""] * 9 + [lines({"error": "no"}), b"{\n", b"\n \n", b"foo\n", b"\xff", b"[]\n", b"null\n"])
ENDS = st.sampled_from([lines(DONE), lines({**DONE, "done_reason": "length"}), b"", lines(DONE)[:-1], b'{"done":'])
BODIES = st.tuples(st.lists(LINES, max_size=8), FAULTS, st.lists(LINES, max_size=2), ENDS).map(
    lambda parts: b"".join([*parts[0], parts[1], *parts[2], parts[3]])
)


@settings(max_examples=200)
@given(BODIES, st.integers(0, 9), st.data())
def test_any_stream_keeps_the_grammar_of_tool_input_in_any_cut(body: bytes, seed: int, data: st.DataObject) -> None:
    if data.draw(st.integers(0, 3), label="whole, unless 0") == 0:
        body = body[: data.draw(st.integers(0, len(body)), label="broken off at")]
    found = outcome(OllamaDecoder(), [body])
    assert same(outcome(OllamaDecoder(), random_cut(body, seed)), found)
    assert_consistent(found)


KEYS = [
    "message",
    "content",
    "thinking",
    "tool_calls",
    "function",
    "name",
    "arguments",
    "id",
    "done",
    "error",
    "detail",
]
ANY_JSON: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers(-2, 2**65) | st.floats() | st.text("ab\ud83d", max_size=3),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(KEYS), inner, max_size=4),
    max_leaves=12,
)


@given(st.lists(ANY_JSON | ANY_JSON.map(lambda value: {"message": {"tool_calls": value}}), max_size=4))
def test_no_json_breaks_the_decoder(events: list[Any]) -> None:
    found = read(*events, DONE)
    assert found.error is None or isinstance(found.error, ModelError)
    assert_consistent(found)


@given(st.binary(max_size=60))
def test_no_bytes_break_the_decoder(body: bytes) -> None:
    assert isinstance(outcome(OllamaDecoder(), [body]).error, ModelError)


# Requests

SPEC = ToolSpec("search", "Searches.", {"type": "object", "properties": {}}, strict=True)
PNG = b"\x89PNG\r\n\x1a\nrest"
PNG_TEXT = "iVBORw0KGgpyZXN0"


def body_of(request: TurnRequest) -> dict[str, Any]:
    return encode_request(request, "m")


def messages(*history: Any) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = body_of(TurnRequest(tuple(history)))["messages"]
    return found


def test_a_plain_request_holds_nothing_that_was_not_asked_for() -> None:
    assert body_of(TurnRequest((user("hi"),))) == {
        "model": "m",
        "messages": [{"role": "user", "content": "hi"}],
        "stream": True,
    }


def test_all_wishes_are_written() -> None:
    body = body_of(
        TurnRequest(
            (user("hi"),),
            (SPEC,),
            instructions="Be brief.",
            max_output_tokens=9,
            temperature=0.0,
            stop=("END",),
            output={"type": "object"},
            reasoning_effort="low",
        )
    )
    assert body["messages"][0] == {"role": "system", "content": "Be brief."}
    function = {"name": "search", "description": "Searches.", "parameters": {"type": "object", "properties": {}}}
    assert body["tools"] == [{"type": "function", "function": function}]
    assert body["options"] == {"temperature": 0.0, "num_predict": 9, "stop": ["END"]}
    assert (body["format"], body["think"]) == ({"type": "object"}, "low")


def test_a_tool_is_told_without_references() -> None:
    place = {"type": "object", "properties": {"name": {"type": "string"}, "around": {"$ref": "#/$defs/Place"}}}
    schema = {
        "type": "object",
        "properties": {"places": {"type": "array", "items": [{"$ref": "#/$defs/Place", "description": "a place"}]}},
        "$defs": {"Place": place},
    }
    (tool,) = body_of(TurnRequest((), (ToolSpec("go", "Goes.", schema),)))["tools"]
    known = {"type": "object", "properties": {"name": {"type": "string"}, "around": {}}, "description": "a place"}
    assert tool["function"]["parameters"] == {
        "type": "object",
        "properties": {"places": {"type": "array", "items": [known]}},
    }


def test_references_that_multiply_come_to_an_end() -> None:
    names = [f"kind_{number}" for number in range(12)]
    any_of_them = {"anyOf": [{"$ref": f"#/$defs/{name}"} for name in names]}
    schema = {"type": "object", "properties": dict.fromkeys(names, any_of_them)}
    (tool,) = body_of(TurnRequest((), (ToolSpec("go", "Goes.", {**schema, "$defs": dict.fromkeys(names, schema)}),)))[
        "tools"
    ]
    assert set(tool["function"]["parameters"]["properties"]) == set(names)
    assert "$ref" not in json.dumps(tool)


def test_parameters_may_have_the_names_of_keywords() -> None:
    field = {"type": "string"}
    schema = {"type": "object", "properties": {"definitions": field, "$defs": field, "$ref": field}}
    (tool,) = body_of(TurnRequest((), (ToolSpec("go", "Goes.", schema),)))["tools"]
    assert tool["function"]["parameters"] == schema


@pytest.mark.parametrize(("effort", "think"), [("none", False), ("true", True), ("false", False), ("max", "max")])
def test_thinking_is_a_level_or_only_on_or_off(effort: str, think: object) -> None:
    assert body_of(TurnRequest((), reasoning_effort=effort))["think"] == think


def test_extra_goes_over_everything_else_and_adds_options() -> None:
    extra = {"options": {"num_ctx": 8192, "temperature": 0.5}, "keep_alive": "5m", "stream": False}
    body = body_of(TurnRequest((), temperature=1.0, max_output_tokens=9, extra=extra))
    assert body["options"] == {"temperature": 0.5, "num_predict": 9, "num_ctx": 8192}
    assert (body["keep_alive"], body["stream"]) == ("5m", False)
    assert body_of(TurnRequest((), temperature=1.0, extra={"options": None}))["options"] is None


def test_a_choice_of_tools_cannot_be_written_and_that_is_said_once(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING, "streamkit"):
        for choice in ("required", "search", "required"):
            body = body_of(TurnRequest((), (SPEC,), tool_choice=choice, parallel_calls=False))
            assert [tool["function"]["name"] for tool in body["tools"]] == ["search"]
            assert not {"tool_choice", "parallel_tool_calls"} & set(body)
    assert sorted(message.partition(":")[0] for message in caplog.messages) == [
        "ollama has no parallel_calls",
        "ollama has no tool_choice",
    ]
    assert "tools" not in body_of(TurnRequest((), (SPEC,), tool_choice="none"))


def test_what_the_model_said_in_a_row_is_one_message() -> None:
    assert messages(
        user("go"),
        Reasoning("Hm"),
        Reasoning("elsewhere", opaque={"anthropic": {"signature": "s"}}),
        Reasoning("short", "summary"),
        assistant("Look"),
        ToolCall("a", "f", '{"n": 123456789012345678901234567890}'),
        UnknownItem({"images": []}),
        assistant("ing"),
        ToolCall("b", "g", "plain", custom=True),
        ToolOutput("a", "f", "1"),
        ToolOutput("b", "g", "no", failed=True),
        assistant("Done."),
        Reasoning("and then"),
        user("thanks"),
    ) == [
        {"role": "user", "content": "go"},
        {
            "role": "assistant",
            "content": "Looking",
            "thinking": "Hm",
            "tool_calls": [
                {
                    "id": "a",
                    "type": "function",
                    "function": {"name": "f", "arguments": {"n": 123456789012345678901234567890}},
                },
                {"id": "b", "type": "function", "function": {"name": "g", "arguments": {"input": "plain"}}},
            ],
        },
        {"role": "tool", "tool_name": "f", "tool_call_id": "a", "content": "1"},
        {"role": "tool", "tool_name": "g", "tool_call_id": "b", "content": "no"},
        {"role": "assistant", "content": "Done.", "thinking": "and then"},
        {"role": "user", "content": "thanks"},
    ]


def test_a_blank_message_is_left_out() -> None:
    assert messages(Reasoning("Hm"), assistant(" \n"), user("x")) == [{"role": "user", "content": "x"}]


def test_a_call_without_text_is_a_message() -> None:
    (sent,) = messages(ToolCall("a", "f", "{}"))
    assert (sent["content"], len(sent["tool_calls"])) == ("", 1)


def test_images_are_bytes_beside_the_text(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING, "streamkit"):
        sent = messages(user("Look", image(PNG), image("https://example.org/a.png")))
    assert sent == [{"role": "user", "content": "Look", "images": [PNG_TEXT]}]
    assert caplog.messages == ["ollama takes images as bytes only: those given by their address are left out"]


def test_images_of_results_follow_behind_them() -> None:
    picture = image(PNG)
    assert messages(
        ToolOutput("a", "f", "1", images=(picture,)),
        ToolOutput("b", "g", "2"),
        ToolOutput("c", "h", "", images=(picture,)),
    )[2:] == [
        {"role": "tool", "tool_name": "h", "tool_call_id": "c", "content": ""},
        {"role": "user", "content": "The images are from the results of: f, h", "images": [PNG_TEXT, PNG_TEXT]},
    ]


# The model


NDJSON = "application/x-ndjson"


async def test_a_turn_is_asked_for_and_streamed(monkeypatch: pytest.MonkeyPatch) -> None:
    async with serve(answer(lines(said(content="Hi"), DONE), kind=NDJSON)) as server:
        monkeypatch.setenv("OLLAMA_HOST", server.url.removesuffix("/v1"))
        monkeypatch.setenv("OLLAMA_API_KEY", "a-very-secret-key")
        turn = await ollama("llama").stream_turn(TurnRequest((user("hi"),)))
    assert (turn.text, turn.stop_reason, turn.model) == ("Hi", "stop", "llama")
    (asked,) = server.asked
    assert (asked.target, asked.body["model"]) == ("/api/chat", "llama")
    assert asked.headers["authorization"] == "Bearer a-very-secret-key"


async def test_a_model_that_is_not_there_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OLLAMA_API_KEY", raising=False)
    body = b'{"error":"model \'llama\' not found"}'
    async with serve(answer(body, status="404 Not Found", kind="application/json; charset=utf-8")) as server:
        with pytest.raises(ProviderError, match="404 Not Found: model 'llama' not found") as raised:
            await ollama("llama", base_url=f"{server.url}/").stream_turn(TurnRequest((user("hi"),)))
    assert raised.value.status == 404
    assert server.asked[0].target == "/v1/api/chat"
    assert "authorization" not in server.asked[0].headers


@pytest.mark.parametrize(
    ("host", "url"),
    [
        ("", "http://localhost:11434"),
        ("example.org", "http://example.org:11434"),
        ("example.org:8000", "http://example.org:8000"),
        (":8000", "http://localhost:8000"),
        ("http://example.org", "http://example.org:80"),
        (" https://example.org/ollama/ ", "https://example.org:443/ollama"),
        ("0.0.0.0:8000", "http://127.0.0.1:8000"),
        ("[::]", "http://[::1]:11434"),
        ("[::2]:8000", "http://[::2]:8000"),
    ],
)
def test_what_is_missing_of_a_host_is_filled_in(host: str, url: str) -> None:
    assert url_of_host(host) == url


@pytest.mark.parametrize("host", ["example.org:port", "http://[::1"])
def test_a_host_that_is_none_is_refused(host: str) -> None:
    with pytest.raises(DefinitionError, match="OLLAMA_HOST is not an address"):
        url_of_host(host)
