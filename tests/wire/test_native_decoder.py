"""The native protocol there and back: a client hears the events of the run, however its bytes are cut."""

from collections.abc import AsyncIterator
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from streamkit import (
    Conversation,
    Flow,
    ModelError,
    Output,
    ReasoningDelta,
    RefusalDelta,
    RunEvent,
    TextDelta,
    ToolInputAvailable,
    ToolInputDelta,
    ToolInputStart,
    Toolkit,
    converse,
    count,
    fields,
    streaming_tool,
    tool,
    user,
)
from streamkit.errors import DecodeError, DecoderClosed, RunStopped
from streamkit.execution.approval import Undecided
from streamkit.items import ProviderTool, UnknownItem
from streamkit.parts import NextItem
from streamkit.testing import ScriptedModel, call, check_grammar, every_cut, interleave, stop
from streamkit.testing.cuts import random_cut
from streamkit.tool_events import walk
from streamkit.turns import TurnEnded
from streamkit.wire import native_frames as frames
from streamkit.wire.native import NativeEncoder
from streamkit.wire.native_decoder import NativeDecoder

from ..agent_run import Run, World
from ..calling import last_text
from ..streams import decode
from .as_told import as_told
from .native_grammar import check_frames, encoded, frames_of

# Runs with whatever may happen in them

texts = st.sampled_from(["I look. ", "a\nb\u2028c", "é\ude00", '"', "\r\n\r\ndata: x\n\n", "\x00\x1f"])
calls = st.builds(
    call,
    st.sampled_from(["read", "fails", "nope", "tally", "delegate", "asked"]),
    st.sampled_from(['{"p":"a"}', "{}", "", "[1]", '{"p":"a"', '{"p":1}', '"{\\"p\\":\\"x\\"}"', '{"p":"\\ud83d"}']),
    call_id=st.sampled_from([None, "c", "d", "c~2", "\u2028\ud83d"]),
    split=st.sampled_from([None, 1, 3]),
    ends=st.booleans(),
)
parts = st.one_of(
    texts,
    calls,
    st.lists(calls, min_size=2, max_size=3).map(lambda some: interleave(*some)),
    st.builds(ReasoningDelta, texts, st.sampled_from(["trace", "summary"])),
    st.builds(RefusalDelta, texts),
    st.sampled_from(
        [ProviderTool("s", "search", {"q": 1}, [{"a": "b"}], "web_search"), UnknownItem({"x": 1}, "gemini")]
    ),
    st.just(NextItem()),
    st.builds(ModelError, st.just("connection lost")),
    st.sampled_from([stop("length"), stop("content_filter"), stop("stop", "END"), stop("pause"), stop("refusal")]),
)
turns = st.lists(st.lists(parts, max_size=6), min_size=1, max_size=4)


@tool
async def read(p: str) -> str:
    """Reads."""
    return p


@tool
async def fails() -> None:
    """Fails."""
    raise ValueError


@streaming_tool(reduce=count())
async def tally() -> AsyncIterator[Any]:
    """Shows what JSON does not know, too."""
    yield {"done": 1, "of": (2, 3)}
    yield None
    yield object
    yield "\ud83d"


@tool
async def asked(p: str = "") -> list[str]:
    """Nobody decides about it."""
    return [p]


def toolkit(script: list[list[Any]]) -> Toolkit:
    @tool
    def delegate() -> Flow[RunEvent, str]:
        """An inner run with the same script; its own inner runs have an end."""
        inner = converse(ScriptedModel(*script, ["Inside."]), Toolkit(read, fails, tally), (user("look"),), max_turns=3)
        return inner.then(last_text)

    return Toolkit(read, fails, tally, asked, delegate)


async def authorize(question: Any) -> Any:
    return Undecided()


async def events_of(script: list[list[Any]], leave_after: int | None, has_fields: bool) -> tuple[list[RunEvent], Any]:
    """What a consumer saw of such a run, and what it ended with."""
    seen: list[RunEvent] = []
    model = ScriptedModel(*script, ["The end."])
    run = converse(model, toolkit(script), (user("go"),), max_turns=4)
    try:
        async with (fields(run) if has_fields else run).open() as events:
            async for event in events:
                seen.append(event)
                if leave_after is not None and len(seen) > leave_after:
                    return seen, RunStopped("enough")
    except Exception as error:
        return seen, error
    return seen, events.value


def why(end: object) -> str:
    if isinstance(end, RunStopped):
        return "the run was stopped"
    return "the run failed" if isinstance(end, Exception) else "the run has ended"


@settings(max_examples=120)
@given(turns, st.integers(0, 60) | st.none(), st.booleans(), st.integers(0, 1000))
async def test_a_client_hears_the_events_of_the_run(
    script: list[list[Any]], leave_after: int | None, has_fields: bool, seed: int
) -> None:
    events, end = await events_of(script, leave_after, has_fields)
    body = encoded(events, end)
    check_frames(frames_of(body))
    decoder = NativeDecoder()
    heard = decode(decoder, random_cut(body, seed))
    assert heard == as_told(events, why(end))
    check_grammar(heard, complete=False)
    assert isinstance(decoder.last, frames.Finish) == isinstance(end, Conversation)


async def test_a_call_without_a_name_has_its_failure_alone() -> None:
    events, end = await events_of([[call("", {"p": "a"}), call("read", {"p": "a"})]], None, has_fields=False)
    heard = decode(NativeDecoder(), [encoded(events, end)])
    assert heard == as_told(events, "")
    (turn, *_) = [event.turn for event in heard if isinstance(event, TurnEnded)]
    assert [each.name for each in turn.calls] == ["read"]
    assert [event.result.call_id for event in heard if isinstance(event, Output)] == ["call_1", "call_2"]


