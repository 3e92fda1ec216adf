"""The dialect of Gemini: oddities of its events, calls that come in pieces, and any events at all."""

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from streamkit.errors import BadModelOutput, BadPayload, IncompleteStream, ModelError, NotAStream, ProviderError
from streamkit.items import Message, ProviderTool, Reasoning, ToolCall, UnknownItem, Usage
from streamkit.providers.gemini_decoder import GeminiDecoder, GeminiJsonArrayDecoder
from streamkit.testing.cuts import random_cut
from streamkit.turns import ReasoningDelta, TextDelta, ToolInputAvailable, ToolInputDelta, ToolInputStart

from ..streams import Outcome, assert_consistent, outcome, same, some_cuts

# What is sent, and what it is


def sse(*events: object) -> bytes:
    return b"".join(b"data: " + json.dumps(event).encode() + b"\r\n\r\n" for event in events)


def said(*parts: object, finish: str | None = None, **fields: Any) -> dict[str, Any]:
    end = {} if finish is None else {"finishReason": finish}
    return {"candidates": [{"content": {"parts": list(parts), "role": "model"}, "index": 0, **end}], **fields}


def call(name: str | None = None, signature: str | None = None, **fields: Any) -> dict[str, Any]:
    signed = {} if signature is None else {"thoughtSignature": signature}
    return {"functionCall": {**({} if name is None else {"name": name}), **fields}, **signed}


def value(path: str, told: Any, *, goes_on: bool = False) -> dict[str, Any]:
    key = {str: "stringValue", int: "numberValue", float: "numberValue", bool: "boolValue"}.get(type(told), "nullValue")
    return {"jsonPath": path, key: told, **({"willContinue": True} if goes_on else {})}


def pieces(*values: object, goes_on: bool = True, **fields: Any) -> dict[str, Any]:
    return call(**{"partialArgs": list(values), **({"willContinue": True} if goes_on else {}), **fields})


BEGIN = said(call("f", willContinue=True))
END = said(call())
STOP = said({"text": ""}, finish="STOP")


def read(*events: object, tail: bytes = b"") -> Outcome:
    return outcome(GeminiDecoder(), [sse(*events) + tail])


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


def test_a_signature_alone_is_kept_as_it_came() -> None:
    assert read(said({"thoughtSignature": "s"}), STOP).turn.items == (
        UnknownItem({"thoughtSignature": "s"}, "gemini"),
    )  # fmt: skip


# Calls


def test_a_whole_call_is_one_delta_of_compact_json() -> None:
    found = read(said(call("f", args={"city": "Zürich", "n": [1, 2.5, None]}, id="a")), STOP)
    text = '{"city":"Zürich","n":[1,2.5,null]}'
    assert found.events == [ToolInputStart("a", "f"), ToolInputDelta("a", text), ToolInputAvailable("a", text)]
    assert (found.turn.stop_reason, found.turn.stop_word) == ("tool_calls", "STOP")


@pytest.mark.parametrize("fields", [{}, {"args": None}, {"args": {}}, {"willContinue": False}])
def test_a_call_may_have_no_arguments(fields: dict[str, Any]) -> None:
    assert [item.arguments for item in read(said(call("f", **fields)), STOP).turn.calls] == ["{}"]


@pytest.mark.parametrize(
    ("told", "problem"),
    [(call(args={"x": 1}), "the call has no name"), (call("f", args=[1]), "the arguments are not one JSON object: an")],
)
def test_a_call_that_cannot_run_is_told(told: dict[str, Any], problem: str) -> None:
    (item,) = read(said(told), STOP).turn.calls
    assert str(item.problem).startswith(problem)


@pytest.mark.parametrize("fields", [{}, {"willContinue": False}, {"id": "a"}, {"args": {}}])
def test_an_empty_call_that_ends_nothing_is_nothing(fields: dict[str, Any]) -> None:
    assert read(said(call(**fields)), STOP).turn.items == ()


