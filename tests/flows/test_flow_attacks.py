"""Consumers that break off, raise and are cancelled at every event and at every tick, while all sorts of work runs.

After each blow: nothing goes on, generators were closed in their own task, what left is what should leave, and nothing
is told at the collection.
"""

import asyncio
import gc
import itertools
from collections.abc import Awaitable, Callable

import anyio
import anyio.lowlevel
import pytest

from streamkit.errors import NotFinished, WorkCancelled
from streamkit.flows.flow import Events, Flow, Sink, flow
from streamkit.testing.leftovers import nothing_left

from ..attacks import BUSY_WORKS, Boom, Own, after_ticks, busy_works, count_to, in_ticks, repeat

on_asyncio = pytest.mark.parametrize("anyio_backend", ["asyncio"])
all_works = pytest.mark.parametrize("name", BUSY_WORKS)

Consumer = Callable[[Flow[int, str]], Awaitable[None]]


async def strike(attack: Callable[[int], Awaitable[bool]]) -> None:
    assert await repeat(attack) > 0


def test_the_attacks_find_their_targets(anyio_backend: str) -> None:
    """Or else all tests below would pass, and say nothing."""

    async def attack(tick: int) -> bool:
        with anyio.move_on_after(tick) as scope:
            await is_slow(busy_works(Own())["ready"])
        return scope.cancelled_caught

    async def main() -> None:
        assert await repeat(attack) > 70

    in_ticks(anyio_backend, main)


# Breaking off and raising, at every event


async def take(events: Events[int, str], count: int) -> bool:
    """Whether there are so many."""
    for _ in range(count):
        try:
            await anext(events)
        except StopAsyncIteration:
            return False
    return True


@all_works
def test_breaking_off_at_any_event_closes_all_and_leaves_nothing(anyio_backend: str, name: str) -> None:
    async def attack(place: int) -> bool:
        own = Own()
        async with busy_works(own)[name].open() as events:
            struck = await take(events, place)
        assert own.all_closed()
        if struck:
            with pytest.raises(NotFinished):
                _ = events.value
        return struck

    in_ticks(anyio_backend, lambda: strike(attack))


@all_works
def test_an_error_of_the_body_at_any_event_leaves_as_itself(anyio_backend: str, name: str) -> None:
    async def attack(place: int) -> bool:
        own, error = Own(), Boom()
        struck = False
        with pytest.raises(Boom) as caught:
            async with busy_works(own)[name].open() as events:
                struck = await take(events, place)
                raise error
        assert caught.value is error
        assert error.__context__ is None
        assert error.__cause__ is None
        assert own.all_closed()
        return struck

    in_ticks(anyio_backend, lambda: strike(attack))


@all_works
def test_a_function_downstream_that_raises_at_any_event_ends_the_work_with_its_error(
    anyio_backend: str, name: str
) -> None:
    async def attack(place: int) -> bool:
        own, error, seen, heard = Own(), Boom(), itertools.count(), None

        def explode(event: int) -> int:
            if next(seen) == place:
                raise error
            return event

        try:
            async with busy_works(own)[name].map(explode).open() as events:
                async for _ in events:
                    pass
        except Boom as raised:
            heard = raised
        assert heard in (error, None)
        assert own.all_closed()
        return heard is not None

    in_ticks(anyio_backend, lambda: strike(attack))


# Consumers, to be cancelled at every tick


async def reads(work: Flow[int, str]) -> None:
    seen = []
    async with work.open() as events:
        async for event in events:
            seen.append(event)
        ended_well(events, seen)


async def is_slow(work: Flow[int, str]) -> None:
    seen = []
    async with work.open() as events:
        async for event in events:
            await anyio.lowlevel.checkpoint()
            seen.append(event)
    ended_well(events, seen)


async def cleans_up_slowly(work: Flow[int, str]) -> None:
    seen = []
    async with work.open() as events:
        try:
            async for event in events:
                seen.append(event)
        finally:
            with anyio.CancelScope(shield=True):
                for _ in range(3):
                    await anyio.lowlevel.checkpoint()
        ended_well(events, seen)


async def breaks_off(work: Flow[int, str]) -> None:
    async with work.open() as events:
        async for event in events:
            if event == 2:
                break
    with pytest.raises(NotFinished):
        _ = events.value


async def opens_inside_a_task_group(work: Flow[int, str]) -> None:
    async def read() -> None:
        async with work.open() as events:
            ended_well(events, [event async for event in events])

    async with anyio.create_task_group() as group:
        group.start_soon(read)
        group.start_soon(reads, work)


async def awaits(work: Flow[int, str]) -> None:
    assert await work == "done"


