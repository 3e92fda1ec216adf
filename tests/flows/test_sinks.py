"""What a sink does with an event on its way, and sending from other threads."""

import concurrent.futures
import logging
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from typing import Any

import anyio
import anyio.from_thread
import anyio.lowlevel
import anyio.to_thread
import pytest

from streamkit.errors import FlowError, SinkClosed
from streamkit.flows.channel import QUOTA
from streamkit.flows.flow import Flow, Sink, flow

from ..attacks import Boom, Wild, count_to


async def events_of(work: Flow[object, object]) -> list[object]:
    async with work.open() as events:
        return [event async for event in events]


# map, filter, tap


async def test_map_replaces_events_and_keeps_the_value() -> None:
    async with count_to(3).map(str).open() as events:
        assert [event async for event in events] == ["0", "1", "2"]
        assert events.value == "done"


async def test_filter_keeps_the_events_for_which_its_function_is_true() -> None:
    assert await events_of(count_to(100).filter(lambda number: number % 10 == 0)) == list(range(0, 100, 10))


async def test_a_filter_that_drops_all_before_it_sends_none_ends_well() -> None:
    assert await events_of(count_to(100).filter(lambda _: False)) == []


async def test_tap_shows_events_and_changes_nothing() -> None:
    shown: list[int] = []
    assert await events_of(count_to(3).tap(shown.append)) == shown == [0, 1, 2]


async def test_functions_see_events_in_the_order_of_the_chain() -> None:
    shown: list[object] = []
    work = count_to(4).filter(lambda number: number > 1).map(lambda number: number * 10).tap(shown.append).map(str)
    assert await events_of(work) == ["20", "30"]
    assert shown == [20, 30]


async def test_functions_apply_to_branches_and_to_what_is_forwarded() -> None:
    @flow
    async def work(out: Sink[int]) -> None:
        with out.branch() as mine:
            await mine.send(10)
        await out.forward(count_to(2))

    shown: list[int] = []
    assert await events_of(work().tap(shown.append).filter(lambda number: number != 0).map(str)) == ["10", "1"]
    assert shown == [10, 0, 1]


@pytest.mark.parametrize("error", [Boom("from a tap"), Wild("from a tap"), GeneratorExit("from a tap")])
async def test_whatever_a_tap_raises_is_logged_and_changes_nothing(
    caplog: pytest.LogCaptureFixture, error: BaseException
) -> None:
    def explode(_: int) -> None:
        raise error

    assert await events_of(count_to(2).tap(explode)) == [0, 1]
    logged = [(record.name, record.levelno, record.exc_info and record.exc_info[1]) for record in caplog.records]
    assert logged == [("streamkit", logging.ERROR, error)] * 2


async def test_a_cancellation_that_a_tap_makes_up_is_an_error_like_others(caplog: pytest.LogCaptureFixture) -> None:
    def explode(_: int) -> None:
        raise concurrent.futures.CancelledError

    assert await events_of(count_to(1).tap(explode)) == [0]
    assert len(caplog.records) == 1


async def test_a_keyboard_interrupt_in_a_tap_is_an_interrupt() -> None:
    def interrupt(_: int) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        await count_to(1).tap(interrupt)


@pytest.mark.parametrize("method", ["map", "filter"])
async def test_what_map_and_filter_raise_is_raised_where_the_event_is_sent(method: str) -> None:
    heard = []

    def explode(_: int) -> int:
        raise Boom

    @flow
    async def work(out: Sink[int]) -> None:
        try:
            await out.send(0)
        except Boom as error:
            heard.append(error)
            raise

    with pytest.raises(Boom) as caught:
        await events_of(getattr(work(), method)(explode))
    assert heard == [caught.value]


async def test_awaiting_drops_events_but_functions_still_see_them() -> None:
    shown: list[str] = []
    assert await count_to(3).map(str).tap(shown.append) == "done"
    assert shown == ["0", "1", "2"]


# Closing


async def test_sending_after_an_awaited_work_has_returned_is_refused() -> None:
    outs: list[Sink[int]] = []

    @flow
    async def work(out: Sink[int]) -> None:
        with out.branch() as closed:
            outs.append(closed)
        outs.extend([out, out.branch(), out.branch().branch()])

    await work()
    for out in (*outs, *(out.branch() for out in outs)):
        with pytest.raises(SinkClosed):
            await out.send(0)