def test_values_are_put_at_their_paths_and_shown_as_they_come() -> None:
    found = read(
        said(call("write", "s", willContinue=True)),
        said(pieces(value("$.path", "a.", goes_on=True))),
        said(pieces(value("$.path", "txt", goes_on=True))),
        said(pieces(value("$.path", ""))),
        said(call(willContinue=True)),
        said(pieces(value("$.lines[0]", "x"), value("$.lines[1]", 2), value("$.flags.new", True))),
        said(pieces(value("$.mode", None), goes_on=False)),
        STOP,
    )
    text = '{"path":"a.txt","lines":["x",2],"flags":{"new":true},"mode":null}'
    deltas = ["{", '"path":"a.', "txt", '"', ',"lines":["x",2],"flags":{"new":true', '},"mode":null', "}"]
    assert found.events == [
        ToolInputStart("call_1_0", "write"),
        *(ToolInputDelta("call_1_0", delta) for delta in deltas),
        ToolInputAvailable("call_1_0", text),
    ]
    assert found.turn.calls[0].opaque == {"gemini": {"thoughtSignature": "s"}}


def test_a_call_in_pieces_keeps_its_id() -> None:
    turn = read(said(call("f", willContinue=True, id="a")), said(pieces(value("$.x", 1), goes_on=False)), STOP).turn
    assert turn.calls == (ToolCall("a", "f", '{"x":1}', "turn_1", opaque={"gemini": {"id": "a"}}),)


def test_an_id_that_comes_late_goes_back_all_the_same() -> None:
    turn = read(BEGIN, said(pieces(value("$.x", 1), goes_on=False, id="late")), STOP).turn
    assert turn.calls == (ToolCall("call_1_0", "f", '{"x":1}', "turn_1", opaque={"gemini": {"id": "late"}}),)


def test_values_that_come_out_of_order_are_all_there() -> None:
    found = read(
        BEGIN,
        said(pieces(value("$.a.x", 1), value("$.b", "t", goes_on=True), value("$.a.y", 2), value("$.b", "u"))),
        END,
        STOP,
    )
    assert json.loads(found.turn.calls[0].arguments) == {"a": {"x": 1, "y": 2}, "b": "tu"}
    assert_consistent(found)


def test_whole_arguments_beside_pieces_win() -> None:
    found = read(BEGIN, said(pieces(value("$.x", "a", goes_on=True))), said(call(args={"x": "ab", "y": [1]})), STOP)
    assert json.loads(found.turn.calls[0].arguments) == {"x": "ab", "y": [1]}
    assert_consistent(found)
    turn = read(said(call("f", args={"y": [1]}, willContinue=True)), said(pieces(value("$.x", 2))), END, STOP).turn
    assert turn.calls[0].arguments == '{"y":[1],"x":2}'


@pytest.mark.parametrize(
    "bad",
    [
        {"stringValue": "no path"},
        {"jsonPath": 5, "stringValue": "x"},
        {"jsonPath": "$[0]", "numberValue": 1},
        {"jsonPath": "$.x.y", "numberValue": 1},
        {"jsonPath": "$.y", "numberValue": {"a": 1}},
        {"jsonPath": "$.y", "stringValue": ["a"]},
    ],
)
def test_values_that_make_no_object_spoil_their_call_alone(bad: dict[str, Any]) -> None:
    found = read(BEGIN, said(pieces(value("$.x", 1), bad, value("$.z", 2))), END, said(call("g", args={})), STOP)
    assert_consistent(found)
    spoiled, whole = found.turn.calls
    assert str(spoiled.problem).startswith("the arguments are not one JSON object")
    assert spoiled.arguments == '{"x":1' + "".join(json.dumps(each) for each in (bad, value("$.z", 2)))
    assert (whole.name, whole.problem) == ("g", None)


def test_an_array_with_holes_is_no_argument() -> None:
    found = read(BEGIN, said(pieces(value("$.x[1]", 1))), END, STOP)
    assert found.turn.calls[0].problem is not None
    assert_consistent(found)


def test_a_value_that_says_nothing_adds_nothing() -> None:
    odd = {"jsonPath": "$.x", "willContinue": True, "newValue": 5}
    assert read(BEGIN, said(pieces(odd, value("$.y", 1))), END, STOP).turn.calls[0].arguments == '{"y":1}'


