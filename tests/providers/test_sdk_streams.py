"""Streams of the official SDKs: the same turns as from the bytes that they read, the same errors, nothing left open."""

from collections.abc import AsyncIterator, Callable
from contextlib import suppress
from typing import Any

import anthropic
import anyio
import httpx2
import msgspec
import openai
import pytest
from anyio.abc import SocketStream

from streamkit import Flow, Message, Reasoning, ToolCall, ToolSpec, Turn, TurnEvent, TurnRequest
from streamkit.errors import BadPayload, ConnectionFailed, FlowError, IncompleteStream, ModelError, ProviderError
from streamkit.providers.anthropic_decoder import AnthropicDecoder
from streamkit.providers.model import Decoder
from streamkit.providers.openai_chat_decoder import OpenAIChatDecoder
from streamkit.providers.openai_responses_decoder import OpenAIResponsesDecoder
from streamkit.providers.sdk_streams import from_anthropic_stream, from_openai_stream
from streamkit.testing import check_model
from streamkit.testing.decoders import outcome
from streamkit.testing.leftovers import nothing_left

from ..calling import GUARD_SECONDS
from ..streams import recorded_body, recordings
from .loopback import Say, answer, serve

KEY = "sk-of-nobody-0123456789"
MESSAGES: Any = [{"role": "user", "content": "Hi"}]
READ = ToolSpec("read", "Reads.", {})

Ask = Callable[[Any], Any]
"""Asks a client of an SDK for a stream."""


def ask_chat(client: Any) -> Any:
    return client.chat.completions.create(model="m", messages=MESSAGES, stream=True)


def ask_responses(client: Any) -> Any:
    return client.responses.create(model="m", input="Hi", stream=True)


def ask_messages(client: Any) -> Any:
    return client.messages.create(model="m", messages=MESSAGES, max_tokens=9, stream=True)


ASK: dict[str, Ask] = {"openai-chat": ask_chat, "openai-responses": ask_responses, "anthropic": ask_messages}
HELPERS: dict[str, Ask] = {
    "openai-chat": lambda client: client.chat.completions.stream(model="m", messages=MESSAGES),
    "openai-responses": lambda client: client.responses.stream(model="m", input="Hi"),
    "anthropic": lambda client: client.messages.stream(model="m", messages=MESSAGES, max_tokens=9),
}
DECODERS: dict[str, Callable[[], Decoder]] = {
    "openai-chat": OpenAIChatDecoder,
    "openai-responses": OpenAIResponsesDecoder,
    "anthropic": AnthropicDecoder,
}


def client_of(dialect: str, respond: bytes | Callable[[httpx2.Request], httpx2.Response]) -> Any:
    """A client of an SDK, whose provider says these bytes."""

    async def body() -> AsyncIterator[bytes]:
        assert isinstance(respond, bytes)
        yield respond

    def say(request: httpx2.Request) -> httpx2.Response:
        return httpx2.Response(200, headers={"content-type": "text/event-stream"}, content=body())

    http_client = httpx2.AsyncClient(transport=httpx2.MockTransport(respond if callable(respond) else say))
    make = anthropic.AsyncAnthropic if dialect == "anthropic" else openai.AsyncOpenAI
    return make(api_key=KEY, http_client=http_client, max_retries=0, timeout=GUARD_SECONDS)


def turn_of(dialect: str, client: Any, ask: Ask, **options: Any) -> Flow[TurnEvent, Turn]:
    from_stream = from_anthropic_stream if dialect == "anthropic" else from_openai_stream
    return from_stream(lambda: ask(client), **options)


# The same turns


@pytest.mark.parametrize("entry", [each for dialect in ASK for each in recordings(dialect)])
async def test_a_stream_of_an_sdk_is_the_turn_of_its_bytes(entry: dict[str, Any]) -> None:
    dialect, body = entry["dialect"], recorded_body(entry)
    wanted = outcome(DECODERS[dialect](), [body])
    for ask in (ASK[dialect], HELPERS[dialect]):
        turn, error = await found_in(turn_of(dialect, client_of(dialect, body), ask))
        assert repr(error) == repr(wanted.error)
        assert in_general(turn) == in_general(wanted.turn)


async def found_in(flow: Flow[TurnEvent, Turn]) -> tuple[Turn | None, ModelError | None]:
    try:
        return await flow, None
    except ModelError as error:
        return error.turn, error


