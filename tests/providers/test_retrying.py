"""When a turn is asked for again, and how long it waits for its provider."""

from __future__ import annotations

import contextlib
import logging
from typing import Any

import anyio
import anyio.lowlevel
import httpx2
import pytest
from anyio.abc import SocketStream

from streamkit import Toolkit, converse, tool
from streamkit.errors import (
    BadModelOutput,
    BadPayload,
    ConnectionFailed,
    IdleTimeout,
    IncompleteStream,
    ModelError,
    NotAStream,
    ProviderError,
    TurnTimeout,
)
from streamkit.items import Usage, user
from streamkit.metering import Meter
from streamkit.providers.retrying import (
    LONGEST_RETRY_AFTER_SECONDS,
    LONGEST_WAIT_SECONDS,
    PASSING_STATUSES,
    Patience,
    seconds_to_wait,
)
from streamkit.testing.grammar import check_grammar
from streamkit.tool_events import RunEvent, ToolStarted
from streamkit.transcript import Transcript
from streamkit.turns import (
    TextDelta,
    ToolInputAbandoned,
    ToolInputStart,
    Turn,
    TurnEnded,
    TurnEvent,
    TurnRestarted,
    TurnStarted,
)

from ..attacks import in_ticks, unhurried
from .asking import HALF_A_CALL, HI, REQUEST, STOP, event, eventually, model_at, run, say, say_and_hold
from .loopback import CHUNKED, Say, answer, chunk, head, serve

BUSY = answer(b"busy", "retry-after: 0", status="529 Overloaded", kind="text/plain")
OVERLOADED = answer(b'data: {"error":{"message":"Overloaded","type":"overloaded_error"}}\n\n', "retry-after-ms: 0")
BROKEN = say(head(CHUNKED, "retry-after: 0"), chunk(HI + HALF_A_CALL))
FINE = answer(HI + STOP)


# Which errors, and when


def wait(error: ModelError, failures: int = 1, *, has_shown: bool = False, restart: bool = False) -> float | None:
    return seconds_to_wait(error, failures, has_shown=has_shown, restart=restart)


@pytest.mark.parametrize(
    ("error", "asks"),
    [
        *((ProviderError("no", status=status), True) for status in sorted(PASSING_STATUSES)),
        *((ProviderError("no", status=status), False) for status in (400, 401, 403, 404, 413, 422, 501, 505)),
        (ConnectionFailed("reset by peer"), True),
        (IncompleteStream("the body ended"), True),
        (ProviderError("Overloaded (overloaded_error)", status=200), True),
        (ProviderError("Rate limit reached (rate_limit_exceeded)", status=200), True),
        (ProviderError("The server had an error (server_error)"), True),
        (ProviderError("unknown model", status=200), False),
        (ProviderError("You exceeded your current quota (insufficient_quota)", status=429), False),
        (NotAStream("the answer is a web page"), False),
        (BadPayload("not JSON"), False),
        (BadModelOutput("no call"), False),
        (IdleTimeout("nothing"), False),
        (TurnTimeout("too long"), False),
    ],
)
def test_only_what_may_pass_is_asked_for_again(error: ModelError, asks: bool) -> None:
    assert (wait(error) is not None) is asks
    assert wait(error, has_shown=True) is None
    begins_anew = asks or isinstance(error, IdleTimeout | BadModelOutput)
    assert (wait(error, has_shown=True, restart=True) is not None) is begins_anew


def test_waits_grow_up_to_a_limit_and_differ() -> None:
    waits = [[wait(ConnectionFailed("no"), failures) or 0 for _ in range(100)] for failures in (1, 2, 3, 50)]
    for longest, seconds in zip((0.5, 1, 2, LONGEST_WAIT_SECONDS), waits, strict=True):
        assert len(set(seconds)) > 1
        assert all(longest / 2 <= each <= longest for each in seconds)


@pytest.mark.parametrize(("told", "seconds"), [(0, 0), (3, 3), (86400, LONGEST_RETRY_AFTER_SECONDS)])
def test_what_the_provider_says_of_the_wait_counts_up_to_a_limit(told: float, seconds: float) -> None:
    assert wait(ProviderError("no", status=429, retry_after=told)) == seconds


# Asking again