@pytest.mark.parametrize("last", [STOP, said(call("g", args={}), finish="STOP"), said(finish="A_NEW_ONE")])
def test_the_good_end_or_the_next_call_ends_a_call_that_nobody_ended(last: dict[str, Any]) -> None:
    turn = read(BEGIN, said(pieces(value("$.x", 1))), last).turn
    assert (turn.calls[0].arguments, turn.calls[0].problem) == ('{"x":1}', None)


@pytest.mark.parametrize("last", [STOP, said(call("f", willContinue=True)), said(call("g", args={}))])
def test_but_not_inside_of_a_value(last: dict[str, Any]) -> None:
    found = read(BEGIN, said(pieces(value("$.x", "cut", goes_on=True))), last, STOP)
    assert found.turn.calls[0].arguments == '{"x":"cut'
    assert found.turn.calls[0].problem is not None
    assert_consistent(found)


@pytest.mark.parametrize("word", ["MAX_TOKENS", "SAFETY"])
def test_a_turn_that_is_cut_leaves_its_call_incomplete(word: str) -> None:
    found = read(BEGIN, said(pieces(value("$.x", 1)), finish=word))
    assert found.turn.calls == ()
    assert [(item.arguments, item.abandoned) for item in found.turn.dropped] == [('{"x":1', "incomplete")]


def test_a_call_that_was_begun_and_never_ended_does_not_run_without_arguments() -> None:
    found = read(BEGIN, said({"text": "a"}, finish="MAX_TOKENS"))
    assert [item.abandoned for item in found.turn.dropped] == ["incomplete"]


@pytest.mark.parametrize(
    ("told", "texts"),
    [
        (call("f", willContinue=True), ['{"x":1}', '{"y":2}']),
        (pieces(name="g"), ['{"x":1}', '{"y":2}']),
        (pieces(value("$.z", 3), name="g"), ['{"x":1}', '{"z":3,"y":2}']),
        (pieces(value("$.z", 3), name="f"), ['{"x":1,"z":3,"y":2}']),
        (pieces(value("$.z", 3), name="f", id="b"), ['{"x":1}', '{"z":3,"y":2}']),
        (pieces(value("$.z", 3), name="f", id="a"), ['{"x":1,"z":3,"y":2}']),
        (pieces(value("$.z", 3), id="b"), ['{"x":1,"z":3,"y":2}']),
        (pieces(value("$.z", 3), name=""), ['{"x":1,"z":3,"y":2}']),
    ],
)
def test_a_name_begins_another_call_unless_it_is_repeated(told: dict[str, Any], texts: list[str]) -> None:
    begin = said(call("f", willContinue=True, id="a"))
    turn = read(
        begin, said(pieces(value("$.x", 1))), said(told), said(pieces(value("$.y", 2), goes_on=False)), STOP
    ).turn
    assert [item.arguments for item in turn.calls] == texts


def test_pieces_of_calls_that_are_written_at_the_same_time_go_by_their_ids() -> None:
    def text(piece: str, call_id: str, **fields: Any) -> dict[str, Any]:
        return said(pieces(value("$.x", piece, goes_on=fields.get("goes_on", True)), id=call_id, **fields))

    begun = [text("a", "1", name="f"), text("b", "2", name="g")]
    ended = [text("A", "1", goes_on=False), text("B", "2", goes_on=False)]
    turn = read(*begun, *ended, STOP).turn
    assert [(item.name, item.arguments, item.problem) for item in turn.calls] == [
        ("f", '{"x":"aA"}', None),
        ("g", '{"x":"bB"}', None),
    ]
    assert [item.problem is None for item in read(*begun, ended[1], STOP).turn.calls] == [False, True]


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
        (b"<html>", BadPayload, "the body is no JSON array of objects: before the array comes '<'"),
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


# Any events at all

