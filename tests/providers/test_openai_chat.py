"""The dialect of chat completions: what servers send, in all the ways they do, and any stream at all."""

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from streamkit.errors import BadPayload, IncompleteStream, ModelError, NotAStream, ProviderError
from streamkit.items import Message, Reasoning, ToolCall, UnknownItem, Usage
from streamkit.providers.openai_chat import encode_mistral_request, encode_openai_request
from streamkit.providers.openai_chat_decoder import OpenAIChatDecoder
from streamkit.testing.cuts import random_cut
from streamkit.turns import TurnRequest

from ..streams import assert_consistent, outcome, same, some_cuts
from .chat_events import STOP, called, delta, messages, read, sse, written_call

# What is sent, and what it is


def test_only_the_first_choice_is_read() -> None:
    second = {"choices": [{"index": 1, "delta": {"content": "no"}, "finish_reason": "length"}]}
    found = read(delta(content="yes"), second, STOP)
    assert (found.turn.text, found.turn.stop_word) == ("yes", "stop")


def test_a_finish_without_a_delta_counts() -> None:
    assert read({"choices": [{"finish_reason": "stop"}]}).turn.stop_reason == "stop"


@pytest.mark.parametrize(
    ("word", "reason"),
    [
        ("stop", "stop"),
        ("length", "length"),
        ("model_length", "length"),
        ("content_filter", "content_filter"),
        ("tool_calls", "unknown"),  # of which none came
        ("a_new_one", "unknown"),
    ],
)
def test_the_reason_to_stop_is_told_in_our_words_and_in_theirs(word: str, reason: str) -> None:
    turn = read(delta(content="a"), {"choices": [{"delta": {}, "finish_reason": word}]}).turn
    assert (turn.stop_reason, turn.stop_word) == (reason, word)


def test_a_reason_to_stop_that_is_a_failure_is_one() -> None:
    found = read(delta(content="a"), {"choices": [{"delta": {}, "finish_reason": "error"}]}, tail=b"data: [DONE]\n\n")
    assert isinstance(found.error, ProviderError)
    assert (found.turn.text, found.turn.stop_reason) == ("a", "error")


@pytest.mark.parametrize(
    ("words", "counts"),
    [
        (["stop", "tool_calls"], "tool_calls"),
        (["tool_calls", "length"], "length"),
        (["length", "tool_calls"], "length"),
        (["content_filter", "a_new_one"], "content_filter"),
        (["refusal", "max_tokens", "stop"], "max_tokens"),
        (["length", "error", "tool_calls"], "error"),
    ],
)
def test_a_good_reason_to_stop_does_not_replace_a_bad_one(words: list[str], counts: str) -> None:
    ends = [{"choices": [{"delta": {}, "finish_reason": word}]} for word in words]
    usage = {"choices": [], "usage": {"prompt_tokens": 1, "completion_tokens": 2}}
    found = read(called(), ends[0], called(index=1, id="b"), *ends[1:], usage)
    assert len(found.turn.calls) == (2 if counts == "tool_calls" else 0)
    assert found.turn.usage == Usage(1, 2)
    assert found.turn.stop_word == counts
    message = "the provider ended the turn with the word error"
    assert str(found.error) == (message if counts == "error" else "None")


def test_content_may_be_a_list_of_parts() -> None:
    content = [{"type": "text", "text": "a"}, {"type": "output_text", "text": "b"}, {"text": "c"}, {"type": "image"}]
    found = read(delta(content=content), STOP)
    assert found.turn.items == (Message("assistant", "abc"), UnknownItem({"type": "image"}))


def test_what_is_not_known_is_kept() -> None:
    found = read(delta(content="a", annotations=[1]), {"later": "event"}, ["list"], STOP)
    assert [item.item for item in found.turn.items if isinstance(item, UnknownItem)] == [
        {"annotations": [1]},
        {"later": "event"},
        ["list"],
    ]
    assert found.error is None


