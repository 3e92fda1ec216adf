"""Whose error leaves the block of an opening, and how: as itself, alone, with what belongs to it."""

import traceback

import anyio
import anyio.lowlevel
import pytest

from streamkit.errors import NotFinished, WorkCancelled
from streamkit.flows.flow import Flow, Sink, flow

from ..attacks import Boom, Wild, fail_after_events, fail_in_cleanup, wait_for_ever

# Failures of the work


async def test_a_failure_waits_until_the_events_before_it_are_taken() -> None:
    async with fail_after_events(40, Boom("after 40")).open() as events:
        seen = []
        with pytest.raises(Boom, match="after 40"):
            async for event in events:
                await anyio.lowlevel.checkpoint()
                seen.append(event)
        assert seen == list(range(40))


async def test_a_failure_never_cuts_off_the_body() -> None:
    async with fail_after_events(1, Boom()).open() as events:
        await anyio.wait_all_tasks_blocked()
        assert await anext(events) == 0
        with pytest.raises(Boom):
            await anext(events)
        await anyio.lowlevel.checkpoint()


async def test_a_failure_is_raised_once() -> None:
    async with fail_after_events(0, Boom()).open() as events:
        with pytest.raises(Boom):
            await anext(events)
        with pytest.raises(NotFinished, match="raised before"):
            await anext(events)


async def test_a_failure_leaves_as_itself_with_its_cause_and_context() -> None:
    cause, context = ValueError(), KeyError()

    @flow
    async def work(out: Sink[int]) -> None:
        try:
            raise context
        except KeyError:
            raise Boom from cause

    with pytest.raises(Boom) as caught:
        try:
            raise LookupError("what the consumer is busy with")
        except LookupError:
            async with work().open() as events:
                await anext(events)
    assert caught.value.__cause__ is cause
    assert caught.value.__context__ is context
    assert context.__context__ is None


async def test_a_traceback_keeps_the_frames_of_the_work_and_of_its_consumer() -> None:
    with pytest.raises(Boom) as caught:
        async with fail_after_events(0, Boom()).map(str).open() as events:
            await anext(events)
    names = [frame.name for frame in traceback.extract_tb(caught.value.__traceback__)]
    assert names[0] == "test_a_traceback_keeps_the_frames_of_the_work_and_of_its_consumer"
    assert names[-1] == "fail_after_events"


@pytest.mark.parametrize("leave", ["at once", "after an event"])
async def test_a_failure_that_nobody_heard_is_raised_when_the_body_breaks_off(leave: str) -> None:
    boom = Boom()
    with pytest.raises(Boom) as caught:
        async with fail_in_cleanup(boom).open() as events:
            if leave == "after an event":
                await anext(events)
            else:
                await anyio.wait_all_tasks_blocked()
    assert caught.value is boom


async def test_a_failure_that_nobody_heard_is_raised_when_the_body_was_cancelled() -> None:
    boom = Boom()
    with pytest.raises(Boom) as caught, anyio.CancelScope() as scope:
        async with fail_in_cleanup(boom).open() as events:
            await anext(events)
            scope.cancel()
            await anext(events)
    assert caught.value is boom


async def test_a_failure_that_nobody_heard_is_not_lost_behind_a_group_of_cancellations() -> None:
    """What a task group of the body's raises when it is cancelled."""
    with pytest.raises(Boom), anyio.CancelScope() as scope:
        async with fail_in_cleanup(Boom()).open() as events:
            await anext(events)
            scope.cancel()
            try:
                await anyio.sleep_forever()
            except anyio.get_cancelled_exc_class() as cancelled:
                raise BaseExceptionGroup("of a nursery", [cancelled]) from None


async def test_a_failure_that_was_heard_and_caught_is_over() -> None:
    async with fail_after_events(0, Boom()).open() as events:
        with pytest.raises(Boom):
            await anext(events)


# Errors of the body


@pytest.mark.parametrize("kind", [ValueError, Wild, GeneratorExit, StopAsyncIteration])
async def test_the_error_of_the_body_leaves_as_itself(kind: type[BaseException]) -> None:
    error = kind()
    with pytest.raises(kind) as caught:
        async with wait_for_ever().open() as events:
            await anext(events)
            raise error
    assert caught.value is error
    assert error.__context__ is None
    assert error.__cause__ is None


