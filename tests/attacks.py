"""What the attacks on flows share: time that counts scheduler ticks, and eyes for whatever is left behind.

`in_ticks` runs a test on an event loop whose clock goes one further each time round. So `anyio.move_on_after(7)`,
`asyncio.timeout(7)` and a trio deadline all strike at the same well-known moment, and an attack that is repeated with
7, 8, 9 … strikes at every moment there is. Nothing sleeps, nothing depends on how busy the machine is.
"""

import asyncio
import functools
import gc
import inspect
import itertools
import logging
import selectors
import sys
import warnings
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterator
from contextlib import aclosing, contextmanager
from typing import Any

import anyio
import anyio.lowlevel
import trio
import trio.testing

from streamkit.flows.flow import Flow, Sink, flow


class Boom(Exception):
    """What works and bodies fail with; nobody else raises it."""


class Wild(BaseException):
    """Like KeyboardInterrupt, but asyncio has no opinion about it."""


# Time


class TickSelector(selectors.DefaultSelector):
    now = 0.0

    def select(self, timeout: float | None = None) -> Any:
        self.now += 1
        return super().select(timeout and 0)


class TickLoop(asyncio.SelectorEventLoop):
    def __init__(self) -> None:
        self.ticks = TickSelector()
        super().__init__(self.ticks)

    def time(self) -> float:
        return self.ticks.now


class TickClock(trio.abc.Clock, trio.abc.Instrument):
    now = 0.0

    def start_clock(self) -> None:
        """It goes by itself."""

    def current_time(self) -> float:
        return self.now

    def deadline_to_sleep_time(self, deadline: float) -> float:
        return 0 if deadline < float("inf") else deadline

    def before_io_wait(self, timeout: float) -> None:
        self.now += 1


def in_ticks(backend: str, main: Callable[[], Awaitable[None]]) -> None:
    """Run main; a test that would hang fails after very many ticks."""

    async def guarded() -> None:
        with anyio.fail_after(1_000_000):
            await main()

    options: dict[str, Any] = {"loop_factory": TickLoop}
    if backend == "trio":
        trio._core._run._r.seed(0)  # in which order it runs what is ready
        clock = TickClock()
        options = {"clock": clock, "instruments": [clock]}
    gc.freeze()  # or else each look for garbage goes through everything that the test runner has
    try:
        anyio.run(guarded, backend=backend, backend_options=options)
    finally:
        gc.unfreeze()


def ticking(test: Callable[..., Awaitable[None]]) -> Callable[..., None]:
    """The test, in ticks on each backend: what strikes at which moment is the same however busy the machine is."""

    return _on_each_backend(test, in_ticks)


def unhurried(test: Callable[..., Awaitable[None]]) -> Callable[..., None]:
    """The test, on each backend, in time that stands still while anything happens, and jumps when nothing does.

    For time limits over sockets: which of them strikes is the same on a machine that itself stands still for a while.
    """

    def run(backend: str, main: Callable[[], Awaitable[None]]) -> None:
        clock = trio.testing.MockClock(autojump_threshold=QUIET_SECONDS)
        options = {"clock": clock} if backend == "trio" else {"loop_factory": UnhurriedLoop}
        anyio.run(main, backend=backend, backend_options=options)

    return _on_each_backend(test, run)


QUIET_SECONDS = 0.1
"""When nothing has happened for so long, nothing will: both ends of each socket are in this process."""


class UnhurriedSelector(selectors.DefaultSelector):
    now = 0.0

    def select(self, timeout: float | None = None) -> Any:
        if timeout is None or timeout <= 0:
            return super().select(timeout)
        ready = super().select(QUIET_SECONDS)
        self.now += 0 if ready else timeout
        return ready


class UnhurriedLoop(asyncio.SelectorEventLoop):
    def __init__(self) -> None:
        self.selector = UnhurriedSelector()
        super().__init__(self.selector)

    def time(self) -> float:
        return self.selector.now


def _on_each_backend(
    test: Callable[..., Awaitable[None]], run_on: Callable[[str, Callable[[], Awaitable[None]]], None]
) -> Callable[..., None]:
    @functools.wraps(test)
    def run(anyio_backend: str, **fixtures: Any) -> None:
        run_on(anyio_backend, functools.partial(test, **fixtures))

    backend = inspect.Parameter("anyio_backend", inspect.Parameter.POSITIONAL_OR_KEYWORD)
    parameters = [backend, *inspect.signature(test).parameters.values()]
    run.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    return run


