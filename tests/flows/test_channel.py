"""Back-pressure, turns and endings of the one queue, as producers and their consumer see them."""

import sys
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType

import anyio
import anyio.lowlevel
import pytest

from streamkit.errors import AlreadyPulling, SinkClosed
from streamkit.flows.channel import QUOTA, QUOTA_LIMIT, Channel
from streamkit.flows.flow import Flow, Sink, flow

from ..attacks import count_to, in_ticks

Send = Callable[[Sink[int], int], object]


async def by_itself(out: Sink[int], number: int) -> None:
    await out.send(number)


async def each_by_a_branch(out: Sink[int], number: int) -> None:
    with out.branch() as mine:
        await mine.send(number)


async def each_by_a_branch_of_a_branch(out: Sink[int], number: int) -> None:
    with out.branch() as mine, mine.branch() as inner:
        await inner.send(number)


async def each_by_a_branch_that_is_never_closed(out: Sink[int], number: int) -> None:
    await out.branch().send(number)


async def each_by_a_branch_that_outlives_its_parent(out: Sink[int], number: int) -> None:
    with out.branch() as mine:
        inner = mine.branch()
    with inner:
        await inner.send(number)


async def each_by_a_flow_of_its_own(out: Sink[int], number: int) -> None:
    @flow
    async def one(out: Sink[int]) -> None:
        await out.send(number)

    await out.forward(one())


WAYS_TO_SEND = (
    by_itself,
    each_by_a_branch,
    each_by_a_branch_of_a_branch,
    each_by_a_branch_that_is_never_closed,
    each_by_a_branch_that_outlives_its_parent,
    each_by_a_flow_of_its_own,
)
all_ways = pytest.mark.parametrize("send", WAYS_TO_SEND)


# How far ahead


class Ahead:
    """How many more were produced than consumed, at most."""

    def __init__(self) -> None:
        self.now = 0
        self.most = 0

    def produced(self) -> None:
        self.now += 1
        self.most = max(self.most, self.now)

    def consumed(self) -> None:
        self.now -= 1


@flow
async def produce(out: Sink[int], ahead: Ahead, send: Send = by_itself, count: int = 1_000) -> None:
    for number in range(count):
        ahead.produced()
        await send(out, number)  # type: ignore[misc]


@flow
async def produce_in_branches(out: Sink[int], ahead: Ahead, producers: int) -> None:
    async def part() -> None:
        with out.branch() as mine:
            await mine.forward(produce(ahead, count=300))

    async with anyio.create_task_group() as group:
        for _ in range(producers):
            group.start_soon(part)


async def consume(work: Flow[int, None], ahead: Ahead, ticks_each: int) -> int:
    count = 0
    async with work.open() as events:
        async for _ in events:
            ahead.consumed()
            count += 1
            for _ in range(ticks_each):
                await anyio.lowlevel.checkpoint()
    return count


@all_ways
@pytest.mark.parametrize("ticks_each", [0, 1])
async def test_a_task_is_at_most_two_quotas_ahead_however_it_sends(send: Send, ticks_each: int) -> None:
    ahead = Ahead()
    assert await consume(produce(ahead, send), ahead, ticks_each) == 1_000
    assert ahead.most <= 2 * QUOTA_LIMIT


async def test_quotas_are_small_again_when_the_consumer_becomes_slow() -> None:
    ahead = Ahead()
    async with produce(ahead, count=2_000).open() as events:
        for number in range(2_000):
            if number > 1_000:
                await anyio.lowlevel.checkpoint()
            if number == 1_000 + 2 * QUOTA_LIMIT:
                ahead.most = 0
            await anext(events)
            ahead.consumed()
    assert ahead.most <= 2 * QUOTA


async def test_branches_one_after_another_are_one_producer_however_much_each_sends() -> None:
    ahead = Ahead()

    @flow
    async def work(out: Sink[int]) -> None:
        for _ in range(100):
            with out.branch() as mine:
                await mine.forward(produce(ahead, count=QUOTA - 1))

    assert await consume(work(), ahead, 1) == 100 * (QUOTA - 1)
    assert ahead.most <= 2 * QUOTA_LIMIT


@pytest.mark.parametrize("producers", [10, 100])
@pytest.mark.parametrize("ticks_each", [0, 1])
async def test_each_of_many_producers_is_at_most_two_quotas_ahead(producers: int, ticks_each: int) -> None:
    ahead = Ahead()
    assert await consume(produce_in_branches(ahead, producers), ahead, ticks_each) == 300 * producers
    assert ahead.most <= 2 * QUOTA_LIMIT * producers


async def test_work_waits_for_a_consumer_that_does_not_pull() -> None:
    ahead = Ahead()
    async with produce(ahead).open() as events:
        await anyio.wait_all_tasks_blocked()
        assert ahead.most == QUOTA
        await anext(events)
        await anyio.wait_all_tasks_blocked()
        assert ahead.most == 2 * QUOTA