@pytest.mark.parametrize("failing", [BUSY, OVERLOADED, answer(b"", "retry-after: 0")], ids=["status", "event", "empty"])
async def test_a_failure_that_may_pass_is_not_seen(failing: bytes) -> None:
    events: list[TurnEvent] = []
    async with serve(failing, failing, FINE) as server:
        turn = await model_at(server, retries=2).stream_turn(REQUEST).tap(events.append)
    assert [type(event) for event in events] == [TurnStarted, TextDelta, TurnEnded]
    assert [asked.body for asked in server.asked] == [server.asked[0].body] * 3
    assert turn.text == "Hi"


async def test_a_refused_connection_is_tried_again() -> None:
    tried = 0

    class Flaky(httpx2.AsyncBaseTransport):
        async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
            nonlocal tried
            tried += 1
            if tried == 1:
                raise httpx2.ConnectError("refused")
            headers = {"content-type": "text/event-stream"}
            return (
                httpx2.Response(503, headers={"retry-after": "0"})
                if tried == 2
                else httpx2.Response(200, headers=headers, content=HI + STOP)
            )

    async with serve() as server:
        turn = await model_at(server, retries=2, transport=Flaky()).stream_turn(REQUEST)
    assert (turn.text, tried) == ("Hi", 3)


async def test_the_last_failure_is_raised() -> None:
    last = answer(b"still busy", "retry-after: 0", status="503 Unavailable", kind="text/plain")
    async with serve(BUSY, last, FINE) as server:
        with pytest.raises(ProviderError, match="503 Unavailable: still busy") as raised:
            await model_at(server, retries=1).stream_turn(REQUEST)
    assert len(server.asked) == 2
    assert (raised.value.retry_after, raised.value.turn) == (0, None)


@pytest.mark.parametrize("restart", [True, False])
async def test_what_will_not_pass_is_raised_at_once(*, restart: bool) -> None:
    async with serve(answer(b"who?", status="401 No"), FINE) as server:
        with pytest.raises(ProviderError, match="401"):
            await model_at(server, retries=2, restart=restart).stream_turn(REQUEST)
    assert len(server.asked) == 1


async def test_what_was_seen_is_not_taken_back_unasked() -> None:
    async with serve(BROKEN, FINE) as server:
        with pytest.raises(ConnectionFailed) as raised:
            await model_at(server, retries=2).stream_turn(REQUEST)
    assert len(server.asked) == 1
    assert raised.value.turn is not None
    assert raised.value.turn.text == "Hi"


async def test_each_new_try_is_logged_without_secrets(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO, "streamkit"):
        await run(BUSY, BUSY, FINE, retries=2)
    told = [record.getMessage() for record in caplog.records if record.name == "streamkit"]
    reason = "the provider answered 529 Overloaded: busy"
    assert told == [f"asking 127.0.0.1 again in 0.0 s ({n} of 2 times): {reason}" for n in (1, 2)]


async def test_a_wait_can_be_cancelled() -> None:
    late = answer(b"", "retry-after: 50", status="429 No")
    async with serve(late, FINE) as server, anyio.create_task_group() as tasks:

        async def work() -> None:
            await model_at(server, retries=1).stream_turn(REQUEST)

        tasks.start_soon(work)
        await eventually(asked=1, server=server)
        for _ in range(20):
            await anyio.wait_all_tasks_blocked()
        tasks.cancel_scope.cancel()
    assert len(server.asked) == 1


@unhurried
async def test_a_wait_that_the_turn_has_no_time_for_is_not_begun() -> None:
    late = answer(b"", "retry-after: 50", status="429 No")
    async with serve(late, FINE) as server:
        with pytest.raises(ProviderError, match="429"):
            await model_at(server, retries=1, total_timeout_seconds=20).stream_turn(REQUEST)
    assert len(server.asked) == 1


# Beginning anew


async def seen(*answers: bytes | Say, **options: Any) -> tuple[list[TurnEvent], Turn | Exception]:
    events: list[TurnEvent] = []
    async with serve(*answers) as server:
        try:
            async with model_at(server, **options).stream_turn(REQUEST).open() as opened:
                async for event in opened:
                    events.append(event)
            return events, opened.value
        except ModelError as error:
            return events, error


