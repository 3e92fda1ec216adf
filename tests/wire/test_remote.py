"""Runs in another program: what a client of ours hears, says, and does when its connection breaks."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from streamkit import (
    ApprovalRequested,
    Conversation,
    Flow,
    Intermediate,
    ModelError,
    RunEvent,
    TextDelta,
    ToolStarted,
    TurnStarted,
    user,
)
from streamkit.errors import (
    ConnectionFailed,
    DecodeError,
    DefinitionError,
    NotRunning,
    RemoteError,
    RunStopped,
    VerdictRefused,
)
from streamkit.flows.groups import LoneErrorGroup
from streamkit.journal.memory import memory_journal
from streamkit.testing import call, check_grammar
from streamkit.web import app
from streamkit.wire.remote import RemoteRun, open_remote, watch_remote
from streamkit.wire.steering import Steering

from ..interop.serving import serve
from ..providers import loopback
from ..web.serving import Agent, Deletes, Hold
from .app_transport import AppTransport
from .native_grammar import encoded

URL = "http://agent.example"


@asynccontextmanager
async def serving(
    start: Any, *, resumable: bool = False, loses_after: int | None = None, **options: Any
) -> AsyncIterator[AppTransport]:
    """The way to an app with this agent."""
    if resumable:
        options = {"journal": memory_journal(), "resumable": True, **options}
    made = app(start, **options)
    async with made.lifespan(), LoneErrorGroup() as tasks:
        transport = AppTransport(made, tasks, loses_after=loses_after)
        yield transport
        transport.lose()


async def heard(flow: Flow[RunEvent, RemoteRun]) -> tuple[list[RunEvent], RemoteRun]:
    async with flow.open() as events:
        seen = [event async for event in events]
    check_grammar(seen)
    return seen, events.value


def text_of(events: list[RunEvent]) -> str:
    return "".join(event.text for event in events if isinstance(event, TextDelta))


async def test_a_run_there_is_a_flow_here() -> None:
    hold = Hold()
    hold.go_on.set()
    agent = Agent(["One.", call("hold", {"name": "a"})], ["Two."], tools=(hold.tool,))
    async with serving(agent) as transport:
        events, run = await heard(open_remote(URL, "Hi", data={"k": 1}, transport=transport))
    assert text_of(events) == "One.Two."
    assert [event.data for event in events if isinstance(event, Intermediate)] == ["begun a", "done a"]
    assert (run.ended, run.turns, run.text, run.pending) == ("answer", 2, "Two.", ())
    assert agent.asked[0].data == {"k": 1}
    assert agent.asked[0].run_id == run.run_id


async def test_a_run_may_be_awaited_and_a_conversation_goes_on_after_it() -> None:
    agent = Agent(["Ho."])
    async with serving(agent) as transport:
        run = await open_remote(URL, "Hi", history=[user("Before \ud83d")], transport=transport)
        again = await open_remote(URL, user("And?"), after=run.run_id, transport=transport)
    said = [item.text for item in agent.asked[1].conversation.history if hasattr(item, "text")]
    assert said == ["Before \ufffd", "Hi", "Ho.", "And?"]
    assert again.run_id != run.run_id


# Steering


async def test_verdicts_reach_the_run() -> None:
    deletes = Deletes()
    agent = Agent([call("delete", {"path": "a"}), call("delete", {"path": "b"})], ["Done."], tools=(deletes.tool,))
    steering = Steering()
    with pytest.raises(NotRunning, match="has not begun"):
        await steering.allow("t.0")
    async with (
        serving(agent) as transport,
        open_remote(URL, "Hi", steering=steering, transport=transport).open() as events,
    ):
        async for event in events:
            match event:
                case ApprovalRequested(execution_id=execution_id, arguments={"path": "a"}):
                    await steering.allow(execution_id, {"path": "c"})
                case ApprovalRequested(execution_id=execution_id):
                    await steering.deny(execution_id, "not this one")
                    with pytest.raises(VerdictRefused, match=r"answered already|nobody asks"):
                        await steering.allow(execution_id)
                    with pytest.raises(VerdictRefused):
                        await steering.deny("t.77")
        assert events.value.ended == "answer"
        with pytest.raises(NotRunning):
            await steering.cancel()
    assert deletes.deleted == ["c"]


async def test_a_call_and_a_run_are_cancelled_from_elsewhere() -> None:
    hold = Hold()
    agent = Agent([call("hold")], [call("hold")], tools=(hold.tool,))
    steering = Steering()
    started: list[str] = []
    async with serving(agent) as transport:
        with pytest.raises(RunStopped, match="enough"):
            async with open_remote(URL, "Hi", steering=steering, transport=transport).open() as events:
                async for event in events:
                    if isinstance(event, ToolStarted):
                        started.append(event.execution_id)
                    elif isinstance(event, Intermediate):
                        assert steering.run_id is not None
                        other = Steering.of(URL, steering.run_id, transport=transport)
                        await other.cancel(started[-1] if len(started) == 1 else None, "enough")
    assert len(started) == 2


async def test_leaving_ends_the_run_there() -> None:
    hold = Hold()
    async with serving(Agent([call("hold")], tools=(hold.tool,))) as transport:
        async with open_remote(URL, "Hi", transport=transport).open() as events:
            async for event in events:
                if isinstance(event, Intermediate):
                    break
        await hold.ended.wait()


# Connections that break


@pytest.mark.parametrize("loses_after", [300, 400, 600])
async def test_a_lost_connection_is_made_anew_without_gap_or_repeat(loses_after: int) -> None:
    hold = Hold()
    hold.go_on.set()
    agent = Agent(["One. ", "Two. ", call("hold")], ["Done."], tools=(hold.tool,))
    async with serving(agent, resumable=True, loses_after=loses_after) as transport:
        events, run = await heard(open_remote(URL, "Hi", transport=transport))
        numbers = [int(known or 0) for method, _, known in transport.asked if method == "GET"]
        assert numbers == sorted(numbers)
        assert numbers
        whole = AppTransport(transport._app, transport._tasks)
        assert (events, run) == await heard(watch_remote(URL, run.run_id, transport=whole))
    assert [method for method, _, _ in transport.asked].count("POST") == 1
    assert len(agent.asked) == 1


async def test_a_run_is_picked_up_behind_a_frame() -> None:
    async with serving(Agent(["One."]), resumable=True) as transport:
        whole, run = await heard(open_remote(URL, "Hi", transport=transport))
        async with watch_remote(URL, run.run_id, number=3, transport=transport).open() as events:
            rest = [event async for event in events]
        assert (rest[:1], [type(event) for event in rest]) == (whole[1:2], [type(event) for event in whole[1:]])
        with pytest.raises(RemoteError, match="nothing after frame"):
            await watch_remote(URL, run.run_id, number=run.number, transport=transport)
        with pytest.raises(RemoteError, match="404") as refused:
            await watch_remote(URL, "nobody", transport=transport)
        assert refused.value.status == 404


async def test_a_run_that_was_cut_off_with_its_process_goes_on_in_another() -> None:
    hold, journal, steering = Hold(), memory_journal(), Steering()
    seen: list[RunEvent] = []
    agent = Agent(["One.", call("hold")], tools=(hold.tool,))
    with pytest.raises(ConnectionFailed):
        async with serving(agent, resumable=True, journal=journal) as transport:
            flow = open_remote(URL, "Hi", steering=steering, transport=transport, reconnects=0)
            async with flow.open() as events:
                async for event in events:
                    seen.append(event)
                    if isinstance(event, Intermediate):
                        transport.lose()
    assert steering.run_id is not None
    async with serving(Agent(["Well."], tools=(hold.tool,)), resumable=True, journal=journal) as transport:
        with pytest.raises(ConnectionFailed, match="ended before the run"):
            await watch_remote(URL, steering.run_id, transport=transport, reconnects=0)
        with pytest.raises(RemoteError, match="nothing after"):
            await watch_remote(URL, steering.run_id, transport=transport)
        goes_on = watch_remote(URL, steering.run_id, number=steering.number, resume=True, transport=transport)
        async with goes_on.open() as events:
            seen += [event async for event in events]
    check_grammar(seen)
    assert (text_of(seen), events.value.text) == ("One.Well.", "Well.")


async def test_where_runs_are_not_kept_a_lost_connection_is_the_end() -> None:
    hold = Hold()
    async with serving(Agent([call("hold")], tools=(hold.tool,))) as transport:
        with pytest.raises(ConnectionFailed, match="connection is gone"):
            async with open_remote(URL, "Hi", transport=transport).open() as events:
                async for event in events:
                    if isinstance(event, Intermediate):
                        transport.lose()
        await hold.ended.wait()
    assert [method for method, _, _ in transport.asked] == ["POST", "GET"]


async def test_a_connection_that_brings_nothing_new_is_given_up() -> None:
    async with serving(Agent(["One."]), resumable=True, loses_after=20) as transport:
        with pytest.raises(ConnectionFailed, match="connection is gone"):
            await open_remote(URL, "Hi", transport=transport, reconnects=2)
    assert [method for method, _, _ in transport.asked] == ["POST", "GET", "GET"]


async def test_a_run_that_was_not_begun_is_not_begun_twice() -> None:
    async with loopback.serve(drop) as server:
        with pytest.raises(ConnectionFailed, match=r"127\.0\.0\.1 could not be reached"):
            await open_remote(server.url, "Hi")
    assert len(server.asked) == 1


async def test_a_server_that_is_being_restarted_is_asked_again() -> None:
    said: list[RunEvent] = [TurnStarted("t", "m"), TextDelta("a"), TextDelta("b")]
    body = encoded(said, Conversation(ended="answer"))
    blocks = body.split(b"\n\n")
    begun = b"\n\n".join([*blocks[:3], b""])
    rest = b"\n\n".join(blocks[3:])
    busy = loopback.answer(b'{"error": "restarting"}', status="503 Service Unavailable", kind="application/json")
    async with loopback.serve(first(begun), busy, loopback.answer(rest)) as server:
        events, run = await heard(open_remote(server.url, "Hi", reconnects=2))
    assert events == said
    assert run.number == len(blocks) - 1
    assert [asked.headers.get("last-event-id") for asked in server.asked] == [None, "3", "3"]
    assert server.asked[1].target == "/v1/runs/r1/stream"


# Answers that are something else


@pytest.mark.parametrize(
    ("answer", "told"),
    [
        (loopback.answer(b'{"error": "the user is not known"}', status="401 Unauthorized", kind="application/json"),
         "the server answered 401: the user is not known"),
        (loopback.answer(b"<html><title>Hello</title></html>", kind="text/html"), "not a stream of events, but text"),
        (loopback.answer(b"", status="302 Found", kind="text/plain"), "the server answered 302: Found"),
        (loopback.answer(encoded([], ModelError("no capacity"))), "^no capacity$"),
    ],
)  # fmt: skip
async def test_a_refusal_and_a_failure_are_errors_of_ours(answer: bytes, told: str) -> None:
    async with loopback.serve(answer) as server:
        with pytest.raises(RemoteError, match=told) as raised:
            await open_remote(server.url, "Hi", headers={"authorization": "Bearer s3cret-s3cret"})
    assert server.asked[0].headers["authorization"] == "Bearer s3cret-s3cret"
    assert raised.value.code == ("model_error" if "capacity" in told else "")


async def test_an_error_shows_no_secret() -> None:
    told = json.dumps({"error": "the key s3cret-s3cret is not known"}).encode()
    async with loopback.serve(loopback.answer(told, status="403 Forbidden", kind="application/json")) as server:
        with pytest.raises(RemoteError, match="the key \\[hidden\\] is not known"):
            await open_remote(server.url, "Hi", headers={"authorization": "Bearer s3cret-s3cret"})


async def test_what_is_no_stream_of_ours_is_an_error() -> None:
    async with loopback.serve(loopback.answer(b"data: [DONE]\n\n")) as server:
        with pytest.raises(DecodeError, match="is not a frame"):
            await open_remote(server.url, "Hi")


@pytest.mark.parametrize(
    ("url", "options"),
    [
        ("agent.example", {}),
        ("file:///etc", {}),
        ("http://a:x", {}),
        (URL, {"header": {}}),
        (URL, {"headers": {"authorization": "a\nb"}}),
    ],
)
def test_mistakes_are_told_at_once(url: str, options: Any) -> None:
    with pytest.raises(DefinitionError):
        _ = open_remote(url, "Hi", **options)


async def test_a_real_server_streams_to_both_backends() -> None:
    deletes = Deletes()
    agent = Agent(["One.", call("delete", {"path": "a"})], ["Done."], tools=(deletes.tool,))
    steering = Steering()
    with serve(app(agent)) as url:
        async with open_remote(url, "Hi", steering=steering).open() as events:
            async for event in events:
                if isinstance(event, ApprovalRequested):
                    await steering.allow(event.execution_id)
    assert events.value.text == "Done."
    assert deletes.deleted == ["a"]


# Servers


async def drop(stream: Any) -> None:
    """Close the connection without a word."""


def first(body: bytes) -> Any:
    """An answer that names its run, and breaks off."""

    async def say(stream: Any) -> None:
        await stream.send(loopback.head("x-run-id: r1", loopback.CHUNKED) + loopback.chunk(body))

    return say
