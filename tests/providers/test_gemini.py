"""The dialect of Gemini: oddities of its events, and how they can fail."""

import json
from typing import Any

import pytest

from streamkit.errors import BadModelOutput, BadPayload, IncompleteStream, ModelError, NotAStream, ProviderError
from streamkit.items import Message, ProviderTool, Reasoning, UnknownItem, Usage, user
from streamkit.providers.gemini import encode_request
from streamkit.providers.gemini_decoder import GeminiDecoder, GeminiJsonArrayDecoder
from streamkit.turns import ReasoningDelta, TextDelta, TurnRequest

from ..streams import assert_consistent, outcome, same, some_cuts
from .gemini_events import BEGIN, END, STOP, call, pieces, read, said, sse, value


def test_only_the_first_candidate_is_read() -> None:
    second = {"index": 1, "content": {"parts": [{"text": "no"}]}, "finishReason": "MAX_TOKENS"}
    event = said({"text": "yes"}, finish="STOP")
    event["candidates"] += [second]
    turn = read({"candidates": [second]}, event).turn
    assert (turn.text, turn.stop_word) == ("yes", "STOP")


@pytest.mark.parametrize(
    "event",
    [
        {"candidates": [{"finishReason": "STOP"}]},
        {"candidates": [{"content": {}, "finishReason": "STOP"}]},
        {"candidates": [{"content": {"parts": None}, "finishReason": "STOP"}]},
        {"candidates": [{"content": {"parts": [{}]}, "finishReason": "STOP"}]},
        {"candidates": [{"content": None, "index": 0, "finishReason": "STOP"}]},
    ],
)
def test_an_end_without_parts_is_an_end(event: object) -> None:
    found = read(said({"text": "a"}), event)
    assert (found.error, found.turn.text, found.turn.stop_reason) == (None, "a", "stop")
    assert len(found.turn.items) == 1


@pytest.mark.parametrize(
    ("word", "reason"),
    [
        ("STOP", "stop"),
        ("MAX_TOKENS", "length"),
        ("SAFETY", "content_filter"),
        ("RECITATION", "content_filter"),
        ("LANGUAGE", "content_filter"),
        ("BLOCKLIST", "content_filter"),
        ("PROHIBITED_CONTENT", "content_filter"),
        ("SPII", "content_filter"),
        ("MODEL_ARMOR", "content_filter"),
        ("IMAGE_SAFETY", "content_filter"),
        ("IMAGE_PROHIBITED_CONTENT", "content_filter"),
        ("IMAGE_RECITATION", "content_filter"),
        ("OTHER", "unknown"),
        ("NO_IMAGE", "unknown"),
        ("A_NEW_ONE", "unknown"),
        (7, "unknown"),
    ],
)
def test_the_reason_to_stop_is_told_in_our_words_and_in_theirs(word: Any, reason: str) -> None:
    turn = read(said({"text": "a"}, finish=word)).turn
    assert (turn.stop_reason, turn.stop_word) == (reason, str(word))


@pytest.mark.parametrize(
    ("word", "error"),
    [
        ("MALFORMED_FUNCTION_CALL", BadModelOutput),
        ("MALFORMED_RESPONSE", BadModelOutput),
        ("UNEXPECTED_TOOL_CALL", BadModelOutput),
        ("TOO_MANY_TOOL_CALLS", BadModelOutput),
        ("MISSING_THOUGHT_SIGNATURE", ProviderError),
    ],
)
def test_a_reason_to_stop_that_is_a_failure_is_one(word: str, error: type[ModelError]) -> None:
    last: dict[str, Any] = said(finish=word, usageMetadata={"promptTokenCount": 5})
    last["candidates"][0]["finishMessage"] = "print(1)"
    found = read(said({"text": "a"}, call("f", args={})), last)
    assert type(found.error) is error
    assert str(found.error) == f"the provider ended the turn with the word {word}: print(1)"
    assert (found.turn.text, found.turn.stop_word, found.turn.usage.input_tokens) == ("a", word, 5)
    assert found.turn.calls == ()


@pytest.mark.parametrize(
    ("words", "counts"),
    [
        (["STOP", "MAX_TOKENS"], "MAX_TOKENS"),
        (["MAX_TOKENS", "STOP"], "MAX_TOKENS"),
        (["SAFETY", "A_NEW_ONE"], "SAFETY"),
        (["OTHER", "STOP"], "STOP"),
        (["STOP", "FINISH_REASON_UNSPECIFIED"], "STOP"),
    ],
)
def test_of_several_reasons_to_stop_the_last_counts_unless_one_was_worse(words: list[str], counts: str) -> None:
    found = read(*(said({"text": "a"}, finish=word) for word in words))
    assert (found.turn.stop_word, found.turn.text) == (counts, "aa")