@pytest.mark.parametrize(
    ("told", "usage"),
    [
        ({"prompt_tokens": 3, "completion_tokens": 4, "total_tokens": 7}, Usage(3, 4)),
        (
            {
                "prompt_tokens": 3,
                "completion_tokens": 4,
                "total_tokens": 7,
                "prompt_tokens_details": {"cached_tokens": 2},
                "completion_tokens_details": {"reasoning_tokens": 1},
            },
            Usage(3, 4, 2, 1),
        ),
        (
            {
                "prompt_tokens": 3,
                "completion_tokens": 4,
                "total_tokens": 12,
                "completion_tokens_details": {"reasoning_tokens": 5},
            },
            Usage(3, 9, 0, 5),
        ),
        ({"prompt_tokens": 3, "prompt_cache_hit_tokens": 2, "completion_tokens": None}, Usage(3, 0, 2)),
        ({"prompt_tokens": "many", "prompt_tokens_details": 1}, Usage()),
    ],
)  # fmt: skip
def test_usage_is_counted_the_same_for_all(told: dict[str, Any], usage: Usage) -> None:
    assert read(STOP, {"choices": [], "usage": told}).turn.usage == usage
    assert read(STOP, {"choices": [], "x_groq": {"usage": told}}).turn.usage == usage
    assert read({"choices": [{"delta": {}, "finish_reason": "stop", "usage": told}]}).turn.usage == usage


@pytest.mark.parametrize("kind", ["content", "reasoning", "arguments"])
def test_a_character_that_the_server_cut_in_two_is_whole_again(kind: str) -> None:
    def piece(text: str) -> dict[str, Any]:
        if kind == "arguments":
            return delta(tool_calls=[{"index": 0, "id": "a", "function": {"name": "f", "arguments": text}}])
        return delta(**{kind: text})

    found = read(piece('{"a":"x\ud83d'), piece("\ude00y"), piece('"}'), STOP)
    (item,) = found.turn.items
    text = item.arguments if isinstance(item, ToolCall) else getattr(item, "text", "")
    assert text == '{"a":"x😀y"}'
    assert read(piece('{"a":"\ud83d'), piece('"}'), STOP).turn.items != ()


@pytest.mark.parametrize(
    "event",
    [
        called(id="\ud83d"),
        called(id={"\ud83d": 1}),
        called(function={"name": "\ud83d", "arguments": "{}"}),
        called(function={"name": "f", "arguments": {"k": "\ud83d"}}),
        called(function=None, custom={"name": "\ud83d", "input": ["\ud83d"]}),
        called(extra_content={"\ud83d": 1}),
        delta(content="a", extra_content={"\ud83d": 1}),
        delta(function_call={"name": "\ud83d", "arguments": "\ud83d"}),
        delta(function_call="\ud83d"),
        {"choices": [{"message": {"content": "\ud83d", "tool_calls": [{"id": "\ud83d"}]}}]},
        {"choices": [{"message": "\ud83d"}]},
        delta(refusal="\ud83d"),
        delta(reasoning_details=[{"text": "\ud83d"}]),
        delta(reasoning_details=[{"summary": "a\ude00"}]),
        delta(reasoning_details=[{"type": "reasoning.encrypted", "data": "\ud83d", "\ud83d": 1}]),
        delta(content=[{"type": "text", "text": "\ud83d"}, {"type": "\ud83d"}]),
        delta(content=[{"type": "thinking", "thinking": [{"text": "\ud83d"}]}]),
        delta(annotations=["\ud83d"], audio={"\ud83d": 1}),
        {"choices": [{"delta": {}, "finish_reason": "\ud83d"}]},
        {"\ud83d": 1},
        {"unknown": "\ud83d"},
        {"error": {"message": "\ud83d"}},
        {"error": "\ud83d"},
    ],
)
def test_half_a_character_is_nowhere_in_what_comes_out(event: dict[str, Any]) -> None:
    assert_consistent(read(event, delta(content="a"), tail=b"data: [DONE]\n\n"))


def test_a_character_of_a_refusal_that_was_cut_in_two_is_whole_again() -> None:
    assert read(delta(refusal="x\ud83d"), delta(refusal="\ude00y"), STOP).turn.refusal == "x😀y"


def test_half_a_character_is_a_refusal_too() -> None:
    turn = read(delta(refusal="\ud83d"), STOP).turn
    assert (turn.refusal, turn.stop_reason) == ("\ufffd", "refusal")


def custom(text: object, **fields: Any) -> dict[str, Any]:
    return {"index": 0, "custom": {"input": text, **fields}}


