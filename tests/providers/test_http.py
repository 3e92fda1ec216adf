"""A turn over real sockets: what is asked, what is made of each answer, and what is left open: nothing."""

import gc
import gzip
import subprocess
import sys
from typing import Any

import anyio
import pytest
from anyio.abc import SocketStream

from streamkit.errors import (
    ConnectionFailed,
    DefinitionError,
    IncompleteStream,
    ModelError,
    NotAStream,
    ProviderError,
)
from streamkit.items import user
from streamkit.providers.http import _kept, json_bytes, retry_after, without_secrets
from streamkit.providers.model import Model
from streamkit.providers.openai_chat import openai_chat
from streamkit.turns import TextDelta, ToolInputAbandoned, ToolInputDelta, ToolInputStart, Turn, TurnEvent, TurnRequest

from .loopback import CHUNKED, Loopback, Say, answer, chunk, head, hold, serve

KEY = "sk-very-secret-key"
REQUEST = TurnRequest((user("hi"),))


def event(delta: str, finish: str = "null") -> bytes:
    return b'data: {"choices":[{"index":0,"delta":%b,"finish_reason":%b}]}\n\n' % (delta.encode(), finish.encode())


HI = event('{"content":"Hi"}')
STOP = event("{}", '"stop"')
DONE = b"data: [DONE]\n\n"
HALF_A_CALL = event('{"tool_calls":[{"index":0,"id":"a","function":{"name":"f","arguments":"{"}}]}')


def model_at(server: Loopback, **options: Any) -> Model:
    return openai_chat("m", base_url=server.url, api_key=KEY, **options)


def say(*pieces: bytes) -> Say:
    """Send the pieces one by one, then close the connection."""

    async def send(stream: SocketStream) -> None:
        for piece in pieces:
            await stream.send(piece)

    return send


async def run(*answers: bytes | Say, **options: Any) -> Turn:
    async with serve(*answers) as server:
        return await model_at(server, **options).stream_turn(REQUEST)


async def failure_of(*answers: bytes | Say, **options: Any) -> ModelError:
    with pytest.raises(ModelError) as raised:
        await run(*answers, **options)
    return raised.value


async def test_a_turn_is_asked_for_and_streamed() -> None:
    async with serve(answer(HI + STOP + DONE)) as server:
        turn = await model_at(server, headers={"X-Team": "blue"}).stream_turn(REQUEST)
    assert (turn.text, turn.stop_reason, turn.model) == ("Hi", "stop", "m")
    assert server.asked[0].target == "/v1/chat/completions"
    headers = server.asked[0].headers
    assert (headers["authorization"], headers["x-team"]) == (f"Bearer {KEY}", "blue")
    assert (headers["content-type"], headers["accept"]) == ("application/json", "text/event-stream")
    assert server.asked[0].body["messages"] == [{"role": "user", "content": "hi"}]


async def test_the_query_of_an_address_stays_behind_its_path() -> None:
    async with serve(answer(STOP)) as server:
        await openai_chat("m", base_url=f"{server.url}/?api-version=1", api_key=KEY).stream_turn(REQUEST)
    assert server.asked[0].target == "/v1/chat/completions?api-version=1"


async def test_a_body_may_come_in_any_pieces() -> None:
    body = HI + STOP + DONE
    pieces = [chunk(body[at : at + 1]) for at in range(len(body))]
    turn = await run(say(head(CHUNKED), *pieces, chunk(b"")))
    assert (turn.text, turn.stop_reason) == ("Hi", "stop")


async def test_a_compressed_body_is_unpacked() -> None:
    turn = await run(answer(gzip.compress(HI + STOP), "content-encoding: gzip"))
    assert turn.text == "Hi"


async def test_a_body_without_a_type_is_read_as_a_stream() -> None:
    assert (await run(answer(HI + STOP, kind=""))).text == "Hi"


# Who asks


