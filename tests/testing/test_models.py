"""`check_model` lets good models pass, and names the rule that a wrong one breaks; so does `check_decoder`."""

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Sequence
from contextlib import suppress
from typing import Any

import anyio
import anyio.lowlevel
import msgspec
import pytest
from anyio.abc import SocketStream

from streamkit import (
    Flow,
    Message,
    ModelError,
    Sink,
    TextDelta,
    ToolCall,
    ToolInputAvailable,
    ToolInputDelta,
    ToolInputStart,
    ToolSpec,
    Turn,
    TurnEnded,
    TurnEvent,
    TurnRequest,
    TurnRestarted,
    TurnStarted,
    user,
)
from streamkit.flows.groups import LoneErrorGroup
from streamkit.parts import Failed, Finished, InputDelta, NextItem, Part, WholeCall
from streamkit.providers.model import new_turn_id
from streamkit.providers.openai_chat import openai_chat
from streamkit.providers.openai_chat_decoder import OpenAIChatDecoder
from streamkit.providers.openai_responses_decoder import OpenAIResponsesDecoder
from streamkit.testing import ScriptedModel, call, check_decoder, check_model, interleave, stop
from streamkit.testing.leftovers import nothing_left

from ..attacks import in_ticks
from ..providers.loopback import Say, answer, hold, serve
from ..streams import recorded_body, recordings

READ = ToolSpec("read", "Reads a file.", {"type": "object"})
WHOLE_TURN = [
    "Let me ",
    anyio.lowlevel.checkpoint,
    "look.",
    interleave(call("read", {"p": "a"}, split=3), call("read")),
]


def scripted(*parts: Any) -> ScriptedModel:
    return ScriptedModel(*[list(parts)] * 40)


# Good ones


@pytest.mark.parametrize(
    "parts",
    [
        WHOLE_TURN,
        ["Hi"],
        [],
        [call("read", "[1]"), WholeCall("", "{}")],
        [call("read"), stop("length")],
        [call("read"), stop("cancelled")],
        ["w"] * 300,
    ],
    ids=["calls", "text", "nothing", "broken calls", "cut", "cancelled by the provider", "long"],
)
async def test_a_good_model_passes(parts: list[Any]) -> None:
    await check_model(scripted(*parts), tools=(READ,))


async def test_a_model_that_is_asked_without_tools_passes() -> None:
    model = scripted(*WHOLE_TURN)
    await check_model(model)
    assert model.requests[0] == TurnRequest((user("Hello"),))
    assert len(model.requests) < 40


async def test_a_model_that_fails_as_it_should_passes() -> None:
    def script(request: TurnRequest) -> list[Any]:
        return [*WHOLE_TURN, ModelError("lost")]

    model = ScriptedModel(*[script] * 40)
    await check_model(model, tools=(READ,), fails=True)


def chunk(delta: dict[str, Any], finish_reason: str | None = None) -> bytes:
    return b"data: " + json.dumps({"choices": [{"delta": delta, "finish_reason": finish_reason}]}).encode() + b"\n\n"


CALL = {"index": 0, "id": "c1", "function": {"name": "read", "arguments": ""}}
BODY = b"".join(
    [
        chunk({"content": "Let me look."}),
        chunk({"tool_calls": [CALL]}),
        chunk({"tool_calls": [{"index": 0, "function": {"arguments": '{"p": '}}]}),
        chunk({"tool_calls": [{"index": 0, "function": {"arguments": '"a"}'}}]}),
        chunk({}, "tool_calls"),
        b"data: [DONE]\n\n",
    ]
)


def saying(body: bytes) -> list[Say]:
    """An answer for each turn, whether anybody stays to hear it or not."""

    async def say(stream: SocketStream) -> None:
        with suppress(anyio.BrokenResourceError):
            await stream.send(answer(body))

    return [say] * 60


async def test_a_model_over_http_passes() -> None:
    async with serve(*saying(BODY)) as server:
        await check_model(openai_chat("m", base_url=server.url, api_key="secret"), tools=(READ,))
    assert server.asked


@pytest.mark.parametrize(
    "body", [BODY[:-90], b'data: {"error": {"message": "no such tool", "code": 400}}\n\n'], ids=["cut", "error"]
)
async def test_a_model_over_http_fails_as_it_should(body: bytes) -> None:
    async with serve(*saying(body)) as server:
        await check_model(openai_chat("m", base_url=server.url), tools=(READ,), fails=True)


