"""How a turn of the Responses API ends, and how it fails."""

from typing import Any

import pytest

from streamkit.errors import BadPayload, IncompleteStream, ModelError, NotAStream, ProviderError
from streamkit.items import Usage
from streamkit.providers.openai_responses_decoder import OpenAIResponsesDecoder

from ..streams import assert_consistent, outcome, some_cuts
from .responses_events import (
    ERROR,
    FAILED,
    OBJECT,
    WHOLE_CALL,
    added,
    arguments,
    call,
    completed,
    done,
    event,
    incomplete,
    read,
    sse,
    text,
)


@pytest.mark.parametrize(
    ("told", "reason", "word"),
    [
        (completed(), "stop", "completed"),
        ({"type": "response.completed"}, "stop", "completed"),
        ({"type": "response.done", "response": {"status": "incomplete"}}, "length", "incomplete"),
        ({"type": "response.done"}, "stop", "completed"),
        (completed(status="in_progress"), "stop", "completed"),
        (completed(status="incomplete"), "length", "incomplete"),
        (completed(status=[]), "stop", "completed"),
        (incomplete({"reason": "max_output_tokens"}), "length", "incomplete"),
        (incomplete({"reason": "content_filter"}), "content_filter", "incomplete"),
        (incomplete({"reason": "of_tomorrow"}), "length", "incomplete"),
        (completed(incomplete_details={"reason": "content_filter"}), "content_filter", "completed"),
        (incomplete(None), "length", "incomplete"),
        ({"type": "response.incomplete", "response": None}, "length", "incomplete"),
        ({"type": "response.cancelled", "response": {"status": "cancelled"}}, "cancelled", "cancelled"),
    ],
)
def test_the_reason_to_stop_is_told_in_our_words_and_in_theirs(told: dict[str, Any], reason: str, word: str) -> None:
    turn = read(text("a"), told).turn
    assert (turn.text, turn.stop_reason, turn.stop_word) == ("a", reason, word)


def test_the_last_response_may_stand_beside_its_type_or_alone() -> None:
    response = {"object": "response", "status": "completed", "output": [call(OBJECT)], "usage": {"input_tokens": 3}}
    for told in ({"type": "response.completed", **response}, response):
        turn = read(told).turn
        assert ([made.arguments for made in turn.calls], turn.usage, turn.stop_reason) == (
            [OBJECT], Usage(3), "tool_calls",
        )  # fmt: skip
    assert read({**response, "status": "incomplete"}).turn.stop_reason == "length"
    assert isinstance(read({**response, "status": "queued"}).error, IncompleteStream)


def test_an_event_that_json_refuses_fails_the_turn() -> None:
    too_long = b'{"type":"response.completed","response":{"created_at":%b}}' % (b"1" * 5000)
    assert isinstance(read(text("a"), tail=b"data: " + too_long + b"\n\n").error, BadPayload)


def test_an_error_has_the_status_that_stands_beside_it() -> None:
    found = read({"type": "error", "status": 429, "error": {"message": "slow"}})
    assert isinstance(found.error, ProviderError)
    assert (str(found.error), found.error.status) == ("slow", 429)


def test_a_turn_without_any_item_is_empty() -> None:
    assert read(completed()).turn.items == ()


@pytest.mark.parametrize(
    ("told", "usage"),
    [
        ({"input_tokens": 9, "input_tokens_details": {"cached_tokens": 4}, "output_tokens": 7,
          "output_tokens_details": {"reasoning_tokens": 5}, "total_tokens": 16}, Usage(9, 7, 4, 5)),
        ({"input_tokens": 9, "output_tokens": 7}, Usage(9, 7)),
        ({"input_tokens": None, "input_tokens_details": [], "output_tokens": "7"}, Usage()),
        (None, Usage()),
        ("many", Usage()),
    ],
)  # fmt: skip
def test_usage_counts_whatever_the_end(told: object, usage: Usage) -> None:
    assert read(completed(usage=told)).turn.usage == usage
    assert read({"type": "response.failed", "response": {"usage": told}}).turn.usage == usage


