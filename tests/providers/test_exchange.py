"""One answer of a server, in every way in which it can go wrong: a clear error, with all that there is to say of it."""

from __future__ import annotations

import logging
import socket
import struct
import traceback
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import pytest
from anyio.abc import SocketAttribute, SocketStream

from streamkit.errors import (
    BadPayload,
    ConnectionFailed,
    DecodeError,
    DefinitionError,
    IdleTimeout,
    IncompleteStream,
    ModelError,
    NotAStream,
    ProviderError,
)
from streamkit.parts import Finished
from streamkit.providers.exchange import retry_after, without_secrets
from streamkit.providers.model import Decoder, Model
from streamkit.providers.openai_chat import openai_chat
from streamkit.providers.openai_chat_decoder import OpenAIChatDecoder
from streamkit.testing.grammar import check_grammar
from streamkit.turns import TurnEvent

from ..attacks import unhurried
from .asking import (
    DONE,
    HALF_A_CALL,
    HI,
    KEY,
    REQUEST,
    STOP,
    Words,
    failure_of,
    model_at,
    run,
    say,
    say_and_hold,
    words_at,
)
from .loopback import CHUNKED, Say, answer, chunk, head, hold, serve

# Answers that say no, or are no stream


JSON, PAGE = "application/json", "text/html; charset=utf-8"


@pytest.mark.parametrize(
    ("status", "kind", "body", "message"),
    [
        ("429 Too Many", JSON, b'{"error":{"message":"slow down","type":"rate_limit"}}', "slow down (rate_limit)"),
        ("422 No", JSON, b'{"detail":[{"msg":"a"},{"msg":"b"}]}', "a; b"),
        ("404 Not Found", "text/plain", b"no such\n model", "no such model"),
        ("500 Oh", "", b"", "Oh"),
        ("502 Bad", PAGE, b"<html><title>Bad\n gateway</title>", "Bad gateway"),
        ("502 Bad", PAGE, b"<html>", "<html>"),
        ("307 Moved", "", b"", "Moved"),
    ],
)
async def test_a_status_that_says_no_says_why(status: str, kind: str, body: bytes, message: str) -> None:
    error = await failure_of(answer(body, status=status, kind=kind))
    told, _, asked = str(error).partition("; asked was ")
    assert (type(error), told) == (ProviderError, f"the provider answered {status}: {message}")
    assert error.status == int(status[:3])
    is_elsewhere = error.status in (307, 404)
    assert asked.endswith("/chat/completions, see base_url") if is_elsewhere else not asked


@pytest.mark.parametrize(
    ("kind", "body", "error", "message"),
    [
        (PAGE, b"<html><title>Log in</title>", NotAStream, "the answer is a web page: Log in"),
        (JSON, b'{"error":"no capacity"}', ProviderError, "no capacity"),
        (JSON, b'{"choices":[]}', NotAStream, "the answer is one JSON body instead of a stream of events"),
        ("text/event-stream", b'{"error":"no capacity"}', ProviderError, "no capacity"),
        ("text/plain", b"<html>\n", NotAStream, "the answer is not a stream of events, it begins with <html>"),
    ],
)
async def test_an_answer_that_is_no_stream_says_what_it_is(
    kind: str, body: bytes, error: type[ModelError], message: str
) -> None:
    raised = await failure_of(answer(body, kind=kind))
    assert (type(raised), str(raised), raised.status) == (error, message, 200)


@pytest.mark.parametrize("before", [b"", b"\r\n", b"\n" * 99, b": ping\n\n", b"\xef\xbb\xbf", b"event: a\nid: 1\n"])
async def test_a_stream_is_read_though_it_is_said_to_be_json(before: bytes) -> None:
    turn = await run(answer(before + STOP, kind="application/json; charset=utf-8"))
    assert turn.stop_reason == "stop"
    pieces = [chunk(bytes([each])) for each in before + STOP]
    turn = await run(say(head(CHUNKED, kind=JSON), *pieces, chunk(b"")))
    assert turn.stop_reason == "stop"


