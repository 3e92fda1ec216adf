"""The cases of `cases/durability.json`: runs that outlive their process and consumers. Each test names its case."""

from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import anyio
import anyio.lowlevel
import pytest

from streamkit.conversation import Conversation
from streamkit.conversing import converse
from streamkit.errors import UnknownRun
from streamkit.items import ToolOutput, user
from streamkit.journal.journals import Journal
from streamkit.journal.memory import memory_journal
from streamkit.journal.sqlite import sqlite_journal
from streamkit.testing import ScriptedModel, call, check_history
from streamkit.tools.decorators import streaming_tool, tool
from streamkit.tools.reducers import count
from streamkit.tools.toolkit import Toolkit
from streamkit.turns import TextDelta

from ..calling import GUARD_SECONDS

ran: list[str] = []
GO = (user("go"),)

Open = Callable[[], Journal]
"""Opens a journal again, as another process would."""


class Died(BaseException):
    """What ends a process in these tests, wherever it is."""


@pytest.fixture(params=["memory", "sqlite"])
def open_journal(request: pytest.FixtureRequest, tmp_path: Path) -> Open:
    ran.clear()
    if request.param == "sqlite":
        return lambda: sqlite_journal(tmp_path / "runs.db")
    kept = memory_journal()
    return lambda: kept


async def drive(journal: Journal, model: ScriptedModel, *tools: Any) -> Conversation:
    async with journal.drive("r") as run:
        return await converse(model, Toolkit(*tools), run.conversation or GO, journal=run)


def told(state: Conversation) -> dict[str, str]:
    return {item.tool: item.text for item in state.history if isinstance(item, ToolOutput)}


async def test_what_was_stored_is_used_again(open_journal: Open) -> None:
    """durable-no-second-run"""

    @tool
    async def pay() -> str:
        """Pay."""
        ran.append("pay")
        return "paid"

    @tool(effects="none")
    async def read() -> str:
        """Read."""
        ran.append("read")
        return "what is there"

    def dies(_: object) -> list[str]:
        raise Died

    with pytest.raises(Died):
        await drive(open_journal(), ScriptedModel([call("pay"), call("read")], dies), pay, read)
    model = ScriptedModel(["Done."])
    state = await drive(open_journal(), model, pay, read)
    assert sorted(ran) == ["pay", "read"]
    assert told(state) == {"pay": "paid", "read": "what is there"}
    assert model.requests[0].history == state.history[:-1]


async def test_what_had_begun_is_not_paid_again_unasked(open_journal: Open) -> None:
    """durable-unknown-outcome"""
    both = anyio.Event()

    async def work(name: str, lives: bool) -> str:
        ran.append(name)
        if not lives:
            if len(ran) == 2:
                both.set()
            await anyio.sleep_forever()
        return f"{name} done"

    def tools(*, lives: bool) -> tuple[Any, Any]:
        async def pay() -> str:
            """Pay."""
            return await work("pay", lives)

        async def read() -> str:
            """Read."""
            return await work("read", lives)

        return tool(pay), tool(read, effects="none")

    async def die() -> None:
        await both.wait()
        raise Died

    with pytest.raises(BaseExceptionGroup) as raised:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(die)
            await drive(open_journal(), ScriptedModel([call("pay"), call("read")]), *tools(lives=False))
    assert raised.group_contains(Died)
    state = await drive(open_journal(), ScriptedModel(["Done."]), *tools(lives=True))
    assert ran.count("pay") == 1
    assert ran.count("read") == 2
    assert told(state)["read"] == "read done"
    assert "it may have happened" in told(state)["pay"]
    for dialect in ("openai-chat", "openai-responses", "anthropic", "gemini", "ollama"):
        check_history(state.history, dialect)


async def test_a_consumer_comes_back_with_the_number_of_its_last_event(open_journal: Open) -> None:
    """durable-cursor-resume"""
    journal = open_journal()
    seen: dict[int, list[int]] = {}

    async def read_from(after: int) -> None:
        async with journal.follow("r", after=after).open() as events:
            seen[after] = [each.number async for each in events]

    with anyio.fail_after(GUARD_SECONDS):
        async with anyio.create_task_group() as tasks, journal.drive("r") as run:
            for _ in range(19):  # behind the entry that says who drives the run
                run.show(TextDelta("x"))
            await run.flush()
            for after in (7, 0, 20):
                tasks.start_soon(read_from, after)
            for _ in range(5):
                await anyio.lowlevel.checkpoint()
            for _ in range(3):
                run.show(TextDelta("y"))
            await run.flush()
    assert seen == {7: [*range(8, 24)], 0: [*range(2, 24)], 20: [21, 22, 23]}
    with pytest.raises(UnknownRun, match="has no event 999: the last is "):
        await journal.follow("r", after=999)


async def test_whether_a_lost_consumer_ends_the_run_is_the_choice_of_who_runs_it(open_journal: Open) -> None:
    """durable-disconnect-is-not-cancel"""
    left, cleaned = anyio.Event(), anyio.Event()

    @streaming_tool(reduce=count(), effects="none")
    async def works() -> AsyncIterator[str]:
        """Goes on when its consumer has left, unless it is cancelled."""
        try:
            yield "begun"
            await left.wait()
            yield "went on"
        finally:
            cleaned.set()

    def has_begun(event: object) -> bool:
        return getattr(event, "data", None) == "begun"

    journal = open_journal()
    model = ScriptedModel([call("works")], ["Done."])
    with anyio.fail_after(GUARD_SECONDS):
        async with anyio.create_task_group() as tasks:  # resumable: the run belongs to the program, and is followed
            tasks.start_soon(drive, journal, model, works)
            await journal.store.wait("r", 0)
            async with journal.follow("r").open() as events:
                async for each in events:
                    if has_begun(each.event):
                        break
            left.set()
        async with journal.follow("r", after=each.number).open() as events:
            later = [each.event async for each in events]
    assert [event.text for event in later if isinstance(event, TextDelta)] == ["Done."]
    assert "went on" in [getattr(event, "data", None) for event in later]

    left, cleaned = anyio.Event(), anyio.Event()  # plain: the run belongs to its consumer
    with anyio.fail_after(GUARD_SECONDS):
        async with converse(ScriptedModel([call("works")]), Toolkit(works), GO).open() as running:
            async for event in running:
                if has_begun(event):
                    break
    assert cleaned.is_set()
