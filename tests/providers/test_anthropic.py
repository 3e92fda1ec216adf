"""The dialect of the Messages API: oddities of its streams.

What goes back to it is in test_anthropic_messages.
"""

from typing import Any

import pytest

from streamkit.errors import BadPayload, IncompleteStream, ModelError, ProviderError
from streamkit.items import Message, ProviderTool, Reasoning, ToolCall, UnknownItem, Usage
from streamkit.providers.anthropic_decoder import AnthropicDecoder
from streamkit.turns import ReasoningDelta, TextDelta

from ..streams import assert_consistent, outcome, some_cuts
from .anthropic_events import arguments, begin, call, delta, end, items, read, sse, stop, text, whole_call


@pytest.mark.parametrize(
    ("word", "reason"),
    [
        ("end_turn", "stop"),
        ("stop_sequence", "stop"),
        ("max_tokens", "length"),
        ("model_context_window_exceeded", "length"),
        ("refusal", "refusal"),
        ("pause_turn", "pause"),
        ("compaction", "pause"),
        ("tool_use", "unknown"),  # of which none came
        ("a_new_one", "unknown"),
    ],
)
def test_the_reason_to_stop_is_told_in_our_words_and_in_theirs(word: str, reason: str) -> None:
    turn = read(text("a"), *end(word)).turn
    assert (turn.stop_reason, turn.stop_word) == (reason, word)


@pytest.mark.parametrize(
    ("words", "counts"),
    [
        (["end_turn", "tool_use"], "tool_use"),
        (["max_tokens", "tool_use"], "max_tokens"),
        (["refusal", "end_turn"], "refusal"),
        (["tool_use", "max_tokens"], "max_tokens"),
        (["tool_use", None], "tool_use"),
    ],
)
def test_a_good_reason_to_stop_does_not_replace_a_bad_one(words: list[Any], counts: str) -> None:
    found = read(*whole_call(), *(end(word)[0] for word in words), {"type": "message_stop"})
    assert found.turn.stop_word == counts
    assert len(found.turn.calls) == (counts == "tool_use")


@pytest.mark.parametrize(
    ("events", "usage"),
    [
        ([{"input_tokens": 5, "output_tokens": 1}, {"output_tokens": 7}], Usage(5, 7)),
        ([{"input_tokens": 5}, {"input_tokens": 9, "output_tokens": 7}], Usage(9, 7)),
        ([{"input_tokens": 5}, {"input_tokens": None, "output_tokens": 7}], Usage(5, 7)),
        (
            [
                {"input_tokens": 5, "cache_read_input_tokens": 20, "cache_creation_input_tokens": 300},
                {"output_tokens": 7, "output_tokens_details": {"thinking_tokens": 4}},
            ],
            Usage(325, 7, 20, 4),
        ),
        ([{"input_tokens": "many", "output_tokens": True, "output_tokens_details": 3}, "none"], Usage()),
        ([None, None], Usage()),
    ],
)
def test_what_is_read_from_the_cache_and_stored_in_it_is_input(events: list[Any], usage: Usage) -> None:
    start, last = events
    stopped = {"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": last}
    found = read({"type": "message_start", "message": {"usage": start}}, stopped, {"type": "message_stop"})
    assert found.turn.usage == usage


def test_usage_is_known_before_the_end() -> None:
    assert read({"type": "message_start", "message": {"usage": {"input_tokens": 3}}}).turn.usage == Usage(3)


def test_a_count_of_nothing_takes_no_tokens_back() -> None:
    start = {"type": "message_start", "message": {"usage": {"input_tokens": 3, "cache_read_input_tokens": 2}}}
    turn = read(start, *end(input_tokens=0, cache_read_input_tokens=0, output_tokens=7)).turn
    assert turn.usage == Usage(5, 7, 2)


def test_of_an_output_that_was_expected_nothing_may_have_come() -> None:
    start = {"type": "message_start", "message": {"usage": {"input_tokens": 3, "output_tokens": 1}}}
    assert read(start, *end("refusal", output_tokens=0)).turn.usage == Usage(3, 0)


