"""Turns of the Messages API over a socket."""

import json
from typing import Any

import pytest

from streamkit.errors import ProviderError
from streamkit.items import Reasoning, ToolSpec, assistant, user
from streamkit.providers.anthropic import anthropic
from streamkit.turns import ToolInputDelta, TurnRequest

from .anthropic_events import arguments, begin, call, end, sse, stop, text
from .loopback import answer, serve

HI = sse(begin(0, "text", text=""), text("Hi"), stop(), *end())
REQUEST = TurnRequest((user("hi"),))


@pytest.mark.parametrize("path", ["", "/", "/v1", "/v1/"])
async def test_a_turn_is_asked_for_and_streamed(path: str) -> None:
    async with serve(answer(HI)) as server:
        address = server.url.removesuffix("/v1") + path
        turn = await anthropic("m", base_url=address, api_key="a-key", headers={"x-team": "blue"}).stream_turn(REQUEST)
    assert (turn.text, turn.stop_reason, turn.model) == ("Hi", "stop", "m")
    (asked,) = server.asked
    assert asked.target == "/v1/messages"
    assert {key: asked.headers.get(key) for key in ("x-api-key", "anthropic-version", "x-team", "authorization")} == {
        "x-api-key": "a-key",
        "anthropic-version": "2023-06-01",
        "x-team": "blue",
        "authorization": None,
    }
    assert (asked.body["model"], asked.body["stream"]) == ("m", True)


async def test_the_key_comes_from_the_environment_when_a_turn_is_run(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("ANTHROPIC_API_KEY", raising=False)
    async with serve(answer(HI), answer(HI)) as server:
        model = anthropic("m", base_url=f"{server.url}?beta=true")
        await model.stream_turn(REQUEST)
        monkeypatch.setenv("ANTHROPIC_API_KEY", "from-environment")
        await model.stream_turn(REQUEST)
    assert [asked.headers.get("x-api-key") for asked in server.asked] == [None, "from-environment"]
    assert server.asked[0].target == "/v1/messages?beta=true"


@pytest.mark.parametrize(
    ("options", "has_marks", "is_eager"), [({}, True, False), ({"cache": False, "eager_input": True}, False, True)]
)
async def test_what_a_model_is_made_with_is_in_its_requests(
    options: dict[str, Any], has_marks: bool, is_eager: bool
) -> None:
    async with serve(answer(HI)) as server:
        model = anthropic("m", base_url=server.url, api_key="k", **options)
        await model.stream_turn(TurnRequest((user("hi"),), (ToolSpec("f", "", {}),)))
    sent = json.dumps(server.asked[0].body)
    assert ("cache_control" in sent, "eager_input_streaming" in sent) == (has_marks, is_eager)


async def test_a_server_that_is_not_anthropic_gets_back_thinking_that_it_did_not_sign() -> None:
    history = (user("hi"), Reasoning("Hm", "trace", {"anthropic": {}}), assistant("Yes"), user("Go on"))
    async with serve(answer(HI)) as server:
        await anthropic("m", base_url=server.url, api_key="k").stream_turn(TurnRequest(history))
    assert server.asked[0].body["messages"][1]["content"][0] == {"type": "thinking", "thinking": "Hm"}


@pytest.mark.parametrize(("key", "told"), [("", "set ANTHROPIC_API_KEY"), ("a-secret-key", "invalid x-api-key")])
async def test_a_key_that_is_missed_or_refused_is_told_but_not_repeated(key: str, told: str) -> None:
    refusal = b'{"type":"error","error":{"type":"authentication_error","message":"invalid x-api-key a-secret-key"}}'
    async with serve(answer(refusal, status="401 Unauthorized", kind="application/json")) as server:
        with pytest.raises(ProviderError, match=told) as raised:
            await anthropic("m", base_url=server.url, api_key=key).stream_turn(REQUEST)
    assert raised.value.status == 401
    assert not key or key not in str(raised.value)


async def test_a_stream_of_the_provider_reaches_the_consumer_piece_by_piece() -> None:
    body = sse(call(), arguments('{"x":'), arguments("1}"), stop(), *end("tool_use"))
    async with (
        serve(answer(body)) as server,
        anthropic("m", base_url=server.url, api_key="k").stream_turn(REQUEST).open() as events,
    ):
        deltas = [event.delta async for event in events if isinstance(event, ToolInputDelta)]
    assert deltas == ['{"x":', "1}"]
