"""What was recorded once is replayed without a server: the same events, the same errors."""

from __future__ import annotations

import base64
import gzip
import json
from pathlib import Path
from typing import Any

import anyio
import httpx2
import pytest
from anyio.abc import SocketStream

from streamkit.errors import ConnectionFailed, ModelError, ProviderError, RecordingError
from streamkit.items import user
from streamkit.providers.openai_chat import openai_chat
from streamkit.providers.recorded import difference
from streamkit.providers.recording import RecordingTransport, ReplayTransport
from streamkit.turns import TextDelta, Turn, TurnEnded, TurnEvent, TurnRequest, TurnStarted

from ..attacks import in_ticks
from .asking import DONE, HI, KEY, REQUEST, STOP, event, eventually, model_at, say, say_and_hold, words_at
from .loopback import CHUNKED, Loopback, Say, answer, chunk, head, serve

OTHER = TurnRequest((user("and?"),))
NOWHERE = "http://nowhere.invalid/v1"


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "fixtures" / "turn.json"


def replaying(path: Path, **options: Any) -> Any:
    options = {"retries": 0, **options}
    return openai_chat("m", base_url=NOWHERE, api_key="another-key", transport=ReplayTransport(path), **options)


def recorded_in(path: Path) -> Any:
    assert [each.name for each in path.parent.iterdir()] == [path.name], "and nothing else was left"
    return json.loads(path.read_text("utf-8"))


async def events_of(model: Any, heard: anyio.Event | None = None) -> tuple[list[object], ModelError | None]:
    """What is seen of a turn, whose id does not count. heard: set when its first text has come."""
    events: list[TurnEvent] = []
    error = None

    def note(each: TurnEvent) -> None:
        events.append(each)
        if heard is not None and isinstance(each, TextDelta):
            heard.set()

    try:
        await model.stream_turn(REQUEST).tap(note)
    except ModelError as raised:
        error = raised
    told: list[object] = []
    for each in events:
        ended = each.turn if isinstance(each, TurnEnded) else None
        told.append((ended.text, ended.stop_reason) if ended else type(each) if isinstance(each, TurnStarted) else each)
    return told, error


async def test_a_turn_is_recorded_while_it_flows_and_replayed_without_a_server(path: Path) -> None:
    heard = anyio.Event()

    async def wait_for_the_consumer(stream: SocketStream) -> None:
        await stream.send(head(CHUNKED, "x-request-id: req_1") + chunk(HI))
        await heard.wait()
        await stream.send(chunk(event('{"content":" thére\\u2028"}') + STOP + DONE) + chunk(b""))

    async with serve(wait_for_the_consumer) as server:
        model = model_at(server, transport=RecordingTransport(path))
        recorded = await events_of(model, heard)
    assert recorded[1] is None
    for _ in range(2):
        assert await events_of(replaying(path)) == recorded


async def test_a_recording_can_be_read_by_a_person(path: Path) -> None:
    async with serve(answer(HI + STOP, "set-cookie: session=1", "x-request-id: req_1")) as server:
        await model_at(server, transport=RecordingTransport(path)).stream_turn(REQUEST)
    assert recorded_in(path) == [
        {
            "request": {
                "method": "POST",
                "path": "/v1/chat/completions",
                "body": {
                    "model": "m",
                    "messages": [{"role": "user", "content": "hi"}],
                    "stream": True,
                    "stream_options": {"include_usage": True},
                },
            },
            "answer": {
                "status": 200,
                "reason": "OK",
                "headers": {"content-type": "text/event-stream", "x-request-id": "req_1"},
                "lines": (HI + STOP).decode().split("\n"),
            },
        }
    ]


async def test_turns_in_a_row_and_the_same_turn_twice_keep_their_order(path: Path) -> None:
    answers = [answer(event(f'{{"content":"{text}"}}') + STOP) for text in ("one", "two", "three")]
    async with serve(*answers) as server:
        model = model_at(server, transport=RecordingTransport(path))
        for request in (REQUEST, OTHER, REQUEST):
            await model.stream_turn(request)
    model = replaying(path)
    assert [(await model.stream_turn(request)).text for request in (OTHER, REQUEST, REQUEST)] == ["two", "one", "three"]