def in_general(turn: Turn | None) -> Turn | None:
    """The turn without its ids, and without what an event that is written again may have in another order."""
    if turn is None:
        return None
    calls = [item for item in turn.items if isinstance(item, ToolCall)]
    texts = [item for item in turn.items if isinstance(item, Message | Reasoning)]
    items = (
        *(msgspec.structs.replace(call, turn_id="", call_id="", opaque=None) for call in calls),
        *(msgspec.structs.replace(text, opaque=None) for text in texts),
    )
    return msgspec.structs.replace(turn, turn_id="", model="", items=items)


KEPT_BACK = {
    "openai-chat/gpustack-error-field-no-finish.sse": "a field that is no data",
    "openai-chat/huggingface-done-only.sse": "[DONE]",
    "openai-chat/huggingface-no-finish-reason.sse": "[DONE]",
    "openai-chat/openrouter-kimi-repeated-name-no-finish.sse": "[DONE]",
    "openai-responses/responses-error-then-failed.sse": "what follows an error",
}
"""What an SDK reads, and does not show as an event."""


async def events_alone(stream: Any) -> AsyncIterator[Any]:
    async with await stream as opened:
        while (event := await anext(opened, None)) is not None:
            yield event


@pytest.mark.parametrize("anyio_backend", ["asyncio"])  # on trio the package leaves generators to the garbage collector
@pytest.mark.parametrize("entry", [each for dialect in ASK for each in recordings(dialect)])
async def test_the_events_alone_give_the_same_turn(entry: dict[str, Any]) -> None:
    dialect, body = entry["dialect"], recorded_body(entry)
    wanted = outcome(DECODERS[dialect](), [body])
    client = client_of(dialect, body)
    turn, error = await found_in(turn_of(dialect, client, lambda client: events_alone(ASK[dialect](client))))
    if entry["file"] in KEPT_BACK:
        assert type(error) in (IncompleteStream, ProviderError)
    else:
        assert type(error) is type(wanted.error)
        assert wanted.error is not None or in_general(turn) == in_general(wanted.turn)


@pytest.mark.parametrize("anyio_backend", ["asyncio"])
@pytest.mark.parametrize("dialect", sorted(ASK))
async def test_events_that_a_helper_made_up_are_not_read(dialect: str) -> None:
    made_up = client_of(dialect, BODIES[dialect])

    async def events() -> AsyncIterator[Any]:
        async with HELPERS[dialect](made_up) as opened:
            async for event in opened:
                yield event

    turn = await turn_of(dialect, made_up, lambda _: events())
    wanted = await turn_of(dialect, made_up, ASK[dialect])
    assert in_general(turn) == in_general(wanted)
    assert turn.model in ("gpt-x", "claude-x")


CHAT = (
    b'data: {"id":"1","object":"chat.completion.chunk","model":"gpt-x","choices":[{"index":0,'
    b'"delta":{"content":"I "}}]}\n\n'
    b'data: {"id":"1","object":"chat.completion.chunk","model":"gpt-x","choices":[{"index":0,"delta":{"tool_calls":'
    b'[{"index":0,"id":"c1","type":"function","function":{"name":"read","arguments":"{\\"p\\":"}}]}}]}\n\n'
    b'data: {"id":"1","object":"chat.completion.chunk","model":"gpt-x","choices":[{"index":0,"delta":{"tool_calls":'
    b'[{"index":0,"function":{"arguments":"1}"}}]}}]}\n\n'
    b'data: {"id":"1","object":"chat.completion.chunk","model":"gpt-x","choices":[{"index":0,"delta":{},'
    b'"finish_reason":"tool_calls"}]}\n\n'
    b"data: [DONE]\n\n"
)
MESSAGE = (
    b'event: message_start\ndata: {"type":"message_start","message":{"id":"m1","type":"message","role":"assistant",'
    b'"model":"claude-x","content":[],"stop_reason":null,"usage":{"input_tokens":3,"output_tokens":1}}}\n\n'
    b'event: content_block_start\ndata: {"type":"content_block_start","index":0,"content_block":'
    b'{"type":"tool_use","id":"c1","name":"read","input":{}}}\n\n'
    b'event: content_block_delta\ndata: {"type":"content_block_delta","index":0,"delta":'
    b'{"type":"input_json_delta","partial_json":"{\\"p\\": 1}"}}\n\n'
    b'event: content_block_stop\ndata: {"type":"content_block_stop","index":0}\n\n'
    b'event: message_delta\ndata: {"type":"message_delta","delta":{"stop_reason":"tool_use"},'
    b'"usage":{"output_tokens":9}}\n\n'
    b'event: message_stop\ndata: {"type":"message_stop"}\n\n'
)
RESPONSE = (
    b'event: response.created\ndata: {"type":"response.created","sequence_number":0,"response":{"id":"r1",'
    b'"object":"response","model":"gpt-x","status":"in_progress","output":[],"created_at":1}}\n\n'
    b'event: response.output_item.added\ndata: {"type":"response.output_item.added","sequence_number":1,'
    b'"output_index":0,"item":{"type":"function_call","id":"f1","call_id":"c1","name":"read","arguments":""}}\n\n'
    b'event: response.function_call_arguments.delta\ndata: {"type":"response.function_call_arguments.delta",'
    b'"sequence_number":2,"item_id":"f1","output_index":0,"delta":"{\\"p\\":1}"}\n\n'
    b'event: response.output_item.done\ndata: {"type":"response.output_item.done","sequence_number":3,"output_index":0,'
    b'"item":{"type":"function_call","id":"f1","call_id":"c1","name":"read","arguments":"{\\"p\\":1}"}}\n\n'
    b'event: response.completed\ndata: {"type":"response.completed","sequence_number":4,"response":{"id":"r1",'
    b'"object":"response","model":"gpt-x","status":"completed","created_at":1,"output":[{"type":"function_call",'
    b'"id":"f1","call_id":"c1","name":"read","arguments":"{\\"p\\":1}"}]}}\n\n'
)
BODIES = {"openai-chat": CHAT, "openai-responses": RESPONSE, "anthropic": MESSAGE}
all_apis = pytest.mark.parametrize("dialect", sorted(BODIES))