def test_a_custom_call_has_plain_text() -> None:
    start = {**custom("", name="shell"), "id": "a", "type": "custom"}
    found = read(
        delta(tool_calls=[start]), delta(tool_calls=[custom("ls \ud83d")]), delta(tool_calls=[custom("\ude00}")]), STOP
    )
    assert found.turn.calls == (ToolCall("a", "shell", "ls 😀}", "turn_1", custom=True),)
    assert messages(*found.turn.items) == [
        {
            "role": "assistant",
            "content": None,
            "tool_calls": [{"id": "a", "type": "custom", "custom": {"name": "shell", "input": "ls 😀}"}}],
        }
    ]


def test_the_call_of_old_is_a_call() -> None:
    pieces = [{"name": "f", "arguments": ""}, {"arguments": '{"a":"\ud83d'}, {"arguments": '\ude00"}'}]
    end = {"choices": [{"index": 0, "delta": {}, "finish_reason": "function_call"}]}
    found = read(*(delta(content="" if piece.get("name") else None, function_call=piece) for piece in pieces), end)
    assert [(call.name, call.arguments) for call in found.turn.calls] == [("f", '{"a":"😀"}')]
    assert found.turn.calls[0].call_id
    assert read(delta(function_call={"name": "f", "arguments": {"a": 1}}), end).turn.calls[0].arguments == '{"a":1}'


def test_a_call_that_is_told_in_the_old_way_besides_is_one_call() -> None:
    piece = {"index": 0, "id": "a", "function": {"name": "f", "arguments": "{}"}}
    found = read(delta(content="Hm", tool_calls=[piece], function_call={"name": "f", "arguments": "{}"}), STOP)
    assert [call.call_id for call in found.turn.calls] == ["a"]
    assert found.turn.text == "Hm"


def test_an_answer_that_is_not_streamed_may_come_as_one_event() -> None:
    calls = [{"id": name, "function": {"name": name, "arguments": "{}"}} for name in "ab"]
    message = {"role": "assistant", "content": "Hi", "reasoning_content": "Hm", "tool_calls": calls}
    found = read({"choices": [{"index": 0, "message": message, "finish_reason": "tool_calls"}]})
    assert (found.turn.text, [call.call_id for call in found.turn.calls]) == ("Hi", ["a", "b"])
    assert found.turn.items[0] == Reasoning("Hm", "trace", {"openai_chat": {"field": "reasoning_content"}})


def test_a_message_beside_a_delta_says_the_same_again() -> None:
    both = {"choices": [{"index": 0, "delta": {"content": "b"}, "message": {"content": "ab"}}]}
    found = read(delta(content="a"), both, {"choices": [{"message": "odd", "finish_reason": "stop"}]})
    assert found.turn.text == "ab"
    assert found.turn.items[-1] == UnknownItem({"message": "odd"})


def test_a_message_behind_the_deltas_says_the_same_again() -> None:
    call = {"id": "a", "function": {"name": "f", "arguments": "{}"}}
    message = {"content": "ab", "tool_calls": [call]}
    begun = [delta(content="a"), delta(content="b"), delta(tool_calls=[{"index": 0, **call}])]
    found = read(*begun, {"choices": [{"message": message, "finish_reason": "tool_calls"}]})
    assert found.turn.text == "ab"
    assert [call.call_id for call in found.turn.calls] == ["a"]
    assert found.turn.items[-1] == UnknownItem({"message": message})


def test_messages_that_come_one_after_the_other_are_pieces() -> None:
    said = [{"choices": [{"message": {"content": piece}}]} for piece in "ab"]
    assert read(*said, STOP).turn.text == "ab"


@pytest.mark.parametrize(
    ("word", "native", "counts"),
    [
        ("stop", "MALFORMED_FUNCTION_CALL", "MALFORMED_FUNCTION_CALL"),
        ("tool_calls", "max_tokens", "max_tokens"),
        ("tool_calls", "completed", "tool_calls"),
        ("length", "MAX_TOKENS", "length"),
        ("stop", None, "stop"),
        ("stop", 1, "stop"),
    ],
)
def test_the_word_of_the_server_behind_counts_where_it_is_worse(word: str, native: object, counts: str) -> None:
    end = {"choices": [{"delta": {}, "finish_reason": word, "native_finish_reason": native}]}
    turn = read(called(), end).turn
    assert turn.stop_word == counts
    assert len(turn.calls) == (turn.stop_reason == "tool_calls")


def test_null_as_a_text_is_no_reason_to_stop() -> None:
    found = read({"choices": [{"delta": {"content": "a"}, "finish_reason": "null"}]})
    assert isinstance(found.error, IncompleteStream)