CONSUMERS = (reads, is_slow, cleans_up_slowly, breaks_off, opens_inside_a_task_group, awaits)
all_consumers = pytest.mark.parametrize("consumer", CONSUMERS)


def ended_well(events: Events[int, str], seen: list[int]) -> None:
    """Whoever gets here was not cut off: a cancellation is never a clean end."""
    assert events.value == "done"
    assert sorted(seen) == list(range(len(seen)))
    assert len(seen) >= 5


@all_works
@all_consumers
def test_a_scope_cancels_at_any_tick(anyio_backend: str, consumer: Consumer, name: str) -> None:
    async def attack(tick: int) -> bool:
        own, went_on = Own(), False
        with anyio.move_on_after(tick) as scope:
            await consumer(busy_works(own)[name])
            went_on = True
        assert own.all_closed()
        assert scope.cancelled_caught is not went_on
        return scope.cancelled_caught

    in_ticks(anyio_backend, lambda: strike(attack))


@all_works
def test_a_deadline_strikes_at_any_tick(anyio_backend: str, name: str) -> None:
    async def attack(tick: int) -> bool:
        own = Own()
        try:
            with anyio.fail_after(tick):
                await is_slow(busy_works(own)[name])
        except TimeoutError:
            return True
        finally:
            assert own.all_closed()
        return False

    in_ticks(anyio_backend, lambda: strike(attack))


@on_asyncio
@pytest.mark.parametrize("again_after", [None, 0, 2])
@all_works
@all_consumers
def test_a_task_is_cancelled_at_any_tick_once_or_twice(
    anyio_backend: str, consumer: Consumer, name: str, again_after: int | None
) -> None:
    async def attack(tick: int) -> bool:
        own = Own()
        task = asyncio.ensure_future(consumer(busy_works(own)[name]))
        struck = []
        after_ticks(tick, lambda: struck.append(task.cancel()))
        if again_after is not None:
            after_ticks(tick + again_after, task.cancel)
        await asyncio.wait([task])
        assert own.all_closed()
        assert task.cancelled() is (struck == [True])
        return task.cancelled()

    in_ticks(anyio_backend, lambda: strike(attack))


@on_asyncio
@pytest.mark.parametrize("limit", ["timeout", "wait_for", "a sibling that fails"])
@all_works
@all_consumers
def test_limits_of_asyncio_strike_at_any_tick(anyio_backend: str, consumer: Consumer, name: str, limit: str) -> None:
    async def attack(tick: int) -> bool:
        own, struck = Own(), False
        try:
            match limit:
                case "timeout":
                    async with asyncio.timeout(tick) as timeout:
                        await consumer(busy_works(own)[name])
                    assert not timeout.expired()
                case "wait_for":
                    await asyncio.wait_for(consumer(busy_works(own)[name]), tick)
                case _:
                    async with asyncio.TaskGroup() as group:
                        sibling = group.create_task(fail_at(tick))
                        await consumer(busy_works(own)[name])
                        sibling.cancel()
                        await asyncio.wait([sibling])  # a group that waits in its exit forgets to uncancel
        except* (TimeoutError, Boom):
            struck = True
        assert own.all_closed()
        task = asyncio.current_task()
        assert task is not None
        assert task.cancelling() == 0
        return struck

    in_ticks(anyio_backend, lambda: strike(attack))


async def fail_at(tick: int) -> None:
    await asyncio.sleep(tick)
    raise Boom


@all_works
def test_a_body_that_fails_and_is_cancelled_at_any_tick_leaves_with_the_one_or_the_other(
    anyio_backend: str, name: str
) -> None:
    async def attack(tick: int) -> bool:
        own, mine, heard = Own(), Boom(), False
        with anyio.move_on_after(tick) as scope:
            try:
                async with busy_works(own)[name].open() as events:
                    await take(events, 3)
                    raise mine
            except Boom as error:
                heard = error is mine
        assert own.all_closed()
        assert heard is not scope.cancelled_caught
        return scope.cancelled_caught

    in_ticks(anyio_backend, lambda: strike(attack))


@on_asyncio
@all_works
def test_the_task_of_the_work_is_cancelled_by_a_stranger_at_any_tick(anyio_backend: str, name: str) -> None:
    """The consumer hears of it, and never waits for ever."""

    async def attack(tick: int) -> bool:
        own = Own()
        before = asyncio.all_tasks()
        ended = cancelled = False
        try:
            async with busy_works(own)[name].open() as events:
                (work,) = asyncio.all_tasks() - before
                after_ticks(tick + 1, work.cancel)
                ended_well(events, [event async for event in events])
                ended = True
        except WorkCancelled:
            cancelled = True
        assert own.all_closed()
        assert ended is not cancelled
        return cancelled

    in_ticks(anyio_backend, lambda: strike(attack))


