"""A run as a response: whole, slow, silent, left, broken, shut down. Nothing is left behind in any case."""

import math
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from types import MappingProxyType
from typing import Any

import anyio
import anyio.lowlevel
import pytest
from starlette.types import Message

from streamkit.conversing import converse
from streamkit.errors import RunStopped
from streamkit.flows.channel import QUOTA_LIMIT
from streamkit.flows.flow import Sink, flow
from streamkit.flows.groups import LoneErrorGroup
from streamkit.items import user
from streamkit.testing.leftovers import nothing_left
from streamkit.testing.scripted import ScriptedModel, call
from streamkit.tool_events import RunEvent
from streamkit.tools.toolkit import Toolkit
from streamkit.turns import TextDelta
from streamkit.web.body import MESSAGE_BYTES
from streamkit.web.response import FlowResponse

from ..attacks import Boom, Own, Wild, in_ticks
from .asgi import Exchange, ask, asking, scope_of


class Lines:
    """The plainest encoder: a line for each event."""

    media_type = "text/plain"
    headers: Mapping[str, str] = MappingProxyType({"x-lines": "1"})

    def open(self) -> bytes:
        return b"open\n"

    def event(self, event: RunEvent) -> bytes:
        assert isinstance(event, TextDelta)
        return event.text.encode() + b"\n" if event.text else b""

    def end(self, state: object) -> bytes:
        return f"end {state}\n".encode()

    def error(self, error: BaseException) -> bytes:
        return f"error {type(error).__name__}\n".encode()


class Work:
    """Sends texts, then waits to be let go on; tells when it began and when it was cleaned up."""

    def __init__(self, *texts: str, error: BaseException | None = None) -> None:
        self.began = anyio.Event()
        self.ended = anyio.Event()
        self.go_on = anyio.Event()
        self.sent = 0
        self.own = Own()
        self._texts = texts
        self._error = error
        self.flow = flow(self._run)()

    async def _run(self, out: Sink[RunEvent]) -> str:
        self.began.set()
        try:
            with self.own.here():
                for text in self._texts:
                    await out.send(TextDelta(text))
                    self.sent += 1
                await self.go_on.wait()
                if self._error is not None:
                    raise self._error
                return "well"
        finally:
            with anyio.CancelScope(shield=True):
                await anyio.lowlevel.checkpoint()
            self.ended.set()


def respond(work: Work, **options: Any) -> FlowResponse:
    return FlowResponse(work.flow, Lines(), **options)


@asynccontextmanager
async def in_response(work: Work, exchange: Exchange | None = None, **options: Any) -> AsyncIterator[Exchange]:
    """A response while it goes on. It must leave nothing behind, and its flow must be closed in its own task."""
    async with nothing_left(), asking(respond(work, **options), exchange=exchange) as asked:
        await work.began.wait()
        yield asked
    assert work.own.opened == 1
    assert work.own.all_closed()


# A good end


async def test_a_run_is_answered_from_its_opening_to_its_value() -> None:
    work = Work("a", "b", "", "c")
    work.go_on.set()
    asked = await ask(respond(work, headers={"x-mine": "2"}, status_code=201))
    assert asked.text == "open\na\nb\nc\nend well\n"
    assert asked.is_whole
    assert asked.status == 201
    assert asked.headers == {"content-type": "text/plain", "x-lines": "1", "x-mine": "2"}


async def test_what_is_ready_goes_out_in_one_message() -> None:
    work = Work(*map(str, range(QUOTA_LIMIT)))
    work.go_on.set()
    asked = await ask(respond(work))
    assert asked.text == "open\n" + "".join(f"{number}\n" for number in range(QUOTA_LIMIT)) + "end well\n"
    assert len(asked.pieces) < QUOTA_LIMIT / 2


async def test_a_message_has_an_end_however_much_is_ready() -> None:
    long = "x" * MESSAGE_BYTES
    work = Work(long, long, "y", "z")
    work.go_on.set()
    asked = await ask(respond(work))
    assert max(map(len, asked.pieces)) <= MESSAGE_BYTES
    assert asked.text == f"open\n{long}\n{long}\ny\nz\nend well\n"