async def test_a_broken_stream_begins_anew_where_that_is_asked_for() -> None:
    with Meter() as meter:
        usage = b'data: {"choices":[],"usage":{"prompt_tokens":3,"completion_tokens":1}}\n\n'
        broken = say(head(CHUNKED, "retry-after: 0"), chunk(usage + HI + HALF_A_CALL))
        events, turn = await seen(broken, BUSY, answer(HI + usage + STOP), retries=2, restart=True)
    assert isinstance(turn, Turn)
    kinds = [type(event) for event in events]
    assert kinds.count(TurnStarted) == kinds.count(TurnRestarted) == kinds.count(TurnEnded) == 1
    at = kinds.index(TurnRestarted)
    assert isinstance(events[at - 1], ToolInputAbandoned)
    assert events[at].reason.startswith("the connection to 127.0.0.1 broke")  # type: ignore[union-attr]
    assert events[at + 1 :] == [TextDelta("Hi"), TurnEnded(turn)]
    assert (turn.text, turn.dropped, turn.usage) == ("Hi", (), Usage(6, 2))
    assert meter.total == turn.usage
    check_grammar(events)


@unhurried
async def test_a_silence_in_a_stream_begins_it_anew_where_that_is_asked_for() -> None:
    events, turn = await seen(say_and_hold(HI), FINE, retries=1, restart=True, idle_timeout_seconds=30)
    assert isinstance(turn, Turn)
    assert [type(event) for event in events] == [TurnStarted, TextDelta, TurnRestarted, TextDelta, TurnEnded]


async def test_a_stream_is_not_begun_anew_for_ever() -> None:
    events, error = await seen(BROKEN, BROKEN, BROKEN, FINE, retries=2, restart=True)
    assert isinstance(error, ConnectionFailed)
    assert [event.reason for event in events if isinstance(event, ToolInputAbandoned)] == [
        "retried", "retried", "incomplete"
    ]  # fmt: skip
    assert len([event for event in events if isinstance(event, ToolInputStart)]) == 3
    assert error.turn is not None
    assert error.turn.text == "Hi"
    check_grammar(events)


async def test_a_stream_that_cannot_be_begun_anew_leaves_the_turn_that_broke() -> None:
    events, error = await seen(BROKEN, answer(b"who?", status="401 No"), retries=2, restart=True)
    assert isinstance(error, ProviderError)
    assert error.turn is not None
    assert error.turn.text == "Hi"
    assert TurnRestarted not in [type(event) for event in events]
    check_grammar(events)


async def test_a_loop_runs_the_calls_of_the_attempt_that_held_and_no_others() -> None:
    ran: list[int] = []

    @tool
    def double(number: int) -> int:
        """Twice a number."""
        ran.append(number)
        return 2 * number

    def call(place: int, call_id: str, number: int) -> bytes:
        function = f'{{"name":"double","arguments":"{{\\"number\\":{number}}}"}}'
        return event(f'{{"tool_calls":[{{"index":{place},"id":"{call_id}","function":{function}}}]}}')

    events: list[RunEvent] = []
    transcript = Transcript((user("hi"),))
    taken_back = say(head(CHUNKED, "retry-after: 0"), chunk(call(0, "a", 1) + call(1, "b", 3)))
    async with serve(taken_back, answer(call(0, "a", 2) + event("{}", '"tool_calls"')), FINE) as server:
        model = model_at(server, retries=1, restart=True)
        talk = converse(model, Toolkit(double), (user("hi"),)).tap(events.append).tap(transcript.feed)
        state = await talk
    check_grammar(events)
    assert ran == [2]
    assert [event.reason for event in events if isinstance(event, ToolInputAbandoned)] == ["retried", "retried"]
    started = next(event for event in events if isinstance(event, ToolStarted))
    assert started.execution_id == f"{events[0].turn_id}.0"  # type: ignore[union-attr]
    assert transcript.history() == state.history
    assert state.usage == Usage()


# Time limits


@unhurried
async def test_a_silence_that_is_too_long_is_an_error_with_the_turn() -> None:
    events, error = await seen(say_and_hold(HI, HALF_A_CALL), idle_timeout_seconds=20)
    assert (type(error), str(error)) == (IdleTimeout, "127.0.0.1 sent nothing of the turn for 20 seconds")
    assert isinstance(events[-1], ToolInputAbandoned)
    assert isinstance(error, IdleTimeout)
    assert (error.kind, error.status) == ("idle_timeout", 200)
    assert error.turn is not None
    assert error.turn.text == "Hi"


