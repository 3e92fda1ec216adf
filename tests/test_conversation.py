"""The ready-made state of a loop: its turns are settled, or wait."""

from typing import Any

import msgspec
import pytest

from streamkit.conversation import Conversation
from streamkit.errors import HistoryError
from streamkit.items import ToolCall, ToolOutput, Usage, assistant, user
from streamkit.tool_events import Failure, Pending, Value
from streamkit.turns import Turn

from .paired import ONE, TWO, turn, value


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
    with pytest.raises(HistoryError, match=r"not settled: its calls of read wait; .* from_verdicts"):
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


@pytest.mark.parametrize("given", ["And?", "", None])
def test_only_items_are_said(given: Any) -> None:
    with pytest.raises(TypeError, match=r"user\('…'\)"):
        Conversation().say(given)
