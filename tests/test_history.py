"""Histories always pair calls and results, whatever happened."""

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamkit.errors import HistoryError
from streamkit.history import Conversation, Transcript, append_turn, cancel_pending, recent, unanswered
from streamkit.items import History, Item, Message, Reasoning, ToolCall, ToolOutput, Usage, assistant, user
from streamkit.testing.histories import check_items
from streamkit.tool_events import Failure, Output, Pending, ToolStarted, Value
from streamkit.turns import TextDelta, ToolInputStart, Turn, TurnEnded, TurnRestarted, TurnStarted

ONE = ToolCall("c1", "read", '{"p":"a"}', "t1", 0)
TWO = ToolCall("c2", "read", '{"p":"b"}', "t1", 1)


def value(call: ToolCall, text: str = "done") -> Value:
    return Value(call.call_id, call.name, text, text)


def turn(*items: Message | Reasoning | ToolCall, **fields: object) -> Turn:
    return Turn("t1", "m", items, **fields)  # type: ignore[arg-type]


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


def test_a_turn_that_a_transcript_hears_of_twice_is_one() -> None:
    transcript = Transcript((user("go"),))
    ended = TurnEnded(turn(assistant("I look"), ONE))
    for event in (TurnStarted("t1", "m"), ended, ended, Output("c1", "read", value(ONE, "1")), ended):
        transcript.feed(event)
    assert transcript.history() == (user("go"), assistant("I look"), ONE, ToolOutput("c1", "read", "1"))


def test_a_transcript_is_legal_at_every_moment() -> None:
    ended = turn(assistant("I look"), ONE, TWO)
    events = [
        TurnStarted("t1", "m"), TextDelta("I "), TextDelta("look"), ToolInputStart("c1", "read"), TurnEnded(ended),
        ToolStarted("x", "c1", "read", {}),
        Output("c2", "read", value(TWO, "2")), Output("c1", "read", value(ONE, "1")),
        TurnStarted("t2", "m"), TextDelta("Fine"), TurnEnded(Turn("t2", "m", (assistant("Fine"),))),
    ]  # fmt: skip
    transcript = Transcript((user("go"),))
    histories = []
    for event in events:
        transcript.feed(event)  # type: ignore[arg-type]
        histories.append(transcript.history("stopped"))
        check_items(histories[-1])
    assert histories[2] == (user("go"), assistant("I look")), "text, but no half call"
    assert histories[6][-2:] == (ToolOutput("c1", "read", "stopped", failed=True), ToolOutput("c2", "read", "2"))
    results = [value(ONE, "1"), value(TWO, "2")]
    assert histories[-1] == (*append_turn((user("go"),), ended, results), assistant("Fine"))


def test_a_transcript_forgets_what_a_restart_took_back_and_blank_text() -> None:
    transcript = Transcript()
    for event in (TurnStarted("t1", "m"), TextDelta("First, open"), TurnRestarted("connection lost"), TextDelta(" \n")):
        transcript.feed(event)
    assert transcript.history() == ()


def test_a_transcript_knows_the_calls_that_its_start_waits_for() -> None:
    waiting = Conversation((user("go"),)).add(turn(ONE, TWO), [value(ONE, "1"), Pending("c2", "read")])
    transcript = Transcript(waiting)
    stopped = (ONE, TWO, ToolOutput("c1", "read", "1"), ToolOutput("c2", "read", "stopped", failed=True))
    assert transcript.history("stopped") == (user("go"), *stopped)
    transcript.feed(Output("c2", "read", value(TWO, "2")))
    assert transcript.history()[-1] == ToolOutput("c2", "read", "2")


def test_a_conversation_settles_turns_and_says_how_it_ended() -> None:
    start = Conversation((user("go"),))
    asked = start.add(turn(ONE, usage=Usage(5, 1)), [msgspec.structs.replace(value(ONE), usage=Usage(10, 2))])
    assert (asked.ended, asked.turns, asked.usage) == (None, 1, Usage(15, 3))
    for reason, ended in [("stop", "answer"), ("length", "length"), ("refusal", "refusal"), ("unknown", "unknown")]:
        assert asked.add(turn(assistant("so"), stop_reason=reason)).ended == ended
    assert asked.add(turn(stop_reason="pause")).ended is None


def test_a_pending_call_leaves_its_turn_unsettled() -> None:
    start = Conversation((user("go"),))
    waiting = start.add(turn(ONE, TWO), [value(ONE), Pending("c2", "read")])
    assert (waiting.ended, waiting.history) == ("pending", start.history)
    assert [result.call_id for result in waiting.results] == ["c1", "c2"]
    with pytest.raises(HistoryError, match="not settled"):
        waiting.say(user("and?"))


def test_a_conversation_round_trips_through_json() -> None:
    state = Conversation((user("go"),)).add(turn(ONE), [value(ONE)]).add(turn(TWO), [Pending("c2", "read")])
    assert msgspec.json.decode(msgspec.json.encode(state), type=Conversation) == state


# An unsettled turn


def two_calls() -> Turn:
    calls = tuple(ToolCall(f"c{place}", "read", "{}", "turn_1", place) for place in range(2))
    return Turn("turn_1", items=calls, stop_reason="tool_calls", usage=Usage(10, 1))


def test_the_calls_that_wait_are_known_by_their_execution_ids() -> None:
    taken = Conversation().take(two_calls())
    assert list(taken.waiting) == ["turn_1.0", "turn_1.1"]
    assert list(taken.settle([Value("c0", "read", 1, "1")]).waiting) == ["turn_1.1"]
    assert list(taken.settle([Pending("c0", "read")]).waiting) == ["turn_1.0", "turn_1.1"]
    assert Conversation().waiting == {}


def test_a_turn_is_settled_one_result_after_the_other_as_it_is_at_once() -> None:
    one, other = Value("c0", "read", 1, "1", Usage(1, 1)), Failure("c1", "read", "denied", "no", usage=Usage(2, 2))
    at_once = Conversation((user("go"),)).add(two_calls(), [one, other])
    taken = Conversation((user("go"),)).take(two_calls())
    for first, second in ((one, other), (other, one)):
        half = taken.settle([first])
        assert (half.turn, half.ended, half.history) == (two_calls(), None, (user("go"),))
        assert half.settle([second]) == at_once
    pending = taken.settle([one, Pending("c1", "read")])
    assert pending.ended == "pending"
    assert pending.settle([other]) == at_once
    assert at_once.usage == Usage(13, 4)
    assert at_once.turns == 1


@pytest.mark.parametrize(
    ("results", "message"),
    [
        ([Value("c0", "read", 1, "1")], "without a call"),
        ([Value("zz", "read", 1, "1")], "without a call"),
        ([Value("c1", "read", 1, "1"), Value("c1", "read", 1, "1")], "two results"),
    ],
)
def test_a_result_that_nobody_waits_for_is_refused(results: list[Any], message: str) -> None:
    half = Conversation().take(two_calls()).settle([Value("c0", "read", 1, "1")])
    with pytest.raises(HistoryError, match=message):
        half.settle(results)
    with pytest.raises(HistoryError, match="no turn is unsettled"):
        Conversation().settle(results)


def test_the_text_of_a_conversation_is_what_was_said_last() -> None:
    call = ToolCall("c", "f", "{}")
    said = Conversation((user("Q"), assistant("A"), call, ToolOutput("c", "f", "1"), assistant("B"), assistant("C")))
    assert said.text == "BC"
    assert said.say(user("And?")).text == ""


def test_only_items_are_said() -> None:
    text: Any = "And?"
    with pytest.raises(TypeError, match=r"user\('…'\)"):
        Conversation().say(text)