async def test_a_failure_that_nobody_heard_is_at_the_end_of_the_contexts_of_the_bodys_error() -> None:
    boom, boom.__context__ = Boom(), TypeError()
    error = ValueError()
    with pytest.raises(ValueError, match=r"^$") as caught:
        async with fail_in_cleanup(boom).open() as events:
            await anext(events)
            try:
                raise KeyError
            except KeyError:
                raise error from None
    assert caught.value is error
    assert error.__suppress_context__
    assert [type(link) for link in contexts(error)][:3] == [ValueError, KeyError, Boom]


async def test_a_failure_that_was_heard_is_not_added_to_the_bodys_error() -> None:
    with pytest.raises(ValueError, match=r"^$") as caught:
        async with fail_after_events(0, Boom()).open() as events:
            with pytest.raises(Boom):
                await anext(events)
            raise ValueError
    assert [type(link) for link in contexts(caught.value)] == [ValueError]


async def test_contexts_that_both_share_make_no_ring() -> None:
    """Both sides handle one error, as when they wait for the same connection."""
    shared = KeyError()

    @flow
    async def work(out: Sink[int]) -> None:
        try:
            raise shared
        except KeyError:
            raise Boom from None

    error = ValueError()
    with pytest.raises(ValueError, match=r"^$"):
        async with work().open():
            await anyio.wait_all_tasks_blocked()
            try:
                raise shared
            except KeyError:
                raise error from None
    assert [type(link) for link in contexts(error)] == [ValueError, KeyError, Boom]


async def test_errors_that_call_themselves_equal_are_told_apart() -> None:
    class Same(Exception):
        def __eq__(self, other: object) -> bool:
            return isinstance(other, Same)

        def __hash__(self) -> int:
            return 0

    body, work = Same("body"), Same("work")
    with pytest.raises(Same) as caught:
        async with fail_in_cleanup(work).open() as events:
            await anext(events)
            raise body
    assert caught.value is body
    assert contexts(body)[1] is work


async def test_a_body_that_raises_the_failure_it_did_not_hear_from_us_is_left_alone() -> None:
    boom = Boom()
    with pytest.raises(Boom) as caught:
        async with fail_in_cleanup(boom).open() as events:
            await anext(events)
            raise boom
    assert caught.value is boom
    assert len(contexts(boom)) <= 2


def contexts(error: BaseException) -> list[BaseException]:
    chain = [error]
    while (context := chain[-1].__context__) is not None:
        assert all(context is not link for link in chain), "a ring"
        chain.append(context)
    return chain


# Groups


async def test_the_lone_failure_of_a_task_group_leaves_without_the_group() -> None:
    boom, cause, context = Boom(), ValueError(), KeyError()
    boom.__cause__, boom.__context__ = cause, context

    @flow
    async def work(out: Sink[int]) -> None:
        async def fail() -> None:
            raise boom

        async with anyio.create_task_group() as group:
            group.start_soon(fail)
            group.start_soon(anyio.sleep_forever)

    with pytest.raises(Boom) as caught:
        async with work().open() as events:
            await anext(events)
    assert caught.value is boom
    assert boom.__cause__ is cause
    assert boom.__context__ is context


async def test_cancellations_are_dropped_from_a_group_before_a_lone_failure_is_looked_for() -> None:
    boom = Boom()

    @flow
    async def work(out: Sink[int]) -> None:
        try:
            await anyio.sleep_forever()
        except anyio.get_cancelled_exc_class() as cancelled:
            raise BaseExceptionGroup("all", [BaseExceptionGroup("inner", [cancelled, boom]), cancelled]) from None

    with pytest.raises(Boom) as caught:
        async with work().open():
            await anyio.wait_all_tasks_blocked()
    assert caught.value is boom


@pytest.mark.parametrize("second", [Boom("second"), Wild("second")])
async def test_two_real_failures_are_a_real_group(second: BaseException) -> None:
    both = BaseExceptionGroup("both", [Boom("first"), second])
    with pytest.raises(BaseExceptionGroup) as caught:
        async with fail_after_events(0, both).open() as events:
            await anext(events)
    assert caught.value.exceptions == both.exceptions


async def test_work_that_is_cancelled_around_a_consumer_that_does_not_look_is_no_clean_end_either() -> None:
    with anyio.CancelScope() as scope:
        async with wait_for_ever().open():
            with anyio.CancelScope(shield=True):
                await anyio.wait_all_tasks_blocked()
                scope.cancel()
                await anyio.wait_all_tasks_blocked()
    assert scope.cancelled_caught