def test_blocks_are_items_in_the_order_in_which_they_began() -> None:
    found = items(
        begin(0, "thinking", thinking="", signature=""),
        delta(0, "thinking", thinking="Hm"),
        delta(0, "signature", signature="s1"),
        stop(),
        begin(1, "text", text=""),
        text("one", 1),
        stop(1),
        begin(2, "text", text=""),
        text("two", 2),
        stop(2),
        *whole_call(3),
    )
    assert found == (
        Reasoning("Hm", "trace", {"anthropic": {"signature": "s1"}}),
        Message("assistant", "one"),
        Message("assistant", "two"),
        ToolCall("a", "f", '{"x":1}', "turn_1"),
    )


def test_blocks_without_a_start_or_a_stop_are_read_all_the_same() -> None:
    found = items(
        delta(0, "thinking", thinking="Hm"), text("a", 1), begin(2, "text", text=""), text("b", 2), *whole_call(3)[:2]
    )
    assert [type(item) for item in found] == [Reasoning, Message, Message, ToolCall]


def test_a_text_in_the_start_of_its_block_is_no_less_a_text() -> None:
    found = read(begin(0, "thinking", thinking="Hm"), stop(), begin(1, "text", text="Yes"), text("!", 1), *end())
    assert found.events == [ReasoningDelta("Hm"), TextDelta("Yes"), TextDelta("!")]


@pytest.mark.parametrize(
    ("start", "deltas", "signature"),
    [
        ({"signature": ""}, ["s"], {"signature": "s"}),
        ({}, ["s1", "s2"], {"signature": "s1s2"}),
        ({"signature": ""}, [], {"signature": ""}),
        ({"signature": "s"}, ["s"], {"signature": "s"}),
        ({}, [""], {"signature": ""}),
        ({"signature": None}, ["s"], {"signature": "s"}),
        ({"new": 1}, [], {"new": 1}),
        ({}, [], {}),
    ],
)
def test_a_signature_is_kept_as_it_came(start: dict[str, Any], deltas: list[str], signature: dict[str, Any]) -> None:
    (found,) = items(
        begin(0, "thinking", thinking="", **start),
        delta(0, "thinking", thinking="Hm"),
        *(delta(0, "signature", signature=piece) for piece in deltas),
        stop(),
    )
    assert found == Reasoning("Hm", "trace", {"anthropic": signature})


def test_thoughts_that_are_hidden_are_items_of_their_own() -> None:
    assert items(
        begin(0, "thinking", thinking="", signature="s0"),
        stop(0),
        begin(1, "redacted_thinking", data="d1"),
        stop(1),
        begin(2, "thinking", thinking="Hm", signature=""),
        delta(2, "signature", signature="s2"),
        stop(2),
        begin(3, "text", text=""),
        text("a", 3),
        stop(3),
        begin(4, "thinking", thinking="", signature=""),
        delta(4, "signature", signature="s4"),
        stop(4),
    ) == (
        Reasoning("", "trace", {"anthropic": {"signature": "s0"}}),
        Reasoning("", "trace", {"anthropic": {"data": "d1"}}),
        Reasoning("Hm", "trace", {"anthropic": {"signature": "s2"}}),
        Message("assistant", "a"),
        Reasoning("", "trace", {"anthropic": {"signature": "s4"}}),
    )


def test_a_signature_finds_its_thinking_when_all_blocks_are_closed_at_the_end() -> None:
    found = items(
        begin(0, "thinking", thinking=""),
        delta(0, "thinking", thinking="Hm"),
        begin(1, "text", text=""),
        text("Yes", 1),
        call(2),
        arguments("{}", 2),
        delta(0, "signature", signature="s"),
        *map(stop, range(3)),
    )
    assert found[0] == Reasoning("Hm", "trace", {"anthropic": {"signature": "s"}})
    assert [type(item) for item in found] == [Reasoning, Message, ToolCall]


def test_an_answer_may_come_whole_at_the_start() -> None:
    blocks = [
        {"type": "thinking", "thinking": "Hm", "signature": "s"},
        {"type": "text", "text": "a"},
        {"type": "tool_use", "id": "a", "name": "f", "input": {"x": 1}},
    ]
    message: dict[str, Any] = {"content": blocks, "stop_reason": "tool_use"}
    start = {"type": "message_start", "message": message}
    turn = read(start, {"type": "message_stop"}).turn
    assert [type(item) for item in turn.items] == [Reasoning, Message, ToolCall]
    assert (turn.text, turn.stop_word, [item.arguments for item in turn.calls]) == ("a", "tool_use", ['{"x": 1}'])
    assert read(start | {"message": {"content": [], "stop_reason": "tool_use"}}).error is not None
    as_one = {"type": "message", "role": "assistant", **message}
    assert read(as_one).turn == turn
    too_long = b'data: {"type":"message","created":%b}\n\n' % (b"1" * 5000)  # for json
    assert isinstance(read(tail=too_long).error, IncompleteStream)