def test_a_failure_is_worse_than_any_other_reason() -> None:
    assert isinstance(read(said(finish="MALFORMED_RESPONSE"), said(finish="SAFETY")).error, BadModelOutput)


def test_parts_and_usage_after_the_reason_to_stop_count() -> None:
    late = said({"text": "b"}, usageMetadata={"promptTokenCount": 1, "candidatesTokenCount": 2})
    turn = read(said({"text": "a"}, finish="STOP"), late, {"usageMetadata": {"promptTokenCount": 3}}).turn
    assert (turn.text, turn.usage) == ("ab", Usage(3, 0))


@pytest.mark.parametrize(
    "last", [said({"text": "a"}), said(finish="FINISH_REASON_UNSPECIFIED"), {}, {"responseId": "r"}]
)
def test_a_body_without_a_reason_to_stop_is_incomplete(last: dict[str, Any]) -> None:
    assert isinstance(read(said({"text": "a"}), last).error, IncompleteStream)


def test_a_prompt_that_is_blocked_ends_the_turn_without_a_word() -> None:
    feedback = {"blockReason": "PROHIBITED_CONTENT", "safetyRatings": []}
    found = read({"promptFeedback": feedback, "usageMetadata": {"promptTokenCount": 9}})
    assert (found.error, found.turn.stop_reason, found.turn.stop_word) == (None, "content_filter", None)
    assert found.turn.items == (UnknownItem({"promptFeedback": feedback}),)
    assert found.turn.usage == Usage(9)


def test_a_prompt_that_is_not_blocked_is_not_spoken_of() -> None:
    found = read(said({"text": "a"}, finish="STOP", promptFeedback={"safetyRatings": []}))
    assert (found.turn.stop_reason, len(found.turn.items)) == ("stop", 1)


def test_thoughts_are_summaries() -> None:
    found = read(said({"text": "Hm", "thought": True}), said({"text": "m", "thought": True}, {"text": "Yes"}), STOP)
    assert found.events == [ReasoningDelta("Hm", "summary"), ReasoningDelta("m", "summary"), TextDelta("Yes")]
    assert found.turn.items == (Reasoning("Hmm", "summary"), Message("assistant", "Yes"))


def test_usage_is_counted_as_we_count_it() -> None:
    told = {
        "promptTokenCount": 100,
        "candidatesTokenCount": 20,
        "thoughtsTokenCount": 30,
        "cachedContentTokenCount": 40,
        "toolUsePromptTokenCount": 7,
        "totalTokenCount": 157,
    }
    assert read(said(usageMetadata=told), STOP).turn.usage == Usage(100, 50, 40, 30)


def test_usage_without_numbers_replaces_nothing() -> None:
    turn = read(
        said(usageMetadata={"promptTokenCount": 1}),
        said(usageMetadata={"trafficType": "ON_DEMAND"}),
        said(usageMetadata={}, finish="STOP"),
    ).turn
    assert turn.usage == Usage(1)


def test_usage_is_reported_as_soon_as_it_is_known() -> None:
    """A turn that fails, or is cut off, is paid for, too."""
    event = said({"text": "a"}, usageMetadata={"promptTokenCount": 1, "candidatesTokenCount": "many"})
    assert read(event, {"error": {"message": "no"}}).turn.usage == Usage(1)
    assert read(event).turn.usage == Usage(1)


# Signatures


def test_a_part_with_a_signature_is_an_item_of_its_own() -> None:
    turn = read(
        said({"text": "a"}),
        said({"text": "b", "thoughtSignature": "s1"}),
        said({"text": "c"}),
        said({"text": "d"}, {"text": "", "thoughtSignature": ""}, finish="STOP"),
    ).turn
    assert turn.items == (
        Message("assistant", "a"),
        Message("assistant", "b", opaque={"gemini": {"thoughtSignature": "s1"}}),
        Message("assistant", "cd"),
        Message("assistant", "", opaque={"gemini": {"thoughtSignature": ""}}),
    )