@pytest.mark.parametrize(
    ("events", "words", "word"),
    [
        ([FAILED], "slow down (rate_limit_exceeded)", "failed"),
        ([ERROR], "no (server_error)", None),
        ([{"type": "error", "error": {"type": "x", "code": "x", "message": "no"}}], "no (x)", None),
        ([{"error": {"code": 500, "message": "no"}}], "no", None),
        ([ERROR, FAILED], "no (server_error)", "failed"),
        ([ERROR, ERROR, FAILED], "no (server_error)", "failed"),
        ([ERROR, text(" b"), FAILED], "no (server_error)", None),
        ([ERROR, completed()], "no (server_error)", None),
        ([ERROR, {"type": "error", "message": "again"}], "no (server_error)", None),
        ([completed(status="failed", error={"message": "no"})], "no", "failed"),
        ([completed(error={"message": "no"})], "no", "completed"),
        ([{"type": "response.failed", "response": {"error": None}}], "the response failed", "failed"),
    ],
)
def test_a_failure_is_told_after_what_came_before(events: list[dict[str, Any]], words: str, word: str | None) -> None:
    body = sse(added(call(), 1), text("a"), *events)
    for cut in some_cuts(body, 10):
        found = outcome(OpenAIResponsesDecoder(), cut)
        assert_consistent(found)
        assert isinstance(found.error, ProviderError)
        assert str(found.error) == words
        assert found.turn.text == ("a b" if FAILED in events and word else "a")
        assert (found.turn.stop_reason, found.turn.stop_word) == ("error", word)


@pytest.mark.parametrize(
    ("tail", "error", "message"),
    [
        (b'event: error\ndata: {"type":"error","message":"no"}\n\n', ProviderError, "no"),
        (b"event: error\ndata: overloaded\n\n", ProviderError, "overloaded"),
        (b'event: error\ndata: {"message":"no"}\n\ndata: [DONE]\n\n', ProviderError, "no"),
        (b'data: {"error":"no"}\n\ndata: {"type":"response.failed","response":{}}\n\n', ProviderError, "no"),
        (b'{"error":{"message":"no"}}\n', ProviderError, "no"),
        (b'data: {"error":"no"}\n\ndata: {broken\n\n', ProviderError, "no"),
        (b"data: {broken\n\n", BadPayload, "an event of the stream is not JSON"),
        (b"data: \xff\n\n", BadPayload, "the stream is not UTF-8"),
        (b'data: {"type":"response.completed","resp', IncompleteStream, "the answer ended before it gave a reason"),
        (b"", IncompleteStream, "the answer ended before it gave a reason"),
    ],
)
def test_a_stream_that_breaks_says_why(tail: bytes, error: type[ModelError], message: str) -> None:
    for cut in some_cuts(sse(text("a")) + tail, 20):
        found = outcome(OpenAIResponsesDecoder(), cut)
        assert type(found.error) is error
        assert str(found.error).startswith(message)
        assert found.turn.text == "a"


def test_a_body_that_is_no_stream_is_told() -> None:
    assert isinstance(outcome(OpenAIResponsesDecoder(), [b'{"object":"response","output":[]}']).error, NotAStream)


@pytest.mark.parametrize(
    ("events", "ends"),
    [
        ([text("a")], True),
        ([], True),
        ([*WHOLE_CALL], True),
        ([added(call()), event("function_call_arguments.done", arguments=OBJECT)], True),
        ([added(call()), done(call())], True),
        ([added(call()), arguments(OBJECT)], False),
        ([added(call(), 1), *WHOLE_CALL], False),
    ],
)
def test_an_end_mark_alone_ends_a_turn_whose_calls_are_all_done(events: list[dict[str, Any]], ends: bool) -> None:
    found = read(*events, tail=b"data: [DONE]\n\n")
    assert isinstance(found.error, IncompleteStream) != ends
    if not ends:
        assert found.turn.calls == ()
    elif not found.turn.calls:
        assert (found.turn.stop_reason, found.turn.stop_word) == ("unknown", None)


def test_an_end_mark_behind_the_end_changes_nothing() -> None:
    found = read(text("a"), completed(), tail=b"data: [DONE]\n\n")
    assert (found.turn.stop_reason, found.turn.stop_word) == ("stop", "completed")