@all_apis
async def test_the_model_is_the_one_that_was_asked(dialect: str) -> None:
    turn = await turn_of(dialect, client_of(dialect, BODIES[dialect]), ASK[dialect])
    assert turn.model == "m"
    assert [call.call_id for call in turn.calls] == ["c1"]


async def test_calls_stand_whether_or_not_the_tools_are_known() -> None:
    client = client_of("openai-chat", CHAT)
    assert (await turn_of("openai-chat", client, ask_chat)).calls
    assert (await turn_of("openai-chat", client, ask_chat, tools=[READ])).calls


async def test_half_a_character_is_made_whole() -> None:
    halves = CHAT.replace(b'"content":"I "', b'"content":"I \\ud83d"').replace(
        b'"delta":{}', b'"delta":{"content":"\\ude00"}'
    )
    turn = await turn_of("openai-chat", client_of("openai-chat", halves), ask_chat)
    assert turn.text.startswith("I ")
    turn.text.encode()


# Which streams


@all_apis
async def test_a_stream_or_its_coroutine_may_be_opened_once(dialect: str) -> None:
    client = client_of(dialect, BODIES[dialect])
    from_stream = from_anthropic_stream if dialect == "anthropic" else from_openai_stream
    for stream in (await ASK[dialect](client), ASK[dialect](client), HELPERS[dialect](client)):
        turn = from_stream(stream)
        assert (await turn).calls
        with pytest.raises(FlowError, match="this stream was read before: give a function that makes one"):
            await turn


@all_apis
async def test_what_is_no_asynchronous_stream_is_refused(dialect: str) -> None:
    with pytest.raises(TypeError, match="list_iterator is not an asynchronous stream: ask an asynchronous client"):
        await turn_of(dialect, None, lambda _: iter([]))
    with pytest.raises(NameError):
        await turn_of(dialect, None, lambda _: nothing)  # type: ignore[name-defined]  # noqa: F821


async def test_a_stream_that_was_begun_goes_on_by_its_events() -> None:
    stream = await ask_messages(client_of("anthropic", MESSAGE))
    await anext(stream)
    assert [call.arguments for call in (await from_anthropic_stream(stream)).calls] == ['{"p": 1}']


async def test_an_event_that_the_package_cannot_read_is_a_bad_payload() -> None:
    async def events() -> AsyncIterator[Any]:
        raise IndexError("out of range")
        yield  # type: ignore[unreachable]

    with pytest.raises(BadPayload, match="the package could not read its stream: IndexError out of range"):
        await from_openai_stream(events)


async def test_a_stream_without_events_is_an_incomplete_one() -> None:
    for dialect in BODIES:
        with pytest.raises(IncompleteStream):
            await turn_of(dialect, client_of(dialect, b""), ASK[dialect])


# Errors


def refusing(status: int, body: Any, **headers: str) -> Callable[[httpx2.Request], httpx2.Response]:
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return lambda request: httpx2.Response(status, headers=named, json=body)


@all_apis
async def test_a_refusal_is_told_as_ever(dialect: str) -> None:
    said = {"error": {"type": "rate_limit_error", "message": f"too many requests of {KEY}"}}
    client = client_of(dialect, refusing(429, said, retry_after="7", x_request_id="r1", request_id="r1"))
    with pytest.raises(ProviderError, match=r"too many requests of \[hidden\]") as raised:
        await turn_of(dialect, client, ASK[dialect])
    error = raised.value
    assert (error.status, error.retry_after, error.request_id) == (429, 7.0, "r1")