async def test_the_key_comes_from_the_environment_when_a_turn_is_run(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    async with serve(answer(STOP), answer(STOP)) as server:
        model = openai_chat("m", base_url=server.url)
        await model.stream_turn(REQUEST)
        monkeypatch.setenv("OPENAI_API_KEY", "from-environment")
        await model.stream_turn(REQUEST)
    assert "authorization" not in server.asked[0].headers
    assert server.asked[1].headers["authorization"] == "Bearer from-environment"


async def test_who_sent_no_key_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    async with serve(answer(b"", status="401 Unauthorized")) as server:
        with pytest.raises(ProviderError, match="no key was sent: give api_key=…, or set OPENAI_API_KEY"):
            await openai_chat("m", base_url=server.url).stream_turn(REQUEST)


async def test_a_key_appears_nowhere() -> None:
    body = b'{"error":{"message":"Incorrect API key: %b"}}' % KEY.encode()
    async with serve(answer(body, status="401 Unauthorized", kind="application/json")) as server:
        model = model_at(server, headers={"x-other-secret": "another-secret"})
        with pytest.raises(ProviderError) as raised:
            await model.stream_turn(REQUEST)
    assert str(raised.value) == "the provider answered 401 Unauthorized: Incorrect API key: [hidden]"
    for text in (repr(model), repr(model.stream_turn(REQUEST)), repr(raised.value), repr(raised.value.__cause__)):
        assert KEY not in text
        assert "another-secret" not in text


async def test_a_key_in_the_stream_is_hidden_too() -> None:
    error = await failure_of(answer(HI + b'data: {"error":{"message":"bad key %b"}}\n\n' % KEY.encode()))
    assert str(error) == "bad key [hidden]"


def test_only_what_is_long_enough_to_be_a_secret_is_hidden() -> None:
    assert without_secrets("blue 12345678 Bearer", ["blue", "Bearer 12345678"]) == "blue [hidden] Bearer"


def test_an_address_that_is_none_is_told_at_once() -> None:
    with pytest.raises(DefinitionError, match="'localhost:8080/v1/chat/completions' does not"):
        openai_chat("m", base_url="localhost:8080/v1")


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
        ("text/plain", b"<html>\n", NotAStream, "the answer is no stream of events, it begins with <html>"),
    ],
)
async def test_an_answer_that_is_no_stream_says_what_it_is(
    kind: str, body: bytes, error: type[ModelError], message: str
) -> None:
    raised = await failure_of(answer(body, kind=kind))
    assert (type(raised), str(raised), raised.status) == (error, message, 200)


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


# Bodies that end badly


async def test_a_body_that_ends_before_the_turn_does_is_an_error_with_the_turn() -> None:
    error = await failure_of(answer(HI + HALF_A_CALL, "x-request-id: req_1"))
    assert isinstance(error, IncompleteStream)
    assert (error.status, error.request_id) == (200, "req_1")
    assert error.turn is not None
    assert (error.turn.text, error.turn.stop_reason) == ("Hi", "error")
    assert [call.abandoned for call in error.turn.dropped] == ["incomplete"]


async def test_an_error_in_the_stream_keeps_the_status_it_names() -> None:
    error = await failure_of(answer(HI + b'data: {"error":{"message":"overloaded","code":529}}\n\n', "request-id: r"))
    assert (type(error), str(error), error.status, error.request_id) == (ProviderError, "overloaded", 529, "r")


async def test_a_connection_that_breaks_in_a_body_is_an_error_with_the_turn() -> None:
    error = await failure_of(say(head(CHUNKED), chunk(HI), b"ff\r\ndata:"))
    assert isinstance(error, ConnectionFailed)
    assert str(error).startswith("the connection to 127.0.0.1 broke: ")
    assert error.turn is not None
    assert error.turn.text == "Hi"


async def test_a_connection_that_breaks_after_the_end_was_declared_spoils_nothing() -> None:
    assert (await run(say(head(CHUNKED), chunk(HI + STOP), b"ff\r\ndata:"))).text == "Hi"


async def test_nobody_at_the_address_is_an_error_without_a_turn() -> None:
    async with serve() as server:
        pass
    with pytest.raises(ConnectionFailed, match=r"127\.0\.0\.1 could not be reached") as raised:
        await model_at(server).stream_turn(REQUEST)
    assert (raised.value.turn, raised.value.status) == (None, None)


async def say_no_more(stream: SocketStream) -> None:
    await stream.send(head(CHUNKED) + chunk(HI + HALF_A_CALL))
    await hold(stream)


async def test_a_silence_that_is_too_long_is_an_error() -> None:
    error = await failure_of(say_no_more, idle_timeout_seconds=0.05)
    assert (type(error), str(error)) == (ConnectionFailed, "127.0.0.1 sent nothing for 0.05 seconds")
    assert error.turn is not None
    assert error.turn.text == "Hi"


# Connections


async def test_turns_in_a_row_use_one_connection() -> None:
    async with serve(*[answer(HI + STOP + DONE)] * 3) as server:
        for _ in range(3):
            await model_at(server).stream_turn(REQUEST)
    assert server.connections == 1


async def test_an_end_of_the_body_that_comes_soon_is_waited_for() -> None:
    async def dawdle(stream: SocketStream) -> None:
        await stream.send(head(CHUNKED) + chunk(HI + STOP + DONE))
        await anyio.wait_all_tasks_blocked()
        await stream.send(chunk(b"") + answer(STOP))
        await hold(stream)

    async with serve(dawdle) as server:
        model = model_at(server)
        await model.stream_turn(REQUEST)
        await model.stream_turn(REQUEST)
        assert server.connections == 1


async def test_a_body_that_does_not_end_holds_nobody_up() -> None:
    async def go_on(stream: SocketStream) -> None:
        await stream.send(head(CHUNKED) + chunk(HI + STOP + DONE))
        await hold(stream)

    assert (await run(go_on)).text == "Hi"