async def test_turns_at_the_same_time_are_recorded_in_the_order_in_which_they_were_asked(path: Path) -> None:
    second_has_ended = anyio.Event()

    async def end_last(stream: SocketStream) -> None:
        await stream.send(head(CHUNKED) + chunk(event('{"content":"one"}')))
        await second_has_ended.wait()
        await stream.send(chunk(STOP) + chunk(b""))

    async with serve(end_last, answer(event('{"content":"two"}') + STOP)) as server:
        model = model_at(server, transport=RecordingTransport(path))

        async def first() -> None:
            await model.stream_turn(REQUEST)

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(first)
            await eventually(asked=1, server=server)
            await model.stream_turn(OTHER)
            assert len(recorded_in(path)) == 1
            second_has_ended.set()
    asked = [each["request"]["body"]["messages"][0]["content"] for each in recorded_in(path)]
    assert asked == ["hi", "and?"]
    model, texts = replaying(path), dict[str, str]()

    async def replay(request: TurnRequest, name: str) -> None:
        texts[name] = (await model.stream_turn(request)).text

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(replay, OTHER, "second")
        tasks.start_soon(replay, REQUEST, "first")
    assert texts == {"first": "one", "second": "two"}


FAILING: dict[str, bytes | Say] = {
    "a status": answer(
        b'{"error":{"message":"slow down"}}', "retry-after: 3", status="429 Slow", kind="application/json"
    ),
    "an error in the stream": answer(HI + b'data: {"error":{"message":"overloaded"}}\n\n', "request-id: r"),
    "a page": answer(b"<title>Log in</title>", kind="text/html"),
    "a body that ends": answer(HI),
    "a body that breaks": say(head(CHUNKED), chunk(HI), b"ff\r\n"),
    "no answer": say(),
}


@pytest.mark.parametrize("failing", FAILING)
async def test_failures_are_recorded_too(failing: str, path: Path) -> None:
    async with serve(*[FAILING[failing]] * 2) as server:
        events, error = await events_of(model_at(server, transport=RecordingTransport(path)))
    replayed, again = await events_of(replaying(path))
    assert error is not None
    assert again is not None
    assert replayed == events
    assert str(again).replace("nowhere.invalid", "127.0.0.1") == str(error)
    told = [(type(each), each.status, each.request_id, each.retry_after) for each in (error, again)]
    assert told[0] == told[1]


async def test_a_server_that_cannot_be_reached_is_recorded(path: Path) -> None:
    async with serve() as server:
        pass
    _, error = await events_of(model_at(server, transport=RecordingTransport(path)))
    _, again = await events_of(replaying(path))
    assert type(error) is type(again) is ConnectionFailed
    assert "could not be reached" in str(again)


@pytest.mark.parametrize("backend", ["asyncio", "trio"])
def test_a_turn_that_was_asked_for_again_is_so_in_a_replay(backend: str, path: Path) -> None:
    path.parent.mkdir()

    async def main() -> None:
        busy = answer(b"busy", "retry-after: 2", status="503 Busy", kind="text/plain")
        async with serve(busy, answer(HI + STOP)) as server:
            model = model_at(server, transport=RecordingTransport(path), retries=1)
            assert (await model.stream_turn(REQUEST)).text == "Hi"
        assert (await replaying(path, retries=1).stream_turn(REQUEST)).text == "Hi"

    in_ticks(backend, main)


async def test_what_was_left_early_ends_in_a_replay_where_it_was_left(path: Path) -> None:
    async with serve(say_and_hold(HI)) as server:
        async with model_at(server, transport=RecordingTransport(path)).stream_turn(REQUEST).open() as events:
            async for each in events:
                if isinstance(each, TextDelta):
                    break
        await server.left.wait()
    replayed, error = await events_of(replaying(path))
    assert replayed == [TurnStarted, TextDelta("Hi")]
    assert str(error) == (
        "the connection to nowhere.invalid broke: the recording ends here: whoever made it read no further"
    )