# The body


async def whole_run() -> tuple[list[RunEvent], Conversation]:
    run = Run(World())
    await run.go()
    assert run.state is not None
    return run.seen, run.state


async def test_inner_runs_keep_their_path() -> None:
    events, state = await whole_run()
    heard = decode(NativeDecoder(), [encoded(events, state)])
    assert [walk(event)[0] for event in heard] == [walk(event)[0] for event in events]
    check_grammar(heard)


async def test_how_the_body_is_cut_changes_nothing() -> None:
    body = encoded(*await whole_run())
    heard = decode(NativeDecoder(), [body])
    for pieces in every_cut(body):
        assert decode(NativeDecoder(), pieces) == heard


async def test_a_client_that_comes_back_hears_each_event_once() -> None:
    events, state = await whole_run()
    body = encoded(events, state)
    heard = decode(NativeDecoder(), [body])
    blocks = body.split(b"\n\n")
    for place in range(0, len(body), 97):
        decoder = NativeDecoder()
        again = decoder.feed(body[:place])
        decoder.next_body()
        again += decoder.feed(b"\n\n".join(blocks[decoder.number :]))
        assert again + decoder.end() == heard
        assert decoder.number == len(blocks) - 1


def test_who_comes_back_inside_of_a_part_needs_no_second_start() -> None:
    """`cases/durability.json`: of a text and of a call; and who has nothing begins with the start."""
    said: list[RunEvent] = [
        *[TextDelta(piece) for piece in ("Hel", "lo", "!")],
        ToolInputStart("c", "f"),
        *[ToolInputDelta("c", piece) for piece in ('{"a"', ":1", "}")],
        ToolInputAvailable("c", '{"a":1}'),
    ]
    encoder = NativeEncoder(run_id="run")
    frames_before = encoder.open() + b"".join([encoder.event(event) for event in said])
    blocks = frames_before.split(b"\n\n")
    assert NativeDecoder().feed(frames_before) == said
    for has_so_far, place in ((4, 2), (8, 5)):
        decoder = NativeDecoder()
        first = decoder.feed(b"\n\n".join([*blocks[:has_so_far], b""]))
        decoder.next_body()
        rest = b"\n\n".join(blocks[has_so_far:])
        assert b"-start" not in rest.partition(b"-delta")[0]
        assert (first, first + decoder.feed(rest)) == (said[:place], said)


def test_frames_that_came_already_are_let_go() -> None:
    body = encoded([TextDelta("a"), TextDelta("b")])
    decoder = NativeDecoder()
    heard = decoder.feed(body[:-80])
    decoder.next_body()
    assert heard + decoder.feed(body) == [TextDelta("a"), TextDelta("b")]


def test_a_frame_that_is_missing_is_an_error_behind_the_events_before_it() -> None:
    blocks = encoded([TextDelta("a"), TextDelta("b")]).split(b"\n\n")
    decoder = NativeDecoder()
    assert decoder.feed(b"\n\n".join([*blocks[:3], *blocks[4:]])) == [TextDelta("a")]
    with pytest.raises(DecodeError, match="frame 4 of the stream is missing: frame 5 came"):
        decoder.feed(b"")
    with pytest.raises(DecoderClosed):
        decoder.feed(b"")


def test_who_comes_late_begins_behind_a_number() -> None:
    blocks = encoded([TextDelta("a"), TextDelta("b")]).split(b"\n\n")
    decoder = NativeDecoder(after=3)
    assert decode(decoder, [b"\n\n".join(blocks[3:])]) == [TextDelta("b")]


def test_a_body_that_just_stops_is_an_error() -> None:
    body = encoded([TextDelta("a")])
    decoder = NativeDecoder()
    assert decoder.feed(body[:-1]) == [TextDelta("a")]
    with pytest.raises(DecodeError, match="after frame 4, before the run did"):
        decoder.end()


@pytest.mark.parametrize(
    ("data", "told"),
    [
        ("{", "is not a frame"),
        ("[]", "is not a frame"),
        ('{"id":"a"}', "is not a frame"),
        ('{"type":"text-delta","id":"a"}', "a frame text-delta cannot be read: .*`delta`"),
        ('{"type":"start","messageId":"a","protocol":"streamkit.2"}', "the stream is 'streamkit.2', not streamkit.1"),
        ('{"type":"tool-progress","id":"a","data":' + "[" * 100_000, "cannot be read|is not a frame"),
    ],
)
def test_what_is_no_frame_is_an_error(data: str, told: str) -> None:
    with pytest.raises(DecodeError, match=told):
        NativeDecoder().feed(f"data: {data}\n\n".encode())


def test_what_a_later_version_says_more_is_let_go() -> None:
    decoder = NativeDecoder()
    body = (
        b'id: 1\ndata: {"type":"start","messageId":"a","protocol":"streamkit.1","more":1}\n\n'
        b'id: 2\ndata: {"type":"weather","id":"sun"}\n\n'
        b": a comment\n\n"
        b'id: 3\ndata: {"type":"turn-end","id":"t","stopReason":"bored","stopWord":null,"usage":{}}\n\n'
        b'id: 4\ndata: {"type":"finish","messageId":"a"}\n\n'
        b'id: 5\ndata: {"type":"text-delta","id":"a","delta":"b"}\n\n'
    )
    (event,) = decode(decoder, [body])
    assert isinstance(event, TurnEnded)
    assert event.turn.stop_reason == "unknown"
    assert decoder.message_id == "a"
    assert isinstance(decoder.last, frames.Finish)
