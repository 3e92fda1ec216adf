"""The pump between a decoder and a flow: events in order, whole records, nothing left open whatever happens."""

import math
import re
from collections.abc import AsyncIterator, Sequence
from typing import Any

import anyio
import pytest

from streamkit.errors import BadPayload, ConnectionFailed, DecodeError, IncompleteStream, ModelError, ProviderError
from streamkit.flows.flow import Flow, Sink
from streamkit.items import ToolSpec, Usage, user
from streamkit.metering import Meter
from streamkit.parts import Failed, Finished, InputDelta, NextItem, Part, UsageReported, WholeCall
from streamkit.providers.model import Decoder, TurnRun, decoded, run_turn
from streamkit.testing.grammar import check_grammar
from streamkit.tool_input import Bounds
from streamkit.turns import (
    TextDelta,
    ToolInputAbandoned,
    ToolInputAvailable,
    ToolInputDelta,
    ToolInputStart,
    Turn,
    TurnEnded,
    TurnEvent,
    TurnRequest,
    TurnRestarted,
    TurnStarted,
)

from ..calling import GUARD_SECONDS

REQUEST = TurnRequest((user("hi"),))
WITH_TOOL = TurnRequest((user("hi"),), (ToolSpec("f", "", {}),))
CALL = [ToolInputStart("a", "f"), ToolInputDelta("a", "{}")]


async def given(*batches: Sequence[Part] | Exception) -> AsyncIterator[Sequence[Part]]:
    for batch in batches:
        if isinstance(batch, Exception):
            raise batch
        yield batch


def turn_of(parts: AsyncIterator[Sequence[Part]], request: TurnRequest = REQUEST) -> Flow[TurnEvent, Turn]:
    return Flow(lambda out: run_turn(out, "m", request, parts))


async def seen(flow: Flow[TurnEvent, Turn]) -> tuple[list[TurnEvent], Turn | Exception]:
    """The events of a turn, and its value or its error."""
    events: list[TurnEvent] = []
    try:
        async with flow.open() as opened:
            async for event in opened:
                events.append(event)
            return events, opened.value
    except Exception as error:
        return events, error


async def test_a_turn_starts_goes_on_and_ends_with_its_record() -> None:
    last: list[Part] = [InputDelta("{}", 0, "a", "f"), Finished("tool_calls", "tool_calls")]
    events, turn = await seen(turn_of(given([TextDelta("a")], [], last), WITH_TOOL))
    assert isinstance(turn, Turn)
    assert events == [
        TurnStarted(turn.turn_id, "m"),
        TextDelta("a"),
        *CALL,
        ToolInputAvailable("a", "{}"),
        TurnEnded(turn),
    ]
    assert (turn.model, turn.stop_reason, turn.calls[0].turn_id) == ("m", "tool_calls", turn.turn_id)


async def test_each_turn_has_an_id_of_its_own() -> None:
    turns = [await turn_of(given([Finished("stop")])) for _ in range(2)]
    assert turns[0].turn_id != turns[1].turn_id


async def test_the_tools_of_the_request_are_known() -> None:
    request = TurnRequest((), (ToolSpec("get_weather", "", {}),))
    pieces: list[Part] = [InputDelta("", 0, "a", "get_"), InputDelta("{}", 0, None, "weather"), Finished("tool_calls")]
    turn = await turn_of(given(pieces), request)
    assert turn.calls[0].name == "get_weather"


@pytest.mark.parametrize("in_parts", [True, False])
async def test_an_error_comes_after_what_was_open_is_abandoned_and_carries_the_turn(*, in_parts: bool) -> None:
    error = ProviderError("overloaded", status=529)
    parts: list[Part] = [TextDelta("Well"), InputDelta("{}", 0, "a", "f")]
    source = given([*parts, Failed(error)]) if in_parts else given(parts, error)
    events, raised = await seen(turn_of(source))
    assert raised is error
    assert events[1:] == [TextDelta("Well"), *CALL, ToolInputAbandoned("a", "incomplete", "the turn failed")]
    assert error.turn is not None
    assert (error.turn.text, error.turn.stop_reason, error.turn.calls) == ("Well", "error", ())
    assert [call.arguments for call in error.turn.dropped] == ["{}"]


async def test_parts_that_go_on_after_the_end_are_not_waited_for_but_closed() -> None:
    closed = False

    async def parts() -> AsyncIterator[Sequence[Part]]:
        nonlocal closed
        try:
            yield [TextDelta("a"), Finished("stop")]
            await anyio.sleep_forever()
        finally:
            closed = True

    with anyio.fail_after(GUARD_SECONDS):
        turn = await turn_of(parts())
    assert (turn.text, turn.stop_reason, closed) == ("a", "stop", True)


