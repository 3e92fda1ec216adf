"""Many calls, and many runs at once, in one process: what it holds does not grow, and nothing is left behind."""

import anyio
import pytest

from bench.many_runs import EVENTS, run_together
from bench.soak import Held, soak
from streamkit.journal.log import RunLog
from streamkit.journal.memory import memory_journal
from streamkit.turns import TextDelta

from .calling import GUARD_SECONDS

MOST_BLOCKS_OF_A_CALL, MOST_BLOCKS_OF_A_RUN = 0.5, 5
"""Left on average: what the test runner does meanwhile counts, too. A run holds some hundred blocks."""
MOST_SUSPENDED = 5


@pytest.mark.parametrize(("written", "calls"), [(False, 4500), (True, 1800)])
async def test_thousands_of_calls_leave_nothing(written: bool, calls: int) -> None:
    _, second, third = await soak(calls, written)
    check_nothing_left(second, third, calls / 3 * MOST_BLOCKS_OF_A_CALL)


@pytest.mark.parametrize(("written", "runs"), [(False, 1000), (True, 200)])
async def test_many_runs_at_once_leave_nothing(written: bool, runs: int) -> None:
    together = await run_together(written, runs, traced=False)
    assert together.events == [EVENTS] * runs
    check_nothing_left(together.before, together.after, runs * MOST_BLOCKS_OF_A_RUN)


def check_nothing_left(before: Held, after: Held, most_blocks: float) -> None:
    assert after.blocks - before.blocks < most_blocks
    assert after.suspended - before.suspended < MOST_SUSPENDED
    assert after.threads == 0


# A run that waits for its model


async def test_what_is_shown_after_a_silence_is_written_as_soon_as_the_first() -> None:
    journal = memory_journal()
    async with journal.drive("r") as run:
        with anyio.fail_after(GUARD_SECONDS):
            for shown in range(1, 4):
                assert run.show(TextDelta("a")) is None
                await journal.store.wait("r", after=shown)


async def test_a_run_of_which_nothing_is_shown_does_nothing() -> None:
    log = RunLog(memory_journal().store, "r", events=True, redaction=None)
    for _ in range(2):
        with anyio.move_on_after(0.01) as scope:
            await log.until_kept()
        assert scope.cancelled_caught
        assert log.show(TextDelta("a")) is None
        await log.until_kept()