@pytest.mark.parametrize(
    "change", [lambda work: work, lambda work: work.map(str).tap(str).filter(str)], ids=["plain", "changed"]
)
@pytest.mark.parametrize("open_it", [True, False])
async def test_a_branch_is_closed_by_leaving_its_block_and_nothing_else_is(
    change: Callable[[Flow[int, None]], Flow[Any, None]], open_it: bool
) -> None:
    @flow
    async def work(out: Sink[int]) -> None:
        with out.branch() as other:
            with out.branch() as mine:
                await mine.send(0)
            for closed in (mine, mine.branch()):
                with pytest.raises(SinkClosed):
                    await closed.send(1)
            await other.send(2)
        await out.send(3)

    if open_it:
        assert [str(event) for event in await events_of(change(work()))] == ["0", "2", "3"]
    else:
        await change(work())


# From threads


@contextmanager
def thread(function: Callable[[], None]) -> Iterator[concurrent.futures.Future[None]]:
    """A thread that no event loop knows; it has ended when the block is left."""
    result: concurrent.futures.Future[None] = concurrent.futures.Future()

    def run() -> None:
        try:
            function()
        except BaseException as error:
            result.set_exception(error)
        else:
            result.set_result(None)

    started = threading.Thread(target=run, daemon=True)
    started.start()
    yield result
    started.join(60)
    assert not started.is_alive()


async def ended(future: concurrent.futures.Future[None]) -> None:
    done = anyio.Event()
    token = anyio.lowlevel.current_token()
    future.add_done_callback(lambda _: anyio.from_thread.run_sync(done.set, token=token))
    await done.wait()


@flow
async def lend(out: Sink[int], lent: Callable[[Sink[int]], None]) -> None:
    """Runs lent(out) in a thread of its own."""
    with thread(lambda: lent(out)) as result:
        await ended(result)
    result.result()


def send_many(count: int) -> Callable[[Sink[int]], None]:
    def send(out: Sink[int]) -> None:
        for number in range(count):
            out.send_from_thread(number)

    return send


async def test_a_thread_of_any_origin_sends() -> None:
    assert await events_of(lend(send_many(100))) == list(range(100))


async def test_a_worker_thread_of_anyio_sends() -> None:
    @flow
    async def work(out: Sink[int]) -> None:
        await anyio.to_thread.run_sync(send_many(100), out)

    assert await events_of(work()) == list(range(100))


async def test_a_thread_sends_through_branches_and_functions() -> None:
    def send(out: Sink[int]) -> None:
        with out.branch() as mine, mine.branch() as inner:
            inner.send_from_thread(1)

    assert await events_of(lend(send).map(lambda number: number + 1)) == [2]


async def test_a_thread_sends_to_an_awaited_flow() -> None:
    shown: list[int] = []
    await lend(send_many(3)).tap(shown.append)
    assert shown == [0, 1, 2]


async def test_a_thread_waits_until_its_event_is_taken_over() -> None:
    sent = []
    may_look = threading.Semaphore(0)

    def send(out: Sink[int]) -> None:
        for number in range(QUOTA + 5):
            out.send_from_thread(number)
            sent.append(number)
            may_look.release()

    async with lend(send).open() as events:
        for _ in range(QUOTA - 1):
            await anyio.to_thread.run_sync(may_look.acquire)
        await anyio.wait_all_tasks_blocked()
        assert len(sent) == QUOTA - 1
        async for _ in events:
            pass
    assert len(sent) == QUOTA + 5


async def test_what_is_raised_downstream_reaches_the_thread() -> None:
    def explode(_: int) -> int:
        raise Boom

    with pytest.raises(Boom):
        await events_of(lend(send_many(1)).map(explode))


async def test_functions_see_the_context_variables_of_the_thread() -> None:
    name = ContextVar("name", default="nobody")

    def send(out: Sink[int]) -> None:
        name.set("the thread")
        out.send_from_thread(0)

    assert await events_of(lend(send).map(lambda _: name.get())) == ["the thread"]