def test_so_is_a_thought_with_a_signature() -> None:
    turn = read(
        said({"text": "a", "thought": True}),
        said({"text": "b", "thought": True, "thoughtSignature": "s1"}),
        said({"text": "c", "thought": True}, {"text": "", "thought": True, "thoughtSignature": "s2"}, finish="STOP"),
    ).turn
    assert turn.items == (
        Reasoning("a", "summary"),
        Reasoning("b", "summary", {"gemini": {"thoughtSignature": "s1"}}),
        Reasoning("c", "summary"),
        Reasoning("", "trace", {"gemini": {"thoughtSignature": "s2"}}),
    )


def test_a_signature_rides_on_its_call_beside_the_id_that_the_call_had() -> None:
    turn = read(said(call("f", "s", args={"x": 1}, id="a"), call("g", args={}), call("h", args={}, id="a")), STOP).turn
    assert [(item.call_id, item.name, item.opaque) for item in turn.calls] == [
        ("a", "f", {"gemini": {"id": "a", "thoughtSignature": "s"}}),
        ("call_1_1", "g", None),
        ("call_1_2", "h", {"gemini": {"id": "a"}}),
    ]


@pytest.mark.parametrize("signature", [None, "s"])
def test_a_call_beside_a_text_in_one_part_is_read_and_so_is_the_text(signature: str | None) -> None:
    turn = read(said({"text": "Look: ", **call("f", signature, args={"x": 1})}), STOP).turn
    assert (turn.text, [item.arguments for item in turn.calls]) == ("Look: ", ['{"x":1}'])


def test_a_signature_alone_goes_back_with_a_text_that_is_empty() -> None:
    items = read(said({"text": "a"}), said({"thoughtSignature": "s"}), STOP).turn.items
    signed = Message("assistant", "", opaque={"gemini": {"thoughtSignature": "s"}})
    assert items == (Message("assistant", "a"), signed)
    contents = encode_request(TurnRequest((user("?"), *items)), "gemini-3-pro")["contents"]
    assert contents[1]["parts"] == [{"text": "a"}, {"text": "", "thoughtSignature": "s"}]


def test_a_part_that_holds_nothing_does_not_go_back() -> None:
    for part in ({"thought": "Hm"}, {"thoughtSignature": None}):
        assert read(said(part), STOP).turn.items == (UnknownItem(part),)


def test_events_that_are_wrapped_are_read() -> None:
    call = {"functionCall": {"name": "f", "args": {"n": 12345678901234567890123}}}
    found = read({"response": said({"text": "a"}), "traceId": "t"}, {"response": said(call)}, {"response": STOP})
    assert (found.turn.text, found.turn.calls[0].arguments) == ("a", '{"n":12345678901234567890123}')


# Other parts


def test_code_that_the_provider_runs_is_told_with_its_result() -> None:
    code = {"executableCode": {"language": "PYTHON", "code": "1+1", "id": "c"}, "thoughtSignature": "s"}
    result = {"codeExecutionResult": {"outcome": "OUTCOME_OK", "output": "2", "id": "c"}}
    turn = read(said({"text": "a"}, code), said(result, {"text": "b"}), STOP).turn
    inside = {"language": "PYTHON", "code": "1+1"}
    output = {"outcome": "OUTCOME_OK", "output": "2"}
    assert turn.items == (
        Message("assistant", "a"),
        ProviderTool("c", "code_execution", inside, None, "executableCode", {"gemini": code}),
        ProviderTool("c", "code_execution", None, output, "codeExecutionResult", {"gemini": result}),
        Message("assistant", "b"),
    )


def test_a_result_without_an_id_belongs_to_the_call_before_it() -> None:
    parts = [{"executableCode": {"code": "1"}}, {"codeExecutionResult": {}}] * 2
    turn = read(said({"codeExecutionResult": {}}, *parts), STOP).turn
    assert [item.call_id for item in turn.items if isinstance(item, ProviderTool)] == [
        "codeExecutionResult", "executableCode_1", "executableCode_1", "executableCode_2", "executableCode_2",
    ]  # fmt: skip


def test_a_tool_of_the_provider_is_told_with_its_result() -> None:
    asked = {"toolCall": {"toolType": "GOOGLE_SEARCH_WEB", "args": {"queries": ["x"]}, "id": "t"}}
    found = {
        "toolResponse": {"toolType": "GOOGLE_SEARCH_WEB", "response": {"r": 1}, "id": "t"},
        "thoughtSignature": "s",
    }
    assert read(said(asked, {"text": ""}), said(found), STOP).turn.items == (
        ProviderTool("t", "GOOGLE_SEARCH_WEB", {"queries": ["x"]}, None, "toolCall", {"gemini": asked}),
        ProviderTool("t", "GOOGLE_SEARCH_WEB", None, {"r": 1}, "toolResponse", {"gemini": found}),
    )