async def test_a_group_of_nothing_but_cancellations_is_a_cancellation() -> None:
    @flow
    async def work(out: Sink[int]) -> None:
        try:
            await anyio.sleep_forever()
        except anyio.get_cancelled_exc_class() as cancelled:
            raise BaseExceptionGroup("all", [cancelled, cancelled]) from None

    with anyio.CancelScope() as scope:
        async with work().open():
            with anyio.CancelScope(shield=True):
                await anyio.wait_all_tasks_blocked()
                scope.cancel()
    assert scope.cancelled_caught


async def test_a_group_of_cancellations_out_of_the_body_is_not_put_into_another_group() -> None:
    left: list[BaseException] = []
    with anyio.CancelScope() as scope:
        scope.cancel()
        try:
            async with wait_for_ever().open():
                try:
                    await anyio.sleep_forever()
                except anyio.get_cancelled_exc_class() as cancelled:
                    raise BaseExceptionGroup("of a nursery", [cancelled]) from None
        except BaseException as error:
            left += error.exceptions if isinstance(error, BaseExceptionGroup) else [error]
            raise
    assert isinstance(left[0], anyio.get_cancelled_exc_class())


# What is no Exception


def test_a_keyboard_interrupt_in_the_work_interrupts_a_busy_body(anyio_backend: str) -> None:
    interrupted = []

    async def main() -> None:
        async with fail_after_events(0, KeyboardInterrupt()).open():
            try:
                await anyio.sleep_forever()
            except anyio.get_cancelled_exc_class():
                interrupted.append(True)
                raise

    with pytest.raises(KeyboardInterrupt):
        anyio.run(main, backend=anyio_backend)
    assert interrupted == [True]


@pytest.mark.parametrize("wild", [Wild(), GeneratorExit(), BaseExceptionGroup("one", [Wild()])])
async def test_an_interrupt_of_the_work_cancels_the_body_and_leaves_as_itself(wild: BaseException) -> None:
    lone = wild.exceptions[0] if isinstance(wild, BaseExceptionGroup) else wild
    with pytest.raises(type(lone)) as caught:
        async with fail_after_events(0, wild).open():
            with pytest.raises(anyio.get_cancelled_exc_class()):
                await anyio.sleep_forever()
            await anyio.lowlevel.checkpoint()
            raise AssertionError("not cancelled any more")
    assert caught.value is lone
    assert lone.__context__ is None


async def test_an_interrupt_of_the_work_reaches_a_pull_as_cancellation() -> None:
    with pytest.raises(Wild):
        async with fail_after_events(1, Wild()).open() as events:
            assert await anext(events) == 0
            with pytest.raises(anyio.get_cancelled_exc_class()):
                await anext(events)


async def test_an_interrupt_of_the_work_reaches_a_shielded_pull_as_cancelled_work() -> None:
    with pytest.raises(Wild):
        async with fail_after_events(1, Wild()).open() as events:
            with anyio.CancelScope(shield=True):
                assert await anext(events) == 0
                with pytest.raises(WorkCancelled):
                    await anext(events)


async def test_an_interrupt_of_the_work_wins_over_the_bodys_error_which_stays_behind_it() -> None:
    error = ValueError()
    with pytest.raises(Wild) as caught:
        async with fail_in_cleanup(Wild()).open() as events:
            await anext(events)
            raise error
    assert error in contexts(caught.value)


@pytest.mark.parametrize("wild", [StopIteration(), StopAsyncIteration(), GeneratorExit()])
async def test_the_work_cannot_end_an_iteration_by_raising_what_iterations_end_with(wild: BaseException) -> None:
    with pytest.raises((RuntimeError, GeneratorExit)) as caught:
        async with fail_after_events(1, wild).open() as events:
            async for _ in events:
                pass
    assert wild in (caught.value, caught.value.__cause__)


async def test_what_a_run_that_is_no_coroutine_raises_is_a_failure_like_others() -> None:
    def run(out: Sink[int]) -> object:
        raise StopIteration

    work: Flow[int, object] = Flow(run)  # type: ignore[arg-type]  # the mistake of whoever does not check types
    with pytest.raises(RuntimeError) as caught:
        async with work.open() as events:
            await anext(events)
    assert isinstance(caught.value.__cause__, StopIteration)