async def test_a_connection_that_was_open_for_too_long_is_replaced_once() -> None:
    async with serve(answer(STOP), say(), answer(HI + STOP)) as server:
        model = model_at(server)
        await model.stream_turn(REQUEST)
        turn = await model.stream_turn(REQUEST)
    assert (turn.text, len(server.asked), server.connections) == ("Hi", 3, 2)


async def test_a_server_that_never_answers_is_not_asked_for_ever() -> None:
    async with serve(say(), say(), answer(STOP)) as server:
        with pytest.raises(ConnectionFailed):
            await model_at(server).stream_turn(REQUEST)
    assert len(server.asked) == 2


# Leaving early


async def test_who_leaves_closes_the_connection() -> None:
    async with serve(say_no_more) as server:
        async with model_at(server).stream_turn(REQUEST).open() as events:
            async for some in events:
                if isinstance(some, TextDelta):
                    break
        await server.left.wait()


@pytest.mark.parametrize("wait_for", [TextDelta, ToolInputDelta])
async def test_a_cancelled_turn_abandons_its_call_and_closes_the_connection(wait_for: type[TurnEvent]) -> None:
    seen: list[TurnEvent] = []
    reached = anyio.Event()

    def note(some: TurnEvent) -> None:
        seen.append(some)
        if type(some) is wait_for:
            reached.set()

    async with serve(say_no_more) as server:
        async with anyio.create_task_group() as tasks:
            turn = model_at(server).stream_turn(REQUEST).tap(note)

            async def work() -> None:
                await turn

            tasks.start_soon(work)
            await reached.wait()
            tasks.cancel_scope.cancel()
        await server.left.wait()
    kinds = [type(some) for some in seen if not isinstance(some, TextDelta)]
    assert kinds[1:] == [ToolInputStart, ToolInputDelta, ToolInputAbandoned]
    assert isinstance(seen[-1], ToolInputAbandoned)
    assert seen[-1].reason == "incomplete"


async def test_a_turn_cancelled_before_its_answer_closes_the_connection() -> None:
    async with serve(hold) as server:
        async with anyio.create_task_group() as tasks:

            async def work() -> None:
                await model_at(server).stream_turn(REQUEST)

            tasks.start_soon(work)
            while not server.asked:
                await anyio.wait_all_tasks_blocked()
            tasks.cancel_scope.cancel()
        await server.left.wait()


async def test_an_error_of_the_consumer_leaves_as_itself_and_closes_the_connection() -> None:
    async with serve(say_no_more) as server:
        with pytest.raises(ZeroDivisionError):
            async with model_at(server).stream_turn(REQUEST).open() as events:
                async for some in events:
                    if isinstance(some, ToolInputStart):
                        raise ZeroDivisionError
        await server.left.wait()


async def test_an_answer_that_was_not_read_to_its_end_leaves_no_generator_behind() -> None:
    failing = answer(HI + b'data: {"error":{"message":"overloaded"}}\n\n' + DONE)
    async with serve(failing, say_no_more) as server:
        with pytest.raises(ProviderError):
            await model_at(server).stream_turn(REQUEST)
        async with model_at(server).stream_turn(REQUEST).open() as events:
            async for some in events:
                if isinstance(some, TextDelta):
                    break
        gc.collect()  # trio warns of generators that are collected while they wait


def test_a_proxy_of_the_environment_is_not_asked_for_this_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:9")
    monkeypatch.delenv("no_proxy", raising=False)

    async def main() -> str:
        return (await run(answer(HI + STOP))).text

    assert anyio.run(main) == "Hi"


@pytest.mark.parametrize("backend", ["asyncio", "trio"])
def test_the_end_of_the_event_loop_closes_what_is_open(backend: str) -> None:
    """Nothing is said of open sockets or generators: warnings are errors here, those at collection too."""

    async def main() -> Any:
        async with serve(answer(HI + STOP)) as server:
            await model_at(server).stream_turn(REQUEST)
            return _kept.get()[1]

    client = anyio.run(main, backend=backend)
    assert client.is_closed
    del client
    gc.collect()


def test_each_event_loop_has_a_client_of_its_own() -> None:
    async def main() -> Any:
        async with serve(answer(HI + STOP), answer(HI + STOP)) as server:
            await model_at(server).stream_turn(REQUEST)
            client = _kept.get()[1]
            await model_at(server).stream_turn(REQUEST)
            assert _kept.get()[1] is client
            return client

    assert anyio.run(main) is not anyio.run(main)


def test_without_httpx2_a_model_says_what_to_install() -> None:
    program = """
import sys
sys.modules["httpx2"] = None
from streamkit.providers.openai_chat import openai_chat
try:
    openai_chat("m")
except ImportError as error:
    print(error)
"""
    ran = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert ran.stdout == "to talk to a provider install httpx2: pip install 'streamkit-tools[http]'\n"


def test_half_a_character_in_a_history_does_not_keep_it_from_being_sent() -> None:
    assert json_bytes({"a": "é\ud83d"}) == '{"a":"é\ufffd"}'.encode()