@all_apis
async def test_an_error_inside_of_the_stream_is_told_after_all_calls_were_abandoned(dialect: str) -> None:
    said = b'event: error\ndata: {"type":"error","error":{"type":"overloaded_error","message":"too busy"}}\n\n'
    first = BODIES[dialect].split(b"\n\n")
    body = b"\n\n".join(first[:3]) + b"\n\n" + said
    with pytest.raises(ProviderError, match="too busy") as raised:
        await turn_of(dialect, client_of(dialect, body), ASK[dialect])
    assert raised.value.turn is not None
    assert [call.abandoned for call in raised.value.turn.dropped] == ["incomplete"]


@all_apis
async def test_a_stream_that_cannot_be_read_is_a_bad_payload(dialect: str) -> None:
    body = BODIES[dialect].split(b"\n\n")[0] + b"\n\nevent: content_block_stop\ndata: {nothing\n\n"
    with pytest.raises(BadPayload, match="is not JSON"):
        await turn_of(dialect, client_of(dialect, body), ASK[dialect])


@all_apis
async def test_a_server_that_is_not_there_is_told_as_ever(dialect: str) -> None:
    def refuse(request: httpx2.Request) -> httpx2.Response:
        raise httpx2.ConnectError("no route")

    with pytest.raises(ConnectionFailed, match="no route"):
        await turn_of(dialect, client_of(dialect, refuse), ASK[dialect])


# Nothing left


class SdkModel:
    """A model that asks by an SDK."""

    name = "sdk"

    def __init__(self, dialect: str, client: Any, ask: Ask) -> None:
        self._dialect, self._client, self._ask = dialect, client, ask

    def stream_turn(self, request: TurnRequest) -> Flow[TurnEvent, Turn]:
        return turn_of(self._dialect, self._client, self._ask, tools=request.tools)


def saying(body: bytes) -> list[Say]:
    async def say(stream: SocketStream) -> None:
        with suppress(anyio.BrokenResourceError):
            await stream.send(answer(body))

    return [say] * 60


def loopback_client(dialect: str, url: str) -> Any:
    if dialect == "anthropic":
        return anthropic.AsyncAnthropic(
            api_key=KEY, base_url=url.removesuffix("/v1"), max_retries=0, timeout=GUARD_SECONDS
        )
    return openai.AsyncOpenAI(api_key=KEY, base_url=url, max_retries=0, timeout=GUARD_SECONDS)


@all_apis
@pytest.mark.parametrize("asking", [ASK, HELPERS], ids=["create", "stream"])
async def test_a_model_by_an_sdk_keeps_what_loops_rely_on(dialect: str, asking: dict[str, Ask]) -> None:
    async with serve(*saying(BODIES[dialect])) as server, loopback_client(dialect, server.url) as client:
        await check_model(SdkModel(dialect, client, asking[dialect]), tools=(READ,))


@all_apis
async def test_a_model_by_an_sdk_that_fails_keeps_it_too(dialect: str) -> None:
    cut = BODIES[dialect][: len(BODIES[dialect]) * 2 // 3]
    async with serve(*saying(cut)) as server, loopback_client(dialect, server.url) as client:
        await check_model(SdkModel(dialect, client, ASK[dialect]), tools=(READ,), fails=True)


MORE_TEXT = {
    "openai-chat": CHAT.split(b"\n\n")[0],
    "openai-responses": b'event: response.output_text.delta\ndata: {"type":"response.output_text.delta","item_id":"t1",'
    b'"sequence_number":2,"output_index":0,"content_index":0,"delta":"more"}',
    "anthropic": b'event: content_block_delta\ndata: {"type":"content_block_delta","index":0,'
    b'"delta":{"type":"text_delta","text":"more"}}',
}


@all_apis
@pytest.mark.parametrize("asking", [ASK, HELPERS], ids=["create", "stream"])
async def test_a_long_stream_is_closed_when_it_is_left(dialect: str, asking: dict[str, Ask]) -> None:
    """The consumer goes while an event waits, and many more have been read ahead."""
    first = BODIES[dialect].split(b"\n\n")[0]
    body = b"\n\n".join([first, *[MORE_TEXT[dialect]] * 500, b""])
    async with serve(*saying(body)) as server, loopback_client(dialect, server.url) as client, nothing_left():
        turn = turn_of(dialect, client, asking[dialect])
        async with turn.open() as opened:
            async for _ in opened:
                await anyio.wait_all_tasks_blocked()
                break