def test_deltas_that_do_not_say_what_they_are_are_read_by_what_they_hold() -> None:
    thought = {"type": "content_block_delta", "index": 0, "delta": {"thinking": "Hm"}}
    said = {"type": "content_block_delta", "index": 1, "delta": {"text": "a"}}
    turn = read(begin(0, "thinking", thinking=""), thought, stop(), begin(1, "text"), said, stop(1), *end()).turn
    assert [item.text for item in turn.items if isinstance(item, Reasoning | Message)] == ["Hm", "a"]


# Calls


@pytest.mark.parametrize(
    ("given", "pieces", "raw"),
    [
        ({}, ['{"x":', "1}"], '{"x":1}'),
        ({}, [""], "{}"),
        ({}, [], "{}"),
        (None, ["null"], "{}"),
        ({"x": "é"}, [], '{"x": "é"}'),
        ('{"x":1}', [], '{"x":1}'),
        ({"x": 1}, ['{"x":', " 1}"], '{"x": 1}'),
        ({}, [{"x": 1}], '{"x":1}'),
        ("{}", ['{"x":', "1}"], '{"x":1}'),
        ("{}", [], "{}"),
    ],
)
def test_the_input_of_a_call_may_come_in_its_start_or_in_pieces_or_both(
    given: Any, pieces: list[Any], raw: str
) -> None:
    found = read(call(input=given), *map(arguments, pieces), stop(), *end("tool_use"))
    (made,) = found.turn.calls
    assert (made.arguments, made.problem, found.turn.stop_reason) == (raw, None, "tool_calls")
    assert_consistent(found)


def test_the_input_of_a_call_may_be_called_arguments() -> None:
    (made,) = items(call(arguments={"x": 1}), stop())
    assert (made.arguments, made.opaque) == ('{"x": 1}', None)


def test_a_start_that_is_told_twice_begins_one_call() -> None:
    again = [call(input={}), call(input={}), arguments('{"x":1}'), stop(), *end("tool_use")]
    assert [(made.call_id, made.arguments) for made in read(*again).turn.calls] == [("a", '{"x":1}')]
    thinking = begin(0, "thinking", thinking="", signature="")
    pieces = [
        delta(0, "thinking", thinking="Hm"),
        delta(0, "thinking", thinking="m"),
        delta(0, "signature", signature="s"),
    ]
    said = [begin(1, "text", text=""), text("a", 1)]
    told_again = items(thinking, pieces[0], thinking, pieces[1], pieces[2], stop(), *said, *said, stop(1))
    thought = Reasoning("Hmm", "trace", {"anthropic": {"signature": "s"}})
    assert told_again == (thought, Message("assistant", "aa"))
    without_ids = [call(0, ""), call(0, ""), *end("tool_use")]
    assert len(read(*without_ids).turn.calls) == 2


def test_what_else_a_call_has_is_kept_for_the_next_request() -> None:
    caller = {"type": "code_execution_20250825", "tool_id": "srvtoolu_1"}
    (made,) = items(call(input={}, caller=caller, toolset_name="browser"), stop())
    assert made.opaque == {"anthropic": {"caller": caller, "toolset_name": "browser"}}


def test_a_call_that_is_closed_though_the_turn_was_cut_is_incomplete() -> None:
    turn = read(call(), arguments('{"x":'), stop(), *end("max_tokens")).turn
    assert [made.abandoned for made in turn.dropped] == ["incomplete"]


def test_a_call_that_is_never_closed_is_ended_by_the_end_of_the_turn() -> None:
    assert [made.problem for made in read(call(), arguments('{"x":1}'), *end("tool_use")).turn.calls] == [None]
    assert [made.abandoned for made in read(call(), arguments("{}"), *end("max_tokens")).turn.dropped] == ["incomplete"]


