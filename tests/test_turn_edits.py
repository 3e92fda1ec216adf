"""Turns that are held back, and turns whose calls are edited: grammar and closure at every event and every await."""

import itertools
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

import anyio
import anyio.lowlevel
import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from streamkit import (
    Conversation,
    Failure,
    Flow,
    Message,
    ModelError,
    Next,
    Output,
    ReasoningDelta,
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
    ToolSpec,
    ToolStarted,
    Turn,
    TurnEnded,
    TurnEvent,
    TurnRequest,
    TurnRestarted,
    TurnStarted,
    UnknownItem,
    append_turn,
    converse,
    execute_all,
    flow,
    loop,
    tool,
    user,
)
from streamkit.errors import DecodeError
from streamkit.testing import ScriptedModel, call, check_grammar, interleave, stop
from streamkit.testing.histories import check_items
from streamkit.tool_input import WholeCall
from streamkit.turn_edits import edit_calls, hold_back

from .attacks import in_ticks, repeat
from .calling import GUARD_SECONDS

REQUEST = TurnRequest((user("go"),), (ToolSpec("read", "Reads.", {}), ToolSpec("write", "Writes.", {})))
READ = call("read", {"p": "a"}, call_id="c1", split=4)
WRITE = call("write", {"p": "b"}, call_id="c2", split=4)


class Refused(Exception):
    """Raised by checks and edits."""


def turn_of(*parts: Any) -> Flow[TurnEvent, Turn]:
    """A turn that can be opened as often as it has to be."""
    return Flow(lambda out: ScriptedModel(list(parts)).stream_turn(REQUEST)._run(out))


def told(events: Sequence[RunEvent]) -> list[str]:
    """Events in a few words each; the deltas of a call joined."""
    lines: list[str] = []
    for event in events:
        if isinstance(event, ToolInputDelta) and lines[-1].startswith(f"delta {event.call_id} "):
            lines[-1] += event.delta
        else:
            lines.append(IN_WORDS.get(type(event), repr)(event))
    return lines


IN_WORDS: dict[type, Callable[[Any], str]] = {
    TurnStarted: lambda event: "turn",
    TurnEnded: lambda event: f"end {event.turn.stop_reason}",
    TextDelta: lambda event: f"text {event.text}",
    ToolInputStart: lambda event: f"start {event.call_id} {event.tool}",
    ToolInputDelta: lambda event: f"delta {event.call_id} {event.delta}",
    ToolInputAvailable: lambda event: f"available {event.call_id} {event.arguments}",
    ToolInputAbandoned: lambda event: f"abandoned {event.call_id} {event.reason}",
}


async def seen(turn: Flow[TurnEvent, Turn]) -> tuple[list[TurnEvent], Turn]:
    """All events of a turn, and the turn: the same, and the same in its end, and they keep the grammar."""
    async with turn.open() as opened:
        events = [event async for event in opened]
    ended = events[-1]
    assert isinstance(ended, TurnEnded)
    assert ended.turn == opened.value
    check_grammar(events, pending=[call.call_id for call in opened.value.calls])
    return events, opened.value


def without_calls(turn: Turn) -> Turn:
    items = tuple(item for item in turn.items if not isinstance(item, ToolCall))
    return msgspec.structs.replace(turn, items=items, stop_reason="stop")


# Holding back


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


# Editing calls


def drop(name: str) -> Callable[[ToolCall], ToolCall | None]:
    return lambda call: None if call.name == name else call


def change(tool: str, /, **fields: Any) -> Callable[[ToolCall], ToolCall | None]:
    return lambda call: msgspec.structs.replace(call, **fields) if call.name == tool else call


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
    check_items(append_turn((user("go"),), turn, [_answer(call) for call in turn.calls]))


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


async def test_a_turn_that_keeps_none_of_its_calls_is_no_answer() -> None:
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
        (lambda call: call.name, TypeError, "gives a call or None, not str"),
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


# With tools


@tool
async def read(p: str) -> str:
    """Reads."""
    return f"read {p}"


@tool
async def write(p: str) -> str:
    """Writes."""
    return f"wrote {p}"


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
    check_items(Conversation((user("go"),)).add(ended, [_answer(call) for call in ended.calls]).history)


def _answer(call: ToolCall) -> Failure:
    return Failure(call.call_id, call.name, "failed", "no")


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