async def test_a_body_that_is_no_text_is_kept_and_a_compressed_one_is_unpacked(path: Path) -> None:
    binary = b"\xff\x00Hi"
    packed = answer(gzip.compress(HI + STOP), "content-encoding: gzip")
    recording = httpx2.AsyncClient(transport=RecordingTransport(path))
    async with serve(answer(binary), packed) as server, recording as client:
        assert (await client.post(f"{server.url}/blob", json={})).content == binary
        assert (await client.post(f"{server.url}/stream", json={})).content == HI + STOP
    recorded = recorded_in(path)
    assert base64.b64decode(recorded[0]["answer"]["base64"]) == binary
    assert recorded[1]["answer"]["lines"] == (HI + STOP).decode().split("\n")
    async with httpx2.AsyncClient(transport=ReplayTransport(path)) as client:
        assert (await client.post(f"{NOWHERE}/blob", json={})).content == binary
        assert (await client.post(f"{NOWHERE}/stream", json={})).content == HI + STOP


@pytest.mark.parametrize("model_of", [model_at, words_at])
async def test_no_key_is_recorded(model_of: Any, path: Path) -> None:
    echo = b"bad key %b" % KEY.encode()
    refusal = answer(echo, f"www-authenticate: {KEY}", status="401 No", kind="text/plain")
    async with serve(refusal) as server:
        at = Loopback(f"{server.url}?key=query-secret-1&api-version=2") if model_of is model_at else server
        _, error = await events_of(model_of(at, transport=RecordingTransport(path)))
    assert isinstance(error, ProviderError)
    text = str(recorded_in(path))
    assert "bad key [hidden]" in text
    assert KEY not in text
    assert "query-secret-1" not in text
    if model_of is model_at:
        again = openai_chat("m", base_url=f"{NOWHERE}?key=another&api-version=2", transport=ReplayTransport(path))
        assert isinstance((await events_of(again))[1], ProviderError)


async def test_a_request_that_is_not_recorded_is_told_with_the_first_difference(path: Path) -> None:
    async with serve(answer(HI + STOP)) as server:
        await model_at(server, transport=RecordingTransport(path)).stream_turn(REQUEST)
    model = replaying(path, retries=2)
    with pytest.raises(RecordingError) as raised:
        await model.stream_turn(OTHER)
    told = f"{path} holds no answer to POST /v1/chat/completions: "
    assert str(raised.value) == told + 'body.messages[0].content is "and?", recorded was "hi"'
    await model.stream_turn(REQUEST)
    with pytest.raises(RecordingError, match="all that it holds has been replayed"):
        await model.stream_turn(REQUEST)


@pytest.mark.parametrize(
    ("recorded", "asked", "told"),
    [
        ({"a": 1}, {"a": 2}, "a is 2, recorded was 1"),
        ({"a": 1}, {}, "a is not there, recorded was 1"),
        ({}, {"a": {"b": 1}}, 'a is {"b":1}, recorded was not there'),
        ({"a": [1, {"b": 2}]}, {"a": [1, {"b": "2"}]}, 'a[1].b is "2", recorded was 2'),
        ({"a": [1]}, {"a": [1, 2]}, "a[1] is 2, recorded was not there"),
        ({"a": [1]}, {"a": 1}, "a is 1, recorded was [1]"),
    ],
)
def test_a_difference_is_named_by_its_path(recorded: Any, asked: Any, told: str) -> None:
    assert difference(recorded, asked) == told


@pytest.mark.parametrize("content", [None, b"", b"{}", b'[{"request": 3}]'])
def test_what_is_no_recording_is_told_at_once(content: bytes | None, path: Path) -> None:
    if content is not None:
        path.parent.mkdir()
        path.write_bytes(content)
    with pytest.raises(RecordingError, match=r"there is no recording to replay in .*turn\.json"):
        ReplayTransport(path)


async def test_a_transport_that_was_given_sends_what_is_recorded_and_is_closed(path: Path) -> None:
    closed = False

    class Own(httpx2.MockTransport):
        async def aclose(self) -> None:
            nonlocal closed
            closed = True

    headers = {"content-type": "text/plain"}
    own = Own(lambda request: httpx2.Response(200, headers=headers, content=b"Hi\n.\n"))
    recording = RecordingTransport(path, own)
    turns: list[Turn] = []
    async with serve() as server:
        turns.append(await words_at(server, transport=recording).stream_turn(REQUEST))
        turns.append(await words_at(server, transport=ReplayTransport(path)).stream_turn(REQUEST))
    assert [turn.text for turn in turns] == ["Hi", "Hi"]
    await recording.aclose()
    assert closed