def test_an_index_may_be_used_again() -> None:
    own_tool = begin(0, "server_tool_use", id="s", name="n")
    found = read(*whole_call(0, "a"), *whole_call(0, "b"), own_tool, begin(0, "text", text="x"), text("y"), *end())
    assert [(made.call_id, made.problem) for made in found.turn.calls] == [("a", None), ("b", None)]
    assert found.turn.items[2:] == (
        ProviderTool(
            "s", "n", {}, kind="server_tool_use", opaque={"anthropic": {**own_tool["content_block"], "input": {}}}
        ),
        Message("assistant", "xy"),
    )


def test_a_call_that_did_not_end_does_not_run_when_the_body_is_cut_behind_the_reason_to_stop() -> None:
    cut = read(call(), arguments('{"x":1}'), end("tool_use")[0])
    assert isinstance(cut.error, IncompleteStream)
    assert not cut.turn.calls
    assert len(read(*whole_call(), end("tool_use")[0]).turn.calls) == 1


@pytest.mark.parametrize(
    "strange",
    [
        arguments('{"x":1}', index=7),
        arguments('{"x":1}', index=1),
        {**arguments('{"x":1}'), "type": "content_block_part"},
        {**arguments('{"x":1}'), "type": None},
    ],
    ids=["of no block", "of a text", "in another event", "in no event"],
)
def test_a_piece_of_a_call_that_is_in_no_call_spoils_the_turn(strange: dict[str, Any]) -> None:
    text = begin(1, "text", text="a")
    found = read(call(), text, strange, stop(), stop(1), *end("tool_use"))
    assert isinstance(found.error, BadPayload)
    assert not found.turn.calls


# What the provider runs itself, and what we do not know


def test_a_tool_of_the_provider_is_told_when_its_input_is_whole_and_when_its_output_comes() -> None:
    raw_call = {"type": "mcp_tool_use", "id": "m1", "name": "ask", "input": {"q": 1}, "server_name": "wiki"}
    raw_output = {"type": "mcp_tool_result", "tool_use_id": "m1", "is_error": False, "content": [{"type": "text"}]}
    found = read(
        {"type": "content_block_start", "index": 0, "content_block": {**raw_call, "input": {}}},
        arguments(""),
        arguments('{"q":'),
        arguments("1}"),
        stop(),
        {"type": "content_block_start", "index": 1, "content_block": raw_output},
        stop(1),
        *end(),
    )
    assert tuple(found.events) == found.turn.items
    assert found.events == [
        ProviderTool("m1", "ask", {"q": 1}, None, "mcp_tool_use", {"anthropic": raw_call}),
        ProviderTool("m1", "ask", None, [{"type": "text"}], "mcp_tool_result", {"anthropic": raw_output}),
    ]


@pytest.mark.parametrize("pieces", [[], [""]])
def test_the_input_of_a_tool_of_the_provider_may_be_in_its_start(pieces: list[str]) -> None:
    (found,) = items(begin(0, "server_tool_use", id="s", name="n", input={"q": 1}), *map(arguments, pieces), stop())
    assert (found.input, found.opaque["anthropic"]["input"]) == ({"q": 1}, {"q": 1})


def test_half_an_input_of_the_provider_is_shown_but_does_not_go_back() -> None:
    found = read(begin(0, "server_tool_use", id="s", name="n"), arguments('{"q": "a'), *end("refusal")).turn.items
    assert found == (ProviderTool("s", "n", '{"q": "a', kind="server_tool_use"),)


def test_an_output_of_an_earlier_call_has_the_name_of_its_kind() -> None:
    (found,) = items(begin(0, "code_execution_tool_result", tool_use_id="s", content={}), stop())
    assert (found.call_id, found.name, found.kind) == ("s", *["code_execution_tool_result"] * 2)


def test_a_block_of_an_unknown_kind_is_kept_with_all_that_its_deltas_added() -> None:
    found = items(
        begin(0, "compaction", content=None, encrypted_content=None),
        delta(0, "compaction", content="Sum", encrypted_content="e"),
        delta(0, "compaction", content="med up", parts=[1]),
        delta(0, "other", parts=[2], text="t"),
        stop(),
        begin(1, "fallback", **{"from": {"model": "a"}, "to": {"model": "b"}}),
    )
    compaction = {"content": "Summed up", "encrypted_content": "e", "parts": [1, 2], "text": "t"}
    assert found == (
        UnknownItem({"type": "compaction", **compaction}, "anthropic"),
        UnknownItem({"type": "fallback", "from": {"model": "a"}, "to": {"model": "b"}}, "anthropic"),
    )


