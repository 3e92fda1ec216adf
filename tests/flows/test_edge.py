"""What a consumer sees of an opening, what its mistakes say, how cancelled work ends, and that nothing is held."""

import asyncio
import gc
import weakref
from collections.abc import Iterator
from contextlib import aclosing, contextmanager, suppress

import anyio
import anyio.lowlevel
import pytest

from streamkit.errors import FlowError, FlowNotOpened, NotFinished, WorkCancelled
from streamkit.flows.channel import QUOTA
from streamkit.flows.flow import Events, Sink, flow
from streamkit.testing.leftovers import nothing_left

from ..attacks import Boom, Own, count_to, fail_after_events, wait_for_ever


async def read(events: Events[int, object]) -> list[int]:
    return [event async for event in events]


# A good end


async def test_all_events_come_in_order_then_the_value() -> None:
    async with count_to(100).open() as events:
        assert await read(events) == list(range(100))
        assert events.value == "done"
    assert events.value == "done"


async def test_events_are_iterated_as_often_as_one_likes() -> None:
    async with count_to(5).open() as events:
        async for event in events:
            if event == 1:
                break
        assert await read(events) == [2, 3, 4]
        assert await read(events) == []


async def test_each_opening_runs_the_work_anew() -> None:
    work = count_to(3)
    for _ in range(2):
        async with work.open() as events:
            assert await read(events) == [0, 1, 2]


async def test_work_runs_beside_a_busy_body() -> None:
    ran = anyio.Event()

    @flow
    async def work(out: Sink[int]) -> None:
        ran.set()

    async with work().open():
        await ran.wait()


async def test_work_sees_the_context_variables_of_its_opener_and_its_generators_close_in_it() -> None:
    own = Own()

    @flow
    async def work(out: Sink[int]) -> None:
        async with aclosing(own.numbers(10)) as numbers:
            async for number in numbers:
                await out.send(number)

    async with work().open() as events:
        await anext(events)
    assert own.opened == 1
    assert own.all_closed()


async def test_what_is_ready_is_taken_at_once_and_nothing_at_the_end() -> None:
    async with count_to(100).open() as events:
        taken = [await anext(events)]
        sizes = []
        while batch := await events.take():
            sizes.append(len(batch))
            taken += batch
        assert taken == list(range(100))
        assert max(sizes) >= QUOTA
        assert events.value == "done"
        assert await events.take() == []


async def test_taking_waits_for_an_event_and_loses_none_when_it_is_cancelled() -> None:
    go_on = anyio.Event()

    @flow
    async def work(out: Sink[int]) -> None:
        await go_on.wait()
        await out.send(1)

    async with work().open() as events:
        with anyio.move_on_after(0):
            await events.take()
        go_on.set()
        assert await events.take() == [1]
        assert await events.take() == []


async def test_taking_gives_the_events_before_an_error_then_raises_it() -> None:
    async with fail_after_events(3, Boom()).open() as events:
        taken: list[int] = []
        with pytest.raises(Boom):
            while batch := await events.take():
                taken += batch
        assert taken == [0, 1, 2]


async def test_taking_before_the_block_is_entered_says_so() -> None:
    with pytest.raises(FlowNotOpened, match="async with"):
        await count_to(1).open().take()


# Mistakes that speak


async def test_value_is_readable_only_after_the_iteration_has_ended() -> None:
    async with count_to(2).open() as events:
        for _ in range(2):
            await anext(events)
        with pytest.raises(NotFinished, match="no value yet"):
            _ = events.value
        assert await read(events) == []
        assert events.value == "done"


async def test_value_says_that_the_events_were_left() -> None:
    async with count_to(2).open() as events:
        await anext(events)
    with pytest.raises(NotFinished, match="left"):
        _ = events.value


async def test_value_says_that_the_work_failed() -> None:
    async with fail_after_events(0, Boom()).open() as events:
        with pytest.raises(Boom):
            await anext(events)
        with pytest.raises(NotFinished, match="failed"):
            _ = events.value


async def test_events_are_entered_only_once() -> None:
    async with count_to(0).open() as events:
        with pytest.raises(FlowError, match="open the flow again"):
            await events.__aenter__()
    with pytest.raises(FlowError, match="open the flow again"):
        await events.__aenter__()


async def test_events_that_are_not_entered_say_so() -> None:
    with pytest.raises(FlowNotOpened, match="async with"):
        async for _ in count_to(1).open():
            raise AssertionError


async def test_events_that_were_left_say_so() -> None:
    async with count_to(1).open() as events:
        pass
    with pytest.raises(FlowError, match="left"):
        await anext(events)


async def test_a_pull_that_waits_while_the_block_is_left_says_so() -> None:
    heard = anyio.Event()

    async def pull(events: Events[int, None]) -> None:
        with pytest.raises(FlowError, match="left"):
            await anext(events)
        heard.set()

    @flow
    async def work(out: Sink[int]) -> None:
        try:
            await anyio.sleep_forever()
        finally:
            with anyio.CancelScope(shield=True):
                await heard.wait()

    async with anyio.create_task_group() as group, work().open() as events:
        group.start_soon(pull, events)
        await anyio.wait_all_tasks_blocked()


