"""Turns that are held back and edited, both: who hears of it, and closure at every event and every await."""

import itertools
from collections.abc import Awaitable, Callable
from typing import Any

import anyio
import anyio.lowlevel
import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from streamkit import (
    Conversation,
    Flow,
    ModelError,
    Next,
    Output,
    RefusalDelta,
    RunEvent,
    Sink,
    Stop,
    TextDelta,
    ToolCall,
    ToolInputAbandoned,
    ToolInputAvailable,
    ToolInputDelta,
    ToolInputEvent,
    ToolInputStart,
    Toolkit,
    Turn,
    TurnEnded,
    TurnEvent,
    TurnRequest,
    edit_calls,
    execute_all,
    flow,
    hold_back,
    loop,
    tool,
    user,
)
from streamkit.parts import WholeCall
from streamkit.testing import ScriptedModel, call, check_grammar, interleave, stop
from streamkit.testing.histories import check_items

from .attacks import in_ticks, repeat
from .calling import GUARD_SECONDS
from .changed_turns import (
    READ,
    WRITE,
    Refused,
    answer_of,
    change,
    read,
    told,
    turn_of,
    without_calls,
    write,
)

# Tools that listen


async def test_tools_that_listen_outside_hear_what_is_left() -> None:
    heard: dict[str, list[ToolInputEvent]] = {"read": [], "write": []}
    kit = Toolkit(
        tool(read.function, on_input=heard["read"].append), tool(write.function, on_input=heard["write"].append)
    )
    await kit.listen(edit_calls(turn_of(READ), change("read", name="write")))
    assert told(heard["read"]) == ["start c1 read", 'delta c1 {"p":"a"}', "abandoned c1 discarded"]
    assert told(heard["write"]) == ["start c1 write", 'delta c1 {"p":"a"}', 'available c1 {"p":"a"}']
    heard["read"].clear()
    await kit.listen(hold_back(turn_of(READ), without_calls))
    assert heard["read"] == []


async def test_tools_that_listen_inside_of_a_held_turn_hear_it_written() -> None:
    heard: list[ToolInputEvent] = []
    kit = Toolkit(tool(read.function, on_input=heard.append))
    await hold_back(kit.listen(turn_of(READ)), without_calls)
    assert told(heard)[-1] == 'available c1 {"p":"a"}'


async def test_after_a_handover_the_tools_of_the_other_toolkit_hear_theirs() -> None:
    heard: dict[str, list[str]] = {"first": [], "second": []}
    first = Toolkit(tool(read.function, on_input=lambda event: heard["first"].append(event.call_id)))
    second = Toolkit(
        tool(read.function, on_input=lambda event: heard["second"].append(event.call_id)), tool(write.function)
    )
    model = ScriptedModel([call("read", {"p": "a"}), call("write", {"p": "a"})], [call("read", {"p": "b"})], ["Done"])

    async def step(out: Sink[RunEvent], state: Conversation) -> Next[Conversation] | Stop[Conversation]:
        kit = second if state.turns else first
        turn = await out.forward(kit.listen(model.stream_turn(TurnRequest(state.history, kit.specs))))
        if not turn.wants_more:
            return Stop(state.add(turn))
        return Next(state.add(turn, await out.forward(execute_all(kit, turn.calls))))

    async with loop(step, Conversation((user("go"),))).open() as opened:
        events = [event async for event in opened]
    check_grammar(events)
    assert (set(heard["first"]), set(heard["second"])) == ({"call_1"}, {"call_3"})
    assert sorted(event.tool for event in events if isinstance(event, Output)) == ["read", "read", "write"]


# Cut off anywhere


def busy_turns() -> dict[str, Flow[TurnEvent, Turn]]:
    """Each waits in many places: in the model, in the check or the edit, in its sends."""

    async def waiting_check(turn: Turn) -> Turn:
        await anyio.lowlevel.checkpoint()
        return turn

    async def waiting_edit(call: ToolCall) -> ToolCall | None:
        await anyio.lowlevel.checkpoint()
        return (
            None if call.call_id == "c2" else msgspec.structs.replace(call, name="write", problem=None, arguments="{}")
        )

    wait = anyio.lowlevel.checkpoint
    parts = ["A", wait, READ, wait, interleave(WRITE, call("read", "[", call_id="c3")), wait, "B", wait]
    return {
        "held": hold_back(turn_of(*parts), waiting_check),
        "edited": edit_calls(turn_of(*parts), waiting_edit),
        "both": hold_back(edit_calls(turn_of(*parts), waiting_edit), waiting_check),
        "the other way round": edit_calls(hold_back(turn_of(*parts), waiting_check), waiting_edit),
        "failing": edit_calls(turn_of(*parts, ModelError("lost")), waiting_edit),
    }


all_turns = pytest.mark.parametrize("name", sorted(busy_turns()))
Consumer = Callable[[Flow[TurnEvent, Turn]], Awaitable[None]]


async def reads(turn: Flow[TurnEvent, Turn]) -> None:
    async with turn.open() as events:
        async for _ in events:
            await anyio.lowlevel.checkpoint()


async def awaits(turn: Flow[TurnEvent, Turn]) -> None:
    await turn