async def test_an_error_has_the_request_id_and_when_to_ask_again() -> None:
    error = await failure_of(answer(b"", "x-request-id: req_1", "retry-after: 3", status="429 No"))
    assert (error.request_id, error.retry_after, error.status, error.turn) == ("req_1", 3, 429, None)


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        ({"retry-after": "3"}, 3),
        ({"retry-after": "2.5"}, 2.5),
        ({"retry-after": "-1"}, 0),
        ({"retry-after": "30", "retry-after-ms": "1500"}, 1.5),
        ({"retry-after": "Wed, 21 Oct 2015 07:28:00 GMT"}, 0),
        ({"retry-after": "soon"}, None),
        ({"retry-after": "inf"}, None),
        ({}, None),
    ],
)
def test_when_to_ask_again_is_read_in_each_form(headers: dict[str, str], seconds: float | None) -> None:
    assert retry_after(headers) == seconds


# Bodies that end badly, in each dialect


@dataclass(frozen=True)
class Dialect:
    """How a text is said, and then the rest of a turn, or an error."""

    model: Callable[..., Model]
    decoder: Callable[[], Decoder]
    text: bytes
    rest: bytes
    error: bytes
    kind: str

    @property
    def whole(self) -> bytes:
        return self.text + self.rest


ERROR = b'data: {"error":{"message":"%b","code":529}}\n\n'
CHAT = Dialect(model_at, OpenAIChatDecoder, HI, HALF_A_CALL + STOP + DONE, ERROR, "text/event-stream")
WORDS = Dialect(words_at, Words, b"Hi\n", b"f\n.\n", b"!%b\n", "text/plain")
DIALECTS = pytest.mark.parametrize("dialect", [CHAT, WORDS], ids=["openai_chat", "words"])
TOLD = ("x-request-id: req_1", "retry-after: 7")
"""Headers from which an error knows something."""


async def error_after(said: Say, dialect: Dialect) -> tuple[ModelError, list[TurnEvent]]:
    """The error of a turn, and the events before it."""
    events: list[TurnEvent] = []
    async with serve(said) as server:
        turn = dialect.model(server, idle_timeout_seconds=20).stream_turn(REQUEST)
        with pytest.raises(ModelError) as raised:
            async with turn.open() as opened:
                async for each in opened:
                    events.append(each)
    return raised.value, events


def broken_bodies(dialect: Dialect) -> dict[str, tuple[Say, type[ModelError]]]:
    """After half of a turn."""
    half = dialect.whole[: len(dialect.text) + 1]
    length, short = (f"content-length: {len(body)}" for body in (dialect.whole, half))

    def begin(*headers: str) -> bytes:
        return head(*TOLD, *headers, kind=dialect.kind)

    async def reset(stream: SocketStream) -> None:
        await stream.send(begin(CHUNKED) + chunk(half))
        raw = stream.extra(SocketAttribute.raw_socket)
        raw.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))

    return {
        "the body ends": (say(begin(CHUNKED), chunk(half), chunk(b"")), IncompleteStream),
        "the body ends with the connection": (say(begin("connection: close"), half), IncompleteStream),
        "the body is longer than it says": (say(begin(short), dialect.whole), IncompleteStream),
        "the body is shorter than it says": (say(begin(length), half), ConnectionFailed),
        "a chunk is cut": (say(begin(CHUNKED), chunk(half), b"ff\r\n "), ConnectionFailed),
        "a chunk has no length": (say(begin(CHUNKED), chunk(half), b"what?\r\n"), ConnectionFailed),
        "no last chunk": (say(begin(CHUNKED), chunk(half)), ConnectionFailed),
        "the connection is reset": (reset, ConnectionFailed),
        "nothing more comes": (say_and_hold(half), IdleTimeout),
    }


@pytest.mark.parametrize("fault", broken_bodies(CHAT))
@DIALECTS
@unhurried
async def test_a_body_that_breaks_is_an_error_that_tells_all(fault: str, dialect: Dialect) -> None:
    said, expected = broken_bodies(dialect)[fault]
    error, events = await error_after(said, dialect)
    assert type(error) is expected
    assert error.kind == expected.kind
    assert error.turn is not None
    assert error.turn.stop_reason == "error"
    assert error.turn.text == "Hi"
    assert error.status == 200
    if fault != "nothing more comes":
        assert (error.request_id, error.retry_after) == ("req_1", 7)
    assert not error.turn.calls
    check_grammar(events)