async def test_a_pull_while_the_work_still_cleans_up_says_that_the_block_was_left() -> None:
    heard: list[bool] = []

    @flow
    async def work(out: Sink[int]) -> None:
        try:
            await anyio.sleep_forever()
        finally:
            with anyio.CancelScope(shield=True), pytest.raises(FlowError, match="left"):
                await anext(events)
            heard.append(True)

    async with work().open() as events:
        await anyio.wait_all_tasks_blocked()
    assert heard == [True]


# Cancelled work


async def test_work_that_is_cancelled_around_a_shielded_consumer_is_no_clean_end() -> None:
    with anyio.CancelScope() as scope:
        async with wait_for_ever().open() as events:
            with anyio.CancelScope(shield=True):
                assert await anext(events) == 0
                scope.cancel()
                with pytest.raises(WorkCancelled, match="wait_for_ever"):
                    await anext(events)
                with pytest.raises(WorkCancelled):
                    await anext(events)
                with pytest.raises(NotFinished, match="cancelled"):
                    _ = events.value


async def test_events_before_the_cancellation_still_come() -> None:
    with anyio.CancelScope() as scope:
        async with wait_for_ever().open() as events:
            with anyio.CancelScope(shield=True):
                await anyio.wait_all_tasks_blocked()
                scope.cancel()
                await anyio.wait_all_tasks_blocked()
                assert await anext(events) == 0


async def test_work_that_ends_because_its_consumers_scope_is_cancelled_looks_like_no_end() -> None:
    """The work is woken first, and its end wakes the consumer before the cancellation gets there."""
    ended = False
    with anyio.CancelScope() as scope:
        async with wait_for_ever().open() as events:
            scope.deadline = anyio.current_time()
            async for _ in events:
                pass
            ended = True
    assert scope.cancelled_caught
    assert not ended


@pytest.mark.parametrize("anyio_backend", ["asyncio"])
async def test_work_that_cancels_itself_leaves_its_consumer_alone() -> None:
    @flow
    async def work(out: Sink[int]) -> None:
        await out.send(0)
        raise asyncio.CancelledError

    async with work().open() as events:
        assert await anext(events) == 0
        with pytest.raises(WorkCancelled):
            await anext(events)
        await anyio.lowlevel.checkpoint()


async def test_a_scope_that_the_work_cancels_inside_itself_is_its_own_affair() -> None:
    @flow
    async def work(out: Sink[int]) -> str:
        with anyio.CancelScope() as scope:
            scope.cancel()
            await out.forward(wait_for_ever())
        return "went on"

    async with work().open() as events:
        assert await read(events) == [0]
        assert events.value == "went on"


# Memory


@contextmanager
def counting_references_only() -> Iterator[None]:
    gc.collect()
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


@pytest.mark.parametrize("kind", [Exception, BaseException])
@pytest.mark.parametrize("heard", ["from the iteration", "on leaving", "behind an error"])
async def test_no_error_is_kept_alive_by_a_ring(kind: type[BaseException], heard: str) -> None:
    kept = type("Kept", (kind,), {})
    references = []

    @flow
    async def work(out: Sink[int]) -> None:
        try:
            if heard != "from the iteration":
                await anyio.sleep_forever()
        finally:
            raise remember(kept())

    def remember(error: BaseException) -> BaseException:
        references.append(weakref.ref(error))
        return error

    async def consume() -> None:
        with suppress(kept, Boom):
            async with work().open() as events:
                if heard == "from the iteration":
                    await anext(events)
                await anyio.wait_all_tasks_blocked()
                if heard == "behind an error":
                    raise Boom

    with counting_references_only():
        await consume()
        assert [reference() for reference in references] == [None]


@pytest.mark.parametrize("how", ["to the end", "early", "by an error", "cancelled"])
async def test_what_an_opening_held_is_free_as_soon_as_it_is_left(how: str) -> None:
    class Event:
        pass

    references: list[weakref.ref[Event]] = []

    def remember(event: Event) -> Event:
        references.append(weakref.ref(event))
        return event

    @flow
    async def work(out: Sink[Event]) -> None:
        for _ in range(2 * QUOTA + 5):  # some are taken, and some are not
            await out.send(remember(Event()))

    async def consume() -> Events[Event, None]:
        events = work().open()
        with suppress(Boom), anyio.CancelScope() as scope:
            async with events:
                async for _ in events:
                    await anyio.wait_all_tasks_blocked()
                    if how == "early":
                        break
                    if how == "by an error":
                        raise Boom
                    if how == "cancelled":
                        scope.cancel()
                        await anyio.sleep_forever()
        return events

    with counting_references_only():
        left = await consume()
        await anyio.lowlevel.checkpoint()  # asyncio lets go of what woke us
        assert len(references) == 2 * QUOTA + 5
        assert {reference() for reference in references} == {None}
        del left


async def test_a_thousand_openings_left_after_the_first_event_leave_nothing() -> None:
    own = Own()

    @flow
    async def work(out: Sink[int]) -> None:
        async with aclosing(own.numbers(10)) as numbers:
            async for number in numbers:
                await out.send(number)

    async with nothing_left():
        for _ in range(1_000):
            async with work().open() as events:
                async for _event in events:
                    break
    assert own.opened == own.closed == 1_000