@pytest.mark.parametrize(
    ("told", "message", "status"),
    [
        ({"choices": [{"delta": {}, "error": {"code": 502, "message": "gone"}}]}, "gone", 502),
        ({"choices": [{"delta": {}}], "x_groq": {"id": "r", "error": "over capacity"}}, "over capacity", None),
        ({"choices": None, "base_resp": {"status_code": 1008, "status_msg": "no balance"}}, "no balance", None),
        ({"choices": [{"delta": {}}], "base_resp": {"status_code": 1027, "status_msg": "no"}}, "no", None),
        ({"error": {"code": "429", "message": "slow"}}, "slow (429)", 429),
        ({"error_code": 50001, "text": "busy"}, '{"error_code": 50001, "text": "busy"}', None),
    ],
)
def test_an_error_in_a_chunk_is_one_wherever_it_stands(told: dict[str, Any], message: str, status: int | None) -> None:
    found = read(called(), told, tail=b"data: [DONE]\n\n")
    assert isinstance(found.error, ProviderError)
    assert (str(found.error), found.error.status, found.turn.calls) == (message, status, ())


def test_a_word_that_all_is_well_is_no_error() -> None:
    well = {"base_resp": {"status_code": 0, "status_msg": ""}, "x_groq": {"id": "r"}, "error_code": 0}
    assert read({**delta(content="a"), **well}, {**STOP, **well}).turn.stop_reason == "stop"


def test_an_error_beside_its_word_is_told() -> None:
    found = read(delta(content="a"), {"choices": [{"finish_reason": "error", "error": {"message": "no", "code": 502}}]})
    assert (str(found.error), found.turn.text, found.turn.stop_word) == ("no", "a", "error")


SIGNED = {"google": {"thought_signature": "s=="}}


def test_what_gemini_wants_back_with_a_call_goes_back_with_it() -> None:
    first = {"index": 0, "id": "a", "function": {"name": "f", "arguments": "{}"}, "extra_content": SIGNED}
    second = {"index": 0, "id": "b", "function": {"name": "f", "arguments": '{"a":'}}
    rest = {"index": 0, "function": {"arguments": "1}"}, "extra_content": {"google": {"thought_signature": ""}}}
    found = read(delta(tool_calls=[first]), delta(tool_calls=[second]), delta(tool_calls=[rest]), STOP)
    (sent,) = messages(*found.turn.items)
    assert sent["tool_calls"] == [
        {**written_call("a"), "extra_content": SIGNED},
        {**written_call("b", '{"a":1}'), "extra_content": {"google": {"thought_signature": ""}}},
    ]
    for encode in (encode_openai_request, encode_mistral_request):
        (call, _) = encode(TurnRequest(found.turn.items), "m")["messages"][0]["tool_calls"]
        assert set(call) == {"id", "type", "function"}


def test_what_gemini_wants_back_with_a_text_goes_back_with_it() -> None:
    found = read(delta(content="Y"), delta(content="es", extra_content=SIGNED), delta(extra_content=None), STOP)
    assert found.turn.items == (Message("assistant", "Yes", opaque={"openai_chat": {"extra_content": SIGNED}}),)
    assert messages(*found.turn.items) == [{"role": "assistant", "content": "Yes", "extra_content": SIGNED}]
    assert encode_openai_request(TurnRequest(found.turn.items), "m")["messages"] == [
        {"role": "assistant", "content": "Yes"}
    ]


THOUGHT = {"google": {"thought": True}}


@pytest.mark.parametrize(
    "events",
    [
        [
            delta(content="<thought>Let me", extra_content=THOUGHT),
            delta(content=" see", extra_content=THOUGHT),
            delta(role="assistant", content=""),
            delta(content="</thought>Yes"),
        ],
        [delta(content="<thought>Let me see</thought>Yes", extra_content=THOUGHT)],
        [delta(content="<thought>Let me see</thought>", extra_content=THOUGHT), delta(content="Yes")],
        [delta(content="Let me see", extra_content=THOUGHT), delta(content="Yes")],
    ],
)
def test_thoughts_that_gemini_marks_are_reasoning(events: list[dict[str, Any]]) -> None:
    found = read(*events, delta(content=", </thought>."), STOP)
    assert found.turn.items == (Reasoning("Let me see"), Message("assistant", "Yes, </thought>."))


