"""What the Responses API tells of calls, in all the ways in which servers do."""

import json
from typing import Any

import pytest

from streamkit.errors import ProviderError
from streamkit.turns import ToolInputAvailable, ToolInputDelta, ToolInputStart

from .responses_events import (
    ERROR,
    OBJECT,
    WHOLE_CALL,
    added,
    arguments,
    call,
    completed,
    custom,
    done,
    event,
    incomplete,
    kept,
    message,
    read,
)


@pytest.mark.parametrize(
    "events",
    [
        [added(call()), arguments(OBJECT), event("function_call_arguments.done", arguments=OBJECT), done(call(OBJECT))],
        [added(call()), arguments(OBJECT), done(call(OBJECT))],
        [added(call()), arguments('{"k"'), event("function_call_arguments.done", arguments=OBJECT)],
        [added(call()), event("function_call_arguments.done", arguments=""), done(call(OBJECT))],
        [added(call()), arguments(OBJECT), event("function_call_arguments.done", arguments=""), done(call())],
        [added(call()), arguments(OBJECT)],
        [added(call()), arguments('{"k'), done(call(OBJECT))],
        [added(call()), done(call())],
        [added(call())],
        [done(call(OBJECT))],
        [done(call({"k": 1}))],
        [added(call(call_id=None)), arguments(OBJECT), done(call(OBJECT))],
        [added(call(name=None)), arguments(OBJECT), done(call(OBJECT))],
        [added(call(call_id="", name="")), arguments(OBJECT), done(call(OBJECT))],
        [arguments(OBJECT), done(call(OBJECT))],
        [arguments(OBJECT)],
        [event("function_call_arguments.done", arguments=OBJECT), done(call(OBJECT))],
        [arguments(OBJECT), event("function_call_arguments.done", arguments=OBJECT), done(call(OBJECT))],
        [added(call(id="x"), None), arguments(OBJECT, None, item_id="x"), done(call(OBJECT, id="x"), None)],
        [added(call(id="x"), None), arguments(OBJECT, None, item_id="y"), done(call(OBJECT, id="z"), None)],
        [added(call(id="x"), None), arguments(OBJECT, 0, item_id="x")],
        [added(call(), 7), arguments(OBJECT, 7), done(call(OBJECT), 7)],
        [added(message()), *WHOLE_CALL],
        [],
    ],
)
def test_a_call_is_one_call_whatever_tells_of_it(events: list[dict[str, Any]]) -> None:
    found = read(*events, completed(call(OBJECT)))
    (made,) = found.turn.calls
    assert (made.call_id, made.name, json.loads(made.arguments), made.problem) == ("a", "f", {"k": 1}, None)
    assert found.turn.stop_reason == "tool_calls"
    assert found.turn.stop_word == "completed"


def test_a_call_that_the_last_response_does_not_repeat_stands() -> None:
    for events in (WHOLE_CALL, [added(call(OBJECT))], [added(call()), arguments(OBJECT)], [done(call(OBJECT))]):
        (made,) = read(*events, completed()).turn.calls
        assert (made.arguments, made.problem) == (OBJECT, None)


def test_a_call_without_arguments_has_none() -> None:
    for events in ([added(call()), done(call())], [done(call("null"))], [done({"type": "function_call", "name": "f"})]):
        (made,) = read(*events, completed()).turn.calls
        assert (made.arguments, made.problem) == ("{}", None)


def test_a_call_is_available_when_it_is_said_to_be_done() -> None:
    for events in (
        WHOLE_CALL,
        [added(call()), arguments(OBJECT), done(call())],
        [added(call()), event("function_call_arguments.done", arguments=OBJECT)],
        [done(call(OBJECT))],
    ):
        found = read(*events, ERROR)
        start = [ToolInputStart("a", "f"), ToolInputDelta("a", OBJECT), ToolInputAvailable("a", OBJECT)]
        assert found.events[:3] == start
        assert [made.abandoned for made in found.turn.dropped] == ["discarded"]
        assert isinstance(found.error, ProviderError)


def test_a_call_that_has_only_the_id_of_its_item_is_called_by_it() -> None:
    (made,) = read(
        done({"type": "function_call", "id": "fc_9", "name": "f", "arguments": OBJECT}), completed()
    ).turn.calls
    assert made.call_id == "fc_9"


def test_calls_that_are_written_at_the_same_time_and_end_together_stay_apart() -> None:
    one, other = call('{"k":1}', id="fc_1"), call('{"k":2}', id="fc_2", call_id="b")
    for indexes in ((0, 1), (None, None)):
        found = read(
            added(call(id="fc_1"), indexes[0]),
            arguments('{"k"', indexes[0], item_id="fc_1"),
            added(call(id="fc_2", call_id="b"), indexes[1]),
            arguments('{"k":', indexes[1], item_id="fc_2"),
            arguments(":1}", indexes[0], item_id="fc_1"),
            arguments("2}", indexes[1], item_id="fc_2"),
            done(one, indexes[0]),
            done(other, indexes[1]),
            completed(one, other),
        )
        assert [(made.call_id, made.arguments) for made in found.turn.calls] == [("a", '{"k":1}'), ("b", '{"k":2}')]