async def test_parts_without_an_end_are_an_error() -> None:
    events, raised = await seen(turn_of(given([InputDelta("{}", 0, "a", "f")])))
    assert isinstance(raised, IncompleteStream)
    assert isinstance(events[-1], ToolInputAbandoned)


async def test_bytes_that_cannot_be_decoded_are_a_bad_payload() -> None:
    _, raised = await seen(turn_of(given([TextDelta("a")], DecodeError("not UTF-8"))))
    assert isinstance(raised, BadPayload)
    assert (str(raised), isinstance(raised.__cause__, DecodeError)) == ("not UTF-8", True)
    assert raised.turn is not None
    assert raised.turn.text == "a"


async def test_an_error_that_is_not_of_the_model_leaves_as_it_is() -> None:
    error = ZeroDivisionError()
    events, raised = await seen(turn_of(given([InputDelta("{}", 0, "a", "f")], error)))
    assert raised is error
    assert isinstance(events[-1], ToolInputAbandoned)


async def test_an_error_from_downstream_leaves_as_it_is() -> None:
    def refuse(event: TurnEvent) -> TurnEvent:
        if isinstance(event, ToolInputDelta):
            raise ZeroDivisionError
        return event

    events, raised = await seen(turn_of(given([InputDelta("{}", 0, "a", "f")])).map(refuse))
    assert isinstance(raised, ZeroDivisionError)
    assert [type(event) for event in events] == [TurnStarted, ToolInputStart, ToolInputAbandoned]


@pytest.mark.parametrize("failure", [None, ProviderError("no")])
async def test_the_usage_of_a_turn_is_charged_however_it_ends(failure: Exception | None) -> None:
    last = failure or [Finished("stop")]
    with Meter() as meter:
        await seen(turn_of(given([UsageReported(Usage(3, 4))], last)))
    assert meter.total == Usage(3, 4)


LETTERS = {ToolInputStart: "s", ToolInputDelta: "d", ToolInputAvailable: "v", ToolInputAbandoned: "x"}


class RecordingSink(Sink[TurnEvent]):
    """Keeps what is sent; may wait for ever once it has a number of events."""

    def __init__(self, hang_after: float = math.inf) -> None:
        self.events: list[TurnEvent] = []
        self.hang_after = hang_after
        self.hangs = anyio.Event()

    async def send(self, event: TurnEvent) -> None:
        self.events.append(event)
        if len(self.events) >= self.hang_after:
            self.hangs.set()
            await anyio.sleep_forever()


async def test_a_cancelled_turn_abandons_what_is_open_before_the_cancellation_leaves() -> None:
    waiting = anyio.Event()
    closed = False

    async def parts() -> AsyncIterator[Sequence[Part]]:
        nonlocal closed
        try:
            yield [TextDelta("a"), InputDelta("{}", 0, "a", "f")]
            waiting.set()
            await anyio.sleep_forever()
        finally:
            closed = True

    sink = RecordingSink()
    with Meter() as meter:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(run_turn, sink, "m", REQUEST, parts())
            await waiting.wait()
            tasks.cancel_scope.cancel()
    assert sink.events[1:] == [
        TextDelta("a"),
        *CALL,
        ToolInputAbandoned("a", "incomplete", "the turn was cancelled"),
    ]
    assert closed
    assert meter.total == Usage()


@pytest.mark.parametrize("hang_after", range(1, 9))
async def test_events_that_a_cancellation_finds_unsent_are_sent_in_order(hang_after: int) -> None:
    """Cancelled while an event is being sent: the rest of its batch still belongs to the grammar."""
    parts: list[Part] = [
        TextDelta("x"), InputDelta("{}", 0, "a", "f"), InputDelta("[", 1, "b", "f"), Finished("tool_calls")
    ]  # fmt: skip
    sink = RecordingSink(hang_after)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(run_turn, sink, "m", REQUEST, given(parts))
        await sink.hangs.wait()
        sink.hang_after = math.inf
        tasks.cancel_scope.cancel()
    for call_id in ("a", "b"):
        letters = [LETTERS[type(event)] for event in sink.events if getattr(event, "call_id", None) == call_id]
        assert re.fullmatch("(sd*v?x)?", "".join(letters))


async def test_a_sink_that_hangs_does_not_keep_a_cancelled_turn() -> None:
    sink = RecordingSink(hang_after=3)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(run_turn, sink, "m", REQUEST, given([InputDelta("{}", 0, "a", "f")]))
        await sink.hangs.wait()
        tasks.cancel_scope.cancel()
    assert isinstance(sink.events[-1], ToolInputAbandoned)