@pytest.mark.parametrize("begin", [b"", head(CHUNKED)], ids=["no answer", "no word"])
@unhurried
async def test_a_silence_before_the_first_word_is_an_error(begin: bytes) -> None:
    async def say_nothing(stream: SocketStream) -> None:
        await stream.send(begin)
        await anyio.sleep_forever()

    events, error = await seen(say_nothing, idle_timeout_seconds=20, retries=2)
    assert isinstance(error, IdleTimeout)
    assert (error.turn is None) is (not events) is (not begin)


def repeat(begin: bytes, piece: bytes) -> Say:
    """Say a piece again and again, until nobody hears it any more."""

    async def send(stream: SocketStream) -> None:
        await stream.send(head(CHUNKED, "x-request-id: req_1") + begin)
        with contextlib.suppress(anyio.BrokenResourceError):
            while True:
                await stream.send(chunk(piece))
                await anyio.sleep(1)

    return send


@unhurried
async def test_pings_are_no_sign_of_life() -> None:
    _, error = await seen(repeat(chunk(HI), b": ping\n\n"), idle_timeout_seconds=20)
    assert (type(error), str(error)) == (IdleTimeout, "127.0.0.1 sent nothing of the turn for 20 seconds")


@unhurried
async def test_a_turn_that_goes_on_for_too_long_is_an_error_with_the_turn() -> None:
    _, error = await seen(repeat(b"", HI), total_timeout_seconds=30, retries=2, restart=True)
    assert isinstance(error, TurnTimeout)
    assert (str(error), error.kind) == ("the turn took longer than 30 seconds", "timeout")
    assert (error.status, error.request_id) == (200, "req_1")
    assert error.turn is not None
    assert error.turn.text.startswith("HiHi")


async def test_a_server_that_cannot_be_reached_in_time_is_an_error() -> None:
    class Far(httpx2.AsyncBaseTransport):
        async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
            raise httpx2.ConnectTimeout("")

    async with serve() as server:
        model = model_at(server, transport=Far(), connect_timeout_seconds=7)
        with pytest.raises(ConnectionFailed, match=r"127\.0\.0\.1 could not be reached in 7 seconds"):
            await model.stream_turn(REQUEST)


# The clock of a turn, in ticks

BACKENDS = pytest.mark.parametrize("backend", ["asyncio", "trio"])


def patient(idle: float, total: float = 1e9) -> Patience:
    return Patience("h", idle, total, hears_silence=False)


@BACKENDS
def test_time_of_the_consumer_is_not_counted(backend: str) -> None:
    async def main() -> None:
        patience = patient(1000, 3000)
        for _ in range(10):
            await patience.wait_for_piece(anyio.sleep(200))
            patience.heard([TextDelta("a")])
            await anyio.sleep(5000)  # the consumer
        assert 900 < patience.left <= 1000

    in_ticks(backend, main)


@BACKENDS
def test_silence_adds_up_over_pieces_that_say_nothing(backend: str) -> None:
    async def main() -> None:
        patience = patient(1000)
        for _ in range(4):
            await patience.wait_for_piece(anyio.sleep(200))
            patience.heard([])
        with pytest.raises(IdleTimeout):
            await patience.wait_for_piece(anyio.sleep(300))

    in_ticks(backend, main)


@BACKENDS
def test_the_whole_turn_counts_what_is_tried_and_waited_for(backend: str) -> None:
    async def main() -> None:
        patience = patient(1000, 1500)
        await patience.wait(anyio.sleep(600))
        await patience.sleep(600)
        with pytest.raises(TurnTimeout, match="longer than 1500 seconds"):
            await patience.wait(anyio.sleep(600))
        with pytest.raises(TurnTimeout):
            await patience.wait(anyio.lowlevel.checkpoint())

    in_ticks(backend, main)


async def test_a_connection_that_hears_silence_needs_no_scope() -> None:
    patience = Patience("h", 10, float("inf"), hears_silence=True)
    coming = anyio.lowlevel.checkpoint()
    await patience.wait(anyio.lowlevel.checkpoint())
    patience.heard([TextDelta("a")])
    assert patience.wait_for_piece(coming) is coming
    await coming
    patience.heard([])
    watched = patience.wait_for_piece(anyio.lowlevel.checkpoint())
    assert watched is not coming
    await watched