async def test_branches_that_send_one_event_each_use_up_the_quota_of_their_task_and_no_more() -> None:
    ahead = Ahead()
    async with produce(ahead, each_by_a_branch).open():
        await anyio.wait_all_tasks_blocked()
        assert ahead.most == QUOTA + 1  # where nothing is left, a branch may still send one


async def test_branches_that_send_nothing_change_no_quota_however_often_they_are_closed() -> None:
    ahead = Ahead()

    @flow
    async def work(out: Sink[int]) -> None:
        for _ in range(100):
            with out.branch() as mine:
                mine.close()
        await out.forward(produce(ahead))

    async with work().open():
        await anyio.wait_all_tasks_blocked()
        assert ahead.most == QUOTA


@pytest.mark.parametrize("tasks", [2, 50])
async def test_tasks_that_share_a_sink_are_held_back_and_all_go_on(tasks: int) -> None:
    ahead = Ahead()

    @flow
    async def work(out: Sink[int]) -> None:
        async with anyio.create_task_group() as group:
            for _ in range(tasks):
                group.start_soon(out.forward, produce(ahead, count=100))

    assert await consume(work(), ahead, 1) == 100 * tasks
    assert ahead.most <= 2 * (QUOTA_LIMIT + tasks)


# Order and turns


async def test_events_come_in_the_order_in_which_they_were_sent() -> None:
    sent = []

    @flow
    async def work(out: Sink[int]) -> None:
        async def part(first: int, pauses: int) -> None:
            with out.branch() as mine:
                for number in range(first, first + 100):
                    sent.append(number)
                    await mine.send(number)
                    for _ in range(pauses):
                        await anyio.lowlevel.checkpoint()

        async with anyio.create_task_group() as group:
            for pauses in range(4):
                group.start_soon(part, 100 * pauses, pauses)

    async with work().open() as events:
        assert [event async for event in events] == sent


@pytest.mark.parametrize("producers", [2, 20])
async def test_producers_take_turns(producers: int) -> None:
    counts = Counter[int]()
    count = 500

    @flow
    async def work(out: Sink[int]) -> None:
        async def part(name: int) -> None:
            with out.branch() as mine:
                for _ in range(count):
                    await mine.send(name)

        async with anyio.create_task_group() as group:
            for name in range(producers):
                group.start_soon(part, name)

    async with work().open() as events:
        async for name in events:
            counts[name] += 1
            if max(counts.values()) < count:
                assert max(counts.values()) - min(counts[name] for name in range(producers)) <= 2 * QUOTA_LIMIT


async def for_ever(send: Send, out: Sink[int]) -> None:
    number = 0
    while True:
        await send(out, number)  # type: ignore[misc]
        number += 1


async def is_opened(work: Flow[int, None]) -> None:
    async with work.open() as events:
        async for _ in events:
            pass


async def is_opened_and_not_read(work: Flow[int, None]) -> None:
    async with work.open():
        await anyio.sleep_forever()


async def is_left_early(work: Flow[int, None]) -> None:
    async with work.open() as events:
        await anext(events)
    await anyio.sleep_forever()


async def is_awaited(work: Flow[int, None]) -> None:
    await work


async def is_filtered_out(work: Flow[int, None]) -> None:
    await is_opened(work.filter(lambda _: False))


async def is_mostly_filtered_out(work: Flow[int, None]) -> None:
    await is_opened(work.filter(lambda number: number % (QUOTA - 1) == 0))


USES = (is_opened, is_opened_and_not_read, is_left_early, is_awaited, is_filtered_out, is_mostly_filtered_out)


@all_ways
@pytest.mark.parametrize("use", USES)
def test_work_that_never_suspends_by_itself_lets_others_run_and_hears_cancellation(
    anyio_backend: str, use: Callable[[Flow[int, None]], object], send: Send
) -> None:
    """Each tick is one round of all tasks: work that did not let others run would not come to the tenth."""

    async def main() -> None:
        with anyio.move_on_after(10) as scope:
            await use(Flow(lambda out: for_ever(send, out)))  # type: ignore[misc]
        assert scope.cancelled_caught

    in_ticks(anyio_backend, main)


def test_a_cleanup_that_sends_for_ever_hears_the_cancellation_after_its_consumer_left(anyio_backend: str) -> None:
    @flow
    async def work(out: Sink[int]) -> None:
        try:
            await out.forward(count_to(1_000))
        finally:
            await for_ever(by_itself, out)

    async def main() -> None:
        async with work().open() as events:
            await anext(events)

    in_ticks(anyio_backend, main)


def test_many_short_flows_awaited_in_a_row_hear_cancellation(anyio_backend: str) -> None:
    async def main() -> None:
        with anyio.move_on_after(10) as scope:
            while True:
                await count_to(1)
        assert scope.cancelled_caught

    in_ticks(anyio_backend, main)