def call_of(told: object) -> tuple[str, str]:
    found = read(delta(content="a", tool_calls=told), STOP)
    (call,) = found.turn.calls
    return call.name, call.arguments


OSLO = '{"city":"Oslo"}'


@pytest.mark.parametrize(
    "told",
    [
        {"index": 0, "id": "a", "function": {"name": "f", "arguments": OSLO}},
        [{"id": "a", "function": {"name": "f", "parameters": {"city": "Oslo"}}}],
        [{"id": "a", "function": {"name": "f", "arguments": None, "parameters": OSLO}}],
        [{"id": "a", "name": "f", "arguments": {"city": "Oslo"}}],
        [{"name": "f", "arguments": OSLO}],
    ],
)
def test_a_call_has_its_arguments_however_it_is_written(told: object) -> None:
    assert call_of(told) == ("f", OSLO)


@pytest.mark.parametrize(
    "nothing",
    [
        {"function_call": {"name": "", "arguments": ""}},
        {"function_call": {"name": None, "arguments": None}},
        {"tool_calls": [{"index": 0, "id": "", "type": "function", "function": {"name": "", "arguments": ""}}]},
        {"tool_calls": [{}]},
        {"tool_calls": [None]},
        {"tool_calls": {}},
        {"tool_calls": ""},
    ],
)
def test_a_call_of_nothing_is_none(nothing: dict[str, Any]) -> None:
    end = {"choices": [{"index": 0, "delta": nothing, "finish_reason": "stop"}]}
    turn = read(delta(content="a", **nothing), end).turn
    assert (turn.text, turn.calls, turn.stop_reason) == ("a", (), "stop")
    called_before = read(called(), end).turn
    assert [call.call_id for call in called_before.calls] == ["a"]


def test_an_id_that_is_a_number_is_an_id() -> None:
    call = {"index": 0, "id": 7, "function": {"name": "f", "arguments": "{}"}}
    assert read(delta(tool_calls=[call]), STOP).turn.calls[0].call_id == "7"


def test_calls_with_null_as_a_text_for_an_id_have_none() -> None:
    texts = ['{"x":1}', '{"x":2}']
    calls = [{"id": "null", "function": {"name": "f", "arguments": text}} for text in texts]
    made = read(delta(tool_calls=calls), STOP).turn.calls
    assert [(call.call_id, call.arguments, call.problem) for call in made] == [
        ("call_1_0", texts[0], None),
        ("call_1_1", texts[1], None),
    ]


def test_a_field_of_another_type_does_not_cost_the_chunk() -> None:
    assert (
        read({"choices": [{"index": "0", "delta": {"content": "a", "refusal": 0}}], "usage": "none"}, STOP).turn.text
        == "a"
    )


# How it can fail


@pytest.mark.parametrize(
    ("tail", "error", "message"),
    [
        (b'data: {"error":{"message":"no","type":"overloaded"}}\n\n', ProviderError, "no (overloaded)"),
        (b'data: {"error":"no"}\n\n', ProviderError, "no"),
        (b'data: {"object":"error","message":"no","type":"x"}\n\n', ProviderError, "no (x)"),
        (b'data: {"detail":[{"msg":"no"},{"msg":"never"}]}\n\n', ProviderError, "no; never"),
        (b'data: {"code":500,"msg":"no"}\n\n', ProviderError, "no"),
        (
            b'data: {"error":{"code":7,"message":{"de":"nein"}}}\n\n',
            ProviderError,
            '{"code": 7, "message": {"de": "nein"}}',
        ),
        (b'event: error\ndata: {"message":"no"}\n\n', ProviderError, "no"),
        (b"event: error\ndata: overloaded\n\n", ProviderError, "overloaded"),
        (b'error: {"error":{"message":"no"}}\n\n', ProviderError, "no"),
        (b'{"error":{"message":"no"}}\n', ProviderError, "no"),
        (b'{\n "error":\n\n {"message":"no"}\n}\n', ProviderError, "no"),
        (b'data: {"error":{}}\n\n', IncompleteStream, "the answer ended before it gave a reason to stop"),
        (b"data: {not json\n\n", BadPayload, "an event of the stream is not JSON: Expecting property name"),
        (b"data: \xff\n\n", BadPayload, "the stream is not UTF-8"),
        (b'data: {"choices":[{"delta":{"content":"cut', IncompleteStream, "the answer ended before it gave a reason"),
        (b"", IncompleteStream, "the answer ended before it gave a reason to stop"),
    ],
)
def test_a_failure_is_told_after_what_came_before(tail: bytes, error: type[ModelError], message: str) -> None:
    for cut in some_cuts(sse(delta(content="a")) + tail, 20):
        found = outcome(OpenAIChatDecoder(), cut)
        assert type(found.error) is error
        assert str(found.error).startswith(message)
        assert (found.turn.text, found.turn.stop_reason) == ("a", "error")


