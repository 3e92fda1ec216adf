"""Histories always pair calls and results, whatever happened."""

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamkit.errors import HistoryError
from streamkit.history import append_turn, cancel_pending, recent, unanswered
from streamkit.items import History, Item, Message, Reasoning, ToolCall, ToolOutput, assistant, user
from streamkit.testing.histories import check_items
from streamkit.tool_events import Failure, Pending, Value
from streamkit.turns import Turn

from .paired import ONE, TWO, turn, value


def test_results_go_behind_the_turn_in_the_order_of_the_calls() -> None:
    history = append_turn((user("go"),), turn(assistant("I look"), ONE, TWO), [value(TWO, "2"), value(ONE, "1")])
    assert history == (
        user("go"), assistant("I look"), ONE, TWO, ToolOutput("c1", "read", "1"), ToolOutput("c2", "read", "2"),
    )  # fmt: skip


def test_a_failure_is_marked_as_such() -> None:
    history = append_turn((), turn(ONE), [Failure("c1", "read", "failed", "no such file")])
    assert history[-1] == ToolOutput("c1", "read", "no such file", failed=True)


@pytest.mark.parametrize(
    ("results", "why"),
    [
        ([value(ONE)], "call c2 of read has no result"),
        ([value(ONE), value(TWO), value(ToolCall("c3", "x", "{}"))], "without a call"),
        ([value(ONE), value(TWO), value(TWO)], "two results"),
        ([value(ONE), Pending("c2", "read")], "pending"),
    ],
)
def test_a_turn_that_does_not_pair_is_refused(results: list[Value], why: str) -> None:
    with pytest.raises(HistoryError, match=why):
        append_turn((), turn(ONE, TWO), results)


def test_a_turn_with_an_id_twice_is_refused() -> None:
    with pytest.raises(HistoryError, match="two calls with one id"):
        append_turn((), turn(ONE, msgspec.structs.replace(TWO, call_id="c1")), [value(ONE)])


def test_calls_that_went_nowhere_are_written_empty_and_answered() -> None:
    cut = ToolCall("c1", "read", '{"p":"a', "t1", 0, abandoned="incomplete")
    malformed = ToolCall("c2", "read", "[1]", "t1", 1, problem="not an object")
    nameless = ToolCall("c3", "", "{}", "t1", 2, problem="it has no name")
    failures = [Failure(call.call_id, call.name, "invalid_input", "no") for call in (malformed, nameless)]
    history = append_turn((), turn(cut, malformed, nameless), failures)
    assert [(item.name, item.arguments) for item in history if isinstance(item, ToolCall)] == [
        ("read", "{}"), ("read", "{}"), ("unnamed", "{}"),
    ]  # fmt: skip
    outputs = [item for item in history if isinstance(item, ToolOutput)]
    assert [output.call_id for output in outputs] == ["c1", "c2", "c3"]
    assert all(output.failed for output in outputs)
    check_items(history)


def test_the_model_is_told_why_a_call_went_nowhere() -> None:
    dropped = (
        ToolCall("c1", "read", '{"p', "t1", 0, abandoned="incomplete"),
        ToolCall("c2", "read", "{}", "t1", 1, abandoned="discarded"),
    )
    history = append_turn((), Turn("t1", items=dropped, stop_reason="length"))
    assert [item.text for item in history if isinstance(item, ToolOutput)] == [
        "This call did not run: it was cut off, or its turn was, before it was whole.",
        "This call did not run: its turn kept no such call.",
    ]


def test_of_a_cancelled_turn_only_finished_text_and_reasoning_stay() -> None:
    half = ToolCall("c1", "read", '{"p', "t1", 0, abandoned="incomplete")
    cut = turn(Reasoning("hm"), assistant(" \n"), assistant("I"), half, stop_reason="cancelled")
    assert append_turn((user("go"),), cut) == (user("go"), Reasoning("hm"), assistant("I"))


def test_a_turn_that_is_blank_leaves_nothing_unless_it_is_signed() -> None:
    assert append_turn((user("go"),), turn(assistant(""), assistant(" \n"))) == (user("go"),)
    signed = Message("assistant", "", opaque={"gemini": {"thoughtSignature": "s"}})
    assert append_turn((user("go"),), turn(signed)) == (user("go"), signed)
    assert append_turn((), turn(assistant("\n"), ONE), [value(ONE)])[0] == assistant("\n")


def test_unanswered_calls_can_be_cancelled_in_place() -> None:
    history = (user("go"), ONE, TWO, ToolOutput("c2", "read", "2"), user("stop"))
    assert unanswered(history) == (ONE,)
    whole = cancel_pending(history, "the person stopped it")
    assert unanswered(whole) == ()
    assert whole[3:5] == (ToolOutput("c1", "read", "the person stopped it", failed=True), history[3])
    check_items(whole)


def test_recent_keeps_at_most_count_items_and_whole_turns() -> None:
    outputs = (ToolOutput("c1", "read", "1"), ToolOutput("c2", "read", "2"))
    history = (user("go"), ONE, TWO, *outputs, assistant("so"), user("and?"))
    assert recent(history, 7) == history
    assert recent(history, 6) == history[1:]
    assert recent(history, 5) == recent(history, 2) == history[5:]
    assert recent(history, 1) == history[6:]
    assert recent(history[:5], 3) == history[1:5], "the last turn is kept even where it is longer"
    assert recent(history, 0) == () == recent((), 3)


some_item = st.sampled_from(["user", "assistant", "reasoning", "one call", "two calls", "no calls answered"])


def build(kinds: list[str]) -> tuple[History, History]:
    """A history of such turns; with open calls, and with all of them answered."""
    items: list[Item] = []
    for number, kind in enumerate(kinds):
        one, two = (ToolCall(f"{number}{letter}", "read", "{}") for letter in "ab")
        match kind:
            case "user":
                items.append(user("go"))
            case "assistant":
                items.append(assistant("so"))
            case "reasoning":
                items += [Reasoning("hm"), one, ToolOutput(one.call_id, "read", "1")]
            case "one call":
                items += [one, ToolOutput(one.call_id, "read", "1")]
            case "two calls":
                items += [one, two, *(ToolOutput(call.call_id, "read", "1") for call in (two, one))]
            case "no calls answered":
                items += [one, two, user("never mind")]
    return tuple(items), cancel_pending(tuple(items), "cancelled")


@given(st.lists(some_item, max_size=12), st.integers(0, 12))
def test_cancelled_and_shortened_histories_are_whole(kinds: list[str], count: int) -> None:
    history, whole = build(kinds)
    assert unanswered(whole) == ()
    assert [item for item in whole if not isinstance(item, ToolOutput)] == [
        item for item in history if not isinstance(item, ToolOutput)
    ]
    check_items(whole)
    check_items(recent(whole, count))