async def test_a_model_that_restarts_itself_passes() -> None:
    def events(turn_id: str) -> list[TurnEvent]:
        turn = Turn(turn_id, "m", (Message("assistant", "B"),))
        return [TurnStarted(turn_id, "m"), TextDelta("A"), TurnRestarted("broke"), TextDelta("B"), TurnEnded(turn)]

    await check_model(HandMade(events))


# Wrong ones


class HandMade:
    """A model that sends what a function says, and leaves all care to it."""

    def __init__(self, events: Callable[[str], Iterable[TurnEvent]], name: str = "hand-made") -> None:
        self.name = name
        self._events = events

    def stream_turn(self, request: TurnRequest) -> Flow[TurnEvent, Turn]:
        return Flow(self.run)

    async def run(self, out: Sink[TurnEvent]) -> Turn:
        turn = Turn("", "m")
        for event in self._events(new_turn_id()):
            await out.send(event)
            await anyio.lowlevel.checkpoint()
            turn = event.turn if isinstance(event, TurnEnded) else turn
        return turn


def calls(
    turn_id: str, *, turn: dict[str, Any] | None = None, call: dict[str, Any] | None = None, **events: Any
) -> list[TurnEvent]:
    """A good turn with a text and a call, but for what is given."""
    fields = {"call_id": "c1", "name": "read", "arguments": "{}", "turn_id": turn_id, **(call or {})}
    items = (Message("assistant", "Hi"), ToolCall(**fields))
    ended = Turn(**{"turn_id": turn_id, "model": "m", "items": items, "stop_reason": "tool_calls", **(turn or {})})
    good: dict[str, TurnEvent | None] = {
        "started": TurnStarted(turn_id, "m"),
        "text": TextDelta("Hi"),
        "start": ToolInputStart("c1", "read"),
        "delta": ToolInputDelta("c1", "{}"),
        "available": ToolInputAvailable("c1", "{}"),
        "ended": TurnEnded(ended),
    }
    return [event for event in {**good, **events}.values() if event is not None]


TWICE = (ToolCall("c1", "read", "{}", "t"), ToolCall("c1", "read", "{}", "t", 1))
WRONG_EVENTS: dict[str, tuple[Callable[[str], list[TurnEvent]], str]] = {
    "no start": (lambda turn_id: calls(turn_id, started=None), "a turn begins with TurnStarted, not with TextDelta"),
    "no end": (lambda turn_id: calls(turn_id, ended=None), "the turn has ''"),
    "no events": (lambda turn_id: [], "the turn has no events"),
    "two starts": (lambda turn_id: calls(turn_id, text=TurnStarted(turn_id, "m")), "has one TurnStarted, not 2"),
    "other id": (lambda turn_id: calls(turn_id, started=TurnStarted("t", "m")), "TurnStarted has the id 't'"),
    "same id": (lambda turn_id: calls("t"), "each opening is a turn of its own, but two have the id 't'"),
    "no id": (lambda turn_id: calls(""), "the id of a turn is empty"),
    "text": (lambda turn_id: calls(turn_id, text=TextDelta("Ho")), "TextDeltas join to 'Ho', but the turn holds 'Hi'"),
    "deltas": (
        lambda turn_id: calls(turn_id, delta=None),
        "the deltas of call c1 join to '', but its arguments are '{}'",
    ),
    "arguments": (
        lambda turn_id: calls(turn_id, available=ToolInputAvailable("c1", '{"p":1}')),
        "became available with other arguments than the turn holds",
    ),
    "no object": (
        lambda turn_id: calls(
            turn_id,
            call={"arguments": "1"},
            delta=ToolInputDelta("c1", "1"),
            available=ToolInputAvailable("c1", "1"),
        ),
        "call c1 became available, but is not a JSON object: '1'",
    ),
    "never ended": (lambda turn_id: calls(turn_id, available=None), "at the end call c1 is being written"),
    "never announced": (
        lambda turn_id: calls(turn_id, start=None, delta=None, available=None),
        "call c1 of 'read' was never announced",
    ),
    "renamed": (lambda turn_id: calls(turn_id, call={"name": "write"}), "announced as .'read'., but the turn holds"),
    "not held": (lambda turn_id: calls(turn_id, turn={"items": (Message("assistant", "Hi"),)}), "at the end call c1"),
    "cut": (lambda turn_id: calls(turn_id, turn={"stop_reason": "length"}), "stops as 'length' has calls that stand"),
    "stop": (lambda turn_id: calls(turn_id, turn={"stop_reason": "stop"}), "stops as 'tool_calls', not as 'stop'"),
    "error": (lambda turn_id: calls(turn_id, turn={"stop_reason": "error"}), "raises instead of ending"),
    "twice": (
        lambda turn_id: calls(turn_id, turn={"items": (Message("assistant", "Hi"), *TWICE)}),
        "two calls of the turn have one id",
    ),
    "place": (lambda turn_id: calls(turn_id, call={"place": 3}), r"count from 0 in their order, not \[3\]"),
    "foreign": (
        lambda turn_id: calls(turn_id, call={"turn_id": "t"}),
        "name another turn than the one that holds them",
    ),
    "half a turn": (lambda turn_id: calls(turn_id)[:-1], "the turn has ''"),
    "no record": (
        lambda turn_id: calls(turn_id, call={"opaque": {"m": {"key": object()}}}),
        "does not encode to JSON and back",
    ),
}


