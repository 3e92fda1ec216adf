"""An approval that comes twice lets nothing run twice; one whose run never began may come again."""

import dataclasses
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import anyio
import anyio.lowlevel
import pytest
from starlette.exceptions import HTTPException

from streamkit.conversation import Conversation
from streamkit.execution.approval import allow_all
from streamkit.flows.flow import Flow, Sink, flow
from streamkit.items import ToolOutput
from streamkit.journal.journals import Journal
from streamkit.journal.memory import memory_journal
from streamkit.journal.sqlite import sqlite_journal
from streamkit.testing.leftovers import nothing_left
from streamkit.testing.scripted import call
from streamkit.tool_events import RunEvent
from streamkit.tools.decorators import tool
from streamkit.web import RunRequest, WebApp, app

from ..calling import GUARD_SECONDS
from ..wire.ui_client import UiClient
from .asgi import Exchange, asking
from .serving import JSON, Agent, json_request, of_header, post, posting

Json = dict[str, Any]
SECRET = b"a secret of sixteen bytes"
JOURNALS: dict[str, Callable[[Path], Journal | None]] = {
    "no journal": lambda folder: None,
    "memory": lambda folder: memory_journal(),
    "sqlite": lambda folder: sqlite_journal(folder / "runs.db"),
}
pytestmark = pytest.mark.parametrize("target", ["/ai-sdk", "/ag-ui"])


@pytest.fixture(params=list(JOURNALS))
def journal(request: pytest.FixtureRequest, tmp_path: Path) -> Journal | None:
    return JOURNALS[request.param](tmp_path)


class Mails:
    """A tool that has to be approved, and then waits to be let go on. sent: what it was called with."""

    def __init__(self, *, waits: bool = False) -> None:
        self.sent: list[str] = []
        self.began = anyio.Event()
        self.go_on = anyio.Event()
        if not waits:
            self.go_on.set()

        @tool(approval=True)
        async def send(to: str) -> str:
            """Send a mail."""
            self.sent.append(to)
            self.began.set()
            await self.go_on.wait()
            return f"sent to {to}"

        self.tool = send


class Mailing(Agent):
    """Asks to send a mail, and is done when that is decided. gate: what each run waits for before it does anything."""

    def __init__(self, mails: Mails) -> None:
        super().__init__([call("send", {"to": "Ann"})], tools=(mails.tool,))
        self.refuses: HTTPException | None = None
        self.gate = anyio.Event()
        self.gate.set()
        self.at_gate = anyio.Event()

    def __call__(self, run: RunRequest) -> Flow[RunEvent, Conversation]:
        if self.refuses is not None:
            raise self.refuses
        if run.conversation.turn is not None:
            self.turns = (["Done"],)
        return self._gated(super().__call__(run))

    def _gated(self, inner: Flow[RunEvent, Conversation]) -> Flow[RunEvent, Conversation]:
        @flow
        async def run(out: Sink[RunEvent]) -> Conversation:
            self.at_gate.set()
            await self.gate.wait()
            return await out.forward(inner)

        return run()


def served(agent: Agent, journal: Journal | None = None, **options: Any) -> WebApp:
    return app(agent, journal=journal, secret=SECRET, authenticate=of_header("x-user"), **options)


ANN = {"x-user": "ann"}


async def answer_to(asking_app: WebApp, target: str, *, allow: bool = True, thread: str = "t") -> Json:
    """The request in which the person answers what they were asked."""
    if target == "/ai-sdk":
        said: Json = {"id": "m1", "role": "user", "parts": [{"type": "text", "text": "Hi"}]}
        asked = await post(asking_app, target, {"id": thread, "messages": [said]}, ANN)
        client = UiClient().read(asked.body)
        client.answer(client.call("call_1")["approval"]["id"], approved=allow)
        return {"id": thread, "messages": [said, client.message]}
    basic: Json = {"threadId": thread, "runId": "r", "state": {}, "tools": [], "context": [], "forwardedProps": {}}
    said = {"id": "m1", "role": "user", "content": "Hi"}
    asked = await post(asking_app, target, {**basic, "messages": [said]}, ANN)
    told = {each["type"]: each for each in events(asked)}
    called = {"id": "call_1", "type": "function", "function": {"name": "send", "arguments": '{"to":"Ann"}'}}
    message = {"id": told["TOOL_CALL_START"]["parentMessageId"], "role": "assistant", "toolCalls": [called]}
    (interrupt,) = told["RUN_FINISHED"]["outcome"]["interrupts"]
    resume = [{"interruptId": interrupt["id"], "status": "resolved", "payload": {"approved": allow}}]
    return {**basic, "messages": [said, message], "resume": resume}


def events(asked: Exchange) -> Iterator[Json]:
    for line in asked.text.split("\n\n"):
        if line.startswith("data: {"):
            yield json.loads(line.removeprefix("data: "))