@pytest.mark.parametrize("depth", [300, 900, 100_000])
@pytest.mark.parametrize(
    ("start", "opens", "closes", "end"),
    [
        (b'{"choices":[],"x":', b"[", b"]", b"}"),
        (b'{"choices":5,"x":', b"[", b"]", b"}"),
        (b'{"choices":5,"x":', b'{"x":', b"}", b"}"),
        (b'{"choices":[{"delta":{"annotations":', b"[", b"]", b"}}]}"),
        (b'{"choices":[{"delta":{"tool_calls":[{"index":0,"id":"a","function":{"name":"f","arguments":{"x":',
         b"[", b"]", b"}}}]}}]}"),
        (b'{"choices":[{"delta":{"tool_calls":[{"index":0,"id":', b"[", b"]", b"}]}}]}"),
        (b'{"error":{"message":', b'[{"message":', b"}]", b"}}"),
        (b'{"error":', b'{"error":', b"}", b"}"),
    ],
)  # fmt: skip
def test_what_is_nested_too_deeply_is_read_or_a_failure_of_the_server(
    start: bytes, opens: bytes, closes: bytes, end: bytes, depth: int
) -> None:
    event = start + opens * depth + b"1" + closes * depth + end
    for tail in (b"data: " + event + b"\n\n", b"event: error\ndata: " + event + b"\n\n", b"data: " + event, event):
        found = read(delta(content="a"), tail=tail)
        assert isinstance(found.error, BadPayload | ProviderError | IncompleteStream)
        assert found.turn.text == "a"


def test_nothing_is_read_after_a_failure() -> None:
    for cut in some_cuts(sse(delta(content="a"), {"error": "no"}, delta(content="b"), {"error": "again"}, STOP), 20):
        found = outcome(OpenAIChatDecoder(), cut)
        assert (found.turn.text, str(found.error)) == ("a", "no")


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (
            b"<html>\n<body>Log in</body>",
            "the answer is not a stream of events, it begins with <html> <body>Log in</body>",
        ),
        (b'{"choices":[{"message":{"content":"Hi"}}]}', "the answer is not a stream of events, it begins with {"),
    ],
)
def test_a_body_that_is_no_stream_is_told(body: bytes, message: str) -> None:
    for cut in some_cuts(body, 5):
        found = outcome(OpenAIChatDecoder(), cut)
        assert isinstance(found.error, NotAStream)
        assert str(found.error).startswith(message)


@pytest.mark.parametrize("tail", [b"data: [DONE]", b"data: [DONE]\n", b"data: [DONE]\n\ndata: {broken\n\n"])
def test_the_end_mark_ends_the_turn_however_it_is_written(tail: bytes) -> None:
    found = read(delta(content="a"), tail=tail)
    assert (found.error, found.turn.text, found.turn.stop_reason) == (None, "a", "unknown")


def test_a_last_event_without_its_blank_line_counts() -> None:
    found = read(delta(content="a"), tail=sse(STOP).rstrip(b"\n"))
    assert (found.error, found.turn.stop_reason) == (None, "stop")


def test_empty_events_are_a_sign_of_life_and_nothing_else() -> None:
    found = read(delta(content="a"), tail=b"data: \n\ndata:\n\n" + sse(STOP))
    assert (found.error, found.turn.text) == (None, "a")


def test_a_call_behind_the_reason_to_stop_does_not_run_when_the_body_is_cut() -> None:
    end = {"choices": [{"delta": {}, "finish_reason": "tool_calls"}]}
    cut = read(end, called())
    assert isinstance(cut.error, IncompleteStream)
    assert not cut.turn.calls
    for whole in (read(end, called(), end), read(end, called(), tail=b"data: [DONE]\n\n")):
        assert (whole.error, len(whole.turn.calls)) == (None, 1)


# Any stream at all

