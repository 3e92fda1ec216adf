"""Turns whose calls are dropped, renamed and rewritten on their way."""

from collections.abc import Callable
from typing import Any

import anyio
import anyio.lowlevel
import msgspec
import pytest

from streamkit import (
    Conversation,
    ModelError,
    Next,
    ReasoningDelta,
    RunEvent,
    Sink,
    Stop,
    ToolCall,
    ToolInputAbandoned,
    ToolInputAvailable,
    ToolInputDelta,
    ToolInputStart,
    Toolkit,
    ToolStarted,
    Turn,
    TurnEnded,
    TurnEvent,
    TurnRequest,
    TurnRestarted,
    TurnStarted,
    append_turn,
    edit_calls,
    execute_all,
    flow,
    loop,
    user,
)
from streamkit.parts import WholeCall
from streamkit.testing import ScriptedModel, call, check_grammar, interleave, stop
from streamkit.testing.histories import check_items

from .changed_turns import READ, WRITE, Refused, answer_of, change, read, seen, told, turn_of, write


def drop(name: str) -> Callable[[ToolCall], ToolCall | None]:
    return lambda call: None if call.name == name else call


async def test_a_turn_without_edits_is_as_it_was() -> None:
    asked: list[ToolCall] = []

    async def keep(call: ToolCall) -> ToolCall:
        await anyio.lowlevel.checkpoint()
        asked.append(call)
        return call

    broken = [call("read", "[1]", call_id="c3"), WholeCall("", "{}", "c4")]
    parts = [ReasoningDelta("h"), "A", interleave(READ, WRITE), *broken, "B"]
    plain, _ = await seen(turn_of(*parts))
    events, turn = await seen(edit_calls(turn_of(*parts), keep))
    assert told(events) == told(plain)
    assert asked == [*turn.calls]


async def test_a_dropped_call_is_abandoned_instead_of_available_and_stays_in_the_turn() -> None:
    events, turn = await seen(edit_calls(turn_of("A", interleave(READ, WRITE)), drop("read")))
    assert [line for line in told(events) if "c1" in line and "delta" not in line] == [
        "start c1 read", "abandoned c1 discarded",
    ]  # fmt: skip
    assert [line for line in told(events) if "c2" in line][-1] == 'available c2 {"p":"b"}'
    assert [each.call_id for each in turn.calls] == ["c2"]
    assert [(each.call_id, each.abandoned, each.arguments) for each in turn.dropped] == [
        ("c1", "discarded", '{"p":"a"}')
    ]
    check_items(append_turn((user("go"),), turn, [answer_of(call) for call in turn.calls]))


@pytest.mark.parametrize(
    ("fields", "after"),
    [
        ({"name": "write"}, ("write", '{"p":"a"}')),
        ({"arguments": '{"p":"b"}'}, ("read", '{"p":"b"}')),
    ],
)
async def test_a_changed_call_begins_anew_with_its_id(fields: dict[str, str], after: tuple[str, str]) -> None:
    events, turn = await seen(edit_calls(turn_of(READ), change("read", **fields)))
    name, arguments = after
    assert told(events) == [
        "turn", "start c1 read", 'delta c1 {"p":"a"}', "abandoned c1 discarded",
        f"start c1 {name}", f"delta c1 {arguments}", f"available c1 {arguments}", "end tool_calls",
    ]  # fmt: skip
    (edited,) = turn.calls
    assert (edited.call_id, edited.name, edited.arguments) == ("c1", name, arguments)
    assert (edited.turn_id, edited.place) == (turn.turn_id, 0)


async def test_what_else_the_edit_says_of_a_call_does_not_count() -> None:
    _, turn = await seen(edit_calls(turn_of(READ), lambda call: ToolCall(call.call_id, "write", call.arguments)))
    assert turn.calls == (ToolCall("c1", "write", '{"p":"a"}', turn.turn_id, 0),)


async def test_calls_that_cannot_run_may_be_mended_named_or_dropped() -> None:
    problems: list[str | None] = []

    def mend(call: ToolCall) -> ToolCall | None:
        problems.append(call.problem)
        if call.call_id == "c3":
            return None
        return msgspec.structs.replace(call, name="read", arguments="{}", problem=None)

    broken = [call("read", "[1]", call_id="c1"), WholeCall("", "{}", "c2"), call("read", "{", call_id="c3")]
    events, turn = await seen(edit_calls(turn_of(*broken), mend))
    assert all(problems)
    assert told(events[1:]) == [
        "start c1 read", "start c3 read", "delta c3 {", "delta c1 [1]",
        "abandoned c1 discarded", "start c1 read", "delta c1 {}", "available c1 {}",
        "start c2 read", "delta c2 {}", "available c2 {}", "abandoned c3 discarded", "end tool_calls",
    ]  # fmt: skip
    assert [(each.call_id, each.problem) for each in turn.calls] == [("c1", None), ("c2", None)]
    assert [each.call_id for each in turn.dropped] == ["c3"]


