"""Parts in, turn events and the turn out."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamkit.errors import BadPayload, ProviderError
from streamkit.items import Message, ProviderTool, Reasoning, StopReason, ToolCall, UnknownItem, Usage
from streamkit.parts import (
    Failed,
    Finished,
    InputDelta,
    InputEnd,
    InputOpaque,
    InputStart,
    NextItem,
    Part,
    ReasoningOpaque,
    TextOpaque,
    UsageReported,
    WholeCall,
)
from streamkit.testing.grammar import check_grammar
from streamkit.tool_input import Bounds
from streamkit.turn_builder import TurnBuilder
from streamkit.turns import (
    ReasoningDelta,
    RefusalDelta,
    TextDelta,
    ToolInputAbandoned,
    ToolInputAvailable,
    ToolInputDelta,
    ToolInputStart,
    Turn,
    TurnEnded,
    TurnEvent,
    TurnRestarted,
    TurnStarted,
)

from .streams import Outcome, assert_consistent


def built(*parts: Part) -> tuple[Turn, list[TurnEvent]]:
    builder = TurnBuilder("turn_1", "m")
    events = [event for part in parts for event in builder.add(part)]
    events += builder.end()
    return builder.turn(), events


def test_items_stand_in_the_order_in_which_they_began_and_text_is_merged() -> None:
    turn, _ = built(
        ReasoningDelta("Hm"),
        ReasoningDelta("m"),
        TextDelta("Lo"),
        UnknownItem({"annotations": []}),
        TextDelta("ok"),
        InputDelta("{", 0, "a", "f"),
        TextDelta("ing"),
        InputDelta("}", 0),
        TextDelta("."),
        ReasoningDelta("short", "summary"),
        ReasoningDelta("long", "trace"),
        ProviderTool("s", "search"),
        TextDelta("!"),
        Finished("tool_calls", "tool_calls"),
    )
    assert turn.items == (
        Reasoning("Hmm"),
        Message("assistant", "Look"),
        UnknownItem({"annotations": []}),
        ToolCall("a", "f", "{}", "turn_1", 0),
        Message("assistant", "ing."),
        Reasoning("short", "summary"),
        Reasoning("long", "trace"),
        ProviderTool("s", "search"),
        Message("assistant", "!"),
    )


def test_events_come_with_their_parts() -> None:
    _, events = built(
        TextDelta("a"),
        RefusalDelta("b"),
        ReasoningDelta("c"),
        WholeCall("f", {"x": 1}, "a"),
        UsageReported(Usage(1, 2)),
        ReasoningOpaque({"signature": "s"}, "d"),
        Finished("tool_calls"),
    )
    assert events == [
        TextDelta("a"),
        RefusalDelta("b"),
        ReasoningDelta("c"),
        ToolInputStart("a", "f"),
        ToolInputDelta("a", '{"x":1}'),
        ToolInputAvailable("a", '{"x":1}'),
    ]


def test_opaque_data_rides_on_the_reasoning_that_came_last() -> None:
    turn, _ = built(
        ReasoningDelta("one"),
        ReasoningOpaque({"field": "x"}, "d"),
        TextDelta("text"),
        ReasoningDelta("two"),
        TextDelta("more"),
        ReasoningOpaque({"signature": "s", "field": ""}, "d"),
        ReasoningOpaque({"id": None}, "d"),
        Finished("stop"),
    )
    assert [item.opaque for item in turn.items if isinstance(item, Reasoning)] == [
        {"d": {"field": "x"}},
        {"d": {"signature": "s", "field": "", "id": None}},
    ]


def test_opaque_data_without_reasoning_is_kept() -> None:
    turn, _ = built(ReasoningOpaque({"signature": ""}, "d"), TextDelta("text"), Finished("stop"))
    assert turn.items == (Reasoning("", "trace", {"d": {"signature": ""}}), Message("assistant", "text"))


def test_a_new_item_begins_where_the_provider_says_so() -> None:
    turn, _ = built(
        ReasoningDelta("one"),
        ReasoningOpaque({"signature": "1"}, "d"),
        NextItem(),
        ReasoningOpaque({"redacted": "x"}, "d"),
        NextItem(),
        ReasoningDelta("three"),
        Finished("stop"),
    )
    assert turn.items == (
        Reasoning("one", "trace", {"d": {"signature": "1"}}),
        Reasoning("", "trace", {"d": {"redacted": "x"}}),
        Reasoning("three"),
    )


def test_opaque_data_ends_the_text_that_it_belongs_to() -> None:
    turn, _ = built(
        TextDelta("one"),
        TextOpaque({"signature": "1"}, "d"),
        TextDelta("two"),
        NextItem(),
        TextOpaque({"signature": "3"}, "d"),
        Finished("stop"),
    )
    assert turn.items == (
        Message("assistant", "one", opaque={"d": {"signature": "1"}}),
        Message("assistant", "two"),
        Message("assistant", "", opaque={"d": {"signature": "3"}}),
    )
    assert turn.text == "onetwo"


def test_opaque_data_rides_on_the_call_it_was_sent_for() -> None:
    turn, _ = built(
        InputDelta("{}", 0, "a", "f"),
        InputDelta("{}", 1, "b", "f"),
        InputOpaque({"signature": "1"}, "d", index=0),
        InputOpaque({"more": 2}, "d", call_id="a"),
        Finished("tool_calls"),
    )
    assert [call.opaque for call in turn.calls] == [{"d": {"signature": "1", "more": 2}}, None]


@pytest.mark.parametrize("text", ["SELECT 1", "}{", '"', "null", "", " ", '{"a":1}{"b":2}'])
def test_the_text_of_a_custom_call_is_taken_as_it_is(text: str) -> None:
    turn, events = built(
        InputStart(0, "a", "write_sql", custom=True),
        *(InputDelta(letter, 0) for letter in text),
        InputEnd(0, arguments=text),
        Finished("tool_calls"),
    )
    assert events == [
        ToolInputStart("a", "write_sql"),
        *(ToolInputDelta("a", letter) for letter in text),
        ToolInputAvailable("a", text),
    ]
    assert (turn.calls[0].arguments, turn.calls[0].custom, turn.calls[0].problem) == (text, True, None)


def test_a_custom_call_that_was_cut_is_incomplete() -> None:
    turn, events = built(InputDelta("SELECT", 0, "a", "write_sql", custom=True), Finished("length"))
    assert events[-1] == ToolInputAbandoned("a", "incomplete", "the turn was cut at its token limit")
    assert (turn.calls, turn.dropped[0].arguments) == ((), "SELECT")


def test_a_turn_that_may_not_call_tools_discards_its_calls() -> None:
    builder = TurnBuilder("turn_1", "m", may_call=False)
    events = [
        event
        for part in (TextDelta("So:"), WholeCall("f", "{}", "a"), WholeCall("g", "{", "b"), Finished("tool_calls"))
        for event in builder.add(part)
    ]
    events += builder.end()
    turn = builder.turn()
    assert [event.reason for event in events if isinstance(event, ToolInputAbandoned)] == ["malformed", "discarded"]
    assert (turn.calls, [call.abandoned for call in turn.dropped]) == ((), ["discarded", "discarded"])
    assert (turn.text, turn.stop_reason) == ("So:", "unknown")


@pytest.mark.parametrize("custom", [False, True])
def test_arguments_that_are_too_long_do_not_run_and_the_model_is_told(custom: bool) -> None:
    builder = TurnBuilder("turn_1", "m", bounds=Bounds(argument_chars=10))
    for part in (WholeCall("f", '{"a": 123}', "fits", custom), WholeCall("f", '{"a": 1234}', "long", custom)):
        builder.add(part)
    builder.add(Finished("tool_calls"))
    builder.end()
    assert [call.problem for call in builder.turn().calls] == [
        None,
        "the arguments have 11 characters, and may have 10",
    ]


def test_a_turn_with_too_many_calls_fails() -> None:
    builder = TurnBuilder("turn_1", "m", bounds=Bounds(calls=2))
    for number in range(2):
        builder.add(WholeCall("f", "{}", f"c{number}"))
    with pytest.raises(BadPayload, match="the turn has more than 2 calls"):
        builder.add(InputDelta("{", 7, "c2", "f"))
    builder.fail("error")
    assert builder.turn().calls == ()


@pytest.mark.parametrize("part", ["Hello", {"text": "Hello"}, None])
def test_what_is_no_part_is_refused(part: Any) -> None:
    with pytest.raises(TypeError, match=r"is not a part of a turn; text is TextDelta"):
        TurnBuilder("turn_1", "m").add(part)


def test_the_last_report_of_usage_counts() -> None:
    turn, _ = built(UsageReported(Usage(1, 2)), UsageReported(Usage(1, 5)), Finished("stop", "eos"))
    assert (turn.usage, turn.stop_word) == (Usage(1, 5), "eos")


@pytest.mark.parametrize("reason", ["stop", "tool_calls", "pause", "unknown"])
def test_with_calls_a_good_end_is_tool_calls(reason: StopReason) -> None:
    turn, events = built(InputDelta("{}", 0, "a", "f"), Finished(reason, "word"))
    assert (turn.stop_reason, turn.stop_word) == ("tool_calls", "word")
    assert events[-1] == ToolInputAvailable("a", "{}")
    assert [call.call_id for call in turn.calls] == ["a"]


def test_calls_that_cannot_run_have_to_be_answered_too() -> None:
    turn, _ = built(InputDelta("[]", 0, "a", "f"), InputDelta("{}", 1, "b"), Finished("stop"))
    assert turn.stop_reason == "tool_calls"
    assert [(call.call_id, bool(call.problem)) for call in turn.calls] == [("a", True), ("b", True)]


@pytest.mark.parametrize(
    ("declared", "reason"), [("stop", "stop"), ("tool_calls", "unknown"), ("pause", "pause"), ("unknown", "unknown")]
)
def test_without_calls_a_turn_is_not_taken_for_an_answer_that_it_is_not(declared: StopReason, reason: str) -> None:
    turn, _ = built(TextDelta("text"), Finished(declared, "word"))
    assert turn.stop_reason == reason


@pytest.mark.parametrize("reason", ["length", "content_filter", "refusal", "error", "cancelled"])
def test_other_ends_run_no_calls(reason: StopReason) -> None:
    turn, events = built(InputDelta("{}", 0, "a", "f"), InputDelta("{", 1, "b", "f"), Finished(reason))
    assert [(type(event), event.reason) for event in events[-2:] if isinstance(event, ToolInputAbandoned)] == [
        (ToolInputAbandoned, "discarded"),
        (ToolInputAbandoned, "incomplete"),
    ]
    assert (turn.stop_reason, turn.calls) == (reason, ())
    assert [(call.call_id, call.abandoned) for call in turn.dropped] == [("a", "discarded"), ("b", "incomplete")]


def test_a_refusal_is_no_answer_and_runs_no_calls() -> None:
    turn, events = built(RefusalDelta("I "), InputDelta("{}", 0, "a", "f"), RefusalDelta("will not"), Finished("stop"))
    assert (turn.refusal, turn.stop_reason, turn.text, turn.calls) == ("I will not", "refusal", "", ())
    assert isinstance(events[-1], ToolInputAbandoned)


@pytest.mark.parametrize("at_once", [True, False])
def test_nothing_is_read_after_the_end_was_declared(*, at_once: bool) -> None:
    parts: list[Part] = [
        InputDelta("{}", 0, "a", "f"), Finished("length", "word"), InputDelta("{}", 1, "b", "f"), TextDelta("late"),
        UsageReported(Usage(1, 1)), Finished("tool_calls"), Failed(ProviderError("late")),
    ]  # fmt: skip
    builder = TurnBuilder("turn_1", "m")
    events: list[TurnEvent] = []
    for batch in [parts] if at_once else [[part] for part in parts]:
        builder.add_all(batch, events)
    builder.end()
    turn = builder.turn()
    assert events == [ToolInputStart("a", "f"), ToolInputDelta("a", "{}")]
    assert (turn.stop_reason, turn.stop_word, turn.usage, turn.text) == ("length", "word", Usage(), "")
    assert [call.call_id for call in turn.dropped] == ["a"]


def test_an_empty_turn_is_empty() -> None:
    turn, events = built(Finished("stop", "stop"))
    assert (turn.items, events, turn.stop_reason) == ((), [], "stop")


def test_a_failed_part_raises_its_error() -> None:
    error = ProviderError("overloaded")
    builder = TurnBuilder("turn_1", "m")
    with pytest.raises(ProviderError) as raised:
        builder.add(Failed(error))
    assert raised.value is error
    assert not builder.finished


@pytest.mark.parametrize("reason", ["error", "cancelled"])
def test_a_turn_that_fails_keeps_what_came_and_runs_nothing(reason: str) -> None:
    builder = TurnBuilder("turn_1", "m")
    for part in (TextDelta("Well"), InputDelta("{}", 0, "a", "f"), Finished("stop", "stop")):
        builder.add(part)
    builder.end()
    closing = builder.fail("error" if reason == "error" else "cancelled")
    assert [(event.call_id, event.reason) for event in closing if isinstance(event, ToolInputAbandoned)] == [
        ("a", "discarded")
    ]
    turn = builder.turn()
    assert (turn.text, turn.stop_reason, turn.calls) == ("Well", reason, ())


INDEXES, IDS, NAMES = (
    st.sampled_from([None, 0, 1]),
    st.sampled_from([None, "", "a", "b"]),
    st.sampled_from([None, "f", "g"]),
)
TEXTS = st.sampled_from(
    ["", "{", "}", '{"k":1}', '{"k":1} {"k":1}', '}{"k":1}', '{"k": 1}', "null", " ", '"', r'"{\"k\":1}"']
)
PARTS = st.one_of(
    st.builds(InputStart, INDEXES, IDS, NAMES),
    st.builds(InputDelta, TEXTS, INDEXES, IDS, NAMES),
    st.builds(InputEnd, INDEXES, IDS, st.none()),
    st.builds(WholeCall, st.sampled_from(["f", "g", ""]), TEXTS | st.just({"k": 1}), IDS),
    st.builds(TextDelta, st.just("x")),
    st.just(ReasoningDelta("r")),
    st.just(NextItem()),
    st.just(ReasoningOpaque({"s": 1}, "d")),
    st.just(TextOpaque({"s": 1}, "d")),
    st.builds(InputOpaque, st.just({"s": 1}), st.just("d"), INDEXES, IDS),
)
REASONS: st.SearchStrategy[StopReason] = st.sampled_from(["stop", "tool_calls", "length", "pause", "unknown"])


@given(st.lists(PARTS, max_size=12), REASONS, st.booleans(), st.booleans())
def test_any_parts_keep_the_grammar_however_the_turn_ends(
    parts: list[Part], reason: StopReason, ends: bool, fails: bool
) -> None:
    builder = TurnBuilder("turn_1", "m", ["f", "g"])
    events: list[TurnEvent] = []
    builder.add_all([*parts, Finished(reason)], events)
    if ends:
        events += builder.end()
    error = ProviderError("the connection broke") if fails or not ends else None
    if error is not None:
        events += builder.fail("cancelled")
    assert_consistent(Outcome(events, builder.turn(), error))


@given(st.lists(PARTS, max_size=8), st.lists(PARTS, max_size=8))
def test_a_restart_takes_back_every_call_and_leaves_nothing_but_the_usage(
    before: list[Part], after: list[Part]
) -> None:
    restarted, fresh = TurnBuilder("turn_1", "m", ["f", "g"]), TurnBuilder("turn_1", "m", ["f", "g"])
    events: list[TurnEvent] = [TurnStarted("turn_1", "m")]
    restarted.add_all([*before, UsageReported(Usage(2, 1))], events)
    events += [*restarted.restart(), TurnRestarted("the connection broke")]
    anew: list[TurnEvent] = []
    again: list[TurnEvent] = []
    restarted.add_all([*after, UsageReported(Usage(5, 5)), Finished("stop")], again)
    fresh.add_all([*after, UsageReported(Usage(7, 6)), Finished("stop")], anew)
    again += restarted.end()
    assert again == [*anew, *fresh.end()]
    assert restarted.turn() == fresh.turn()
    events += [*again, TurnEnded(restarted.turn())]
    check_grammar(events, complete=False)


@pytest.mark.parametrize(("word", "reason"), [("stop", "unknown"), ("tool_calls", "unknown"), ("pause", "pause")])
def test_a_turn_whose_only_call_was_spoiled_is_no_answer(word: StopReason, reason: StopReason) -> None:
    turn, _ = built(InputStart(0, "a", "f"), InputEnd(0, None, "{}"), InputEnd(0, None, '{"x":1}'), Finished(word))
    assert ([call.abandoned for call in turn.dropped], turn.stop_reason) == (["discarded"], reason)