@pytest.mark.parametrize("which", sorted(WRONG_EVENTS))
async def test_wrong_events_are_told(which: str) -> None:
    events, says = WRONG_EVENTS[which]
    with pytest.raises(AssertionError, match=says):
        await check_model(HandMade(events), tools=(READ,))


async def test_a_turn_whose_end_is_not_its_value_is_told() -> None:
    class Other(HandMade):
        async def run(self, out: Sink[TurnEvent]) -> Turn:
            return msgspec.structs.replace(await super().run(out), stop_word="other")

    with pytest.raises(AssertionError, match="TurnEnded carries another turn than the value"):
        await check_model(Other(calls), tools=(READ,))


async def test_calls_in_a_turn_that_may_call_nothing_are_told() -> None:
    with pytest.raises(AssertionError, match="calls stand in a turn that may call no tools"):
        await check_model(HandMade(calls), TurnRequest((user("hi"),), (READ,), tool_choice="none"))


async def test_a_call_that_stays_open_when_its_turn_is_left_is_told() -> None:
    """A careless model passes as long as its turns are whole."""
    with pytest.raises(AssertionError, match=r"turn that was .*: at the end call c1 is (being written|available)"):
        await check_model(HandMade(calls), tools=(READ,))


def model_that(run: Callable[[Sink[TurnEvent]], Awaitable[Turn]]) -> HandMade:
    model = HandMade(lambda turn_id: ())
    model.run = run  # type: ignore[method-assign, assignment]
    return model


async def a_short_turn(out: Sink[TurnEvent]) -> Turn:
    return await scripted("Hi").stream_turn(TurnRequest(()))._run(out)


async def test_a_coroutine_for_a_flow_is_told() -> None:
    class Async:
        name = "async"

        async def stream_turn(self, request: TurnRequest) -> Turn:
            return Turn("t")

    with pytest.raises(AssertionError, match="stream_turn is a plain function that gives a Flow, not coroutine"):
        await check_model(Async())  # type: ignore[arg-type]


async def test_a_model_without_a_name_is_told() -> None:
    with pytest.raises(AssertionError, match="a model has a name"):
        await check_model(HandMade(calls, name=""))


async def test_a_flow_that_can_be_opened_once_is_told() -> None:
    class Once:
        name = "once"

        def stream_turn(self, request: TurnRequest) -> Flow[TurnEvent, Turn]:
            words = iter(["Hi"])

            async def run(out: Sink[TurnEvent]) -> Turn:
                return await scripted(next(words)).stream_turn(request)._run(out)

            return Flow(run)

    with pytest.raises(AssertionError, match="a flow that was opened again: a turn that fails raises a ModelError"):
        await check_model(Once())


async def test_turns_that_share_their_state_are_told() -> None:
    shared: list[str] = []

    async def run(out: Sink[TurnEvent]) -> Turn:
        turn_id = new_turn_id()
        shared[:] = []
        await out.send(TurnStarted(turn_id, "m"))
        for word in ("A", "B"):
            await anyio.lowlevel.checkpoint()
            shared.append(word)
            await out.send(TextDelta(word))
        turn = Turn(turn_id, "m", (Message("assistant", "".join(shared)),))
        await out.send(TurnEnded(turn))
        return turn

    with pytest.raises(AssertionError, match="two turns at once: the TextDeltas join to 'AB', but the turn holds"):
        await check_model(model_that(run))


