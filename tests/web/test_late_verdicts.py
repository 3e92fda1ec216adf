"""Verdicts on runs that ended with a question, where runs are written down."""

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import anyio
import pytest

from streamkit.conversation import Conversation
from streamkit.execution.verdicts import from_verdicts
from streamkit.flows.flow import Flow
from streamkit.flows.groups import LoneErrorGroup
from streamkit.journal.entry import Entry
from streamkit.journal.journals import Journal
from streamkit.journal.memory import MemoryStore
from streamkit.testing.scripted import call
from streamkit.tool_events import RunEvent
from streamkit.tools.tool import Tool
from streamkit.web import RunRequest, WebApp, app

from .serving import Agent, Deletes, find, get, post, posting, text_of


class Server:
    """A process with the same tools as others, whose first run of each conversation asks, and waits for nobody."""

    def __init__(self, *turns: Any, tools: tuple[Tool[..., Any], ...], journal: Journal) -> None:
        self.agent = Agent(*turns, tools=tools)
        self.app: WebApp = app(self._start, journal=journal, resumable=True)

    def _start(self, run: RunRequest) -> Flow[RunEvent, Conversation]:
        if run.conversation.turn is None:
            run = RunRequest(run.run_id, run.conversation, from_verdicts({}), run.running, run.journal)
        return self.agent(run)


async def asked_by(server: Server) -> tuple[str, list[str]]:
    """A run that ended with questions: its id, and theirs."""
    asked = await post(server.app, "/runs", {"message": "Hi"})
    return asked.headers["x-run-id"], find(asked, "finish")["pending"]


async def waiting_in(server: Server, run_id: str) -> list[str]:
    return [each["executionId"] for each in (await get(server.app, f"/runs/{run_id}")).json["waiting"]]


TWO = [call("delete", {"path": "a"}), call("delete", {"path": "b"})]


async def test_a_verdict_is_there_after_a_restart_and_for_another_process() -> None:
    deletes, journal = Deletes(), Journal(MemoryStore())
    before = Server(TWO, tools=(deletes.tool,), journal=journal)
    async with before.app.lifespan():
        run_id, (first, second) = await asked_by(before)
        target = f"/runs/{run_id}/verdicts"
        assert (await post(before.app, target, {"executionId": first, "allow": True})).status == 200
    after = Server(["Done"], tools=(deletes.tool,), journal=journal)
    async with after.app.lifespan():
        assert await waiting_in(after, run_id) == [second]
        assert (await post(after.app, target, {"executionId": first, "allow": False})).status == 409
        edited = {"executionId": second, "allow": True, "arguments": {"path": "c"}}
        assert (await post(after.app, target, edited)).status == 200
    last = Server(["Done"], tools=(deletes.tool,), journal=journal)
    async with last.app.lifespan():
        assert text_of(await post(last.app, "/runs", {"after": run_id})) == "Done"
        assert (await post(last.app, "/runs", {"after": run_id})).status == 409
    assert sorted(deletes.deleted) == ["a", "c"]


async def test_a_denial_and_a_value_are_there_as_well() -> None:
    pick: Tool[..., Any] = Tool(name="pick", description="The client picks.", input={"type": "object"})
    deletes, journal = Deletes(), Journal(MemoryStore())
    before = Server([call("delete", {"path": "a"}), call("pick", {})], tools=(deletes.tool, pick), journal=journal)
    async with before.app.lifespan():
        run_id, (first, second) = await asked_by(before)
        target = f"/runs/{run_id}/verdicts"
        await post(before.app, target, {"executionId": first, "allow": False, "reason": "not that"})
        await post(before.app, target, {"executionId": second, "allow": True, "value": {"card": 7}})
    after = Server(["Done"], tools=(deletes.tool, pick), journal=journal)
    async with after.app.lifespan():
        asked = await post(after.app, "/runs", {"after": run_id})
    results = {frame["toolName"]: frame for frame in asked.frames if frame["type"] == "tool-result"}
    assert "not that" in results["delete"]["error"]["message"]
    assert results["pick"]["result"] == {"card": 7}
    assert deletes.deleted == []


