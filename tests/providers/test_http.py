"""A turn over real sockets: what is asked, what is made of each answer, and what is left open: nothing."""

import gc
import gzip
import re
import subprocess
import sys
from typing import Any

import anyio
import httpx2
import pytest
from anyio.abc import SocketStream

from streamkit.errors import ConnectionFailed, DefinitionError, ProviderError
from streamkit.items import user
from streamkit.providers.client import _kept
from streamkit.providers.http import json_bytes
from streamkit.providers.openai_chat import openai_chat
from streamkit.turns import TextDelta, ToolInputAbandoned, ToolInputDelta, ToolInputStart, TurnEvent

from .asking import DONE, HALF_A_CALL, HI, KEY, REQUEST, STOP, model_at, run, say, say_and_hold, words, words_at
from .loopback import CHUNKED, answer, chunk, head, hold, serve


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


def test_a_history_in_place_of_a_request_is_told_at_once() -> None:
    history: Any = (user("hi"),)
    with pytest.raises(TypeError, match=r"request is a TurnRequest, .* not a tuple"):
        _ = openai_chat("m").stream_turn(history)


def test_an_address_that_is_none_is_told_at_once() -> None:
    with pytest.raises(DefinitionError, match="'localhost:8080/v1/chat/completions' does not"):
        openai_chat("m", base_url="localhost:8080/v1")


def test_a_password_in_an_address_is_refused_since_it_would_be_logged() -> None:
    with pytest.raises(DefinitionError, match=r"the address of h holds a password: give it as a header") as raised:
        openai_chat("m", base_url="http://me:secret@h/v1")
    assert "secret" not in str(raised.value)


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({"timeout": 3}, "there is no option timeout of a connection, only headers, connect_timeout_seconds, idle_"),
        ({"temperature": 0}, r"temperature is asked of a turn, not of a connection: TurnRequest\(…, temperature=…\)"),
        ({"idle_timeout_seconds": 0}, "idle_timeout_seconds is a number of seconds above 0, not 0"),
        ({"total_timeout_seconds": None}, "total_timeout_seconds is a number of seconds above 0, not None"),
        ({"retries": -1}, "retries is a number from 0 upwards, not -1"),
        ({"transport": httpx2.HTTPTransport}, "transport is an asynchronous transport of httpx2, not type"),
    ],
)
def test_an_option_that_means_nothing_is_told_at_once(options: dict[str, Any], told: str) -> None:
    with pytest.raises(DefinitionError, match=told):
        openai_chat("m", **options)


async def test_a_transport_of_ones_own_sends_the_requests_and_is_left_open() -> None:
    class Own(httpx2.AsyncBaseTransport):
        closed = False

        async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
            return httpx2.Response(200, content=HI + STOP, headers={"content-type": "text/event-stream"})

        async def aclose(self) -> None:
            self.closed = True

    own = Own()
    model = openai_chat("m", base_url="http://nowhere.invalid", transport=own)
    assert [(await model.stream_turn(REQUEST)).text for _ in range(2)] == ["Hi", "Hi"]
    assert not own.closed


async def test_a_dialect_of_ones_own_speaks_over_the_same_connections() -> None:
    async with serve(words("Well\n\nf\n.\n")) as server:
        turn = await words_at(server).stream_turn(REQUEST)
    assert (turn.text, [call.name for call in turn.calls]) == ("Well", ["f"])  # no tool was offered
    assert (server.asked[0].target, server.asked[0].body) == ("/v1/words", {"model": "w", "asked": 1})
    assert server.asked[0].headers["x-goog-api-key"] == KEY


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
    async with serve(say_and_hold(HI + HALF_A_CALL)) as server:
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

    async with serve(say_and_hold(HI + HALF_A_CALL)) as server:
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
    async with serve(say_and_hold(HI + HALF_A_CALL)) as server:
        with pytest.raises(ZeroDivisionError):
            async with model_at(server).stream_turn(REQUEST).open() as events:
                async for some in events:
                    if isinstance(some, ToolInputStart):
                        raise ZeroDivisionError
        await server.left.wait()


async def test_an_answer_that_was_not_read_to_its_end_leaves_no_generator_behind() -> None:
    failing = answer(HI + b'data: {"error":{"message":"overloaded"}}\n\n' + DONE)
    async with serve(failing, say_and_hold(HI + HALF_A_CALL)) as server:
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


async def test_who_cannot_be_reached_is_told_of_the_proxy_of_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("https_proxy", "http://me:secret@127.0.0.1:9")
    monkeypatch.delenv("no_proxy", raising=False)
    with pytest.raises(ConnectionFailed) as raised:
        await openai_chat("m", base_url="https://model.invalid/v1", api_key="k", retries=0).stream_turn(REQUEST)
    told = r"model.invalid could not be reached \(the environment names a proxy for it, 127.0.0.1:9\): .+"
    assert re.fullmatch(told, str(raised.value))


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
    assert ran.stdout == "to speak HTTP install httpx2: pip install 'streamkit-tools[http]'\n"


def test_half_a_character_in_a_history_does_not_keep_it_from_being_sent() -> None:
    assert json_bytes({"a": "é\ud83d"}) == '{"a":"é\ufffd"}'.encode()