async def test_sending_as_from_a_thread_on_the_event_loop_says_that_it_would_block() -> None:
    @flow
    async def work(out: Sink[int]) -> None:
        out.send_from_thread(0)

    with pytest.raises(FlowError, match=r"await out\.send"):
        await events_of(work())
    with pytest.raises(FlowError, match=r"await out\.send"):
        await work().map(str)


@pytest.mark.parametrize("kind", ["own", "worker"])
async def test_a_thread_that_waits_is_freed_when_the_consumer_leaves(kind: str) -> None:
    sent = []

    def send(out: Sink[int]) -> None:
        for number in range(10 * QUOTA):
            out.send_from_thread(number)
            sent.append(number)

    @flow
    async def work(out: Sink[int]) -> None:
        if kind == "worker":
            await anyio.to_thread.run_sync(send, out)
        else:
            with anyio.CancelScope(shield=True):
                await out.forward(lend(send))

    async with work().open() as events:
        await anext(events)
    assert len(sent) == 10 * QUOTA


@pytest.mark.parametrize("anyio_backend", ["asyncio"])
async def test_a_worker_thread_is_not_cancelled_with_its_task(anyio_backend: str) -> None:
    """anyio would, as long as a task beside it goes on to be cancelled; trio has no such thing."""
    sent = []
    ended = threading.Event()

    def send(out: Sink[int]) -> None:
        try:
            for number in range(10 * QUOTA):
                out.send_from_thread(number)
                sent.append(number)
        finally:
            ended.set()

    @flow
    async def work(out: Sink[int]) -> None:
        async def take_no_notice() -> None:
            while not ended.is_set():
                with suppress(anyio.get_cancelled_exc_class()):
                    await anyio.lowlevel.checkpoint()

        async with anyio.create_task_group() as group:
            group.start_soon(take_no_notice)
            await anyio.to_thread.run_sync(send, out)

    async with work().open() as events:
        await anext(events)
    assert len(sent) == 10 * QUOTA


@pytest.mark.parametrize("kind", ["own", "worker"])
async def test_a_thread_that_outlives_its_work_is_refused(kind: str) -> None:
    outs: list[Sink[int]] = []

    @flow
    async def work(out: Sink[int]) -> None:
        outs.append(out)

    for use in (events_of(work()), events_of(work().map(str)), work().map(str)):
        await use
    for out in outs:
        if kind == "worker":
            with pytest.raises(SinkClosed):
                await anyio.to_thread.run_sync(out.send_from_thread, 0)
        else:
            with thread(lambda out=out: out.send_from_thread(0)) as result:  # type: ignore[misc]
                await ended(result)
            with pytest.raises(SinkClosed):
                result.result()


def test_a_thread_that_outlives_the_event_loop_is_refused(anyio_backend: str) -> None:
    outs: list[Sink[int]] = []

    @flow
    async def work(out: Sink[int]) -> None:
        outs.append(out)

    async def main() -> None:
        await events_of(work())
        await work()

    anyio.run(main, backend=anyio_backend)
    for out in outs:
        with pytest.raises(SinkClosed):
            out.send_from_thread(0)


def test_a_thread_that_is_sending_when_the_event_loop_ends_is_refused_or_done(anyio_backend: str) -> None:
    """The work does not wait for the thread, and nothing does: it may be at any point when the loop goes."""
    ends: list[BaseException] = []

    def send(out: Sink[int]) -> None:
        try:
            while True:
                out.send_from_thread(0)
        except BaseException as error:
            ends.append(error)

    for _ in range(20):
        started: list[threading.Thread] = []

        @flow
        async def work(out: Sink[int]) -> None:
            started.append(threading.Thread(target=send, args=(out,), daemon=True))  # noqa: B023
            started[0].start()  # noqa: B023
            await out.send(1)

        anyio.run(lambda: events_of(work()), backend=anyio_backend)
        started[0].join(60)
        assert not started[0].is_alive()
    assert [type(end) for end in ends] == [SinkClosed] * 20


# Who watches


async def test_only_under_await_and_without_a_tap_nobody_watches() -> None:
    watched: list[bool] = []

    @flow
    async def work(out: Sink[int]) -> None:
        with out.branch() as mine:
            watched.extend((out.watched, mine.watched))

    for use in (events_of(work().map(str)), work().tap(str), work().filter(bool).tap(str), work(), work().map(str)):
        await use
    assert watched == [True] * 6 + [False] * 4