def test_a_part_that_is_not_known_goes_back_in_its_place() -> None:
    image = {"inlineData": {"mimeType": "image/png", "data": "aGk="}, "thoughtSignature": "s", "thought": True}
    turn = read(said({"text": "a"}, image, {"text": "b"}, {"newPart": 1}), STOP).turn
    assert turn.items == (
        Message("assistant", "a"),
        UnknownItem(image, "gemini"),
        Message("assistant", "b"),
        UnknownItem({"newPart": 1}, "gemini"),
    )


def test_a_result_that_is_not_ours_is_told_and_not_sent_back() -> None:
    result = {"functionResponse": {"name": "f", "response": {"result": 1}}}
    assert read(said({"text": "a"}, result), said({"text": "b"}), STOP).turn.items == (
        Message("assistant", "ab"),
        UnknownItem(result),
    )


@pytest.mark.parametrize("field", ["groundingMetadata", "citationMetadata", "urlContextMetadata", "logprobsResult"])
def test_what_an_answer_stands_on_is_told(field: str) -> None:
    event, empty = said({"text": "a"}), said({"text": "b"})
    event["candidates"][0].update({field: {"x": 1}, "safetyRatings": [1]})
    empty["candidates"][0].update({field: {}})
    assert read(event, empty, STOP).turn.items == (Message("assistant", "ab"), UnknownItem({field: {"x": 1}}))


def test_an_event_that_is_not_known_is_told() -> None:
    turn = read(said({"text": "a"}), {"news": 1}, {"responseId": "r"}, {"modelVersion": "m"}, STOP).turn
    assert turn.items == (Message("assistant", "a"), UnknownItem({"news": 1}))


# Halves of characters


def test_a_character_that_was_cut_in_two_is_whole_again() -> None:
    found = read(said({"text": "x\ud83d"}), said({"text": "\ude00y"}, {"text": "z"}), STOP)
    assert found.turn.text == "x😀yz"
    found = read(said({"text": "\ud83d", "thought": True}), said({"text": "\ude00", "thought": True}), STOP)
    assert "".join(item.text for item in found.turn.items if isinstance(item, Reasoning)) == "😀"


def test_so_is_one_in_a_value_of_a_call() -> None:
    found = read(
        BEGIN, said(pieces(value("$.x", "a\ud83d", goes_on=True))), said(pieces(value("$.x", "\ude00"))), END, STOP
    )
    assert found.turn.calls[0].arguments == '{"x":"a😀"}'


def test_half_a_character_elsewhere_is_replaced() -> None:
    image = {"inlineData": {"data": "\ud83d"}}
    event = said(image, call("f\ud83d", args={"\ude00": "\ud83d"}), finish="\ud83d", promptFeedback={"x": "\ud83d"})
    event["candidates"][0]["groundingMetadata"] = {"x": "\ud83d"}
    event["candidates"].append({"index": 1, "content": {"parts": [{"text": "\ud83d"}]}})
    odd = [{"jsonPath": "$.a", key: "\ud83d"} for key in ("numberValue", "boolValue", "nullValue", "willContinue")]
    assert_consistent(read(said(pieces(*odd, name="f")), END, STOP))
    found = read(event)
    assert_consistent(found)
    assert found.turn.items[0] == UnknownItem({"inlineData": {"data": "\ufffd"}}, "gemini")
    assert found.turn.stop_word == "\ufffd"


# How it can fail


@pytest.mark.parametrize(
    ("tail", "error", "message"),
    [
        (
            sse({"error": {"code": 503, "message": "Overloaded.", "status": "UNAVAILABLE"}}),
            ProviderError,
            "Overloaded.",
        ),
        (b'{\n  "error": {\n    "code": 400,\n    "message": "no"\n  }\n}\n', ProviderError, "no"),
        (b"data: {not json\n\n", BadPayload, "an event of the stream is not JSON: "),
        (
            b'data: {"candidates":[{"content":{"par',
            IncompleteStream,
            "the answer ended before it gave a reason to stop",
        ),
        (b"data: [DONE]\n\n", IncompleteStream, "the answer ended before it gave a reason to stop"),
        (b"", IncompleteStream, "the answer ended before it gave a reason to stop"),
    ],
)
def test_a_failure_is_told_after_what_came_before(tail: bytes, error: type[ModelError], message: str) -> None:
    for cut in some_cuts(sse(said({"text": "a"})) + tail, 20):
        found = outcome(GeminiDecoder(), cut)
        assert type(found.error) is error
        assert str(found.error).startswith(message)
        assert (found.turn.text, found.turn.stop_reason) == ("a", "error")