# Twice


async def test_what_comes_twice_is_refused_the_second_time(target: str, journal: Journal | None) -> None:
    mails = Mails()
    first = served(Mailing(mails), journal)
    async with nothing_left(), first.lifespan():
        yes = await answer_to(first, target)
        assert (await post(first, target, yes, ANN)).status == 200
        again = await post(first, target, yes, ANN)
    assert (again.status, mails.sent) == (409, ["Ann"])
    assert "was decided already" in again.json["error"]


async def test_of_two_that_come_at_once_one_is_answered(target: str, journal: Journal | None) -> None:
    mails = Mails()
    first = served(Mailing(mails), journal)
    statuses: list[int] = []
    async with nothing_left(), first.lifespan():
        yes = await answer_to(first, target)

        async def ask() -> None:
            statuses.append((await post(first, target, yes, ANN)).status)

        async with anyio.create_task_group() as tasks:
            for _ in range(5):
                tasks.start_soon(ask)
    assert (sorted(statuses), mails.sent) == ([200, 409, 409, 409, 409], ["Ann"])


async def test_what_goes_on_is_not_begun_again_beside_it(target: str, journal: Journal | None) -> None:
    mails = Mails(waits=True)
    first = served(Mailing(mails), journal)
    async with nothing_left(), first.lifespan():
        yes = await answer_to(first, target)
        async with posting(first, target, yes, ANN) as asked:
            await mails.began.wait()
            assert (await post(first, target, yes, ANN)).status == 409
            mails.go_on.set()
    assert (asked.status, mails.sent) == (200, ["Ann"])


async def test_with_a_journal_another_process_and_another_life_know_of_it(target: str, tmp_path: Path) -> None:
    mails = Mails()
    yes: Json = {}
    for number in range(3):
        process = served(Mailing(mails), sqlite_journal(tmp_path / "runs.db"))
        async with nothing_left(), process.lifespan():
            yes = yes or await answer_to(process, target)
            status = (await post(process, target, yes, ANN)).status
            assert status == (409 if number else 200)
    assert mails.sent == ["Ann"]


async def test_of_what_was_allowed_and_then_denied_the_model_reads_that_it_may_have_happened(
    target: str, journal: Journal | None
) -> None:
    mails = Mails()
    agent = Mailing(mails)
    first = served(agent, journal)
    async with nothing_left(), first.lifespan():
        yes = await answer_to(first, target)
        no = json.loads(json.dumps(yes).replace('"approved": true', '"approved": false'))
        assert (await post(first, target, yes, ANN)).status == 200
        assert (await post(first, target, no, ANN)).status == 200
        assert (await post(first, target, yes, ANN)).status == 409
    read = agent.models[-1].requests[-1].history[-1]
    assert isinstance(read, ToolOutput)
    assert "may have happened" in read.text
    assert mails.sent == ["Ann"]


async def test_a_denial_runs_nothing_so_it_may_come_again(target: str, journal: Journal | None) -> None:
    mails = Mails()
    first = served(Mailing(mails), journal)
    async with nothing_left(), first.lifespan():
        no = await answer_to(first, target, allow=False)
        assert [(await post(first, target, no, ANN)).status for _ in range(2)] == [200, 200]
    assert mails.sent == []


async def test_threads_and_questions_are_told_apart(target: str, journal: Journal | None) -> None:
    mails = Mails()
    agent = Mailing(mails)
    first = served(agent, journal)
    async with nothing_left(), first.lifespan():
        for thread in ("t", "t", "u"):
            agent.turns = ([call("send", {"to": "Ann"})],)
            yes = await answer_to(first, target, thread=thread)
            bob = await post(first, target, yes, {"x-user": "bob"})
            assert (await post(first, target, yes, ANN)).status == 200
            assert bob.status == 422, "nobody has asked him, so he has allowed nothing"
    assert len(mails.sent) == 3


# Not begun


@pytest.mark.parametrize("refused", ["by start", "for too many"])
async def test_what_was_refused_before_it_began_may_come_again(
    target: str, journal: Journal | None, refused: str
) -> None:
    mails = Mails()
    agent = Mailing(mails)
    first = served(agent, journal, max_runs=1)
    async with nothing_left(), first.lifespan():
        yes = await answer_to(first, target)
        if refused == "by start":
            agent.refuses = HTTPException(429, "later")
            assert (await post(first, target, yes, ANN)).status == 429
            agent.refuses = None
        else:
            agent.gate = anyio.Event()
            agent.at_gate = anyio.Event()
            async with posting(first, "/runs", {"message": "Hi"}, ANN) as other:
                await agent.at_gate.wait()
                assert (await post(first, target, yes, ANN)).status == 503
                other.leave()
            agent.gate.set()
        assert mails.sent == []
        assert (await post(first, target, yes, ANN)).status == 200
    assert mails.sent == ["Ann"]


