"""Runs that end with a question, and go on as themselves: who follows hears nothing twice."""

import anyio

from streamkit import Conversation, RunEvent, Toolkit, ToolOutput, converse, from_verdicts, tool, user
from streamkit.execution.approval import Allow, Deny, Verdict
from streamkit.journal.journals import Journal
from streamkit.journal.memory import memory_journal
from streamkit.testing import ScriptedModel, call, check_grammar
from streamkit.tool_events import ApprovalRequested, Output, ToolStarted


@tool(approval=True)
async def send(to: str) -> str:
    """Send a mail."""
    return f"sent to {to}"


@tool
async def read(name: str) -> str:
    """Read a file."""
    return name


async def drive(
    journal: Journal, model: ScriptedModel, verdicts: dict[str, Verdict]
) -> tuple[list[RunEvent], Conversation]:
    async with journal.drive("r") as run:
        start = run.conversation or (user("Send it"),)
        going_on = converse(model, Toolkit(send, read), start, journal=run, authorize=from_verdicts(verdicts))
        async with going_on.open() as events:
            return [event async for event in events], events.value


async def test_a_run_that_goes_on_shows_followers_nothing_twice() -> None:
    journal = memory_journal()
    model = ScriptedModel([call("send", {"to": "Ann"}), call("read", {"name": "a"})], ["Done."])
    _, state = await drive(journal, model, {})
    again, _ = await drive(journal, model, {})
    assert [type(event) for event in again] == [ApprovalRequested]  # whoever drives it now has to know, too
    _, state = await drive(journal, model, {execution_id: Allow() for execution_id in state.waiting})
    async with journal.follow("r").open() as followed:
        seen = [each.event async for each in followed]
    check_grammar(seen)
    kinds = [type(event) for event in seen]
    assert [kinds.count(kind) for kind in (ApprovalRequested, ToolStarted, Output)] == [1, 2, 2]
    assert state.ended == "answer"


@tool(approval=True, serial="mail")
async def never() -> str:
    """Hang."""
    await anyio.sleep_forever()
    return ""


@tool(approval=True, serial="mail")
async def behind(to: str) -> str:
    """Send a mail."""
    return f"sent to {to}"


QUEUED = Toolkit(never, behind)


async def allow_and_die(journal: Journal) -> str:
    """Allow a call of a run that has ended, with other arguments; the process dies before the call starts. Its id."""
    model = ScriptedModel([call("never"), call("behind", {"to": "Ann"})])
    async with journal.drive("r") as run:
        first, second = (await converse(model, QUEUED, (user("Send it"),), journal=run)).undecided
    verdicts: dict[str, Verdict] = {first: Allow(), second: Allow({"to": "Bob"})}
    async with journal.drive("r") as run:
        assert run.conversation is not None
        going_on = converse(model, QUEUED, run.conversation, journal=run, authorize=from_verdicts(verdicts))
        async with going_on.open() as events:
            async for event in events:
                if isinstance(event, ToolStarted):
                    break
    return second


async def last_output(journal: Journal, verdicts: dict[str, Verdict]) -> str:
    async with journal.drive("r") as run:
        assert run.conversation is not None
        going_on = from_verdicts(verdicts, run.conversation)
        state = await converse(ScriptedModel(["Done."]), QUEUED, run.conversation, journal=run, authorize=going_on)
    assert state.ended == "answer"
    return [item.text for item in state.history if isinstance(item, ToolOutput)][-1]


async def test_a_verdict_on_a_run_that_had_ended_is_kept_before_its_call_starts() -> None:
    journal = memory_journal()
    await allow_and_die(journal)
    assert await last_output(journal, {}) == "sent to Bob"


async def test_a_call_that_has_not_started_may_still_be_denied() -> None:
    journal = memory_journal()
    execution_id = await allow_and_die(journal)
    assert await last_output(journal, {execution_id: Deny("on second thoughts")}) == (
        "The call of behind was denied: on second thoughts"
    )


async def test_a_call_that_would_start_again_may_still_be_denied() -> None:
    @tool(approval=True, effects="none")
    async def look() -> str:
        """Hang."""
        await anyio.sleep_forever()
        return ""

    toolkit, journal = Toolkit(look), memory_journal()
    async with journal.drive("r") as run:
        state = await converse(ScriptedModel([call("look")]), toolkit, (user("Look"),), journal=run)
    (execution_id,) = state.undecided
    allowed, denied = from_verdicts({execution_id: Allow()}), from_verdicts({execution_id: Deny("no more")})
    async with journal.drive("r") as run:
        assert run.conversation is not None
        going_on = converse(ScriptedModel(), toolkit, run.conversation, journal=run, authorize=allowed)
        async with going_on.open() as events:
            async for event in events:
                if isinstance(event, ToolStarted):
                    break
    async with journal.drive("r") as run:
        assert run.conversation is not None
        state = await converse(ScriptedModel(["Done."]), toolkit, run.conversation, journal=run, authorize=denied)
    assert [item.text for item in state.history if isinstance(item, ToolOutput)] == [
        "The call of look was denied: no more"
    ]