async def test_parts_are_closed_when_the_consumer_leaves() -> None:
    closed = False

    async def parts() -> AsyncIterator[Sequence[Part]]:
        nonlocal closed
        try:
            while True:
                yield [TextDelta("a")]
        finally:
            closed = True

    async with turn_of(parts()).open() as events:
        async for event in events:
            if isinstance(event, TextDelta):
                break
    assert closed


async def test_what_the_cleanup_of_parts_raises_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    async def parts() -> AsyncIterator[Sequence[Part]]:
        try:
            yield [TextDelta("a"), Failed(ProviderError("no"))]
        finally:
            raise ZeroDivisionError

    _, raised = await seen(turn_of(parts()))
    assert isinstance(raised, ProviderError)
    assert "closing" in caplog.text


# Beginning anew


def attempts(*sources: AsyncIterator[Sequence[Part]]) -> Flow[TurnEvent, Turn]:
    """A turn that is begun anew, from the next source, as long as there is one."""

    async def run(out: Sink[TurnEvent]) -> Turn:
        async with TurnRun(out, "m", WITH_TOOL) as turn:
            for source in sources[:-1]:
                with pytest.raises(ModelError):
                    await turn.read(source)
            return await turn.read(sources[-1])

    return Flow(run)


async def test_a_turn_begun_anew_takes_back_what_it_had_shown_and_keeps_its_id() -> None:
    first: list[Part] = [
        TextDelta("Well"), WholeCall("f", "{}", "a"), InputDelta("{", 1, "b", "f"), UsageReported(Usage(3, 1))
    ]  # fmt: skip
    second: list[Part] = [WholeCall("f", "{}", "a"), UsageReported(Usage(3, 4)), Finished("tool_calls")]
    with Meter() as meter:
        events, turn = await seen(attempts(given(first, ConnectionFailed("reset by peer")), given(second)))
    assert isinstance(turn, Turn)
    assert events == [
        TurnStarted(turn.turn_id, "m"),
        TextDelta("Well"),
        *CALL,
        ToolInputAvailable("a", "{}"),
        ToolInputStart("b", "f"),
        ToolInputDelta("b", "{"),
        ToolInputAbandoned("a", "retried", "the turn begins anew"),
        ToolInputAbandoned("b", "retried", "the turn begins anew"),
        TurnRestarted("reset by peer"),
        *CALL,
        ToolInputAvailable("a", "{}"),
        TurnEnded(turn),
    ]
    check_grammar(events, pending=["a"])
    assert (turn.text, [call.call_id for call in turn.calls], turn.calls[0].place) == ("", ["a"], 0)
    assert turn.usage == meter.total == Usage(6, 5)


async def test_a_turn_that_had_shown_nothing_begins_anew_unseen() -> None:
    nothing = given([NextItem(), UsageReported(Usage(3))], ProviderError("overloaded"))
    events, turn = await seen(attempts(nothing, given([TextDelta("a"), Finished("stop")])))
    assert isinstance(turn, Turn)
    assert events == [TurnStarted(turn.turn_id, "m"), TextDelta("a"), TurnEnded(turn)]
    assert turn.usage == Usage(3)


async def test_a_turn_that_fails_anew_abandons_only_what_it_showed_last() -> None:
    broken = [given([InputDelta("{", 0, name, "f")], ConnectionFailed(name)) for name in ("a", "b")]
    events, raised = await seen(attempts(*broken))
    assert isinstance(raised, ConnectionFailed)
    abandoned = [(event.call_id, event.reason) for event in events if isinstance(event, ToolInputAbandoned)]
    assert abandoned == [("a", "retried"), ("b", "incomplete")]
    assert raised.turn is not None
    assert [call.call_id for call in raised.turn.dropped] == ["b"]
    check_grammar(events)


async def test_an_error_between_two_attempts_carries_the_turn_of_the_first() -> None:
    async def run(out: Sink[TurnEvent]) -> Turn:
        async with TurnRun(out, "m", REQUEST) as turn:
            with pytest.raises(ConnectionFailed):
                await turn.read(given([TextDelta("a")], ConnectionFailed("reset")))
            raise ProviderError("no")

    _, raised = await seen(Flow(run))
    assert isinstance(raised, ProviderError)
    assert raised.turn is not None
    assert raised.turn.text == "a"


async def test_an_error_before_a_turn_began_carries_none() -> None:
    async def run(out: Sink[TurnEvent]) -> Turn:
        async with TurnRun(out, "m", REQUEST):
            raise ProviderError("no")

    events, raised = await seen(Flow(run))
    assert (events, isinstance(raised, ProviderError)) == ([], True)
    assert getattr(raised, "turn", ...) is None


