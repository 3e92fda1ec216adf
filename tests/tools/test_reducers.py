import gc
import tracemalloc
from collections.abc import AsyncIterator, Iterable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamkit.errors import DefinitionError, FlowNotOpened, ReducerError
from streamkit.flows.flow import Sink, flow
from streamkit.tool_events import Intermediate, ToolInputField
from streamkit.tools.reducers import Reducer, collect, count, first, fold, join_text, last, reduce_stream
from streamkit.turns import ReasoningDelta, RefusalDelta, TextDelta, ToolInputDelta, TurnRestarted, TurnStarted

events_of_many_types = st.lists(st.one_of(st.integers(), st.text(max_size=3), st.floats(), st.none()))


def reduced(reducer: Reducer[Any, Any, Any], events: Iterable[object]) -> Any:
    state = reducer.start()
    for event in events:
        state = reducer.step(state, event)
    return reducer.finish(state)


@given(events_of_many_types)
def test_collect_gives_all_events_in_order(events: list[object]) -> None:
    assert reduced(collect(), events) == events


def test_collect_gives_what_finalize_makes_of_the_list() -> None:
    assert reduced(collect(sum), [1, 2, 3]) == 6


@pytest.mark.parametrize(("events", "kept"), [([], []), ([1], [1]), ([1, 2], [1, 2]), ([1, 2, 3, 4], [1, 2])])
def test_collect_keeps_the_first_items_up_to_its_limit(events: list[int], kept: list[int]) -> None:
    assert reduced(collect(max_items=2), events) == kept
    assert reduced(collect(len, max_items=2), events) == len(kept)


@given(events_of_many_types)
def test_last_and_first_see_their_type_alone(events: list[object]) -> None:
    texts = [event for event in events if isinstance(event, str)]
    assert reduced(last(str, default=None), events) == (texts[-1] if texts else None)
    assert reduced(first(str, default=None), events) == (texts[0] if texts else None)


@pytest.mark.parametrize("reducer", [last(int), first(int)])
def test_last_and_first_of_nothing_have_no_value(reducer: Reducer[object, Any, int]) -> None:
    with pytest.raises(ReducerError, match="no event of type int came"):
        reduced(reducer, ["1", 2.0])


def test_events_that_are_false_count_for_last_and_first() -> None:
    assert reduced(first(object), [None, 1]) is None
    assert reduced(last(object), [1, None]) is None


def test_count_counts_every_event() -> None:
    assert reduced(count(), [None, "a", 1]) == 3


@given(st.lists(st.text()))
def test_join_text_joins_texts(texts: list[str]) -> None:
    assert reduced(join_text(), texts) == "".join(texts)
    assert reduced(join_text(", "), texts) == ", ".join(texts)


def test_join_text_takes_what_a_turn_says_and_nothing_else() -> None:
    events = [
        TurnStarted("turn", "model"),
        ReasoningDelta("hm"),
        TextDelta("I "),
        ToolInputDelta("call", "{}"),
        Intermediate("call", "ask", None, TextDelta("inner")),
        ToolInputField("call", ("path",), "field"),
        RefusalDelta("won't"),
    ]
    assert reduced(join_text(), events) == "I won't"


def test_join_text_forgets_what_a_restarted_turn_had_said() -> None:
    events = ["a", TurnStarted("turn", "model"), TextDelta("b"), TurnRestarted("cut"), TextDelta("c")]
    assert reduced(join_text(), events) == "ac"


@given(st.lists(st.integers()))
def test_fold_gives_the_state_after_the_last_step(numbers: list[int]) -> None:
    def add(total: int, number: int) -> int:
        return total + number

    assert reduced(fold(add, 0), numbers) == sum(numbers)


def test_runs_of_one_fold_share_no_state() -> None:
    def note(seen: list[int], number: int) -> list[int]:
        seen.append(number)
        return seen

    reducer = fold(note, [0])
    assert [reduced(reducer, [1]), reduced(reducer, [2])] == [[0, 1], [0, 2]]