def test_citations_stay_with_their_text() -> None:
    found = items(
        begin(0, "text", text="", citations=[]),
        delta(0, "citations", citation={"n": 1}),
        text("a"),
        delta(0, "citations", citation={"n": 2}),
        stop(),
        begin(1, "text", text="", citations=[]),
        text("b", 1),
        stop(1),
    )
    assert found == (
        Message("assistant", "a", opaque={"anthropic": {"citations": [{"n": 1}, {"n": 2}]}}),
        Message("assistant", "b"),
    )


def test_why_a_turn_was_refused_and_where_code_ran_is_told() -> None:
    details = {"type": "refusal", "category": "bio", "explanation": "No."}
    last = {"stop_reason": "refusal", "stop_details": details, "container": {"id": "c"}}
    turn = read({"type": "message_delta", "delta": last, "context_management": {}}, {"type": "message_stop"}).turn
    assert turn.items == (UnknownItem({"stop_details": details}), UnknownItem({"container": {"id": "c"}}))
    assert (turn.stop_reason, turn.refusal) == ("refusal", "")


@pytest.mark.parametrize(
    "event",
    [
        {"type": "content_block_sparkle", "index": 0},
        {"type": "content_block_start", "index": 0, "content_block": "text"},
        {"type": "content_block_delta", "index": 0},
        {"type": "content_block_delta", "index": [], "delta": {"type": "sparkle_delta", "text": "b"}},
        delta(0, "sparkle", text="b"),
        delta(7, "signature", signature="s"),
        {"no": "type"},
        ["list"],
    ],
)
def test_what_is_not_known_is_kept(event: Any) -> None:
    assert items(begin(0, "text", text=""), text("a"), event, text("c")) == (
        Message("assistant", "ac"),
        UnknownItem(event),
    )


def test_a_block_without_a_kind_does_not_go_back() -> None:
    assert items({"type": "content_block_start", "index": 0, "content_block": {"x": 1}}) == (UnknownItem({"x": 1}),)


def test_a_ping_is_a_sign_of_life_and_nothing_else() -> None:
    pings = b"event: ping\ndata: {}\n\nevent: ping\n\nevent: ping\ndata:\n\n" + sse({"type": "ping"})
    found = outcome(AnthropicDecoder(), [sse(text("a")) + pings + sse(text("b"), *end())])
    assert (found.turn.items, found.error) == ((Message("assistant", "ab"),), None)


# Halves of characters


@pytest.mark.parametrize("kind", ["text", "thinking", "input", "provider input"])
def test_a_character_that_the_server_cut_in_two_is_whole_again(kind: str) -> None:
    starts = {
        "text": begin(0, "text"),
        "thinking": begin(0, "thinking"),
        "input": call(),
        "provider input": begin(0, "server_tool_use", id="s", name="n"),
    }
    pieces = ['{"a":"x\ud83d', "\ude00y", '"}']
    make = {"text": text, "thinking": lambda piece: delta(0, "thinking", thinking=piece)}.get(kind, arguments)
    (found,) = items(starts[kind], *map(make, pieces), stop())
    told = found.arguments if kind == "input" else found.input if kind == "provider input" else found.text
    assert told == ({"a": "x😀y"} if kind == "provider input" else '{"a":"x😀y"}')


@pytest.mark.parametrize(
    "event",
    [
        call(0, "\ud83d", "\ude00", **{"\ud83d": ["\ud83d"]}),
        call(0, input={"k": "\ud83d"}),
        begin(0, "\ud83d", id="\ud83d"),
        begin(0, "server_tool_use", id="\ud83d", name="\ud83d", input={"\ud83d": 1}),
        begin(0, "web_search_tool_result", tool_use_id="\ud83d", content=["\ud83d"]),
        begin(0, "thinking", thinking="\ud83d", signature="\ud83d"),
        begin(0, "text", text="\ud83d", citations=["\ud83d"]),
        {"type": "message_delta", "delta": {"stop_reason": "\ud83d", "stop_details": {"\ud83d": 1}}},
        {
            "type": "message_start",
            "message": {"content": [{"type": "text", "text": "\ud83d"}], "stop_reason": "\ud83d"},
        },
        {"type": "message", "content": [{"type": "text", "text": "\ud83d"}], "stop_reason": "\ud83d"},
        {"type": "\ud83d"},
        {"type": "error", "error": {"message": "\ud83d"}},
    ],
)
def test_half_a_character_is_nowhere_in_what_comes_out(event: dict[str, Any]) -> None:
    later = [delta(0, "citations", citation="\ud83d"), delta(0, "signature", signature="\ud83d"), delta(0, "\ud83d")]
    assert_consistent(read(event, *later, arguments('["\\ud83d"'), stop(), *end()))
    assert_consistent(read(event, *end()))


