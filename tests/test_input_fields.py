"""Fields of a call while it is written: where they stand, what they join to, and what is not read."""

import gc
import itertools
import json
from collections.abc import AsyncIterator, Sequence
from typing import Any

import anyio
import anyio.to_thread
import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamkit import (
    Flow,
    Intermediate,
    RunEvent,
    Sink,
    Toolkit,
    ToolSpec,
    Turn,
    TurnRequest,
    converse,
    flow,
    last,
    streaming_tool,
    tool,
    user,
)
from streamkit.codec.partial_json import PartialJson
from streamkit.errors import SinkClosed
from streamkit.input_fields import fields
from streamkit.parts import InputDelta, InputEnd, InputStart
from streamkit.testing import ScriptedModel, call, check_grammar, interleave, stop
from streamkit.testing.scripted import ScriptPart
from streamkit.tool_events import ToolInputField, walk
from streamkit.turns import (
    TextDelta,
    ToolInputAbandoned,
    ToolInputAvailable,
    ToolInputDelta,
    ToolInputStart,
    TurnEvent,
    TurnRestarted,
    TurnStarted,
)

FILE = '{"path":"a.txt","content":"hello"}'


def turn(*parts: ScriptPart) -> Flow[TurnEvent, Turn]:
    tools = tuple(ToolSpec(name, "", {}) for name in ("write_file", "read_file", "sql"))
    return ScriptedModel(parts).stream_turn(TurnRequest((), tools))


async def seen(events_of: Flow[RunEvent, Any]) -> list[RunEvent]:
    async with events_of.open() as events:
        return [event async for event in events]


def found(events: Sequence[RunEvent]) -> list[tuple[str, tuple[str | int, ...], str]]:
    return [(event.call_id, event.path, event.text) for event in events if isinstance(event, ToolInputField)]


def joined(events: Sequence[RunEvent]) -> dict[tuple[str | int, ...], str]:
    texts: dict[tuple[str | int, ...], str] = {}
    for _, path, text in found(events):
        texts[path] = texts.get(path, "") + text
    return texts


@flow
async def sent(out: Sink[RunEvent], *events: RunEvent) -> str:
    for event in events:
        await out.send(event)
    return "done"


async def test_fields_follow_their_delta_and_stand_before_the_end() -> None:
    events = await seen(fields(turn(call("write_file", FILE, split=13, call_id="c"))))
    assert events[1:-1] == [
        ToolInputStart("c", "write_file"),
        ToolInputDelta("c", '{"path":"a.tx'),
        ToolInputField("c", ("path",), "a.tx"),
        ToolInputDelta("c", 't","content":'),
        ToolInputField("c", ("path",), "t"),
        ToolInputDelta("c", '"hello"}'),
        ToolInputField("c", ("content",), "hello"),
        ToolInputAvailable("c", FILE),
    ]
    check_grammar(events, complete=False)


async def test_all_else_is_passed_on_and_the_value_is_kept() -> None:
    parts: list[ScriptPart] = ["Let me see.", call("write_file", FILE, split=3, call_id="c"), TextDelta("So.")]
    plain = await seen(turn(*parts))
    async with fields(turn(*parts)).open() as events:
        with_fields = [event async for event in events]
    assert len(with_fields) > len(plain)
    assert [event for event in with_fields if type(event) is not ToolInputField][1:-1] == plain[1:-1]
    assert [item.arguments for item in events.value.calls] == [FILE]
    assert [item.arguments for item in (await fields(turn(*parts))).calls] == [FILE]


@pytest.mark.parametrize(
    ("arguments", "texts"),
    [
        ('{"n": 1.50, "yes": true, "no": null}', {("n",): "1.5", ("yes",): "true", ("no",): "null"}),
        ('{"empty": "", "none": [], "nothing": {}}', {("empty",): ""}),
        ('{"l": [{"old": "a", "new": ""}, "b"]}', {("l", 0, "old"): "a", ("l", 0, "new"): "", ("l", 1): "b"}),
        (r'{"s": "\ud83d\ude00\n"}', {("s",): "😀\n"}),
        ("{}", {}),
    ],
)  # fmt: skip
@pytest.mark.parametrize("split", [None, 1, 4])
async def test_strings_join_to_their_text_and_other_leaves_are_json(
    arguments: str, texts: dict[Any, str], split: int | None
) -> None:
    assert joined(await seen(fields(turn(call("write_file", arguments, split=split))))) == texts


leaves = st.none() | st.booleans() | st.integers() | st.text(max_size=6)
objects = st.dictionaries(
    st.text(max_size=3),
    st.recursive(leaves, lambda inner: st.lists(inner) | st.dictionaries(st.text(max_size=2), inner), max_leaves=6),
    max_size=4,
)


@given(objects, st.booleans(), st.lists(st.integers(0, 100)))
def test_every_leaf_is_told_however_the_arguments_are_cut(value: Any, ascii_only: bool, places: list[int]) -> None:
    text = json.dumps(value, ensure_ascii=ascii_only)
    ends = [0, *sorted(place % (len(text) + 1) for place in places), len(text)]
    pieces = [text[start:end] for start, end in itertools.pairwise(ends)]
    source = sent(ToolInputStart("c", "t"), *(ToolInputDelta("c", piece) for piece in pieces))
    assert joined(anyio.run(seen, fields(source))) == dict(leaves_of(value, ()))


def leaves_of(value: Any, path: tuple[str | int, ...]) -> list[tuple[tuple[str | int, ...], str]]:
    if isinstance(value, dict | list):
        inner = value.items() if isinstance(value, dict) else enumerate(value)
        return [leaf for step, part in inner for leaf in leaves_of(part, (*path, step))]
    return [(path, value if isinstance(value, str) else json.dumps(value))]