async def test_an_event_goes_out_at_once() -> None:
    work = Work("a")
    async with in_response(work) as asked:
        await asked.until("a\n")
        work.go_on.set()


async def test_each_response_is_a_run_of_its_own() -> None:
    work = Work("a")
    work.go_on.set()
    for _ in range(2):
        assert (await ask(respond(work))).text == "open\na\nend well\n"


async def test_a_head_request_gets_the_headers_and_runs_nothing() -> None:
    work = Work("a")
    asked = await ask(respond(work), "HEAD")
    assert (asked.status, asked.body, asked.is_whole) == (200, b"", True)
    assert asked.headers["content-type"] == "text/plain"
    assert not work.began.is_set()


async def test_a_body_that_nobody_read_disturbs_nothing() -> None:
    work = Work("a")
    work.go_on.set()
    asked = await ask(respond(work), "POST", exchange=Exchange([b"1", b"2", b"3"]))
    assert asked.text == "open\na\nend well\n"


@pytest.mark.parametrize(("protocol", "last"), [("native", "finish"), ("ai-sdk", "[DONE]"), ("ag-ui", "RUN_FINISHED")])
async def test_a_protocol_is_named(protocol: Any, last: str) -> None:
    model = ScriptedModel([call("read", {"path": "secret"})], ["Ho"])
    run = converse(model, Toolkit(), (user("Hi"),))
    asked = await ask(FlowResponse(run, protocol, redact=lambda tool, value: "***"))
    assert asked.headers["content-type"] == "text/event-stream"
    assert "Ho" in asked.text
    assert last in asked.text.split("\n\n")[-2]
    assert "secret" not in asked.text


# A client that leaves


async def test_a_client_that_leaves_while_nothing_comes_cancels_the_run() -> None:
    work = Work("a")
    async with in_response(work) as asked:
        await asked.until("a\n")
        asked.leave()
    assert work.ended.is_set()
    assert not asked.is_whole


async def test_a_client_that_leaves_while_it_does_not_read_cancels_the_run() -> None:
    work = Work("a")
    async with in_response(work) as asked:
        asked.pause()
        await anyio.wait_all_tasks_blocked()
        asked.leave()
    assert work.ended.is_set()


async def test_a_connection_that_breaks_at_a_message_cancels_the_run() -> None:
    """Servers of ASGI 2.4 raise an OSError in `send`, maybe before `receive` has told."""
    asked = Exchange(says_oserror=True)
    work = Work("a", "b")
    async with in_response(work, asked):
        asked.leave()
    assert work.ended.is_set()


@pytest.mark.parametrize("backend", ["asyncio", "trio"])
def test_a_client_may_leave_at_any_moment(backend: str) -> None:
    async def main() -> None:
        whole = False
        for ticks in range(60):
            work = Work(*"abc")
            work.go_on.set()
            asked = Exchange()
            async with nothing_left(), LoneErrorGroup() as tasks:
                tasks.start_soon(respond(work), scope_of("GET", "/", {}), asked.receive, asked.send)
                await anyio.sleep(ticks)
                asked.leave()
            assert work.own.all_closed()
            assert "open\na\nb\nc\nend well\n".startswith(asked.text)
            whole = asked.is_whole
        assert whole, "the last one came too late"

    in_ticks(backend, main)


async def test_a_run_that_fails_while_it_is_cleaned_up_fails_nobody(caplog: pytest.LogCaptureFixture) -> None:
    @flow
    async def work(out: Sink[RunEvent]) -> None:
        try:
            await out.send(TextDelta("a"))
            await anyio.sleep_forever()
        finally:
            raise Boom

    async with nothing_left(), asking(FlowResponse(work(), Lines())) as asked:
        await asked.until("a\n")
        asked.leave()
    assert [record.levelname for record in caplog.records] == ["ERROR"]


# A client that reads slowly


async def test_a_client_that_does_not_read_slows_the_run_down() -> None:
    work = Work(*map(str, range(1000)))
    async with in_response(work) as asked:
        asked.pause()
        await anyio.wait_all_tasks_blocked()
        ahead = work.sent
        assert ahead <= 3 * QUOTA_LIMIT
        asked.go_on()
        await asked.until("999\n")
        work.go_on.set()
    assert asked.text.splitlines()[1:-1] == [str(number) for number in range(1000)]