@DIALECTS
async def test_wherever_a_body_is_cut_the_turn_is_whole_or_says_that_it_is_not(dialect: Dialect) -> None:
    body = dialect.whole
    for cut in range(0, len(body) + 1, max(1, len(body) // 20)):
        decoder = dialect.decoder()
        parts = decoder.feed(body[:cut])
        is_whole = any(type(part) is Finished for part in parts) or type(decoder.end()[-1]) is Finished
        broken = say(head(f"content-length: {len(body) + 1}", kind=dialect.kind), body[:cut])
        for said, expected in ((answer(body[:cut], kind=dialect.kind), IncompleteStream), (broken, ConnectionFailed)):
            async with serve(said) as server:
                turn = dialect.model(server).stream_turn(REQUEST)
                if is_whole:
                    assert (await turn).stop_reason == "tool_calls"
                    continue
                with pytest.raises(ModelError) as raised:
                    await turn
                assert type(raised.value) is expected
                assert raised.value.turn is not None


@DIALECTS
async def test_an_error_in_the_stream_is_told_after_what_came_before(dialect: Dialect) -> None:
    body = dialect.text + dialect.error % b"no capacity"
    raised, events = await error_after(say(answer(body, *TOLD, kind=dialect.kind)), dialect)
    assert (type(raised), str(raised), raised.status) == (ProviderError, "no capacity", 529 if dialect is CHAT else 200)
    assert (raised.request_id, raised.retry_after) == ("req_1", 7)
    assert raised.turn is not None
    assert raised.turn.text == "Hi"
    check_grammar(events)


async def test_what_a_decoder_cannot_read_is_a_bad_payload_that_tells_all() -> None:
    class Strict(Words):
        def feed(self, data: bytes) -> Any:
            raise DecodeError("not UTF-8")

    async with serve(answer(b"Hi\n", *TOLD)) as server:
        model = words_at(server)
        model._decoder = Strict
        with pytest.raises(BadPayload, match="not UTF-8") as raised:
            await model.stream_turn(REQUEST)
    assert (raised.value.status, raised.value.request_id, raised.value.retry_after) == (200, "req_1", 7)
    assert raised.value.turn is not None


async def test_a_connection_that_breaks_says_with_whom() -> None:
    error = await failure_of(say(head(CHUNKED), chunk(HI), b"ff\r\ndata:"))
    assert str(error).startswith("the connection to 127.0.0.1 broke: ")


async def test_a_connection_that_breaks_after_the_end_was_declared_spoils_nothing() -> None:
    assert (await run(say(head(CHUNKED), chunk(HI + STOP), b"ff\r\ndata:"))).text == "Hi"


async def test_nobody_at_the_address_is_an_error_without_a_turn() -> None:
    async with serve() as server:
        pass
    with pytest.raises(ConnectionFailed, match=r"127\.0\.0\.1 could not be reached") as raised:
        await model_at(server).stream_turn(REQUEST)
    assert (raised.value.turn, raised.value.status) == (None, None)


@pytest.mark.parametrize("said", [b"SSH-2.0-OpenSSH_9.2\r\n", b"HTTP/1.1 200 OK\r\ncontent-length: many\r\n\r\n", b""])
async def test_what_is_no_http_is_a_broken_connection(said: bytes) -> None:
    error = await failure_of(say(said), say(said))
    assert (type(error), error.turn) == (ConnectionFailed, None)
    assert str(error).startswith("the connection to 127.0.0.1 broke: ")


@unhurried
async def test_a_refusal_that_never_ends_is_not_waited_for() -> None:
    async def dribble(stream: SocketStream) -> None:
        await stream.send(head(CHUNKED, status="500 Oh") + chunk(b"we are"))
        await hold(stream)

    assert isinstance(await failure_of(dribble, idle_timeout_seconds=20), IdleTimeout)


# Secrets


class Everything(logging.Handler):
    """All that anybody logs."""

    def __init__(self) -> None:
        super().__init__(logging.DEBUG)
        self.told: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.told.append(f"{record.name}: {self.format(record)} {record.__dict__}")


ECHO = b"Incorrect API key: %b, from another-secret" % KEY.encode()
ECHOES: dict[str, Callable[[Dialect], bytes | Say]] = {
    "refused": lambda _: answer(ECHO, status="401 Unauthorized", kind="text/plain"),
    "overloaded": lambda _: answer(ECHO, "retry-after: 0", status="529 Overloaded", kind="text/plain"),
    "an error with status 200": lambda _: answer(b'{"error":"%b"}' % ECHO, kind="application/json"),
    "a page": lambda _: answer(b"<title>%b</title>" % ECHO, status="403 No", kind="text/html"),
    "in the stream": lambda dialect: answer(dialect.text + dialect.error % ECHO),
    "no HTTP": lambda _: say(f"HTTP/{KEY}\r\n\r\n".encode()),
    "a broken chunk": lambda _: say(head(CHUNKED) + f"{KEY}\r\n".encode()),
}
"""Ways in which a server repeats what it should not."""


@pytest.fixture
def logged() -> Iterator[list[str]]:
    """All that anybody logs."""
    everything = Everything()
    root = logging.getLogger()
    level = root.level
    root.addHandler(everything)
    root.setLevel(logging.DEBUG)
    yield everything.told
    root.setLevel(level)
    root.removeHandler(everything)


@pytest.mark.parametrize("echo", ECHOES)
@DIALECTS
async def test_a_key_appears_nowhere(echo: str, dialect: Dialect, logged: list[str]) -> None:
    async with serve(*[ECHOES[echo](dialect)] * 4) as server:
        model = dialect.model(server, headers={"x-other-secret": "another-secret"}, retries=1)
        with pytest.raises(ModelError) as raised:
            await model.stream_turn(REQUEST)
    is_no_http = echo in ("no HTTP", "a broken chunk")  # such bytes httpcore2 shows by itself, at DEBUG
    shown = [repr(model), repr(model.stream_turn(REQUEST)), repr(raised.value.turn)]
    shown += [line for line in logged if not (is_no_http and "httpcore2" in line)]
    shown.append("".join(traceback.format_exception(raised.value)))
    error: BaseException | None = raised.value
    while error is not None:
        shown += [str(error), repr(error), repr(error.__dict__)]
        error = error.__cause__ or error.__context__
    assert any(KEY in repr(asked.headers) for asked in server.asked)
    for text in shown:
        assert KEY not in text
        assert "another-secret" not in text


async def test_a_status_without_a_phrase_leaves_no_hole() -> None:
    error = await failure_of(answer(b"busy", status="529 ", kind="text/plain"))
    assert str(error) == "the provider answered 529: busy"


async def test_what_was_hidden_is_marked() -> None:
    error = await failure_of(answer(ECHO, status="401 Unauthorized", kind="text/plain"))
    assert str(error) == "the provider answered 401 Unauthorized: Incorrect API key: [hidden], from another-secret"


def test_only_what_is_long_enough_to_be_a_secret_is_hidden() -> None:
    assert without_secrets("blue 12345678 Bearer", ["blue", "Bearer 12345678"]) == "blue [hidden] Bearer"


async def test_the_usual_headers_are_no_secrets() -> None:
    error = await failure_of(answer(b"send application/json", status="415 No", kind="text/plain"))
    assert str(error).endswith("send application/json")


@pytest.mark.parametrize("key", ["sk-very\nsecret-key", "sk-very…secret-key"])
async def test_a_key_that_no_header_may_hold_is_refused_without_showing_it(key: str) -> None:
    async with serve() as server:
        with pytest.raises(DefinitionError, match="header authorization has characters that no header may") as raised:
            await openai_chat("m", base_url=server.url, api_key=key).stream_turn(REQUEST)
    assert "secret" not in "".join(traceback.format_exception(raised.value))


async def test_the_line_break_behind_a_key_from_a_file_is_left_out() -> None:
    async with serve(answer(STOP)) as server:
        await openai_chat("m", base_url=server.url, api_key=f"{KEY}\n").stream_turn(REQUEST)
    assert server.asked[0].headers["authorization"] == f"Bearer {KEY}"


@pytest.mark.parametrize(
    ("headers", "hint"),
    [
        ({}, "; set WORDS_KEY"),
        ({"api-version": "2"}, "; set WORDS_KEY"),
        ({"x-api-key": "12345678"}, ""),
        ({"X-Goog-Api-Key": "12345678"}, ""),
        ({"Authorization": "Bearer 12345678"}, ""),
    ],
)
async def test_who_sent_no_key_is_told_how(headers: dict[str, str], hint: str) -> None:
    async with serve(answer(b"who?", status="401 No", kind="text/plain")) as server:
        model = words_at(server, headers=headers)
        model._headers = dict
        with pytest.raises(ProviderError) as raised:
            await model.stream_turn(REQUEST)
    assert str(raised.value) == f"the provider answered 401 No: who?{hint}"
