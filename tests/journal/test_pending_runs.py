"""Runs that end with a question, and go on as themselves: who follows hears nothing twice."""

import anyio

from streamkit import Conversation, RunEvent, Toolkit, ToolOutput, converse, from_verdicts, tool, user
from streamkit.execution.approval import Allow, Verdict
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


async def test_a_verdict_on_a_run_that_had_ended_is_kept_before_its_call_starts() -> None:
    @tool(approval=True, serial="mail")
    async def never() -> str:
        """Hang."""
        await anyio.sleep_forever()
        return ""

    @tool(approval=True, serial="mail")
    async def behind(to: str) -> str:
        """Send a mail."""
        return f"sent to {to}"

    toolkit, journal = Toolkit(never, behind), memory_journal()
    model = ScriptedModel([call("never"), call("behind", {"to": "Ann"})], ["Done."])
    async with journal.drive("r") as run:
        first, second = (await converse(model, toolkit, (user("Send it"),), journal=run)).undecided
    verdicts: dict[str, Verdict] = {first: Allow(), second: Allow({"to": "Bob"})}
    async with journal.drive("r") as run:
        assert run.conversation is not None
        going_on = converse(model, toolkit, run.conversation, journal=run, authorize=from_verdicts(verdicts))
        async with going_on.open() as events:
            async for event in events:
                if isinstance(event, ToolStarted):
                    break
    async with journal.drive("r") as run:
        assert run.conversation is not None
        state = await converse(model, toolkit, run.conversation, journal=run)
    outputs = [item.text for item in state.history if isinstance(item, ToolOutput)]
    assert state.ended == "answer"
    assert outputs[1] == "sent to Bob"
