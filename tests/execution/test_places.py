"""Which calls run now: places, lanes, and ids that come twice."""

import anyio
import anyio.lowlevel
import pytest

from streamkit.execution.approval import Allow, Deny, Question, Verdict
from streamkit.execution.execute import execute_all
from streamkit.tool_events import Failure, Value
from streamkit.tools.decorators import tool
from streamkit.tools.toolkit import Toolkit

from ..calling import GUARD_SECONDS, call, collect


async def test_no_more_calls_run_at_once_than_there_are_places() -> None:
    running = most = 0

    @tool
    async def work() -> None:
        """Counts how many run."""
        nonlocal running, most
        running += 1
        most = max(most, running)
        for _ in range(3):
            await anyio.lowlevel.checkpoint()
        running -= 1

    _, results = await collect(execute_all(Toolkit(work), [call(work) for _ in range(20)], max_concurrency=4))
    assert (most, len(results)) == (4, 20)


@pytest.mark.parametrize("denied", [False, True])
async def test_calls_that_share_a_key_run_in_call_order(denied: bool) -> None:
    log: list[str] = []

    async def write(name: str) -> None:
        """Takes a while."""
        log.append(f"{name} begins")
        await anyio.lowlevel.checkpoint()
        log.append(f"{name} ends")

    writes = tool(write, serial="files")
    reads = tool(write, name="reads")
    first_asked = anyio.Event()

    async def authorize(question: Question) -> Verdict:
        if question.call.arguments["name"] == "one":
            await first_asked.wait()  # decided last
            return Deny("no") if denied else Allow()
        if question.call.arguments["name"] == "free":
            first_asked.set()
        return Allow()

    calls = [call(writes, {"name": "one"}), call(writes, {"name": "two"}), call(reads, {"name": "free"})]
    await collect(execute_all(Toolkit(writes, reads), calls, authorize=authorize))
    ordered = [line for line in log if "free" not in line]
    whole = ["one begins", "one ends", "two begins", "two ends"]
    assert ordered == (whole[2:] if denied else whole)


async def test_a_call_that_waits_for_its_lane_takes_no_place() -> None:
    second_ran = anyio.Event()

    @tool(serial="files")
    async def write(n: int) -> None:
        """The first one waits for a call of another lane."""
        if n == 0:
            await second_ran.wait()

    @tool
    async def read() -> None:
        """Needs the second place."""
        second_ran.set()

    with anyio.fail_after(GUARD_SECONDS):
        calls = [call(write, {"n": 0}), call(write, {"n": 1}), call(read)]
        _, results = await collect(execute_all(Toolkit(write, read), calls, max_concurrency=2))
    assert all(isinstance(result, Value) for result in results)


async def test_an_id_that_comes_twice_runs_once() -> None:
    runs = 0

    @tool
    async def read(p: str) -> str:
        """Reads."""
        nonlocal runs
        runs += 1
        return p

    calls = [call(read, text, call_id="c1") for text in ('{"p":"a"}', '{"p": "a"}', '{"p":"b"}')]
    events, (first, same, other) = await collect(execute_all(Toolkit(read), calls))
    assert (runs, first is same, len(events)) == (1, True, 2)
    assert isinstance(other, Failure)
    assert other.kind == "duplicate_call"


async def test_an_id_that_comes_twice_tells_a_number_from_a_boolean() -> None:
    @tool
    async def mark(state: bool | int) -> str:
        """Marks."""
        return str(state)

    calls = [call(mark, {"state": state}, call_id="c1") for state in (1, True)]
    first, other = await execute_all(Toolkit(mark), calls)
    assert isinstance(first, Value)
    assert isinstance(other, Failure)
    assert other.kind == "duplicate_call"