async def test_a_call_that_was_mended_is_discarded_where_an_edit_outside_raises() -> None:
    def mend(call: ToolCall) -> ToolCall:
        return msgspec.structs.replace(call, arguments="{}", problem=None)

    def refuse_second(call: ToolCall) -> ToolCall:
        if call.call_id == "c2":
            raise LookupError(call.call_id)
        return call

    broken = turn_of(call("read", "[1]", call_id="c1"), call("read", "{", call_id="c2"))
    events: list[TurnEvent] = []
    with pytest.raises(LookupError):
        await edit_calls(edit_calls(broken, mend), refuse_second).tap(events.append)
    check_grammar(events)
    assert [line for line in told(events) if line.startswith("a") and " c1 " in line][-2:] == [
        "available c1 {}", "abandoned c1 discarded",
    ]  # fmt: skip


@pytest.mark.parametrize("call", [WholeCall("", "{", "c1"), WholeCall("", "{}", "c1"), WholeCall("read", "{", "c1")])
async def test_a_call_that_is_only_said_to_be_mended_is_refused(call: WholeCall) -> None:
    with pytest.raises(ValueError, match=r"has no name|not the text of one JSON object"):
        await edit_calls(turn_of(call), lambda call: msgspec.structs.replace(call, problem=None))


async def test_an_edit_may_say_that_a_call_cannot_run() -> None:
    events, turn = await seen(edit_calls(turn_of(READ), change("read", problem="not in this room")))
    assert told(events)[-2:] == ["abandoned c1 malformed", "end tool_calls"]
    assert turn.calls[0].problem == "not in this room"


async def test_plain_text_for_a_custom_tool_may_be_changed() -> None:
    custom = WholeCall("read", "print(1)", "c1", custom=True)
    events, turn = await seen(edit_calls(turn_of(custom), change("read", arguments="print(2)")))
    assert told(events)[-2] == "available c1 print(2)"
    assert (turn.calls[0].custom, turn.calls[0].arguments) == (True, "print(2)")


async def test_a_turn_that_keeps_none_of_its_calls_is_noanswer_of() -> None:
    _, turn = await seen(edit_calls(turn_of("A", READ), lambda call: None))
    assert (turn.stop_reason, turn.wants_more, turn.calls) == ("unknown", False, ())
    state = Conversation((user("go"),)).add(turn)
    assert state.ended == "unknown"
    check_items(state.history)
    _, answer = await seen(edit_calls(turn_of("A"), lambda call: None))
    assert answer.stop_reason == "stop"


@pytest.mark.parametrize(
    "edit", [lambda call: call, lambda call: None, change("read", name="write")], ids=["kept", "dropped", "renamed"]
)
async def test_a_call_whose_turn_is_cut_after_it_was_whole_goes_nowhere_once(edit: Any) -> None:
    events, turn = await seen(edit_calls(turn_of(READ, stop("length")), edit))
    assert told(events)[-2:] == ["abandoned c1 discarded", "end length"]
    assert (turn.calls, len(turn.dropped)) == ((), 1)


async def test_after_a_restart_every_call_is_asked_for_again() -> None:
    @flow
    async def restarted(out: Sink[TurnEvent]) -> Turn:
        await out.send(TurnStarted("t", "m"))
        turn = Turn("t", "m", (ToolCall("c1", "read", "{}", "t"),), "tool_calls")
        for _ in range(2):
            await out.send(ToolInputStart("c1", "read"))
            await out.send(ToolInputDelta("c1", "{}"))
            await out.send(ToolInputAvailable("c1", "{}"))
            if not asked[1:]:
                await out.send(ToolInputAbandoned("c1", "retried"))
                await out.send(TurnRestarted("the connection broke"))
        await out.send(TurnEnded(turn))
        return turn

    def edit(call: ToolCall) -> ToolCall | None:
        asked.append(call)
        return None if len(asked) == 1 else call

    asked: list[ToolCall] = []
    events, turn = await seen(edit_calls(restarted(), edit))
    assert [line for line in told(events) if line.startswith(("abandoned", "available"))] == [
        "abandoned c1 discarded", "available c1 {}",
    ]  # fmt: skip
    assert len(turn.calls) == 1