# From bytes to parts


class Letters:
    """A decoder: each byte is a piece of text, a dot the end of the turn, an exclamation mark its failure."""

    def feed(self, data: bytes) -> list[Part]:
        parts: list[Part] = []
        for letter in data.decode():
            if letter == ".":
                return [*parts, Finished("stop")]
            parts.append(Failed(ProviderError("!")) if letter == "!" else TextDelta(letter))
            if letter == "!":
                return parts
        return parts

    def end(self) -> list[Part]:
        return [TextDelta("end"), Failed(IncompleteStream("no dot"))]


async def body(*pieces: bytes | Exception) -> AsyncIterator[bytes]:
    for piece in pieces:
        if isinstance(piece, Exception):
            raise piece
        yield piece


async def parts_of(*pieces: bytes | Exception) -> list[Any]:
    decoder: Decoder = Letters()
    return [part async for batch in decoded(body(*pieces), decoder) for part in batch]


async def test_nothing_is_read_after_the_end_of_a_turn() -> None:
    assert await parts_of(b"a", b"b.", AssertionError()) == [TextDelta("a"), TextDelta("b"), Finished("stop")]


async def test_nothing_is_read_after_a_failure() -> None:
    parts = await parts_of(b"a!", AssertionError())
    assert [type(part) for part in parts] == [TextDelta, Failed]


async def test_a_body_that_ends_asks_the_decoder_for_the_rest() -> None:
    parts = await parts_of(b"a")
    assert parts[:2] == [TextDelta("a"), TextDelta("end")]
    assert isinstance(parts[2].error, IncompleteStream)


async def test_a_broken_connection_is_what_failed_unless_the_end_was_declared() -> None:
    broken = ConnectionFailed("reset by peer")
    parts = await parts_of(b"a", broken)
    assert [type(part) for part in parts] == [TextDelta, TextDelta, Failed]
    assert parts[-1].error is broken


class Forgiving(Letters):
    def end(self) -> list[Part]:
        return [Finished("stop")]


async def test_a_connection_that_breaks_after_the_end_was_declared_spoils_nothing() -> None:
    batches = [list(batch) async for batch in decoded(body(b"a", ConnectionFailed("reset")), Forgiving())]
    assert batches == [[TextDelta("a")], [Finished("stop")]]


class Refusing(Letters):
    def end(self) -> list[Part]:
        return [Failed(ProviderError("no"))]


async def test_a_failure_that_was_told_counts_more_than_the_broken_connection_behind_it() -> None:
    batches = [list(batch) async for batch in decoded(body(b"a", ConnectionFailed("reset")), Refusing())]
    (failed,) = batches[-1]
    assert isinstance(failed, Failed)
    assert str(failed.error) == "no"


async def test_a_model_error_without_a_turn_gets_one_only_once() -> None:
    inner = ModelError("inner")
    _, first = await seen(turn_of(given([TextDelta("a")], inner)))
    _, second = await seen(turn_of(given([TextDelta("b")], inner)))
    assert first is second is inner
    assert inner.turn is not None
    assert inner.turn.text == "a"


async def test_a_body_that_is_too_long_is_a_bad_payload() -> None:
    with pytest.raises(BadPayload, match="the answer has more than 3 bytes"):
        async for _ in decoded(body(b"aa", b"aa"), Forgiving(), limit_bytes=3):
            pass


async def test_a_turn_with_too_many_calls_fails_with_all_calls_closed() -> None:
    parts = given([WholeCall("f", "{}", "a")], [WholeCall("f", "{}", "b")], [Finished("tool_calls")])
    flow: Flow[TurnEvent, Turn] = Flow(lambda out: run_turn(out, "m", WITH_TOOL, parts, bounds=Bounds(calls=1)))
    events, error = await seen(flow)
    assert isinstance(error, BadPayload)
    assert error.turn is not None
    assert error.turn.calls == ()
    assert events[-1] == ToolInputAbandoned("a", "discarded", "the turn failed")


async def test_a_part_that_comes_alone_is_told_to_come_in_a_list() -> None:
    async def parts() -> AsyncIterator[Any]:
        yield TextDelta("Hi")

    with pytest.raises(TypeError, match="parts come in lists"):
        flow: Flow[TurnEvent, Turn] = Flow(lambda out: run_turn(out, "m", TurnRequest(()), parts()))
        await flow


async def test_a_history_in_place_of_a_request_says_what_is_wanted() -> None:
    history: Any = (user("hi"),)
    with pytest.raises(TypeError, match=r"request is a TurnRequest, .* not a tuple"):
        await turn_of(given(), history)
