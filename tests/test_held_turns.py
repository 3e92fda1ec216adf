"""Turns that are held back: what is shown, and when."""

from collections.abc import Callable
from typing import Any

import anyio
import anyio.lowlevel
import msgspec
import pytest

from streamkit import (
    Flow,
    Message,
    ModelError,
    ReasoningDelta,
    RefusalDelta,
    TextDelta,
    ToolCall,
    Toolkit,
    Turn,
    TurnEvent,
    TurnRequest,
    TurnStarted,
    UnknownItem,
    converse,
    hold_back,
    user,
)
from streamkit.errors import DecodeError
from streamkit.parts import WholeCall
from streamkit.testing import ScriptedModel, call, check_grammar, interleave, stop

from .changed_turns import READ, WRITE, Refused, read, seen, told, turn_of, without_calls


async def test_nothing_goes_out_while_the_turn_is_written_and_checked() -> None:
    shown: list[TurnEvent] = []

    async def check(turn: Turn) -> Turn:
        await anyio.lowlevel.checkpoint()
        assert told(shown) == ["turn"]
        return turn

    turn = await hold_back(turn_of("I ", "look.", READ), check).tap(shown.append)
    assert told(shown) == [
        "turn", "text I look.", "start c1 read", 'delta c1 {"p":"a"}', 'available c1 {"p":"a"}', "end tool_calls",
    ]  # fmt: skip
    assert turn.text == "I look."


async def test_items_are_shown_in_their_order_each_as_one_event() -> None:
    unknown = UnknownItem({"type": "odd"})
    parts = [ReasoningDelta("h"), ReasoningDelta("m", "summary"), unknown, "A", "B", interleave(READ, WRITE), "C"]
    events, _ = await seen(hold_back(turn_of(*parts), lambda turn: turn))
    assert events[1:5] == [ReasoningDelta("h"), ReasoningDelta("m", "summary"), unknown, TextDelta("AB")]
    assert told(events[5:]) == [
        "start c1 read", 'delta c1 {"p":"a"}', 'available c1 {"p":"a"}',
        "start c2 write", 'delta c2 {"p":"b"}', 'available c2 {"p":"b"}',
        "text C", "end tool_calls",
    ]  # fmt: skip


async def test_a_refusal_is_shown_at_last() -> None:
    events, _ = await seen(hold_back(turn_of(RefusalDelta("N"), "Hm. ", RefusalDelta("o")), lambda turn: turn))
    assert [*told(events[1:2]), events[2]] == ["text Hm. ", RefusalDelta("No")]


async def test_the_turn_that_check_gives_is_the_turn() -> None:
    events, turn = await seen(hold_back(turn_of("secret", READ), without_calls))
    assert told(events) == ["turn", "text secret", "end stop"]
    assert turn.calls == ()
    blank = await hold_back(turn_of("secret"), lambda turn: msgspec.structs.replace(turn, items=(Message("user", ""),)))
    assert blank.text == ""


async def test_a_turn_of_another_model_is_announced_by_its_own_id() -> None:
    async def ask_another(turn: Turn) -> Turn:
        return await turn_of("better")

    events, turn = await seen(hold_back(turn_of("bad"), ask_another))
    assert told(events) == ["turn", "turn", "text better", "end stop"]
    assert events[1] == TurnStarted(turn.turn_id, "scripted")


async def test_calls_that_cannot_run_are_told_of_as_such_and_those_that_go_nowhere_are_not() -> None:
    broken = [call("read", "[1]", call_id="c1"), WholeCall("", "{}", "c2")]
    events, turn = await seen(hold_back(turn_of(*broken), lambda turn: turn))
    assert told(events[1:]) == ["start c1 read", "delta c1 [1]", "abandoned c1 malformed", "end tool_calls"]
    assert [each.call_id for each in turn.calls] == ["c1", "c2"]
    events, turn = await seen(hold_back(turn_of("I", READ, stop("length")), lambda turn: turn))
    assert told(events) == ["turn", "text I", "end length"]
    assert len(turn.dropped) == 1


@pytest.mark.parametrize("error", [Refused("check"), ModelError("check"), DecodeError("check"), KeyboardInterrupt()])
async def test_what_check_raises_leaves_as_itself_and_nothing_was_shown(error: BaseException) -> None:
    def check(turn: Turn) -> Turn:
        raise error

    shown: list[TurnEvent] = []
    with pytest.raises(type(error)) as raised:
        await hold_back(turn_of("secret", READ), check).tap(shown.append)
    assert raised.value is error
    assert told(shown) == ["turn"]


async def test_of_a_turn_that_fails_nothing_is_shown() -> None:
    shown: list[TurnEvent] = []
    with pytest.raises(ModelError, match="lost") as raised:
        await hold_back(turn_of("secret", READ, ModelError("lost")), lambda turn: turn).tap(shown.append)
    assert raised.value.turn is not None
    assert told(shown) == ["turn"]


def with_calls(*calls: ToolCall) -> Callable[[Turn], Turn]:
    return lambda turn: msgspec.structs.replace(turn, items=calls)


async def test_a_check_that_gives_nothing_leaves_the_turn_as_it_is() -> None:
    turn = await hold_back(ScriptedModel(["Fine."]).stream_turn(TurnRequest((user("hi"),))), lambda turn: None)
    assert turn.text == "Fine."


@pytest.mark.parametrize(
    ("check", "error", "says"),
    [
        (lambda turn: 3, TypeError, "check returns the turn, or another one, not int"),
        (with_calls(ToolCall("c1", "read", "{}"), ToolCall("c1", "write", "{}")), ValueError, "two calls with one id"),
        (with_calls(ToolCall("c1", "read", "[]")), ValueError, "not the text of one JSON object"),
        (with_calls(ToolCall("c1", "", "{}")), ValueError, "call c1 has no name"),
    ],
    ids=["a number", "an id twice", "arguments", "no name"],
)
async def test_a_turn_that_nobody_could_use_is_refused(check: Any, error: type[Exception], says: str) -> None:
    shown: list[TurnEvent] = []
    with pytest.raises(error, match=says):
        await hold_back(turn_of("secret"), check).tap(shown.append)
    assert told(shown) == ["turn"]


async def test_a_held_loop_goes_on_as_ever() -> None:
    """`converse` takes any model: one that holds back is three lines."""

    class Careful:
        name = "careful"

        def stream_turn(self, request: TurnRequest) -> Flow[TurnEvent, Turn]:
            return hold_back(model.stream_turn(request), lambda turn: turn)

    model = ScriptedModel([READ], ["Done"])
    async with converse(Careful(), Toolkit(read), (user("go"),)).open() as opened:
        events = [event async for event in opened]
    check_grammar(events)
    assert opened.value.ended == "answer"