def test_calls_with_one_index_for_all_stay_apart() -> None:
    one, other = call('{"k":1}'), call('{"k":2}', call_id="b")
    found = read(
        added(call()),
        arguments('{"k":1}'),
        added(call(call_id="b")),
        arguments('{"k":2}'),
        done(one),
        done(other),
        completed(one, other),
    )
    assert [(made.call_id, made.arguments) for made in found.turn.calls] == [("a", '{"k":1}'), ("b", '{"k":2}')]


def test_pieces_may_name_their_call_instead_of_its_item() -> None:
    found = read(
        added(call(), None),
        added(call(call_id="b"), None),
        arguments('{"k":', None, call_id="a"),
        arguments('{"k":2}', None, call_id="b"),
        arguments("1}", None, call_id="a"),
        event("function_call_arguments.done", None, call_id="b", arguments='{"k":2}'),
        completed(),
    )
    assert [(made.call_id, made.arguments) for made in found.turn.calls] == [("a", '{"k":1}'), ("b", '{"k":2}')]


def test_a_name_may_come_with_the_whole_arguments() -> None:
    told: dict[str, Any] = {"name": "f", "call_id": "a", "arguments": OBJECT}
    found = read(arguments(OBJECT), event("function_call_arguments.done", **told), completed())
    assert [(made.call_id, made.name, made.arguments) for made in found.turn.calls] == [("a", "f", OBJECT)]


def test_a_call_that_is_twice_in_the_last_response_is_one() -> None:
    item = call(OBJECT, id="fc_1")
    assert len(read(*WHOLE_CALL, completed(item, item)).turn.calls) == 1
    assert len(read(completed(item, call(OBJECT, id="fc_2"))).turn.calls) == 2


def test_two_calls_with_one_id_are_two() -> None:
    found = read(
        added(call()),
        done(call('{"k":1}')),
        added(call(), 1),
        done(call('{"k":2}'), 1),
        completed(call('{"k":1}'), call('{"k":2}')),
    )
    assert [made.arguments for made in found.turn.calls] == ['{"k":1}', '{"k":2}']
    assert found.turn.calls[0].call_id == "a" != found.turn.calls[1].call_id


def test_a_call_that_has_another_id_in_the_last_response_is_the_same() -> None:
    found = read(*WHOLE_CALL, completed(call(OBJECT, call_id="b")))
    assert [made.call_id for made in found.turn.calls] == ["a"]
    found = read(*WHOLE_CALL, completed(call(OBJECT, call_id="b", name="g")))
    assert [made.call_id for made in found.turn.calls] == ["a", "b"]


def test_the_closing_words_on_a_call_count_more_than_its_pieces() -> None:
    for closing in (
        done(call(OBJECT)),
        event("function_call_arguments.done", arguments=OBJECT),
        completed(call(OBJECT)),
    ):
        (made,) = read(added(call()), arguments('{"k":2}'), closing, completed(call(OBJECT))).turn.calls
        assert (made.arguments, made.problem) == (OBJECT, None)


def test_a_call_that_is_told_in_two_ways_does_not_run() -> None:
    found = read(*WHOLE_CALL, completed(call('{"k":2}')))
    assert [made.abandoned for made in found.turn.dropped] == ["discarded"]


def test_arguments_that_are_no_object_are_a_problem() -> None:
    (made,) = read(added(call()), arguments('{"k"'), done(call('{"k"')), completed(call('{"k"'))).turn.calls
    assert made.problem is not None


@pytest.mark.parametrize("status", [{}, {"status": "incomplete"}, {"status": "completed"}])
def test_a_turn_that_is_cut_runs_no_calls(status: dict[str, Any]) -> None:
    whole = [*WHOLE_CALL[:2], done(call(OBJECT, id="fc_1", **status))]
    found = read(*whole, added(call(call_id="b"), 1), arguments('{"k', 1), incomplete({"reason": "max_output_tokens"}))
    assert found.turn.calls == ()
    first = "incomplete" if status.get("status") == "incomplete" else "discarded"
    assert [made.abandoned for made in found.turn.dropped] == [first, "incomplete"]
    assert (found.turn.stop_reason, found.turn.stop_word) == ("length", "incomplete")


@pytest.mark.parametrize(
    "events",
    [
        [added(custom()), event("custom_tool_call_input.delta", delta="SELECT"), done(custom("SELECT 1"))],
        [added(custom()), event("custom_tool_call_input.done", input="SELECT 1"), done(custom("SELECT 1"))],
        [done(custom("SELECT 1"))],
        [added(custom()), event("custom_tool_call_input.delta", delta="SELECT 1")],
        [added(custom()), event("custom_tool_call_input.done", input="SELECT 1")],
        [],
    ],
)
def test_a_custom_call_has_plain_text(events: list[dict[str, Any]]) -> None:
    for last in (completed(custom("SELECT 1")), *[completed()] * bool(events)):
        (made,) = read(*events, last).turn.calls
        assert (made.arguments, made.custom, made.problem) == ("SELECT 1", True, None)


def test_what_else_a_call_has_is_kept() -> None:
    caller = {"type": "program", "caller_id": "p"}
    found = read(
        added(call(id="fc_1")),
        done(call(OBJECT, caller=caller, namespace="n", status="completed")),
        completed(call(OBJECT, id="fc_2")),
    )
    assert found.turn.calls[0].opaque == kept({"id": "fc_1", "caller": caller, "namespace": "n"})