@on_asyncio
@pytest.mark.filterwarnings("ignore:coroutine .* was never awaited")  # by anyio, which does not expect it either
@pytest.mark.parametrize("place", ["in the body", "in a pull"])
async def test_the_task_of_the_work_is_cancelled_by_a_stranger_before_it_begins(anyio_backend: str, place: str) -> None:
    before = asyncio.all_tasks()
    with pytest.raises(WorkCancelled, match="before it began"):
        async with count_to(3).open() as events:
            (work,) = asyncio.all_tasks() - before
            work.cancel()
            await (anext(events) if place == "in a pull" else anyio.sleep_forever())
    await anyio.lowlevel.checkpoint()
    gc.collect()


@all_works
def test_a_shielded_consumer_hears_that_its_work_was_cancelled_at_any_tick(anyio_backend: str, name: str) -> None:
    async def attack(tick: int) -> bool:
        own = Own()
        ended = cancelled = False
        with anyio.move_on_after(tick):
            async with busy_works(own)[name].open() as events:
                with anyio.CancelScope(shield=True):
                    try:
                        ended_well(events, [event async for event in events])
                        ended = True
                    except WorkCancelled:
                        cancelled = True
        assert own.all_closed()
        assert ended is not cancelled
        return cancelled

    async def main() -> None:
        assert await repeat(attack) > 0 or name == "sending_in_its_cleanup"  # which is never found waiting

    in_ticks(anyio_backend, main)


# Steps that are cut off, and gone on with


@pytest.mark.parametrize("ticks", range(6))
@all_works
def test_a_step_that_is_cut_off_loses_no_event(anyio_backend: str, name: str, ticks: int) -> None:
    async def attack() -> None:
        async def step(events: Events[int, str]) -> int:
            with anyio.move_on_after(ticks):
                return await anext(events)
            raise TimeoutError

        await read_step_by_step(busy_works(Own())[name], step)

    in_ticks(anyio_backend, attack)


@on_asyncio
@pytest.mark.parametrize("ticks", range(1, 6))
@pytest.mark.parametrize("limit", ["timeout", "wait_for"])
@all_works
def test_a_step_that_a_limit_of_asyncio_cuts_off_loses_no_event(
    anyio_backend: str, name: str, limit: str, ticks: int
) -> None:
    async def attack() -> None:
        async def step(events: Events[int, str]) -> int:
            if limit == "wait_for":
                return await asyncio.wait_for(anext(events), ticks)
            async with asyncio.timeout(ticks):
                return await anext(events)

        await read_step_by_step(busy_works(Own())[name], step)

    in_ticks(anyio_backend, attack)


async def read_step_by_step(work: Flow[int, str], step: Callable[[Events[int, str]], Awaitable[int]]) -> None:
    seen = []
    async with nothing_left(), work.open() as events:
        while True:
            try:
                seen.append(await step(events))
            except TimeoutError:
                continue
            except StopAsyncIteration:
                break
        ended_well(events, seen)


# Work that fails in its cleanup


@pytest.mark.parametrize("consumer", [reads, is_slow, cleans_up_slowly, breaks_off])
def test_work_that_fails_while_it_is_cancelled_is_heard_at_any_tick(anyio_backend: str, consumer: Consumer) -> None:
    async def attack(tick: int) -> bool:
        own, boom, heard, scope = Own(), Boom(), None, anyio.CancelScope(deadline=anyio.current_time() + tick)

        @flow
        async def work(out: Sink[int]) -> str:
            with own.here():
                try:
                    return await out.forward(busy_works(Own())["suspending"])
                finally:
                    raise boom

        try:
            with scope:
                await consumer(work())
        except Boom as raised:
            heard = raised
        assert heard is (boom if own.opened else None)
        return scope.cancel_called

    in_ticks(anyio_backend, lambda: strike(attack))


# Other people's operators


@on_asyncio
async def test_pipes_of_aiostream_take_events(anyio_backend: str) -> None:
    pytest.importorskip("aiostream")
    from aiostream import pipe, stream  # noqa: PLC0415  # optional

    def is_even(number: int) -> bool:
        return number % 2 == 0

    own = Own()
    async with nothing_left(), busy_works(own)["ready"].open() as events:
        even = stream.iterate(events) | pipe.filter(is_even) | pipe.take(3)
        assert await stream.list(even) == [0, 2, 4]
    assert own.all_closed()