def test_an_error_has_the_status_that_the_provider_gives_it() -> None:
    error = read({"error": {"code": 429, "message": "Slower.", "status": "RESOURCE_EXHAUSTED"}}).error
    assert error is not None
    assert error.status == 429


def test_an_end_mark_that_others_put_there_ends_the_turn() -> None:
    found = read(said({"text": "a"}, finish="STOP"), tail=b"data: [DONE]\n\ndata: {broken\n\n")
    assert (found.error, found.turn.text, found.turn.stop_reason) == (None, "a", "stop")


def test_nothing_is_read_after_a_failure() -> None:
    assert read(said({"text": "a"}), {"error": {"message": "no"}}, said({"text": "b"}), STOP).turn.text == "a"


def test_a_page_is_no_stream() -> None:
    assert isinstance(outcome(GeminiDecoder(), [b"<html>\n<body>Log in</body>"]).error, NotAStream)


@pytest.mark.parametrize("depth", [300, 900, 100_000])
@pytest.mark.parametrize(
    ("start", "end"),
    [
        (b'{"x":', b"}"),
        (b'{"candidates":5,"x":', b"}"),
        (b'{"candidates":[{"content":{"parts":[{"newPart":', b"}]}}]}"),
        (b'{"candidates":[{"content":{"parts":[{"functionCall":{"name":"f","args":{"x":', b"}}}]}}]}"),
        (b'{"candidates":[{"content":{"parts":[{"executableCode":{"x":', b"}}]}}]}"),
        (b'{"candidates":[{"groundingMetadata":', b"}]}"),
        (b'{"promptFeedback":{"blockReason":', b"}}"),
        (b'{"error":{"message":', b"}}"),
    ],
)
def test_what_is_nested_too_deeply_is_read_or_a_failure_of_the_server(start: bytes, end: bytes, depth: int) -> None:
    event = start + b"[" * depth + b"1" + b"]" * depth + end
    found = read(said({"text": "a"}), tail=b"data: " + event + b"\n\n" + sse(STOP))
    assert found.error is None or isinstance(found.error, BadPayload | ProviderError)
    assert found.turn.text == "a"


def test_a_number_that_is_too_long_costs_its_part_only() -> None:
    event = b'data: {"candidates":[{"content":{"parts":[{"newPart":1},{"text":"a"}]},"x":' + b"1" * 5000 + b"}]}\n\n"
    found = read(tail=event + sse(STOP))
    assert (found.error, found.turn.text) == (None, "a")


# One JSON array instead of events


def test_an_array_gives_what_events_give() -> None:
    events = [said({"text": "a", "thought": True}), BEGIN, said(pieces(value("$.x", "b\n[", goes_on=True))), END, STOP]
    for indent in (None, 2):
        body = json.dumps(events, indent=indent).encode()
        for cut in some_cuts(body, 20):
            assert same(outcome(GeminiJsonArrayDecoder(), cut), read(*events))


@pytest.mark.parametrize(
    ("body", "error", "message"),
    [
        (b'[{"error":{"code":400,"message":"no"}}]', ProviderError, "no"),
        (b'{"error":{"code":400,"message":"no"}}', ProviderError, "no"),
        (b"<html>", BadPayload, "the body is not a JSON array of objects: before the array comes '<'"),
        (b"[{},[1]]", IncompleteStream, "the answer ended before it gave a reason to stop"),
        (b"[{]]", BadPayload, "an event of the stream is not JSON"),
    ],
)
def test_an_array_that_is_no_turn_fails(body: bytes, error: type[ModelError], message: str) -> None:
    found = outcome(GeminiJsonArrayDecoder(), [body])
    assert type(found.error) is error
    assert str(found.error).startswith(message)


def test_an_array_that_breaks_after_the_end_of_the_turn_is_a_failure_all_the_same() -> None:
    body = json.dumps([said({"text": "a"}, finish="STOP")]).encode() + b"garbage"
    assert isinstance(outcome(GeminiJsonArrayDecoder(), [body]).error, BadPayload)