async def test_a_thousand_slow_clients_hold_a_thousand_times_as_little() -> None:
    texts = tuple(map(str, range(1000)))
    works = [Work(*texts) for _ in range(1000)]
    clients = [Exchange() for _ in works]
    async with LoneErrorGroup() as tasks:
        for work, client in zip(works, clients, strict=True):
            client.pause()
            tasks.start_soon(respond(work), scope_of("GET", "/", {}), client.receive, client.send)
        for _ in range(3):
            await anyio.wait_all_tasks_blocked()
            for client in clients:
                client.go_on()  # for one message
                client.pause()
        await anyio.wait_all_tasks_blocked()
        assert all(work.began.is_set() for work in works)
        assert max(work.sent for work in works) <= 4 * QUOTA_LIMIT
        for client in clients:
            client.leave()
    assert all(work.ended.is_set() for work in works)


@pytest.mark.parametrize("backend", ["asyncio", "trio"])
def test_a_client_that_takes_nothing_for_too_long_has_gone(backend: str) -> None:
    async def main() -> None:
        work = Work(*map(str, range(1000)))
        async with in_response(work, stall_seconds=5000, keepalive_seconds=math.inf) as asked:
            asked.pause()
        assert work.ended.is_set()
        assert not asked.is_whole

    in_ticks(backend, main)


@pytest.mark.parametrize("backend", ["asyncio", "trio"])
def test_a_client_that_takes_one_long_piece_slowly_has_not_gone(backend: str) -> None:
    class Slow(Exchange):
        async def send(self, message: Message) -> None:
            await anyio.sleep(1000)
            await super().send(message)

    async def main() -> None:
        work = Work("x" * 20 * MESSAGE_BYTES)
        work.go_on.set()
        async with in_response(work, Slow(), stall_seconds=5000, keepalive_seconds=1500) as asked:
            pass
        assert asked.is_whole
        assert asked.text == f"open\n{'x' * 20 * MESSAGE_BYTES}\nend well\n"

    in_ticks(backend, main)


@pytest.mark.parametrize("backend", ["asyncio", "trio"])
def test_a_client_that_does_not_take_a_comment_has_gone_too(backend: str) -> None:
    async def main() -> None:
        work = Work("a")
        async with in_response(work, stall_seconds=5000, keepalive_seconds=1000) as asked:
            await asked.until("a\n")
            asked.pause()
        assert work.ended.is_set()

    in_ticks(backend, main)


# A run that is silent


@pytest.mark.parametrize("backend", ["asyncio", "trio"])
def test_comments_come_while_nothing_comes_and_only_then(backend: str) -> None:
    async def main() -> None:
        work = Work("a")
        async with in_response(work, keepalive_seconds=1000) as asked:
            await asked.until("a\n: \n\n: \n\n")
            work.go_on.set()
        assert asked.text.replace(": \n\n", "") == "open\na\nend well\n"

        busy = Work(*map(str, range(100)))
        busy.go_on.set()
        async with in_response(busy, keepalive_seconds=1000) as asked:
            """Nothing else to do."""
        assert ":" not in asked.text

    in_ticks(backend, main)


@pytest.mark.parametrize("backend", ["asyncio", "trio"])
def test_a_comment_comes_between_two_messages(backend: str) -> None:
    """Whoever sends while a comment is on its way waits: a server takes one message at a time."""

    async def main() -> None:
        work = Work("a")
        async with in_response(work, keepalive_seconds=1000, stall_seconds=math.inf) as asked:
            await asked.until("a\n")
            asked.pause()
            await anyio.sleep(3000)
            work.go_on.set()
            await anyio.sleep(100)
            asked.go_on()
        assert asked.text == "open\na\n: \n\nend well\n"

    in_ticks(backend, main)


# A run that fails


async def test_an_error_after_the_head_is_told_in_the_body_and_logged_once(caplog: pytest.LogCaptureFixture) -> None:
    work = Work("a", error=Boom("secret"))
    work.go_on.set()
    asked = await ask(respond(work))
    assert asked.text == "open\na\nerror Boom\n"
    assert asked.is_whole
    (record,) = caplog.records
    assert record.name == "streamkit"
    assert record.exc_info is not None
    assert isinstance(record.exc_info[1], Boom)