# How it can end, and fail


@pytest.mark.parametrize("tail", [b"", sse({"type": "message_stop"}), b"data: [DONE]\n\n", b"data: [DONE]"])
def test_a_turn_has_ended_when_its_reason_is_known(tail: bytes) -> None:
    found = read(begin(0, "text", text=""), text("a"), end()[0], tail=tail)
    assert (found.error, found.turn.stop_reason, found.turn.text) == (None, "stop", "a")


@pytest.mark.parametrize("tail", [sse({"type": "message_stop"}), b"data: [DONE]\n\n"])
def test_a_turn_that_ends_without_a_reason_has_none(tail: bytes) -> None:
    found = read(text("a"), tail=tail)
    assert (found.error, found.turn.stop_reason, found.turn.stop_word) == (None, "unknown", None)


@pytest.mark.parametrize(
    ("tail", "error", "message"),
    [
        (
            sse({"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}}),
            ProviderError,
            "Overloaded (overloaded_error)",
        ),
        (b'data: {"type":"error","error":{"type":"api_error","message":"no"}}\n\n', ProviderError, "no (api_error)"),
        (b'event: error\ndata: {"message":"no"}\n\n', ProviderError, "no"),
        (b"event: error\ndata: overloaded\n\n", ProviderError, "overloaded"),
        (b'{"type":"error","error":{"message":"no"}}', ProviderError, "no"),
        (b"data: {not json\n\n", BadPayload, "an event of the stream is not JSON"),
        (b"data: \xff\n\n", BadPayload, "the stream is not UTF-8"),
        (sse(stop(), *whole_call(1)), IncompleteStream, "the answer ended before it gave a reason to stop"),
        (b"", IncompleteStream, "the answer ended before it gave a reason to stop"),
    ],
)
def test_a_failure_is_told_after_what_came_before(tail: bytes, error: type[ModelError], message: str) -> None:
    for cut in some_cuts(sse(begin(0, "text", text=""), text("a")) + tail, 20):
        found = outcome(AnthropicDecoder(), cut)
        assert type(found.error) is error
        assert str(found.error).startswith(message)
        assert (found.turn.text, found.turn.stop_reason, found.turn.calls) == ("a", "error", ())


def test_nothing_is_read_after_the_end_or_a_failure() -> None:
    for last in (end()[1], {"type": "error", "error": {"message": "no"}}):
        found = read(text("a"), end()[0], last, text("b"), {"type": "error", "error": "again"})
        assert found.turn.text == "a"
        assert str(found.error) in ("None", "no")


@pytest.mark.parametrize("depth", [300, 900, 100_000])
@pytest.mark.parametrize(
    ("start", "opens", "closes", "stop_"),
    [
        (b'{"type":"new","x":', b"[", b"]", b"}"),
        (b'{"type":"content_block_start","index":0,"content_block":{"type":"new","x":', b"[", b"]", b"}}"),
        (b'{"type":"content_block_start","index":0,"content_block":{"type":"tool_use","input":', b'{"x":', b"}", b"}}"),
        (b'{"type":"content_block_delta","index":9,"delta":{"type":"new_delta","x":', b"[", b"]", b"}}"),
        (b'{"type":"content_block_delta","index":0,"delta":{"partial_json":', b"[", b"]", b"}}"),
        (b'{"type":"error","error":', b'{"error":', b"}", b"}"),
    ],
)
def test_what_is_nested_too_deeply_is_read_or_a_failure_of_the_server(
    start: bytes, opens: bytes, closes: bytes, stop_: bytes, depth: int
) -> None:
    event = start + opens * depth + b"1" + closes * depth + stop_
    unread = begin(9, "new")
    found = read(text("a"), unread, tail=b"data: " + event + b"\n\n" + sse(*end()))
    assert found.error is None or isinstance(found.error, BadPayload | ProviderError)
    assert found.turn.text == "a"