async def test_errors_that_are_none_of_ours_are_told() -> None:
    async def run(out: Sink[TurnEvent]) -> Turn:
        raise KeyError("choices")

    for fails in (False, True):
        with pytest.raises(AssertionError, match="raises a ModelError, not KeyError"):
            await check_model(model_that(run), fails=fails)


async def test_an_error_without_its_turn_is_told() -> None:
    async def run(out: Sink[TurnEvent]) -> Turn:
        await out.send(TurnStarted("t", "m"))
        raise ModelError("lost")

    with pytest.raises(AssertionError, match="the error of a turn that had begun has no `turn`"):
        await check_model(model_that(run), fails=True)


async def test_a_turn_that_fails_or_ends_unexpectedly_is_told() -> None:
    with pytest.raises(AssertionError, match="the turn failed, see `fails=`: lost") as told:
        await check_model(scripted("A", ModelError("lost")))
    assert isinstance(told.value.__cause__, ModelError)
    with pytest.raises(AssertionError, match="the turn ended well, but `fails=True`"):
        await check_model(scripted("A"), fails=True)


async def test_a_model_that_changes_what_it_is_asked_is_told() -> None:
    class Changing(HandMade):
        def stream_turn(self, request: TurnRequest) -> Flow[TurnEvent, Turn]:
            assert request.extra is not None
            request.extra["stream"] = True
            return Flow(a_short_turn)

    with pytest.raises(AssertionError, match="the model changed the request"):
        await check_model(Changing(calls), TurnRequest((user("Hello"),), extra={}))


async def test_a_model_that_does_not_wait_for_its_consumer_is_told() -> None:
    async def run(out: Sink[TurnEvent]) -> Turn:
        turn_id = new_turn_id()
        await out.send(TurnStarted(turn_id, "m"))
        async with LoneErrorGroup() as tasks:
            for _ in range(200):
                tasks.start_soon(out.send, TextDelta("w"))
        turn = Turn(turn_id, "m", (Message("assistant", "w" * 200),))
        await out.send(TurnEnded(turn))
        return turn

    with pytest.raises(AssertionError, match=r"the model sent \d+ events that nobody took"):
        await check_model(model_that(run))


async def test_a_generator_that_is_not_closed_is_told() -> None:
    async def words() -> AsyncIterator[str]:
        for word in ("A", "B", "C"):
            await anyio.lowlevel.checkpoint()
            yield word

    async def run(out: Sink[TurnEvent]) -> Turn:
        turn_id = new_turn_id()
        await out.send(TurnStarted(turn_id, "m"))
        text = ""
        async for word in words():
            text += word
            await out.send(TextDelta(word))
            await anyio.lowlevel.checkpoint()
        turn = Turn(turn_id, "m", (Message("assistant", text),))
        await out.send(TurnEnded(turn))
        return turn

    with pytest.raises(AssertionError, match=r"the async generator .*words was not closed"):
        await check_model(model_that(run))


def test_a_task_that_goes_on_is_told() -> None:
    kept = []

    async def run(out: Sink[TurnEvent]) -> Turn:
        kept.append(asyncio.create_task(asyncio.sleep(1000)))
        return await a_short_turn(out)

    async def main() -> None:
        with pytest.raises(AssertionError, match=r"something is left behind: the task .* goes on"):
            await check_model(model_that(run))
        for task in kept:
            task.cancel()

    in_ticks("asyncio", main)


def test_a_model_that_leaves_slowly_is_told(anyio_backend: str) -> None:
    async def run(out: Sink[TurnEvent]) -> Turn:
        try:
            return await a_short_turn(out)
        finally:
            with anyio.CancelScope(shield=True):
                await anyio.sleep(50)

    async def main() -> None:
        with pytest.raises(AssertionError, match=r"cancelled at its start: it took 5\d\.\d seconds to leave"):
            await check_model(model_that(run), patience_seconds=40)

    in_ticks(anyio_backend, main)