def after_ticks(ticks: float, function: Callable[[], object]) -> asyncio.TimerHandle:
    loop = asyncio.get_running_loop()
    return loop.call_at(loop.time() + ticks, function)


async def repeat(attack: Callable[[int], Awaitable[bool]]) -> int:
    """attack(0), attack(1), … until one of them says False: there was nothing left to strike. How many did strike."""
    with no_noise():
        for number in itertools.count():
            before = tasks()
            struck = await attack(number)
            assert tasks() <= before, "a task goes on"
            if not struck:
                return number
    raise AssertionError


# What is left behind


class Listener(logging.Handler):
    def __init__(self, heard: list[object]) -> None:
        super().__init__()
        self.heard = heard

    def emit(self, record: logging.LogRecord) -> None:
        self.heard.append(record.getMessage())


@contextmanager
def no_noise() -> Iterator[None]:
    """No warning, and nothing reported from where nobody can catch it, until all garbage has been collected."""
    noise: list[object] = []
    unraisable, sys.unraisablehook = sys.unraisablehook, lambda told: noise.append((told.object, told.exc_value))
    listener = Listener(noise)
    logging.getLogger("asyncio").addHandler(listener)
    gc.collect()  # what was left before is none of our business
    try:
        with warnings.catch_warnings(record=True) as warned:
            warnings.simplefilter("always")
            yield
            gc.collect()
        noise += [warning.message for warning in warned]
    finally:
        sys.unraisablehook = unraisable
        logging.getLogger("asyncio").removeHandler(listener)
    assert not noise, noise


def tasks() -> set[int]:
    return {task.id for task in anyio.get_running_tasks()}


class Own:
    """Generators and blocks that were opened, and in which task they were closed."""

    def __init__(self) -> None:
        self.opened = 0
        self.closed = 0

    @contextmanager
    def here(self) -> Iterator[None]:
        task = anyio.get_current_task().id
        self.opened += 1
        try:
            yield
        finally:
            assert anyio.get_current_task().id == task, "closed in another task"
            self.closed += 1

    async def numbers(self, count: int) -> AsyncGenerator[int, None]:
        with self.here():
            for number in range(count):
                await anyio.lowlevel.checkpoint()
                yield number

    def all_closed(self) -> bool:
        return self.opened == self.closed


# Works


@flow
async def count_to(out: Sink[int], count: int) -> str:
    for number in range(count):
        await out.send(number)
    return "done"


@flow
async def fail_after_events(out: Sink[int], count: int, error: BaseException) -> None:
    for number in range(count):
        await out.send(number)
    raise error


@flow
async def wait_for_ever(out: Sink[int]) -> None:
    await out.send(0)
    await anyio.sleep_forever()


@flow
async def fail_in_cleanup(out: Sink[int], error: BaseException) -> None:
    try:
        await out.forward(wait_for_ever())
    finally:
        raise error


def busy_works(own: Own) -> dict[str, Flow[int, str]]:
    """Each does something else while it may be cut off; all send numbers from 0 upwards and return "done"."""

    @flow
    async def ready(out: Sink[int]) -> str:
        with own.here():
            return await out.forward(count_to(70))

    @flow
    async def suspending(out: Sink[int]) -> str:
        with own.here():
            for number in range(6):
                await anyio.lowlevel.checkpoint()
                await out.send(number)
        return "done"

    @flow
    async def sending_in_its_cleanup(out: Sink[int]) -> str:
        with own.here():
            try:
                return await out.forward(count_to(20))
            finally:
                with anyio.CancelScope(shield=True):
                    for number in range(20, 60):  # more than the channel holds
                        await out.send(number)
                    await anyio.lowlevel.checkpoint()

    @flow
    async def reading_a_generator(out: Sink[int]) -> str:
        async with aclosing(own.numbers(5)) as numbers:
            async for number in numbers:
                await out.send(number)
        return "done"

    @flow
    async def branching(out: Sink[int]) -> str:
        async def part(first: int) -> None:
            with own.here(), out.branch() as mine:
                for number in range(3):
                    await anyio.lowlevel.checkpoint()
                    await mine.send(first + number)

        async with anyio.create_task_group() as group:
            for first in (0, 3, 6):
                group.start_soon(part, first)
        return "done"

    @flow
    async def consuming_another(out: Sink[int]) -> str:
        with own.here():
            async with suspending().open() as events:
                async for event in events:
                    await out.send(event)
            return await suspending()

    made = (ready, suspending, sending_in_its_cleanup, reading_a_generator, branching, consuming_another)
    return {make.__name__: make() for make in made}


BUSY_WORKS = tuple(busy_works(Own()))