async def test_what_gives_no_sense_claims_nothing(target: str, journal: Journal | None) -> None:
    mails = Mails()
    first = served(Mailing(mails), journal)
    async with nothing_left(), first.lifespan():
        yes = await answer_to(first, target)
        forged = json.loads(json.dumps(yes).replace("Ann", "Eve"))
        assert (await post(first, target, forged, ANN)).status == 422
        assert (await post(first, target, yes, ANN)).status == 200
    assert mails.sent == ["Ann"]


@pytest.mark.parametrize("resumable", [False, True])
async def test_a_client_that_is_gone_before_it_is_answered_may_come_again(
    target: str, journal: Journal | None, resumable: bool
) -> None:
    """Where its run is cancelled. One that goes on without it sends the mail."""
    if resumable:
        journal = journal or memory_journal()
    mails = Mails()
    agent = Mailing(mails)
    first = served(agent, journal, resumable=resumable)
    async with nothing_left(), first.lifespan():
        yes = await answer_to(first, target)
        agent.gate = anyio.Event()
        gone = json_request(yes)
        gone.leave()
        async with asking(first, "POST", target, headers={**JSON, **ANN}, exchange=gone):
            """It is answered, as far as the server can."""
        if resumable:
            assert (await post(first, target, yes, ANN)).status == 409
            agent.gate.set()
            await mails.began.wait()
        else:
            agent.gate.set()
            await until_taken(first, target, yes)
    assert mails.sent == ["Ann"]


async def test_a_run_that_was_cut_off_before_it_asked_may_come_again(target: str, journal: Journal | None) -> None:
    mails = Mails()
    agent = Mailing(mails)
    first = served(agent, journal)
    async with nothing_left(), first.lifespan():
        yes = await answer_to(first, target)
        agent.gate, agent.at_gate = anyio.Event(), anyio.Event()
        async with posting(first, target, yes, ANN) as asked:
            await agent.at_gate.wait()
            asked.leave()
        agent.gate.set()
        await until_taken(first, target, yes)
    assert mails.sent == ["Ann"]


async def until_taken(asked: WebApp, target: str, yes: Json) -> None:
    """A run in the background ends a moment after its client has left."""
    with anyio.fail_after(GUARD_SECONDS):
        while (await post(asked, target, yes, ANN)).status == 409:
            await anyio.lowlevel.checkpoint()


async def test_a_call_that_was_cut_off_when_it_had_begun_does_not_run_again(
    target: str, journal: Journal | None
) -> None:
    mails = Mails(waits=True)
    first = served(Mailing(mails), journal)
    async with nothing_left(), first.lifespan():
        yes = await answer_to(first, target)
        async with posting(first, target, yes, ANN) as asked:
            await mails.began.wait()
            asked.leave()
        again = await post(first, target, yes, ANN)
    assert (again.status, mails.sent) == (409, ["Ann"])


class Trusting(Mailing):
    """Asks nobody about what is approved, so that the claim is not asked."""

    def __call__(self, run: RunRequest) -> Flow[RunEvent, Conversation]:
        if run.conversation.turn is None:
            return super().__call__(run)
        return super().__call__(dataclasses.replace(run, authorize=allow_all))


async def test_a_program_that_decides_by_itself_runs_nothing_twice_either(target: str, journal: Journal | None) -> None:
    mails = Mails(waits=True)
    first = served(Trusting(mails), journal)
    async with nothing_left(), first.lifespan():
        yes = await answer_to(first, target)
        async with posting(first, target, yes, ANN) as asked:
            await mails.began.wait()
            asked.leave()
        mails.go_on.set()
        assert (await post(first, target, yes, ANN)).status == 409
    assert mails.sent == ["Ann"]


@pytest.mark.parametrize("with_journal", [False, True])
async def test_wherever_the_client_leaves_the_mail_is_sent_once_at_most(target: str, with_journal: bool) -> None:
    outcomes = set()
    async with nothing_left():
        for ticks in range(40):
            mails = Mails()
            first = served(Mailing(mails), memory_journal() if with_journal else None)
            async with first.lifespan():
                yes = await answer_to(first, target)
                async with posting(first, target, yes, ANN) as asked:
                    for _ in range(ticks):
                        await anyio.lowlevel.checkpoint()
                    asked.leave()
                before = len(mails.sent)
                statuses = [(await post(first, target, yes, ANN)).status for _ in range(3)]
            assert len(mails.sent) == before + statuses.count(200) <= 1, f"after {ticks} ticks"
            outcomes.add((before, 200 in statuses))
    assert with_journal or {(0, True), (1, False)} <= outcomes, "it was cut off before the call, and behind it"
