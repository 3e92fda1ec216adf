"""Runs that are cut off when their time is up: their history is whole. Time is in ticks of the event loop."""

import threading

import anyio
import pytest

from streamkit.conversing import converse
from streamkit.execution.approval import Allow
from streamkit.execution.verdicts import from_verdicts
from streamkit.items import Usage
from streamkit.journal.memory import memory_journal
from streamkit.parts import UsageReported
from streamkit.testing.grammar import check_grammar
from streamkit.testing.histories import check_items
from streamkit.testing.scripted import ScriptedModel, call
from streamkit.tool_events import ToolStarted
from streamkit.tools.decorators import tool
from streamkit.tools.toolkit import Toolkit
from streamkit.turns import TurnStarted

from .attacks import ticking
from .calling import GUARD_SECONDS, collect, last_text
from .reading_runs import GO, KIT, ran


@pytest.fixture(autouse=True)
def nothing_ran() -> None:
    ran.clear()


@pytest.mark.parametrize("limits", [{"timeout_seconds": 1000}, {"idle_timeout_seconds": 1000}])
@ticking
async def test_a_run_whose_time_is_up_ends_with_a_whole_history(limits: dict[str, float]) -> None:
    model = ScriptedModel([call("read"), UsageReported(Usage(5, 1))], ["Let me see.", call("hang")])
    flow = converse(model, KIT, GO, **limits)  # type: ignore[arg-type]
    collected, state = await collect(flow)
    check_items(state.history)
    assert (state.ended, state.turns, state.usage) == ("budget", 2, Usage(5, 1))
    assert last_text(state).startswith("This call was cancelled: the run ")
    assert any(isinstance(event, ToolStarted) and event.tool == "hang" for event in collected)
    check_grammar(collected)


@ticking
async def test_a_run_whose_time_is_up_stays_so_in_its_journal() -> None:
    journal, collected = memory_journal(), []
    async with journal.drive("r") as run:
        flow = converse(ScriptedModel([call("hang")]), KIT, GO, journal=run, timeout_seconds=1000)
        async with flow.open() as events:
            collected = [event async for event in events]
    async with journal.follow("r").open() as followed:
        assert [each.event async for each in followed] == collected
    async with journal.drive("r") as run:
        assert (run.conversation, run.owed) == (events.value, ())


@ticking
async def test_a_limit_keeps_what_the_calls_that_waited_have_done() -> None:
    pending = await converse(ScriptedModel([call("send", {"to": "Ann"})]), KIT, GO, authorize=from_verdicts({}))
    (waiting,) = pending.waiting
    model, verdicts = ScriptedModel([anyio.sleep_forever]), from_verdicts({waiting: Allow()}, pending)
    events, state = await collect(converse(model, KIT, pending, authorize=verdicts, timeout_seconds=1000))
    check_grammar(events)
    assert (state.ended, last_text(state), ran) == ("budget", "sent to Ann", ["Ann"])


@ticking
async def test_a_slow_consumer_uses_up_no_time() -> None:
    flow = converse(ScriptedModel([call("read")], ["Done."]), KIT, GO, timeout_seconds=1000)
    async with flow.open() as events:
        async for event in events:
            if isinstance(event, TurnStarted):
                await anyio.sleep(1500)
    assert events.value.ended == "answer"


@ticking
async def test_what_runs_on_behind_a_limit_is_told() -> None:
    end = threading.Event()

    @tool
    def block() -> None:
        """Wait on a thread."""
        end.wait(GUARD_SECONDS)

    try:
        flow = converse(ScriptedModel([call("block")]), Toolkit(block), GO, idle_timeout_seconds=1000)
        events, state = await collect(flow)
    finally:
        end.set()
    check_grammar(events)
    assert state.ended == "budget"
    assert last_text(state).endswith("gave no sign of life for 1000 seconds. It may still be running.")


@pytest.mark.parametrize("name", ["timeout_seconds", "idle_timeout_seconds"])
def test_no_time_at_all_is_refused(name: str) -> None:
    with pytest.raises(ValueError, match=name):
        _ = converse(ScriptedModel(), KIT, GO, **{name: 0})  # type: ignore[arg-type]