async def test_calls_that_are_written_at_once_are_kept_apart() -> None:
    calls = interleave(
        call("write_file", {"a": "one"}, split=2, call_id="c"), call("write_file", {"a": "two"}, split=3, call_id="d")
    )
    events = await seen(fields(turn(calls)))
    check_grammar(events, complete=False)
    texts = found(events)
    assert "".join(text for call_id, _, text in texts if call_id == "c") == "one"
    assert "".join(text for call_id, _, text in texts if call_id == "d") == "two"


async def test_only_the_calls_of_the_named_tools_are_read() -> None:
    calls = [call("write_file", {"a": "1"}, call_id="c"), call("read_file", {"b": "2"}, call_id="d")]
    for only, expected in (
        ("write_file", ["c"]),
        (["read_file"], ["d"]),
        ({"write_file", "read_file"}, ["c", "d"]),
        ((), []),
    ):
        events = await seen(fields(turn(*calls), only=only))
        assert [call_id for call_id, _, _ in found(events)] == expected


async def test_a_call_that_breaks_has_no_more_fields_and_goes_on() -> None:
    events = await seen(fields(turn(call("write_file", '{"a": "1", oops, "b": "2"}', split=4, call_id="c"))))
    assert joined(events) == {("a",): "1"}
    assert isinstance(events[-2], ToolInputAbandoned)
    check_grammar(events, complete=False)


@pytest.mark.parametrize("text", ["SELECT 1", '"quoted" words', "12 monkeys", "null and void"])
async def test_the_plain_text_of_a_custom_call_has_no_fields(text: str) -> None:
    parts: list[ScriptPart] = [
        InputStart(0, "c", "sql", custom=True),
        InputDelta(text[:3], 0),
        InputDelta(text[3:], 0),
        InputEnd(0),
    ]
    events = await seen(fields(turn(*parts)))
    assert "".join(event.delta for event in events if isinstance(event, ToolInputDelta)) == text
    assert found(events) == []


async def test_a_turn_that_begins_anew_begins_its_fields_anew() -> None:
    first: list[RunEvent] = [ToolInputStart("c", "t"), ToolInputDelta("c", '{"a": "on')]
    again: list[RunEvent] = [ToolInputAbandoned("c", "retried"), TurnRestarted("once more")]
    second: list[RunEvent] = [
        ToolInputStart("c", "t"),
        ToolInputDelta("c", '{"a": "two"}'),
        ToolInputAvailable("c", "{}"),
    ]
    events = await seen(fields(sent(TurnStarted("t", "m"), *first, *again, *second)))
    assert found(events) == [("c", ("a",), "on"), ("c", ("a",), "two")]
    check_grammar(events, complete=False)


async def test_a_cut_call_has_the_fields_that_came() -> None:
    events = await seen(fields(turn(call("write_file", '{"a": "begun', ends=False), stop("length"))))
    assert joined(events) == {("a",): "begun"}
    check_grammar(events)


async def test_nothing_is_kept_of_a_call_that_has_ended_or_broken() -> None:
    more = anyio.Event()
    parts = call("write_file", FILE, split=5), call("write_file", '{"a": oops', ends=False), more.wait, "and on"
    async with fields(turn(*parts)).open() as events:
        async for event in events:
            if isinstance(event, ToolInputDelta) and "oops" in event.delta:
                gc.collect()
                assert [kept for kept in gc.get_objects() if isinstance(kept, PartialJson)] == []
                more.set()
    assert more.is_set()


async def test_a_slow_consumer_gets_the_fields_of_one_delta_in_their_order() -> None:
    arguments = {"items": list(range(200))}
    numbers: list[int] = []
    async with fields(turn(call("write_file", arguments), "after")).open() as events:
        async for event in events:
            await anyio.lowlevel.checkpoint()
            if isinstance(event, ToolInputField):
                numbers.append(int(event.text))
            elif isinstance(event, TextDelta):
                break
    assert numbers == arguments["items"]


async def test_it_reads_a_whole_run_and_leaves_inner_runs_as_they_are() -> None:
    @tool
    async def save(content: str) -> str:
        """Save it."""
        return content

    @streaming_tool(reduce=last(object))
    async def ask(question: str) -> AsyncIterator[RunEvent]:
        """Ask somebody."""
        inner = ScriptedModel([call("save", {"content": question}, split=9)], ["Saved."])
        async with fields(converse(inner, Toolkit(save), (user(question),))).open() as events:
            async for event in events:
                yield event

    model = ScriptedModel([call("ask", {"question": "why?"}, split=9)], ["Because."])
    events = await seen(fields(converse(model, Toolkit(ask), (user("Hi"),))))
    assert "".join(text for _, _, text in found(events)) == "why?"
    inner = [walk(event)[1] for event in events if isinstance(event, Intermediate)]
    assert "".join(text for _, _, text in found(inner)) == "why?"
    check_grammar(events)


async def test_branches_and_threads_send_through_it() -> None:
    @flow
    async def source(out: Sink[RunEvent]) -> None:
        await out.send(ToolInputStart("c", "t"))
        with out.branch() as mine:
            await mine.send(ToolInputDelta("c", '{"a": "o'))
        with pytest.raises(SinkClosed):
            await mine.send(ToolInputDelta("c", "more"))
        await anyio.to_thread.run_sync(out.send_from_thread, ToolInputDelta("c", 'ne"}'))

    assert joined(await seen(fields(source()))) == {("a",): "one"}


def test_a_field_is_written_and_read_as_an_event_of_a_run() -> None:
    field = ToolInputField("c", ("edits", 0, "new"), "text")
    written = msgspec.json.encode(field)
    assert json.loads(written)["type"] == "tool_input_field"
    assert msgspec.json.decode(written, type=RunEvent) == field