# Cost, counted


@contextmanager
def counting_calls(function: Callable[..., object]) -> Iterator[list[int]]:
    code = function.__code__
    calls = [0]

    def on_call(frame: FrameType, what: str, _: object) -> None:
        if what == "call" and frame.f_code is code:
            calls[0] += 1

    sys.setprofile(on_call)
    try:
        yield calls
    finally:
        sys.setprofile(None)


@pytest.mark.parametrize("producers", [1, 10, 100])
async def test_events_of_anyio_are_made_per_wake_up_not_per_event(producers: int) -> None:
    """Two a round at most, one for each side: and in a round each producer sends a quota."""
    ahead = Ahead()
    with counting_calls(anyio.Event.__new__) as made:
        count = await consume(produce_in_branches(ahead, producers), ahead, 0)
    rounds = count / producers / QUOTA
    assert made[0] <= 2 * rounds + producers + 10


async def test_a_fast_reader_is_woken_four_times_as_rarely() -> None:
    ahead = Ahead()
    with counting_calls(anyio.Event.__new__) as made:
        await consume(produce(ahead, count=6_400), ahead, 0)
    assert made[0] <= 2 * 6_400 / QUOTA_LIMIT + 10


# Ends


async def test_sending_after_the_work_has_returned_is_refused() -> None:
    outs = []

    @flow
    async def work(out: Sink[int]) -> None:
        outs.extend([out, out.branch()])

    async with work().open() as events:
        assert [event async for event in events] == []
        for out in (*outs, outs[0].branch(), outs[1].branch()):
            with pytest.raises(SinkClosed):
                await out.send(0)
    for out in outs:
        with pytest.raises(SinkClosed):
            await out.send(0)


async def test_sending_after_the_work_has_returned_is_refused_when_the_consumer_left_first() -> None:
    outs = []

    @flow
    async def work(out: Sink[int]) -> None:
        outs.append(out)
        await out.forward(count_to(1_000))

    async with work().open() as events:
        await anext(events)
    with pytest.raises(SinkClosed):
        await outs[0].send(0)


async def test_sending_drops_and_never_waits_for_a_consumer_that_has_left() -> None:
    after = []

    @flow
    async def work(out: Sink[int]) -> None:
        try:
            await anyio.sleep_forever()
        finally:
            with anyio.CancelScope(shield=True):
                for number in range(1_000):
                    await out.send(number)
            after.append(number)

    async with work().open():
        await anyio.wait_all_tasks_blocked()
    assert after == [999]


async def test_a_producer_that_waits_is_freed_when_the_consumer_leaves() -> None:
    freed = []

    @flow
    async def work(out: Sink[int]) -> None:
        with anyio.CancelScope(shield=True):
            for number in range(QUOTA):
                await out.send(number)
        freed.append(True)

    async with work().open():
        await anyio.wait_all_tasks_blocked()
        assert freed == []
    assert freed == [True]


async def test_tasks_that_wait_through_one_sink_are_all_freed_when_the_consumer_leaves() -> None:
    freed = []

    @flow
    async def work(out: Sink[int]) -> None:
        async def part() -> None:
            with anyio.CancelScope(shield=True):
                for number in range(QUOTA + 1):
                    await out.send(number)
            freed.append(True)

        async with anyio.create_task_group() as group:
            for _ in range(20):
                group.start_soon(part)

    async with work().open():
        await anyio.wait_all_tasks_blocked()
    assert freed == [True] * 20


async def test_a_branch_ends_and_the_work_goes_on() -> None:
    @flow
    async def work(out: Sink[int]) -> None:
        for number in range(100):
            with out.branch() as mine:
                await mine.send(number)
            with pytest.raises(SinkClosed):
                await mine.send(-1)
        await out.send(100)

    async with work().open() as events:
        assert [event async for event in events] == list(range(101))


# The reader


async def test_a_second_task_that_pulls_while_the_first_waits_is_told() -> None:
    silent: Flow[int, None] = Flow(lambda out: anyio.sleep_forever())
    async with silent.open() as events, anyio.create_task_group() as group:
        group.start_soon(anext, events)
        await anyio.wait_all_tasks_blocked()
        with pytest.raises(AlreadyPulling, match="one consumer"):
            await anext(events)
        group.cancel_scope.cancel()


async def test_a_reader_that_is_cancelled_while_it_waits_loses_nothing_and_may_read_on() -> None:
    channel = Channel[int]()
    with anyio.CancelScope() as scope:
        scope.cancel()
        await channel.take()
    assert scope.cancelled_caught
    channel.append(1)
    assert await channel.take() == [1]


async def test_taking_after_the_end_gives_nothing_and_never_waits() -> None:
    channel = Channel[int]()
    channel.append(1)
    channel.end()
    assert [await channel.take() for _ in range(3)] == [[1], [], []]