async def forwards_within_a_run_that_goes_on(turn: Flow[TurnEvent, Turn]) -> None:
    @flow
    async def outer(out: Sink[TurnEvent]) -> None:
        await out.forward(turn)

    async with outer().open() as events:
        async for _ in events:
            pass


@all_turns
@pytest.mark.parametrize("consumer", [reads, awaits, forwards_within_a_run_that_goes_on])
def test_cancelled_at_any_tick_all_calls_are_closed(anyio_backend: str, name: str, consumer: Consumer) -> None:
    async def attack(tick: int) -> bool:
        shown: list[TurnEvent] = []
        went_on = False
        with anyio.move_on_after(tick) as scope:
            try:
                await consumer(busy_turns()[name].tap(shown.append))
            except ModelError:
                assert name == "failing"
            went_on = True
        ended = bool(shown) and isinstance(shown[-1], TurnEnded)
        check_grammar(shown, pending=["c1", "c2", "c3"] if ended else ())
        assert scope.cancelled_caught is not went_on
        return scope.cancelled_caught

    async def main() -> None:
        assert await repeat(attack) > 5

    in_ticks(anyio_backend, main)


@all_turns
def test_left_at_any_event_all_calls_are_closed(anyio_backend: str, name: str) -> None:
    async def attack(number: int) -> bool:
        shown: list[TurnEvent] = []
        left = False
        try:
            async with busy_turns()[name].tap(shown.append).open() as events:
                seen = 0
                async for _ in events:
                    seen += 1
                    if seen > number:
                        left = True
                        break
        except ModelError:
            assert name == "failing"
        ended = bool(shown) and isinstance(shown[-1], TurnEnded)
        check_grammar(shown, pending=["c1", "c2", "c3"] if ended else ())
        return left

    async def main() -> None:
        assert await repeat(attack) > 5

    in_ticks(anyio_backend, main)


part_strategy = st.one_of(
    st.sampled_from(["I look. ", "\n"]),
    st.builds(
        call,
        st.sampled_from(["read", "write", "nope"]),
        st.sampled_from(['{"p":"a"}', "{}", "", "[1]", '{"p":"a"']),
        split=st.sampled_from([None, 1, 3]),
        ends=st.booleans(),
    ),
    st.just(WholeCall("", "{}")),
    st.just(interleave(call("read", {"p": "a"}, split=2), call("write", {"p": "b"}, split=3))),
    st.just(RefusalDelta("No")),
)
end_strategy = st.one_of(
    st.none(),
    st.sampled_from([stop("length"), stop("refusal"), stop("unknown"), stop("stop")]),
    st.builds(ModelError, st.just("lost")),
)
EDITS: dict[str, Callable[[ToolCall], ToolCall | None]] = {
    "keep": lambda call: call,
    "drop": lambda call: None,
    "rename": lambda call: msgspec.structs.replace(call, name="write"),
    "rewrite": lambda call: msgspec.structs.replace(call, name="read", arguments='{"p":"z"}', problem=None),
    "forbid": lambda call: msgspec.structs.replace(call, problem="forbidden"),
    "raise": lambda call: (_ for _ in ()).throw(Refused()),
}


@settings(max_examples=150)
@given(
    st.lists(part_strategy, max_size=5), end_strategy,
    st.lists(st.sampled_from(sorted(EDITS)), min_size=1, max_size=4), st.sampled_from(["edit", "hold", "both"]),
)  # fmt: skip
async def test_whatever_is_edited_what_is_told_is_what_the_turn_holds(
    parts: list[Any], end: Any, edits: list[str], way: str
) -> None:
    which = itertools.cycle(edits)

    def edit(call: ToolCall) -> ToolCall | None:
        return EDITS[next(which)](call)

    turn = turn_of(*parts, *([] if end is None else [end]))
    turn = turn if way == "hold" else edit_calls(turn, edit)
    turn = turn if way == "edit" else hold_back(turn, lambda turn: turn)
    shown: list[TurnEvent] = []
    with anyio.fail_after(GUARD_SECONDS):
        try:
            ended = await turn.tap(shown.append)
        except (ModelError, Refused):
            check_grammar(shown)
            return
    check_grammar(shown, pending=[call.call_id for call in ended.calls])
    begun: dict[str, list[TurnEvent]] = {}
    for event in shown:
        if isinstance(event, ToolInputStart):
            begun[event.call_id] = []
        if isinstance(event, ToolInputEvent):
            begun[event.call_id].append(event)
    for each in ended.calls:
        if not each.name:
            continue
        start, *deltas, last = begun.pop(each.call_id)
        assert start == ToolInputStart(each.call_id, each.name)
        assert "".join(event.delta for event in deltas if isinstance(event, ToolInputDelta)) == each.arguments
        wanted = ToolInputAvailable(each.call_id, each.arguments)
        assert last == (wanted if each.problem is None else ToolInputAbandoned(each.call_id, "malformed", each.problem))
    assert all(isinstance(events[-1], ToolInputAbandoned) for events in begun.values())
    assert (ended.stop_reason == "tool_calls") == bool(ended.calls)
    assert "".join(event.text for event in shown if isinstance(event, TextDelta)) == ended.text
    check_items(Conversation((user("go"),)).add(ended, [answer_of(call) for call in ended.calls]).history)
