"""`ScriptedModel`: says what the script says, through the pump of every model."""

import anyio
import pytest

from streamkit import (
    ModelError,
    ReasoningDelta,
    TextDelta,
    ToolInputAbandoned,
    ToolInputDelta,
    ToolInputStart,
    TurnEvent,
    TurnRequest,
    Usage,
    user,
)
from streamkit.parts import UsageReported
from streamkit.testing import ScriptedModel, call, check_grammar, interleave, stop

ASK = TurnRequest((user("go"),))


async def test_a_turn_has_its_parts_in_order() -> None:
    model = ScriptedModel(
        [ReasoningDelta("hm"), "Let me ", "look.", call("search", {"q": "x"}, split=4), UsageReported(Usage(3, 2))]
    )
    async with model.stream_turn(ASK).open() as events:
        seen = [event async for event in events]
    check_grammar([*seen[:-1]], complete=False)
    assert [event.text for event in seen if isinstance(event, TextDelta)] == ["Let me ", "look."]
    assert [event.delta for event in seen if isinstance(event, ToolInputDelta)] == ['{"q"', ':"x"', "}"]
    turn = events.value
    assert (turn.text, turn.stop_reason, turn.usage) == ("Let me look.", "tool_calls", Usage(3, 2))
    assert [(each.call_id, each.name) for each in turn.calls] == [("call_1", "search")]


async def test_interleaved_calls_give_a_piece_each_in_turn() -> None:
    model = ScriptedModel([interleave(call("a", "{}", split=1), call("b", "{}", split=1))])
    async with model.stream_turn(ASK).open() as events:
        order = [event.call_id async for event in events if isinstance(event, ToolInputStart | ToolInputDelta)]
    assert order == ["call_1", "call_2"] * 3


async def test_a_function_sees_the_request_and_requests_are_kept() -> None:
    model = ScriptedModel(lambda request: [f"{len(request.history)} items"], ["again"], name="m")
    assert (await model.stream_turn(ASK)).text == "1 items"
    assert model.requests == [ASK]
    assert model.requests[0] is not ASK


async def test_it_raises_or_hangs_where_the_script_says() -> None:
    model = ScriptedModel(
        ["I ", call("a", '{"x', ends=False), ModelError("lost")], [call("a", '{"x', ends=False), anyio.sleep_forever]
    )
    events: list[TurnEvent] = []
    with pytest.raises(ModelError, match="lost"):
        await model.stream_turn(ASK).tap(events.append)
    assert isinstance(events[-1], ToolInputAbandoned)
    assert (events[-1].call_id, events[-1].reason) == ("call_1", "incomplete")
    with anyio.move_on_after(0.01) as scope:
        await model.stream_turn(ASK)
    assert scope.cancelled_caught


async def test_any_stop_reason_ends_a_turn() -> None:
    turn = await ScriptedModel(["cut", stop("length", "max_tokens")]).stream_turn(ASK)
    assert (turn.stop_reason, turn.stop_word) == ("length", "max_tokens")


async def test_a_turn_without_a_script_is_an_error_of_the_test() -> None:
    with pytest.raises(AssertionError, match="the script has 0 turns, and was asked for turn 1"):
        await ScriptedModel().stream_turn(ASK)


@pytest.mark.parametrize("turn", ["Hello", call("x"), 3])
def test_what_is_no_turn_is_refused(turn: object) -> None:
    with pytest.raises(TypeError, match="a list of parts"):
        ScriptedModel(turn)  # type: ignore[arg-type]


@pytest.mark.parametrize("part", [3, None, {"text": "x"}])
async def test_what_is_no_part_is_refused(part: object) -> None:
    with pytest.raises(TypeError, match="not a part of a script"):
        await ScriptedModel([part]).stream_turn(ASK)  # type: ignore[list-item]