TEXTS = st.sampled_from(["", "a", "é", "\ud83d", "\ude00", "{", "\n", None, 5])
SIGNATURES = st.sampled_from([None, None, None, "s", "", 7])
PATHS = st.sampled_from(["$.a", "$.b", "$.b.c", "$.l[0]", "$.l[1]", "$.l[0].x", "$['d e']", "$", "$[0]", "", None, 4])
VALUES: st.SearchStrategy[dict[str, Any]] = st.fixed_dictionaries(
    {"jsonPath": PATHS},
    optional={
        "stringValue": TEXTS,
        "numberValue": st.sampled_from([1, 0.5, "NaN", None, {}]),
        "boolValue": st.booleans(),
        "nullValue": st.sampled_from(["NULL_VALUE", None]),
        "willContinue": st.booleans(),
    },
)
CALLS = st.fixed_dictionaries(
    {},
    optional={
        "name": st.sampled_from(["f", "g", "", None, 3]),
        "id": st.sampled_from(["a", "b", "", None, 4]),
        "args": st.sampled_from([None, {}, {"x": 1}, {"a": "a"}, "{", [1], 5]),
        "partialArgs": st.lists(VALUES, max_size=3) | st.none(),
        "willContinue": st.booleans() | st.none(),
    },
)
PARTS = st.fixed_dictionaries(
    {},
    optional={"text": TEXTS, "thought": st.booleans(), "thoughtSignature": SIGNATURES},
) | st.builds(lambda told, signature: {"functionCall": told, "thoughtSignature": signature}, CALLS, SIGNATURES)
OTHERS = st.sampled_from(
    [{"executableCode": {"code": "1"}}, {"toolResponse": {}}, {"inlineData": {}}, {"functionResponse": {}}, {"x": 1}]
)
WORDS = st.sampled_from([None] * 8 + ["STOP", "MAX_TOKENS", "SAFETY", "OTHER", "MALFORMED_FUNCTION_CALL", "NEW", 5])
EVENTS = st.builds(lambda parts, word: said(*parts, finish=word), st.lists(PARTS | OTHERS, max_size=3), WORDS)
FAULTS = st.sampled_from(
    [b""] * 9
    + [
        sse({"error": {"message": "no"}}),
        b"data: {\n\n",
        b": ping\n\n",
        b"foo: bar\n\n",
        b"\xff",
        sse({"usageMetadata": 1}),
    ]
    + [sse({"promptFeedback": {"blockReason": "OTHER"}}), sse({"usageMetadata": {"promptTokenCount": 1}})]
)
BODIES = st.tuples(st.lists(EVENTS, max_size=10), FAULTS, st.lists(EVENTS, max_size=3), st.booleans()).map(
    lambda parts: sse(*parts[0]) + parts[1] + sse(*parts[2]) + (sse(STOP) if parts[3] else b"")
)


@settings(max_examples=200)
@given(BODIES, st.integers(0, 9), st.data())
def test_any_stream_keeps_the_grammar_of_tool_input_in_any_cut(body: bytes, seed: int, data: st.DataObject) -> None:
    if data.draw(st.integers(0, 3), label="whole, unless 0") == 0:
        body = body[: data.draw(st.integers(0, len(body)), label="broken off at")]
    found = outcome(GeminiDecoder(), [body])
    assert same(outcome(GeminiDecoder(), random_cut(body, seed)), found)
    assert_consistent(found)


KEYS = [
    "candidates", "content", "parts", "text", "functionCall", "args", "name", "id", "index", "usageMetadata", "error",
    "partialArgs", "jsonPath", "stringValue", "willContinue", "thought", "thoughtSignature", "finishReason", "message",
    "promptFeedback", "blockReason", "groundingMetadata", "executableCode", "toolCall", "promptTokenCount", "code",
]  # fmt: skip
ANY_JSON: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers(-2, 2**65) | st.floats() | st.text("ab\ud83d", max_size=3),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(KEYS), inner, max_size=4),
    max_leaves=12,
)


@given(st.lists(ANY_JSON | ANY_JSON.map(said) | ANY_JSON.map(lambda told: said({"functionCall": told})), max_size=4))
def test_no_json_breaks_the_decoder(events: list[Any]) -> None:
    found = read(*events, STOP)
    assert found.error is None or isinstance(found.error, ModelError)
    assert_consistent(found)


@given(st.binary(max_size=60))
def test_no_bytes_break_the_decoders(body: bytes) -> None:
    for decoder in (GeminiDecoder(), GeminiJsonArrayDecoder()):
        assert isinstance(outcome(decoder, [body]).error, ModelError)