async def decide(server: Server, run_id: str, execution_id: str) -> int:
    return (await post(server.app, f"/runs/{run_id}/verdicts", {"executionId": execution_id, "allow": True})).status


async def test_what_was_allowed_in_one_run_that_goes_on_does_not_run_in_another() -> None:
    """As with two pages, both of which go on with the same run: the verdict comes to the run that goes on."""
    deletes, journal = Deletes(), Journal(MemoryStore())
    server = Server([call("delete", {"path": "a"})], tools=(deletes.tool,), journal=journal)
    async with server.app.lifespan():
        run_id, (question,) = await asked_by(server)
        server.agent.turns = (["Done"],)
        async with (
            posting(server.app, "/runs", {"after": run_id}) as one,
            posting(server.app, "/runs", {"after": run_id}) as other,
        ):
            for page in (one, other):
                await page.until("approval-request")
                assert await decide(server, page.headers["x-run-id"], question) == 200
        assert "error" not in find(one, "tool-result")
        assert find(other, "tool-result")["error"]["kind"] == "denied"
        assert await decide(server, run_id, question) == 200
        assert (await post(server.app, "/runs", {"after": run_id})).status == 409
    assert deletes.deleted == ["a"]


class Slow(MemoryStore):
    """Lets others run before it keeps anything."""

    async def append(self, run_id: str, entries: Any, *, durable: bool) -> int:
        for _ in range(20):
            await anyio.lowlevel.checkpoint()
        return await super().append(run_id, entries, durable=durable)


async def decided_at_once(servers: Sequence[Server], target: str, bodies: Sequence[Mapping[str, Any]]) -> list[int]:
    statuses: list[int] = []

    async def say(server: Server, body: Mapping[str, Any]) -> None:
        statuses.append((await post(server.app, target, body)).status)

    async with LoneErrorGroup() as tasks:
        for server, body in zip(servers, bodies, strict=True):
            tasks.start_soon(partial(say, server, body))
    return sorted(statuses)


async def test_of_verdicts_that_come_at_once_none_is_lost() -> None:
    deletes, journal = Deletes(), Journal(Slow())
    server = Server(TWO, tools=(deletes.tool,), journal=journal)
    async with server.app.lifespan():
        run_id, questions = await asked_by(server)
        bodies = [{"executionId": each, "allow": True} for each in questions]
        assert await decided_at_once([server, server], f"/runs/{run_id}/verdicts", bodies) == [200, 200]
        assert await waiting_in(server, run_id) == []


async def test_of_two_who_decide_the_same_at_once_one_is_heard() -> None:
    deletes, journal = Deletes(), Journal(Slow())
    servers = [Server(TWO, tools=(deletes.tool,), journal=journal) for _ in range(2)]
    async with servers[0].app.lifespan(), servers[1].app.lifespan():
        run_id, (first, _) = await asked_by(servers[0])
        bodies = [{"executionId": first, "allow": allow} for allow in (True, False)]
        assert await decided_at_once(servers, f"/runs/{run_id}/verdicts", bodies) == [200, 409]


def hide(tool: str, value: Any) -> Any:
    return "hidden" if value == "s3cret" else value


@pytest.mark.parametrize("is_held", [True, False], ids=["one process", "after a restart"])
async def test_what_somebody_gives_for_a_call_is_not_written_where_secrets_are_hidden(is_held: bool) -> None:
    pick: Tool[..., Any] = Tool(name="pick", description="The client picks.", input={"type": "object"})
    store = MemoryStore()
    server = Server([call("pick", {})], tools=(pick,), journal=Journal(store, redact=hide))
    async with server.app.lifespan():
        run_id, (question,) = await asked_by(server)
        body = {"executionId": question, "allow": True, "value": "s3cret"}
        assert (await post(server.app, f"/runs/{run_id}/verdicts", body)).status == 200
        server.agent.turns = (["Done"],)
        if is_held:
            assert text_of(await post(server.app, "/runs", {"after": run_id})) == "Done"
    written: list[Entry] = [each.entry for each in await store.read(f"verdicts-{run_id}")]
    assert written == []
    if not is_held:
        again = Server(["Done"], tools=(pick,), journal=Journal(store, redact=hide))
        async with again.app.lifespan():
            assert await waiting_in(again, run_id) == [question]