TEXTS = st.sampled_from(["", "a", "é", "\ud83d", "\ude00", "{", "\n"])
ARGUMENTS = st.sampled_from(["{", "}", '"k":', '"', "1", " ", "", "null", "x", None, {"k": 1}]) | st.sampled_from(
    ["{}", '{"k":1}', '{"k":2}', '{"k":1}{"k":1}', '"{\\"k\\":1}"']
)
FUNCTIONS: st.SearchStrategy[dict[str, Any]] = st.builds(
    dict, name=st.sampled_from([None, "f", "g", "get_", "weather", ""]), arguments=ARGUMENTS
)
PIECES: st.SearchStrategy[dict[str, Any]] = st.builds(
    dict,
    index=st.sampled_from([0, 1, None, 2]),
    id=st.sampled_from([None, "a", "b", "", 3, "\ud83d"]),
    function=FUNCTIONS | FUNCTIONS | st.none(),
    custom=st.sampled_from([None] * 5 + [{"name": "f", "input": "x"}, {"input": "\ud83d"}, {"input": 1}, "x"]),
    extra_content=st.sampled_from([None, None, {"google": {"thought_signature": ""}}]),
)
DELTAS = st.fixed_dictionaries(
    {},
    optional={
        "content": st.none() | TEXTS,
        "reasoning": TEXTS,
        "refusal": st.sampled_from([None] * 5 + ["no", "\ud83d"]),
        "tool_calls": st.lists(PIECES, min_size=1, max_size=3),
        "function_call": st.none() | FUNCTIONS,
        "extra_content": st.sampled_from([None, {"google": {"thought": True}}, {"google": {"thought_signature": "s"}}]),
    },
)
CHUNKS = DELTAS.map(lambda fields: sse(delta(**fields)))
FAULTS = st.sampled_from(
    [b""] * 9
    + [sse({"error": {"message": "no"}}), b"data: {\n\n", b": ping\n\n", b"foo: bar\n\n", b"\xff", b"event: error\n"]
)
ENDS = st.sampled_from(["stop", "tool_calls", "length", "content_filter", "error", "new"]).map(
    lambda word: sse({"choices": [{"delta": {}, "finish_reason": word}]})
) | st.sampled_from([b"", b"data: [DONE]\n\n"])


BODIES = st.tuples(st.lists(CHUNKS, max_size=12), FAULTS, ENDS, st.lists(CHUNKS, max_size=2)).map(
    lambda parts: b"".join([*parts[0], parts[1], parts[2], *parts[3]])
)


@settings(max_examples=200)
@given(BODIES, st.integers(0, 9), st.data())
def test_any_stream_keeps_the_grammar_of_tool_input_in_any_cut(body: bytes, seed: int, data: st.DataObject) -> None:
    if data.draw(st.integers(0, 3), label="whole, unless 0") == 0:
        body = body[: data.draw(st.integers(0, len(body)), label="broken off at")]
    found = outcome(OpenAIChatDecoder(), [body], ["get_weather", "f"])
    assert same(outcome(OpenAIChatDecoder(), random_cut(body, seed), ["get_weather", "f"]), found)
    assert_consistent(found)


KEYS = [
    "choices", "delta", "content", "tool_calls", "function", "arguments", "name", "id", "index", "usage", "error",
    "text", "message", "x_groq", "reasoning", "type", "reasoning_details", "finish_reason", "code", "detail",
    "prompt_tokens", "completion_tokens_details", "refusal", "custom", "input", "extra_content", "function_call",
]  # fmt: skip
ANY_JSON: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers(-2, 2**65) | st.floats() | st.text("ab\ud83d", max_size=3),
    lambda inner: st.lists(inner, max_size=3)
    | st.dictionaries(
        st.sampled_from(KEYS),
        inner,
        max_size=4,
    ),
    max_leaves=12,
)  # fmt: skip


@given(st.lists(ANY_JSON | ANY_JSON.map(lambda value: {"choices": [{"delta": value}]}), max_size=4))
def test_no_json_breaks_the_decoder(events: list[Any]) -> None:
    found = read(*events, STOP)
    assert found.error is None or isinstance(found.error, ModelError)
    assert_consistent(found)


@given(st.binary(max_size=60))
def test_no_bytes_break_the_decoder(body: bytes) -> None:
    found = outcome(OpenAIChatDecoder(), [body])
    assert isinstance(found.error, ModelError) or b"[DONE]" in body  # which alone ends a turn, an empty one
    assert found.turn is None or not found.turn.items