async def test_a_run_that_somebody_stopped_is_no_error_of_ours(caplog: pytest.LogCaptureFixture) -> None:
    work = Work(error=RunStopped("seen enough"))
    work.go_on.set()
    asked = await ask(respond(work))
    assert asked.text == "open\nerror RunStopped\n"
    assert not caplog.records


async def test_an_event_that_cannot_be_encoded_ends_the_run_as_an_error(caplog: pytest.LogCaptureFixture) -> None:
    @flow
    async def work(out: Sink[Any]) -> None:
        await out.send("no event")
        await anyio.sleep_forever()

    async with nothing_left():
        asked = await ask(FlowResponse(work(), Lines()))
    assert asked.text == "open\nerror AssertionError\n"
    assert asked.is_whole
    assert len(caplog.records) == 1


@pytest.mark.parametrize("wild", [Wild(), BaseExceptionGroup("several", [Boom(), Wild()])], ids=["one", "several"])
async def test_a_run_that_fails_wildly_has_an_end_too(wild: BaseException, caplog: pytest.LogCaptureFixture) -> None:
    work = Work("a", error=wild)
    work.go_on.set()
    asked = await ask(respond(work))
    assert asked.text == "open\na\nerror RuntimeError\n"
    assert asked.is_whole
    assert type(wild).__name__ in caplog.text
    assert len(caplog.records) == 1


async def test_an_interrupt_of_the_run_is_not_swallowed() -> None:
    work = Work(error=BaseExceptionGroup("two", [Boom(), KeyboardInterrupt()]))  # a lone one would end the test runner
    work.go_on.set()
    exchange = Exchange()
    with pytest.raises(BaseExceptionGroup) as raised:
        await respond(work)(scope_of("GET", "/", {}), exchange.receive, exchange.send)
    assert raised.value.subgroup(KeyboardInterrupt)


# A server that shuts down


async def test_a_server_that_cancels_a_response_lets_its_stream_end() -> None:
    work = Work("a")
    asked = Exchange()
    async with nothing_left(), LoneErrorGroup() as tasks:
        tasks.start_soon(respond(work), scope_of("GET", "/", {}), asked.receive, asked.send)
        await asked.until("a\n")
        tasks.cancel_scope.cancel()
    assert work.ended.is_set()
    assert asked.text == "open\na\nerror RunStopped\n"
    assert asked.is_whole


async def test_a_client_that_does_not_read_holds_no_server_up() -> None:
    work = Work("a")
    asked = Exchange()
    async with nothing_left(), LoneErrorGroup() as tasks:
        tasks.start_soon(respond(work), scope_of("GET", "/", {}), asked.receive, asked.send)
        await asked.until("a\n")
        asked.pause()
        tasks.cancel_scope.cancel()
    assert work.ended.is_set()


async def test_a_stream_that_is_cut_off_in_a_message_says_nothing_behind_the_gap() -> None:
    work = Work("a", "b" * 2 * MESSAGE_BYTES)
    asked = Exchange()
    async with nothing_left(), LoneErrorGroup() as tasks:
        asked.pause()
        tasks.start_soon(respond(work), scope_of("GET", "/", {}), asked.receive, asked.send)
        await anyio.wait_all_tasks_blocked()
        tasks.cancel_scope.cancel()
        asked.go_on()
    assert not asked.pieces
    assert not asked.is_whole


# Mistakes


@pytest.mark.parametrize("option", ["keepalive_seconds", "stall_seconds"])
async def test_a_time_that_gives_no_sense_says_so(option: str) -> None:
    with pytest.raises(ValueError, match=option):
        respond(Work(), **{option: 0})


async def test_a_protocol_that_is_not_known_says_so() -> None:
    with pytest.raises(ValueError, match="not 'xml'"):
        FlowResponse(Work().flow, "xml")  # type: ignore[arg-type]


async def test_what_is_to_be_hidden_is_said_to_the_encoder_that_is_given() -> None:
    with pytest.raises(TypeError, match="redact"):
        respond(Work(), redact=lambda tool, value: value)