async def test_a_coroutine_that_nobody_awaits_is_left_behind() -> None:
    async def forgotten() -> None:
        """Never run."""

    with pytest.raises(AssertionError, match=r"RuntimeWarning: coroutine .*forgotten.* was never awaited"):
        async with nothing_left():
            forgotten()  # type: ignore[unused-coroutine]


# Decoders


@pytest.mark.parametrize("entry", recordings("openai-chat")[:6])
def test_a_good_decoder_passes(entry: dict[str, Any]) -> None:
    check_decoder(OpenAIChatDecoder, recorded_body(entry))


def test_a_body_that_the_provider_has_cancelled_passes() -> None:
    text = {"type": "response.output_text.delta", "output_index": 0, "delta": "Hi"}
    end = {"type": "response.cancelled", "response": {"status": "cancelled"}}
    body = b"".join(b"data: " + json.dumps(event).encode() + b"\n\n" for event in (text, end))
    check_decoder(OpenAIResponsesDecoder, body)


def test_a_body_that_is_no_stream_passes() -> None:
    check_decoder(OpenAIChatDecoder, b"<html>\n<title>502</title>\n</html>")
    check_decoder(OpenAIChatDecoder, b"")


class Lines:
    """Decodes lines: `say TEXT`, `call NAME ARGUMENTS`, `end`; the right way, as far as it is not told otherwise."""

    def __init__(self) -> None:
        self._rest = b""
        self._ended = False

    def feed(self, data: bytes) -> Sequence[Part]:
        *lines, self._rest = (self._rest + data).split(b"\n")
        return self._cut([part for line in lines for part in self.read(line.decode().split(" ", 2))])

    def _cut(self, parts: list[Part]) -> list[Part]:
        ends = [at for at, part in enumerate(parts) if isinstance(part, Finished)]
        return parts[: ends[0] + 1] if ends else parts

    def read(self, words: list[str]) -> list[Part]:
        match words:
            case ["say", *rest]:
                return [TextDelta(" ".join(rest))]
            case ["call", name, arguments]:
                return [InputDelta(arguments, name=name, call_id=f"c{arguments}")]
            case ["end"]:
                return [Finished("stop")]
        return [NextItem()]

    def end(self) -> Sequence[Part]:
        return [Failed(ModelError("cut"))]


LINES = b"say H\xc3\xa9 you\ncall read {}\nend\nsay more\n"


def test_a_decoder_of_lines_passes() -> None:
    check_decoder(Lines, LINES)


class Splitting(Lines):
    def feed(self, data: bytes) -> Sequence[Part]:
        return self._cut(
            [part for line in data.split(b"\n") for part in self.read(line.decode(errors="replace").split(" ", 2))]
        )


class Endless(Lines):
    def end(self) -> Sequence[Part]:
        return []


class Trusting(Lines):
    def end(self) -> Sequence[Part]:
        return [Finished("stop")]


class Guessing(Lines):
    def end(self) -> Sequence[Part]:
        return [InputDelta("{}", name="guessed", call_id="g"), Finished("stop")]


class Going(Lines):
    def _cut(self, parts: list[Part]) -> list[Part]:
        return parts


@pytest.mark.parametrize(
    ("decoder", "body", "says"),
    [
        (Splitting, LINES, r"cut into \d+ pieces, the body is another one: it has 0 events instead of 4"),
        (Endless, b"say Hi\n", "neither came"),
        (Guessing, b"call read {}\nend\n", r"ends after 0 bytes: the calls \['g'\] may run, though the whole body has"),
        (Going, LINES, "after Finished come more parts"),
    ],
    ids=["cuts", "no end", "guesses", "goes on"],
)
def test_a_wrong_decoder_is_told(decoder: Callable[[], Lines], body: bytes, says: str) -> None:
    with pytest.raises(AssertionError, match=says):
        check_decoder(decoder, body)


async def test_a_server_that_hangs_can_be_left() -> None:
    """Nothing comes: the check leaves at the first event already."""

    async def begin_and_hold(stream: Any) -> None:
        await stream.send(b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n\r\n" + BODY[:60])
        await hold(stream)

    async with serve(*[begin_and_hold] * 3) as server, nothing_left():
        model = openai_chat("m", base_url=server.url)
        async with model.stream_turn(TurnRequest((user("Hi"),))).open() as events:
            async for _ in events:
                break