@pytest.mark.parametrize(
    "reducer",
    [collect(), collect(len, max_items=3), last(int), first(int), count(), join_text(), fold(lambda old, new: new, 0)],
)
@given(st.lists(st.integers(), min_size=1), st.lists(st.integers(), min_size=1))
def test_one_reducer_serves_interleaved_runs(reducer: Reducer[Any, Any, Any], one: list[int], two: list[int]) -> None:
    states = [reducer.start(), reducer.start()]
    for place in range(max(len(one), len(two))):
        for run, events in enumerate((one, two)):
            if place < len(events):
                states[run] = reducer.step(states[run], events[place])
    assert [reducer.finish(state) for state in states] == [reduced(reducer, one), reduced(reducer, two)]


@pytest.mark.parametrize(
    "reducer",
    [last(bytes), first(bytes), count(), collect(max_items=10), fold(lambda total, event: total + len(event), 0)],
)
def test_memory_does_not_grow_with_the_events(reducer: Reducer[Any, Any, Any]) -> None:
    def grown_by(events: int) -> int:
        gc.collect()
        tracemalloc.start()
        reduced(reducer, (bytes(1000) for _ in range(events)))
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        return peak

    assert grown_by(3000) < grown_by(100) + 20_000


def test_a_reducer_that_cannot_work_is_refused_where_it_is_made() -> None:
    with pytest.raises(DefinitionError, match="max_items is 0"):
        collect(max_items=0)
    with pytest.raises(DefinitionError, match="a class that isinstance knows"):
        last(dict[str, int])
    with pytest.raises(DefinitionError, match="plain function"):
        fold("add", 0)  # type: ignore[arg-type]


def test_coroutine_functions_are_refused_where_the_reducer_is_made() -> None:
    async def finalize(events: list[int]) -> int:
        return len(events)

    async def step(state: int, event: int) -> int:
        return state + event

    with pytest.raises(DefinitionError, match="plain function"):
        collect(finalize)
    with pytest.raises(DefinitionError, match="plain function"):
        fold(step, 0)  # type: ignore[arg-type]


def test_a_function_that_cannot_be_called_so_is_refused_where_the_reducer_is_made() -> None:
    with pytest.raises(DefinitionError, match="collect takes a function of the list of all events: too many"):
        collect(lambda: 1)  # type: ignore[arg-type,misc]
    with pytest.raises(DefinitionError, match="fold takes a function of the state and an event: missing"):
        fold(lambda state, event, more: state, 0)  # type: ignore[arg-type,misc]
    with pytest.raises(DefinitionError, match="Reducer takes a function of nothing"):
        Reducer(lambda start: start, max, len)  # type: ignore[arg-type,misc]


@pytest.mark.parametrize("place", [0, 1, 2])
def test_a_reducer_is_three_plain_functions(place: int) -> None:
    async def later(*given: Any) -> Any: ...

    functions: list[Any] = [list, max, len]
    Reducer(*functions)
    functions[place] = later
    with pytest.raises(DefinitionError, match="Reducer takes a plain function"):
        Reducer(*functions)


async def numbers(up_to: int) -> AsyncIterator[int]:
    for number in range(up_to):
        yield number


async def test_a_reducer_runs_over_any_async_iterable() -> None:
    assert await reduce_stream(numbers(4), collect(sum)) == 6


async def test_a_reducer_runs_over_the_events_of_a_flow() -> None:
    @flow
    async def say(out: Sink[str], *words: str) -> None:
        for word in words:
            await out.send(word)

    async with say("a", "b").open() as events:
        assert await reduce_stream(events, join_text()) == "ab"


async def test_a_flow_that_was_not_opened_says_so() -> None:
    @flow
    async def say(out: Sink[str]) -> None:
        await out.send("a")

    with pytest.raises(FlowNotOpened):
        await reduce_stream(say(), join_text())


async def test_an_error_in_a_step_leaves_the_iterable_to_its_owner() -> None:
    def refuse_two(state: int, event: int) -> int:
        if event == 2:
            raise ValueError("two")
        return event

    events = numbers(5)
    with pytest.raises(ValueError, match="two"):
        await reduce_stream(events, fold(refuse_two, 0))
    assert [event async for event in events] == [3, 4]
