"""Plain functions on daemon threads: what they give, and what happens when nobody waits for them any more."""

import subprocess
import sys
import threading
from collections.abc import Generator
from contextvars import ContextVar

import anyio
import anyio.lowlevel
import pytest

from streamkit.flows.threads import AHEAD, iterate_in_thread, run_in_thread

from ..calling import GUARD_SECONDS

user: ContextVar[str] = ContextVar("user", default="nobody")


def wait(event: threading.Event) -> None:
    assert event.wait(GUARD_SECONDS), "the other side never came"


async def test_the_value_comes_back_and_context_variables_go_along() -> None:
    user.set("u1")
    assert await run_in_thread(user.get, name="t") == "u1"
    await run_in_thread(lambda: user.set("u2"), name="t")
    assert user.get() == "u1", "what the thread sets stays there"


@pytest.mark.parametrize("error", [ValueError("no"), SystemExit(3)])
async def test_whatever_a_function_raises_is_raised_here(error: BaseException) -> None:
    def fail() -> None:
        raise error

    with pytest.raises(type(error)) as caught:
        await run_in_thread(fail, name="t")
    assert caught.value is error


async def test_the_loop_goes_on_while_a_function_blocks() -> None:
    released = threading.Event()
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(lambda: run_in_thread(lambda: wait(released), name="t"))
        await anyio.lowlevel.checkpoint()
        released.set()


async def test_cancellation_leaves_the_thread_behind() -> None:
    released, ended = threading.Event(), threading.Event()

    def block() -> None:
        wait(released)
        ended.set()

    with anyio.move_on_after(0.01) as scope:
        await run_in_thread(block, name="t")
    assert scope.cancelled_caught
    assert not ended.is_set()
    released.set()
    wait(ended)


def test_a_thread_left_behind_does_not_keep_the_process() -> None:
    for backend in ("asyncio", "trio"):
        program = (
            "import anyio, time\n"
            "from streamkit.flows.threads import run_in_thread\n"
            "async def main():\n"
            "    with anyio.move_on_after(0.01):\n"
            "        await run_in_thread(lambda: time.sleep(1000), name='t')\n"
            f"anyio.run(main, backend={backend!r})\n"
        )
        subprocess.run([sys.executable, "-W", "error", "-c", program], check=True, timeout=GUARD_SECONDS)


async def test_a_thread_may_run_an_event_loop_of_its_own() -> None:
    async def inside() -> str:
        await anyio.lowlevel.checkpoint()
        return "inside"

    for backend in ("asyncio", "trio"):
        assert await run_in_thread(lambda: anyio.run(inside, backend=backend), name="t") == "inside"  # noqa: B023


async def test_any_iterator_gives_its_events_in_order() -> None:
    taken: list[int] = []

    async def take(event: int) -> None:
        taken.append(event)

    for events in (iter(range(1000)), (number for number in range(1000))):
        await iterate_in_thread(events, take, name="t")
    assert taken == 2 * list(range(1000))


async def test_events_of_a_generator_arrive_while_it_runs() -> None:
    go_on = threading.Event()

    def slow() -> Generator[int, None, None]:
        yield 1
        wait(go_on)  # set only once the first event has arrived
        yield 2

    taken: list[int] = []

    async def take(event: int) -> None:
        taken.append(event)
        go_on.set()

    await iterate_in_thread(slow(), take, name="t")
    assert taken == [1, 2]


async def test_a_generator_is_at_most_so_far_ahead() -> None:
    produced = 0

    def count() -> Generator[int, None, None]:
        nonlocal produced
        while produced < 10 * AHEAD:
            produced += 1
            yield produced

    taken = 0

    async def take(event: int) -> None:
        nonlocal taken
        assert produced - taken <= 2 * AHEAD + 2
        taken += 1

    await iterate_in_thread(count(), take, name="t")
    assert taken == 10 * AHEAD


async def test_an_error_of_the_generator_comes_after_its_events() -> None:
    def fail() -> Generator[int, None, None]:
        yield 1
        raise ValueError("no")

    taken: list[int] = []

    async def take(event: int) -> None:
        taken.append(event)

    with pytest.raises(ValueError, match="no"):
        await iterate_in_thread(fail(), take, name="t")
    assert taken == [1]


@pytest.mark.parametrize("way", ["the taker raises", "cancelled"])
async def test_a_generator_nobody_wants_is_closed_in_its_own_thread(way: str) -> None:
    ran, closed = [0], [0]
    done = threading.Event()

    def endless() -> Generator[int, None, None]:
        ran[0] = threading.get_ident()
        try:
            while True:
                yield 1
        finally:
            closed[0] = threading.get_ident()
            done.set()

    async def take(event: int) -> None:
        if way == "the taker raises":
            raise LookupError
        scope.cancel()
        await anyio.lowlevel.checkpoint()

    with anyio.CancelScope() as scope:
        if way == "the taker raises":
            with pytest.raises(LookupError):
                await iterate_in_thread(endless(), take, name="t")
        else:
            await iterate_in_thread(endless(), take, name="t")
    await run_in_thread(lambda: wait(done), name="w")  # not in the loop: the thread may be telling it something
    assert closed == ran