@pytest.mark.parametrize("error", [Refused("edit"), ModelError("edit"), KeyboardInterrupt()])
async def test_what_the_edit_raises_ends_the_turn_after_all_calls_were_abandoned(error: BaseException) -> None:
    asked: list[str] = []

    def edit(call: ToolCall) -> ToolCall:
        asked.append(call.call_id)
        raise error

    shown: list[TurnEvent] = []
    third = call("read", {}, call_id="c3", ends=False)
    with pytest.raises(type(error)) as raised:
        await edit_calls(turn_of(third, interleave(READ, WRITE), "never"), edit).tap(shown.append)
    assert raised.value is error
    check_grammar(shown)
    assert asked == ["c1"]
    assert [line for line in told(shown) if line.startswith(("abandoned", "available", "text"))] == [
        "abandoned c3 incomplete", "abandoned c1 discarded", "abandoned c2 incomplete",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("edit", "error", "says"),
    [
        (lambda call: call.name, TypeError, "returns a call or None, not str"),
        (change("read", call_id="mine"), ValueError, "call c1 keeps its id"),
        (change("read", arguments="[]"), ValueError, "not the text of one JSON object"),
        (change("read", name=""), ValueError, "call c1 has no name"),
    ],
    ids=["no call", "id", "arguments", "no name"],
)
async def test_a_call_that_nobody_could_use_is_refused(edit: Any, error: type[Exception], says: str) -> None:
    shown: list[TurnEvent] = []
    with pytest.raises(error, match=says):
        await edit_calls(turn_of(READ), edit).tap(shown.append)
    check_grammar(shown)


async def test_a_turn_that_does_not_close_its_calls_is_closed_all_the_same() -> None:
    @flow
    async def careless(out: Sink[TurnEvent]) -> Turn:
        for event in (
            TurnStarted("t", "m"), ToolInputStart("c1", "read"), ToolInputStart("c2", "read"),
            ToolInputAvailable("c2", "{}"), ToolInputStart("c3", "read"), ToolInputAbandoned("c3", "malformed", "[")
        ):  # fmt: skip
            await out.send(event)
        raise Refused

    shown: list[TurnEvent] = []
    with pytest.raises(Refused):
        await edit_calls(careless(), lambda call: call).tap(shown.append)
    check_grammar(shown)
    assert told(shown)[-3:] == ["abandoned c1 incomplete", "abandoned c2 discarded", "abandoned c3 malformed"]


async def test_events_may_come_through_branches() -> None:
    @flow
    async def branching(out: Sink[TurnEvent]) -> Turn:
        async def write(call_id: str) -> None:
            with out.branch() as mine:
                await mine.send(ToolInputStart(call_id, "read"))
                await anyio.lowlevel.checkpoint()
                await mine.send(ToolInputDelta(call_id, "{}"))
                await anyio.lowlevel.checkpoint()
                await mine.send(ToolInputAvailable(call_id, "{}"))

        await out.send(TurnStarted("t", "m"))
        async with anyio.create_task_group() as tasks:
            for call_id in ("c1", "c2", "c3"):
                tasks.start_soon(write, call_id)
        calls = tuple(ToolCall(f"c{place + 1}", "read", "{}", "t", place) for place in range(3))
        turn = Turn("t", "m", calls, "tool_calls")
        await out.send(TurnEnded(turn))
        return turn

    def edit(call: ToolCall) -> ToolCall | None:
        return None if call.call_id == "c1" else msgspec.structs.replace(call, name="write")

    _, turn = await seen(edit_calls(branching(), edit))
    assert [(each.call_id, each.name) for each in turn.calls] == [("c2", "write"), ("c3", "write")]


async def test_an_edited_call_runs_as_edited_and_a_dropped_one_is_answered() -> None:
    model = ScriptedModel([READ, WRITE, call("read", {"p": "c"}, call_id="c3")], ["Done"])
    kit = Toolkit(read, write)

    def edit(call: ToolCall) -> ToolCall | None:
        return {"c1": msgspec.structs.replace(call, name="write"), "c2": call}.get(call.call_id)

    async def step(out: Sink[RunEvent], state: Conversation) -> Next[Conversation] | Stop[Conversation]:
        turn = await out.forward(edit_calls(model.stream_turn(TurnRequest(state.history, kit.specs)), edit))
        if not turn.wants_more:
            return Stop(state.add(turn))
        return Next(state.add(turn, await out.forward(execute_all(kit, turn.calls))))

    async with loop(step, Conversation((user("go"),))).open() as opened:
        events = [event async for event in opened]
    check_grammar(events)
    assert {(event.call_id, event.tool) for event in events if isinstance(event, ToolStarted)} == {
        ("c1", "write"), ("c2", "write"),
    }  # fmt: skip
    check_items(model.requests[1].history)
    assert opened.value.ended == "answer"
