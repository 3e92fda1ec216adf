"""The dialect of the Responses API: what servers send, in all the ways they do, and any stream at all."""

import json
import logging
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from streamkit.errors import BadPayload, IncompleteStream, ModelError, NotAStream, ProviderError
from streamkit.items import Message, ProviderTool, Reasoning, ToolCall, UnknownItem, Usage, assistant
from streamkit.providers.openai_responses_decoder import OpenAIResponsesDecoder
from streamkit.testing.cuts import random_cut
from streamkit.turns import ReasoningDelta, RefusalDelta, TextDelta, ToolInputAvailable, ToolInputDelta, ToolInputStart

from ..streams import assert_consistent, outcome, same, some_cuts
from .responses_events import (
    OBJECT,
    WHOLE_CALL,
    added,
    arguments,
    call,
    check,
    completed,
    custom,
    done,
    event,
    incomplete,
    message,
    read,
    reasoning,
    sent,
    sse,
    text,
)

# Text: whatever is missing is added, and nothing twice


@pytest.mark.parametrize(
    "events",
    [
        [text("Hi "), text("you"), completed(message("Hi you"))],
        [text("Hi "), completed(message("Hi you"))],
        [completed(message("Hi you"))],
        [done(message("Hi you")), completed()],
        [done(message("Hi you")), completed(message("Hi you"))],
        [added(message()), text("Hi "), done(message("Hi you")), completed(message("Hi you"))],
        [text("Hi "), event("output_text.done", content_index=0, text="Hi you"), completed()],
        [event("content_part.done", content_index=0, part={"type": "output_text", "text": "Hi you"}), completed()],
        [text("Hi you"), event("output_text.done", text="Hi you"), done(message("Hi you")), completed()],
        [text("Hi ", content_index=0), text("you", content_index=1), completed(message("Hi ", "you"))],
        [text("Hi ", content_index=None), text("you", content_index=None), completed(message("Hi ", "you"))],
        [text("Hi ", content_index=None), event("output_text.done", content_index=0, text="Hi you"), completed()],
        [text("Hi ", content_index=0), done(message("Hi ", "you")), completed()],
        [added(message("Hi you")), completed()],
        [text("Hi ", None, item_id="m1"), text("you", None, item_id="m2"), completed(message("Hi you", id="m3"))],
        [text("Hi ", 3), text("you", 3), completed(message("Hi you"))],
        [text("Hi "), text("you"), incomplete({"reason": "max_output_tokens"}, message("Hi you"))],
        [text("Hi "), incomplete({"reason": "content_filter"}, message("Hi you"))],
        [added({"type": "reasoning"}), added(message()), text("Hi you"), completed(message("Hi you"))],
        [event("output_text.done", text="Hi you"), completed()],
        [
            added(message(id="1")),
            text("Hi ", item_id="2"),
            done(message("Hi you", id="3")),
            completed(message("Hi you")),
        ],
    ],
)
def test_text_is_complete_and_comes_once(events: list[dict[str, Any]]) -> None:
    assert read(*events).turn.text == "Hi you"


def test_two_messages_stay_two_though_their_places_differ_in_the_last_response() -> None:
    found = read(
        added(message(id="msg_1"), 1),
        text("a", 1),
        done(message("a", id="msg_1"), 1),
        added(message(id="msg_2"), 2),
        text("b", 2),
        completed(message("a", id="msg_1"), message("b", id="msg_2")),
    )
    assert [item.text for item in found.turn.items if isinstance(item, Message)] == ["a", "b"]


def test_messages_of_the_last_response_are_found_by_their_order_where_nothing_else_tells() -> None:
    found = read(text("a", 4), text("b", 7), completed(message("aa"), message("bb"), message("c")))
    assert [event.text for event in found.events if isinstance(event, TextDelta)] == ["a", "b", "a", "b", "c"]


def test_the_last_response_may_lack_items_and_have_others() -> None:
    one, other = message("a", id="msg_1"), message("b", id="msg_2")
    begun = [text("a", 0, item_id="msg_1"), text("b", 1, item_id="msg_2")]
    assert read(*begun, completed(message("bb", id="msg_2"))).turn.text == "abb"
    assert read(*begun, completed(other, message("c", id="msg_3"))).turn.text == "abc"
    assert read(text("a", 4, item_id="msg_1"), text("b", 7), completed(one, message("bb"))).turn.text == "abb"


def test_the_parts_of_a_message_are_one_message() -> None:
    found = read(text("a"), text("b", content_index=1), completed(message("a", "b", "c")))
    assert found.turn.items == (assistant("abc"),)


def test_what_was_only_added_is_not_whole() -> None:
    early = reasoning(id="rs_1", encrypted_content="half of")
    found = read(added(early), added({"type": "web_search_call", "id": "ws_1"}, 1), completed())
    assert found.turn.items == ()
    assert read(added(call('{"k')), done(call(OBJECT)), completed()).turn.calls[0].arguments == OBJECT


def test_a_message_with_the_index_of_another_one_is_another_one() -> None:
    one, other = message("a", id="msg_1"), message("b", id="msg_2")
    for events in (
        [added(message(id="msg_1")), text("a"), done(one), added(message(id="msg_2")), text("b"), done(other)],
        [added(message(id="msg_1")), text("a"), added(message(id="msg_2")), text("b")],
        [done(one), done(other)],
    ):
        for last in (completed(one, other), completed()):
            found = read(*events, last)
            assert [item.text for item in found.turn.items if isinstance(item, Message)] == ["a", "b"]


def test_items_without_ids_are_told_apart_by_their_index_alone() -> None:
    for first, second in ((message("a", id="1"), message("a")), (message("a"), message("a", id="1"))):
        assert read(done(first), done(second), completed()).turn.text == "a"
    begun = [added(message()), text("a"), done(message("a")), added(message()), text("b"), done(message("b"))]
    assert [item.text for item in read(*begun, completed()).turn.items if isinstance(item, Message)] == ["a", "b"]
    for indexes, texts in (((0, 0), ["a"]), ((0, 1), ["a", "a"]), ((None, None), ["a", "a"])):
        found = read(*(done(message("a"), index) for index in indexes), completed())
        assert [item.text for item in found.turn.items if isinstance(item, Message)] == texts


def test_an_item_that_is_added_twice_is_one() -> None:
    found = read(
        added(message(id="m")), text("a"), added(message(id="m")), text("b"), done(message("ab", id="m")), completed()
    )
    assert [item.text for item in found.turn.items if isinstance(item, Message)] == ["ab"]
    found = read(added(call()), added(call()), arguments(OBJECT), done(call(OBJECT)), completed())
    assert len(found.turn.calls) == 1


def test_text_that_is_told_in_another_way_later_is_not_sent_again(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING, "streamkit"):
        assert read(text("Hi  you"), completed(message("Hi you"))).turn.text == "Hi  you"
    assert caplog.messages == ["the pieces of a text are not what the provider says that it is"]


def test_the_ids_and_the_phase_of_a_message_are_kept() -> None:
    found = read(
        text("a"), done(message("a", id="msg_1", phase="commentary", status="completed", role="assistant")), completed()
    )
    assert found.turn.items == (Message("assistant", "a", opaque=kept({"id": "msg_1", "phase": "commentary"})),)


def test_the_id_of_a_message_that_nothing_but_its_pieces_told_is_kept() -> None:
    assert read(text("a", item_id="msg_1"), completed()).turn.items == (
        Message("assistant", "a", opaque=kept({"id": "msg_1"})),
    )
    assert read(text("a"), completed()).turn.items == (assistant("a"),)


def test_the_id_of_a_message_that_reasoning_has_cut_off_makes_no_blank_one() -> None:
    thought = reasoning(id="rs_1", encrypted_content="x")
    found = read(text("a"), done(thought, 1), done(message("a", id="msg_1")), completed())
    assert found.turn.items == (assistant("a"), Reasoning("", "trace", kept(thought)))


def test_the_id_of_a_message_that_a_call_has_cut_off_makes_no_blank_one() -> None:
    found = read(
        text("a", None, item_id="msg_1"),
        added(call(id="fc_1"), None),
        arguments(OBJECT, None, item_id="fc_1"),
        done(message("a", id="msg_1"), None),
        done(call(OBJECT, id="fc_1"), None),
        completed(message("a", id="msg_1"), call(OBJECT, id="fc_1")),
    )
    assert [type(item) for item in found.turn.items] == [Message, ToolCall]


@pytest.mark.parametrize("told", [done, completed])
def test_a_refusal_is_no_answer(told: Any) -> None:
    item = {"type": "message", "id": "msg_1", "content": [{"type": "refusal", "refusal": "I will not"}]}
    found = read(event("refusal.delta", content_index=0, delta="I will"), told(item), completed(item))
    assert [event.text for event in found.events if isinstance(event, RefusalDelta)] == ["I will", " not"]
    assert (found.turn.refusal, found.turn.stop_reason, found.turn.items) == ("I will not", "refusal", ())


def test_a_refusal_that_is_told_as_a_whole_is_one() -> None:
    assert read(event("refusal.done", content_index=0, refusal="No"), completed()).turn.refusal == "No"


def test_a_piece_without_text_tells_nothing_and_an_odd_one_is_kept() -> None:
    odd = text("")
    odd["delta"] = ["b"]
    found = read(text("a"), text(""), odd, text("c"), completed(message("ac")))
    assert found.events == [TextDelta("a"), UnknownItem(odd), TextDelta("c")]


def test_annotations_are_kept_once() -> None:
    cited = {"type": "url_citation", "url": "https://example.org"}
    other = {"type": "file_citation", "file_id": "f"}
    item = message()
    item["content"] = [{"type": "output_text", "text": "a", "annotations": [cited, other]}, {"type": "output_audio"}]
    found = read(
        text("a"), event("output_text.annotation.added", annotation=cited), done(item), completed(item)
    )  # fmt: skip
    unknown = [item.item for item in found.turn.items if isinstance(item, UnknownItem)]
    assert unknown == [cited, {"type": "output_audio"}, other]


# Reasoning


def summary(delta: str, part: int, index: int | None = 0) -> dict[str, Any]:
    return event("reasoning_summary_text.delta", index, delta=delta, summary_index=part)


def kept(item: dict[str, Any]) -> dict[str, Any]:
    return {"openai_responses": item}


def test_encrypted_reasoning_without_text_is_kept_unread_each_item_for_itself() -> None:
    one, other = (reasoning(id=f"rs_{number}", encrypted_content=f"x{number}") for number in (1, 2))
    early = reasoning(id="rs_1", encrypted_content="half of")
    found = read(added(early), done(one), added(other, 1), done(other, 1), completed(one, other))
    assert found.turn.items == (Reasoning("", "trace", kept(one)), Reasoning("", "trace", kept(other)))


def test_the_parts_of_a_summary_stay_apart_and_the_last_has_what_goes_back() -> None:
    item = reasoning("Look up.", "Then tell.", id="rs_1", encrypted_content="x")
    for events in (
        [added(reasoning(id="rs_1")), summary("Look", 0), summary(" up.", 0), summary("Then tell.", 1), done(item)],
        [summary("Look up.", 0), event("reasoning_summary_text.done", summary_index=1, text="Then tell."), done(item)],
        [event("reasoning_summary_part.done", summary_index=0, part=item["summary"][0]), done(item)],
        [done(item)],
        [],
    ):
        found = read(*events, completed(item))
        assert found.turn.items == (Reasoning("Look up.", "summary"), Reasoning("Then tell.", "summary", kept(item)))


@pytest.mark.parametrize("is_whole", [True, False])
def test_the_trace_of_open_models_is_a_trace(is_whole: bool) -> None:
    item = {"type": "reasoning", "id": "r", "content": [{"type": "reasoning_text", "text": "Hm, well"}], "summary": []}
    pieces = [event("reasoning_text.delta", content_index=0, delta="Hm, ")]
    if is_whole:
        pieces.append(event("reasoning_text.done", content_index=0, text="Hm, well"))
    found = read(*pieces, done(item), completed(item))
    assert found.events == [ReasoningDelta("Hm, "), ReasoningDelta("well")]
    assert found.turn.items == (Reasoning("Hm, well", "trace", kept(item)),)


def test_reasoning_that_is_done_behind_the_answer_keeps_its_place() -> None:
    item = reasoning("Hm", id="rs_1", encrypted_content="x")
    found = read(
        added(reasoning()),
        summary("Hm", 0),
        added(message(), 1),
        text("a", 1),
        done(message("a"), 1),
        done(item),
        completed(),
    )
    assert found.turn.items == (Reasoning("Hm", "summary", kept(item)), Message("assistant", "a"))


def test_what_is_kept_of_reasoning_goes_to_no_other() -> None:
    one, other = (reasoning(id=f"rs_{number}", encrypted_content=f"x{number}") for number in (1, 2))
    found = read(added(one), added(other, 1), done(one), done(other, 1), completed())
    opaque = [item.opaque for item in found.turn.items if isinstance(item, Reasoning)]
    assert opaque == [kept(one), kept(other)]


# Calls


@pytest.mark.parametrize(
    "events",
    [
        [added(call()), arguments(OBJECT), event("function_call_arguments.done", arguments=OBJECT), done(call(OBJECT))],
        [added(call()), arguments(OBJECT), done(call(OBJECT))],
        [added(call()), arguments('{"k"'), event("function_call_arguments.done", arguments=OBJECT)],
        [added(call()), event("function_call_arguments.done", arguments=""), done(call(OBJECT))],
        [added(call()), arguments(OBJECT), event("function_call_arguments.done", arguments=""), done(call())],
        [added(call()), arguments(OBJECT)],
        [added(call()), arguments('{"k'), done(call(OBJECT))],
        [added(call()), done(call())],
        [added(call())],
        [done(call(OBJECT))],
        [done(call({"k": 1}))],
        [added(call(call_id=None)), arguments(OBJECT), done(call(OBJECT))],
        [added(call(name=None)), arguments(OBJECT), done(call(OBJECT))],
        [added(call(call_id="", name="")), arguments(OBJECT), done(call(OBJECT))],
        [arguments(OBJECT), done(call(OBJECT))],
        [arguments(OBJECT)],
        [event("function_call_arguments.done", arguments=OBJECT), done(call(OBJECT))],
        [arguments(OBJECT), event("function_call_arguments.done", arguments=OBJECT), done(call(OBJECT))],
        [added(call(id="x"), None), arguments(OBJECT, None, item_id="x"), done(call(OBJECT, id="x"), None)],
        [added(call(id="x"), None), arguments(OBJECT, None, item_id="y"), done(call(OBJECT, id="z"), None)],
        [added(call(id="x"), None), arguments(OBJECT, 0, item_id="x")],
        [added(call(), 7), arguments(OBJECT, 7), done(call(OBJECT), 7)],
        [added(message()), *WHOLE_CALL],
        [],
    ],
)
def test_a_call_is_one_call_whatever_tells_of_it(events: list[dict[str, Any]]) -> None:
    found = read(*events, completed(call(OBJECT)))
    (made,) = found.turn.calls
    assert (made.call_id, made.name, json.loads(made.arguments), made.problem) == ("a", "f", {"k": 1}, None)
    assert found.turn.stop_reason == "tool_calls"
    assert found.turn.stop_word == "completed"


def test_a_call_that_the_last_response_does_not_repeat_stands() -> None:
    for events in (WHOLE_CALL, [added(call(OBJECT))], [added(call()), arguments(OBJECT)], [done(call(OBJECT))]):
        (made,) = read(*events, completed()).turn.calls
        assert (made.arguments, made.problem) == (OBJECT, None)


def test_a_call_without_arguments_has_none() -> None:
    for events in ([added(call()), done(call())], [done(call("null"))], [done({"type": "function_call", "name": "f"})]):
        (made,) = read(*events, completed()).turn.calls
        assert (made.arguments, made.problem) == ("{}", None)


def test_a_call_is_available_when_it_is_said_to_be_done() -> None:
    for events in (
        WHOLE_CALL,
        [added(call()), arguments(OBJECT), done(call())],
        [added(call()), event("function_call_arguments.done", arguments=OBJECT)],
        [done(call(OBJECT))],
    ):
        found = read(*events, ERROR)
        start = [ToolInputStart("a", "f"), ToolInputDelta("a", OBJECT), ToolInputAvailable("a", OBJECT)]
        assert found.events[:3] == start
        assert [made.abandoned for made in found.turn.dropped] == ["discarded"]
        assert isinstance(found.error, ProviderError)


def test_a_call_that_has_only_the_id_of_its_item_is_called_by_it() -> None:
    (made,) = read(
        done({"type": "function_call", "id": "fc_9", "name": "f", "arguments": OBJECT}), completed()
    ).turn.calls
    assert made.call_id == "fc_9"


def test_calls_that_are_written_at_the_same_time_and_end_together_stay_apart() -> None:
    one, other = call('{"k":1}', id="fc_1"), call('{"k":2}', id="fc_2", call_id="b")
    for indexes in ((0, 1), (None, None)):
        found = read(
            added(call(id="fc_1"), indexes[0]),
            arguments('{"k"', indexes[0], item_id="fc_1"),
            added(call(id="fc_2", call_id="b"), indexes[1]),
            arguments('{"k":', indexes[1], item_id="fc_2"),
            arguments(":1}", indexes[0], item_id="fc_1"),
            arguments("2}", indexes[1], item_id="fc_2"),
            done(one, indexes[0]),
            done(other, indexes[1]),
            completed(one, other),
        )
        assert [(made.call_id, made.arguments) for made in found.turn.calls] == [("a", '{"k":1}'), ("b", '{"k":2}')]


def test_calls_with_one_index_for_all_stay_apart() -> None:
    one, other = call('{"k":1}'), call('{"k":2}', call_id="b")
    found = read(
        added(call()),
        arguments('{"k":1}'),
        added(call(call_id="b")),
        arguments('{"k":2}'),
        done(one),
        done(other),
        completed(one, other),
    )
    assert [(made.call_id, made.arguments) for made in found.turn.calls] == [("a", '{"k":1}'), ("b", '{"k":2}')]


def test_two_calls_with_one_id_are_two() -> None:
    found = read(
        added(call()),
        done(call('{"k":1}')),
        added(call(), 1),
        done(call('{"k":2}'), 1),
        completed(call('{"k":1}'), call('{"k":2}')),
    )
    assert [made.arguments for made in found.turn.calls] == ['{"k":1}', '{"k":2}']
    assert found.turn.calls[0].call_id == "a" != found.turn.calls[1].call_id


def test_a_call_that_has_another_id_in_the_last_response_is_the_same() -> None:
    found = read(*WHOLE_CALL, completed(call(OBJECT, call_id="b")))
    assert [made.call_id for made in found.turn.calls] == ["a"]
    found = read(*WHOLE_CALL, completed(call(OBJECT, call_id="b", name="g")))
    assert [made.call_id for made in found.turn.calls] == ["a", "b"]


def test_the_closing_words_on_a_call_count_more_than_its_pieces() -> None:
    for closing in (
        done(call(OBJECT)),
        event("function_call_arguments.done", arguments=OBJECT),
        completed(call(OBJECT)),
    ):
        (made,) = read(added(call()), arguments('{"k":2}'), closing, completed(call(OBJECT))).turn.calls
        assert (made.arguments, made.problem) == (OBJECT, None)


def test_a_call_that_is_told_in_two_ways_does_not_run() -> None:
    found = read(*WHOLE_CALL, completed(call('{"k":2}')))
    assert [made.abandoned for made in found.turn.dropped] == ["discarded"]


def test_arguments_that_are_no_object_are_a_problem() -> None:
    (made,) = read(added(call()), arguments('{"k"'), done(call('{"k"')), completed(call('{"k"'))).turn.calls
    assert made.problem is not None


@pytest.mark.parametrize("status", [{}, {"status": "incomplete"}, {"status": "completed"}])
def test_a_turn_that_is_cut_runs_no_calls(status: dict[str, Any]) -> None:
    whole = [*WHOLE_CALL[:2], done(call(OBJECT, id="fc_1", **status))]
    found = read(*whole, added(call(call_id="b"), 1), arguments('{"k', 1), incomplete({"reason": "max_output_tokens"}))
    assert found.turn.calls == ()
    first = "incomplete" if status.get("status") == "incomplete" else "discarded"
    assert [made.abandoned for made in found.turn.dropped] == [first, "incomplete"]
    assert (found.turn.stop_reason, found.turn.stop_word) == ("length", "incomplete")


@pytest.mark.parametrize(
    "events",
    [
        [added(custom()), event("custom_tool_call_input.delta", delta="SELECT"), done(custom("SELECT 1"))],
        [added(custom()), event("custom_tool_call_input.done", input="SELECT 1"), done(custom("SELECT 1"))],
        [done(custom("SELECT 1"))],
        [added(custom()), event("custom_tool_call_input.delta", delta="SELECT 1")],
        [added(custom()), event("custom_tool_call_input.done", input="SELECT 1")],
        [],
    ],
)
def test_a_custom_call_has_plain_text(events: list[dict[str, Any]]) -> None:
    for last in (completed(custom("SELECT 1")), *[completed()] * bool(events)):
        (made,) = read(*events, last).turn.calls
        assert (made.arguments, made.custom, made.problem) == ("SELECT 1", True, None)


def test_what_else_a_call_has_is_kept() -> None:
    caller = {"type": "program", "caller_id": "p"}
    found = read(
        added(call(id="fc_1")),
        done(call(OBJECT, caller=caller, namespace="n", status="completed")),
        completed(call(OBJECT, id="fc_2")),
    )
    assert found.turn.calls[0].opaque == kept({"id": "fc_1", "caller": caller, "namespace": "n"})


# What the provider runs itself, and what is not known


@pytest.mark.parametrize(
    ("item", "name", "given", "output"),
    [
        ({"type": "web_search_call", "action": {"query": "q"}}, "web_search_call", {"query": "q"}, None),
        ({"type": "file_search_call", "queries": ["q"], "results": [1]}, "file_search_call", ["q"], [1]),
        ({"type": "code_interpreter_call", "code": "1", "outputs": []}, "code_interpreter_call", "1", None),
        ({"type": "image_generation_call", "result": "aGk="}, "image_generation_call", None, "aGk="),
        ({"type": "mcp_call", "name": "f", "arguments": OBJECT, "output": "x"}, "f", {"k": 1}, "x"),
        ({"type": "mcp_call", "name": "f", "arguments": "{", "error": "no"}, "f", "{", "no"),
        ({"type": "mcp_list_tools", "tools": [{"name": "f"}]}, "mcp_list_tools", None, [{"name": "f"}]),
        ({"type": "tool_search_call", "arguments": {"paths": []}}, "tool_search_call", {"paths": []}, None),
        ({"type": "tool_search_output", "tools": [1]}, "tool_search_output", None, [1]),
        ({"type": "program", "code": "await f()", "call_id": "p"}, "program", "await f()", None),
        ({"type": "program_output", "result": "42", "call_id": "p"}, "program_output", None, "42"),
    ],
)
def test_a_tool_of_the_provider_is_told_and_goes_back_as_it_came(
    item: dict[str, Any], name: str, given: object, output: object
) -> None:
    item = {"id": "x_1", "status": "completed", **item}
    for events in ([added({"type": item["type"], "id": "x_1"}), done(item)], [done(item)], []):
        turn = read(*events, completed(item)).turn
        assert turn.items == (ProviderTool("x_1", name, given, output, item["type"], kept(item)),)
        assert sent(*turn.items) == [item]


@pytest.mark.parametrize("kind", ["mcp_call", "code_interpreter_call"])
def test_a_tool_of_the_provider_is_told_as_soon_as_its_input_is_whole(kind: str) -> None:
    name = "f" if kind == "mcp_call" else kind
    begun = {"type": kind, "id": "x_1", **({"name": name} if kind == "mcp_call" else {})}
    item = {**begun, "arguments": OBJECT, "code": OBJECT, "output": "y", "outputs": "y"}
    field, word = ("arguments", "mcp_call_arguments") if kind == "mcp_call" else ("code", "code_interpreter_call_code")
    told = event(f"{word}.done", 0, item_id="x_1", **{field: OBJECT})
    turn = read(added(begun), event(f"{word}.delta", delta="{"), told, told, done(item), told, completed(item)).turn
    assert turn.items == (
        ProviderTool("x_1", name, {"k": 1}, None, kind),
        ProviderTool("x_1", name, None, "y", kind, kept(item)),
    )
    assert sent(*turn.items) == [item]
    assert read(told, done(item), told, completed()).turn.items == (
        ProviderTool("x_1", name, {"k": 1}, "y", kind, kept(item)),
    )


@pytest.mark.parametrize(
    "item",
    [
        {"type": "local_shell_call", "call_id": "a", "action": {"type": "exec"}},
        {"type": "shell_call", "call_id": "a"},
        {"type": "apply_patch_call", "call_id": "a"},
        {"type": "computer_call", "call_id": "a"},
        {"type": "mcp_approval_request", "name": "f"},
        {"type": "tool_search_call", "execution": "client", "call_id": "a"},
        {"type": "compaction", "encrypted_content": "x"},
        {"type": "of_tomorrow", "deep": [{"er": None}]},
    ],
)
def test_an_item_that_is_no_tool_of_the_provider_goes_back_as_it_came(item: dict[str, Any]) -> None:
    item = {"id": "x_1", **item}
    for events in ([added({**item, "status": "in_progress"}), done(item)], []):
        turn = read(*events, completed(item)).turn
        assert turn.items == (UnknownItem(item, "openai_responses"),)
        assert sent(*turn.items) == [item]


def test_events_that_are_not_known_are_kept_and_others_tell_nothing() -> None:
    picture = event("image_generation_call.partial_image", partial_image_b64="aGk=")
    nothing = [
        {"type": "keepalive"}, {"type": "ping"}, event("created"), event("queued"), event("in_progress"),
        event("content_part.added", part={}), event("web_search_call.searching"), event("shell_call_command.added"),
        event("code_interpreter_call_code.delta", delta="1"), event("apply_patch_call_operation_diff.done"),
        event("mcp_list_tools.failed"), event("x_search_call.in_progress"),
    ]  # fmt: skip
    odd = [event("output_text.delta", delta=["a"]), event("output_item.done", item=[1]), event("of.tomorrow")]
    odd += [event("output_item.added", item={"no": "type"}), event("output_item.done", item={"type": 1})]
    found = read(*nothing, picture, *odd, completed(7, {"no": "type"}))
    assert [item.item for item in found.turn.items if isinstance(item, UnknownItem)] == [picture, *odd]
    assert len(found.turn.items) == len(odd) + 1


# How it ends


@pytest.mark.parametrize(
    ("told", "reason", "word"),
    [
        (completed(), "stop", "completed"),
        ({"type": "response.completed"}, "stop", "completed"),
        (completed(status="in_progress"), "stop", "completed"),
        (completed(status="incomplete"), "length", "incomplete"),
        (completed(status=[]), "stop", "completed"),
        (incomplete({"reason": "max_output_tokens"}), "length", "incomplete"),
        (incomplete({"reason": "content_filter"}), "content_filter", "incomplete"),
        (incomplete({"reason": "of_tomorrow"}), "length", "incomplete"),
        (completed(incomplete_details={"reason": "content_filter"}), "content_filter", "completed"),
        (incomplete(None), "length", "incomplete"),
        ({"type": "response.incomplete", "response": None}, "length", "incomplete"),
        ({"type": "response.cancelled", "response": {"status": "cancelled"}}, "cancelled", "cancelled"),
    ],
)
def test_the_reason_to_stop_is_told_in_our_words_and_in_theirs(told: dict[str, Any], reason: str, word: str) -> None:
    turn = read(text("a"), told).turn
    assert (turn.text, turn.stop_reason, turn.stop_word) == ("a", reason, word)


def test_a_turn_without_any_item_is_empty() -> None:
    assert read(completed()).turn.items == ()


@pytest.mark.parametrize(
    ("told", "usage"),
    [
        ({"input_tokens": 9, "input_tokens_details": {"cached_tokens": 4}, "output_tokens": 7,
          "output_tokens_details": {"reasoning_tokens": 5}, "total_tokens": 16}, Usage(9, 7, 4, 5)),
        ({"input_tokens": 9, "output_tokens": 7}, Usage(9, 7)),
        ({"input_tokens": None, "input_tokens_details": [], "output_tokens": "7"}, Usage()),
        (None, Usage()),
        ("many", Usage()),
    ],
)  # fmt: skip
def test_usage_counts_whatever_the_end(told: object, usage: Usage) -> None:
    assert read(completed(usage=told)).turn.usage == usage
    assert read({"type": "response.failed", "response": {"usage": told}}).turn.usage == usage


FAILED = {
    "type": "response.failed",
    "response": {
        "status": "failed",
        "error": {"code": "rate_limit_exceeded", "message": "slow down"},
        "usage": {"input_tokens": 3},
        "output": [message("a b")],
    },
}
ERROR = {"type": "error", "code": "server_error", "message": "no", "param": None}


@pytest.mark.parametrize(
    ("events", "words", "word"),
    [
        ([FAILED], "slow down (rate_limit_exceeded)", "failed"),
        ([ERROR], "no (server_error)", None),
        ([{"type": "error", "error": {"type": "x", "code": "x", "message": "no"}}], "no (x)", None),
        ([{"error": {"code": 500, "message": "no"}}], "no", None),
        ([ERROR, FAILED], "no (server_error)", "failed"),
        ([ERROR, ERROR, FAILED], "no (server_error)", "failed"),
        ([ERROR, text(" b"), FAILED], "no (server_error)", None),
        ([ERROR, completed()], "no (server_error)", None),
        ([ERROR, {"type": "error", "message": "again"}], "no (server_error)", None),
        ([completed(status="failed", error={"message": "no"})], "no", "failed"),
        ([completed(error={"message": "no"})], "no", "completed"),
        ([{"type": "response.failed", "response": {"error": None}}], "the response failed", "failed"),
    ],
)
def test_a_failure_is_told_after_what_came_before(events: list[dict[str, Any]], words: str, word: str | None) -> None:
    body = sse(added(call(), 1), text("a"), *events)
    for cut in some_cuts(body, 10):
        found = outcome(OpenAIResponsesDecoder(), cut)
        assert_consistent(found)
        assert isinstance(found.error, ProviderError)
        assert str(found.error) == words
        assert found.turn.text == ("a b" if FAILED in events and word else "a")
        assert (found.turn.stop_reason, found.turn.stop_word) == ("error", word)


@pytest.mark.parametrize(
    ("tail", "error", "message"),
    [
        (b'event: error\ndata: {"type":"error","message":"no"}\n\n', ProviderError, "no"),
        (b"event: error\ndata: overloaded\n\n", ProviderError, "overloaded"),
        (b'event: error\ndata: {"message":"no"}\n\ndata: [DONE]\n\n', ProviderError, "no"),
        (b'data: {"error":"no"}\n\ndata: {"type":"response.failed","response":{}}\n\n', ProviderError, "no"),
        (b'{"error":{"message":"no"}}\n', ProviderError, "no"),
        (b'data: {"error":"no"}\n\ndata: {broken\n\n', ProviderError, "no"),
        (b"data: {broken\n\n", BadPayload, "an event of the stream is not JSON"),
        (b"data: \xff\n\n", BadPayload, "the stream is not UTF-8"),
        (b'data: {"type":"response.completed","resp', IncompleteStream, "the answer ended before it gave a reason"),
        (b"", IncompleteStream, "the answer ended before it gave a reason"),
    ],
)
def test_a_stream_that_breaks_says_why(tail: bytes, error: type[ModelError], message: str) -> None:
    for cut in some_cuts(sse(text("a")) + tail, 20):
        found = outcome(OpenAIResponsesDecoder(), cut)
        assert type(found.error) is error
        assert str(found.error).startswith(message)
        assert found.turn.text == "a"


def test_a_body_that_is_no_stream_is_told() -> None:
    assert isinstance(outcome(OpenAIResponsesDecoder(), [b'{"object":"response","output":[]}']).error, NotAStream)


@pytest.mark.parametrize(
    ("events", "ends"),
    [
        ([text("a")], True),
        ([], True),
        ([*WHOLE_CALL], True),
        ([added(call()), event("function_call_arguments.done", arguments=OBJECT)], True),
        ([added(call()), done(call())], True),
        ([added(call()), arguments(OBJECT)], False),
        ([added(call(), 1), *WHOLE_CALL], False),
    ],
)
def test_an_end_mark_alone_ends_a_turn_whose_calls_are_all_done(events: list[dict[str, Any]], ends: bool) -> None:
    found = read(*events, tail=b"data: [DONE]\n\n")
    assert isinstance(found.error, IncompleteStream) != ends
    if not ends:
        assert found.turn.calls == ()
    elif not found.turn.calls:
        assert (found.turn.stop_reason, found.turn.stop_word) == ("unknown", None)


def test_an_end_mark_behind_the_end_changes_nothing() -> None:
    found = read(text("a"), completed(), tail=b"data: [DONE]\n\n")
    assert (found.turn.stop_reason, found.turn.stop_word) == ("stop", "completed")


# Characters cut in two


@pytest.mark.parametrize("make", [text, arguments, lambda delta: summary(delta, 0)])
def test_a_character_that_the_server_cut_in_two_is_whole_again(make: Any) -> None:
    start = [added(call())] if make is arguments else []
    found = read(*start, make('{"a":"x\ud83d'), make("\ude00y"), make('"}'), completed())
    (item,) = found.turn.items
    assert (item.arguments if isinstance(item, ToolCall) else getattr(item, "text", "")) == '{"a":"x😀y"}'


def test_half_a_character_that_stays_alone_is_not_lost() -> None:
    assert read(text("a\ud83d"), completed(message("a\ud83d"))).turn.text == "a\ufffd"
    assert read(text("a\ud83d"), text("b"), completed(message("a\ud83db"))).turn.text == "a\ufffdb"


@pytest.mark.parametrize(
    "odd",
    [
        done({"type": "\ud83d", "id": "\ud83d", "\ud83d": 1}),
        done(call({"k": "\ud83d"}, id="\ud83d", call_id="\ud83d")),
        done(reasoning("\ud83d", encrypted_content="\ud83d")),
        event("output_text.annotation.added", annotation={"\ud83d": 1}),
        event("\ud83d"),
        {"type": "error", "message": "\ud83d"},
        completed({"type": "mcp_call", "name": "\ud83d", "arguments": '{"\\ud83d":1}'}),
    ],
)
def test_half_a_character_is_nowhere_in_what_comes_out(odd: dict[str, Any]) -> None:
    read(odd, text("a"), completed())


# Any way to tell of an answer


def events_of(place: int, item: dict[str, Any], draw: Any) -> list[dict[str, Any]]:
    """One way to tell of an item: pieces of the beginning of its text, and some of the events that tell it whole."""
    kind, whole = item["type"], item.get("arguments") or (item["content"] or item["summary"])[0]["text"]
    word, part = {
        "message": ("output_text", {"content_index": 0}),
        "reasoning": ("reasoning_summary_text", {"summary_index": 0}),
        "function_call": ("function_call_arguments", {}),
    }[kind]
    index = place if draw(st.booleans()) else None
    rotates = index is not None and draw(st.booleans())

    def told(name: str, **fields: Any) -> dict[str, Any]:
        item_id = f"{item['id']}_{name}" if rotates else item["id"]
        return event(name, index, item_id=item_id, **fields)

    end = draw(st.integers(0, len(whole)))
    cut = draw(st.integers(0, end))
    bare = {**item, "id": f"{item['id']}_new" if rotates else item["id"], "arguments": "", "content": [], "summary": []}
    is_added = kind == "function_call" or index is None or draw(st.booleans())
    events = [event("output_item.added", index, item=bare)] if is_added else []
    events += [told(f"{word}.delta", delta=piece, **part) for piece in (whole[:cut], whole[cut:end]) if piece]
    if draw(st.booleans()):
        events.append(told(f"{word}.done", text=whole, arguments=whole, **part))
    if draw(st.booleans()):
        events.append(event("output_item.done", index, item=item))
    return events


WORDS = st.text("ab é", min_size=1, max_size=6)


@settings(max_examples=200)
@given(st.lists(st.tuples(st.sampled_from(["message", "reasoning", "function_call"]), WORDS), max_size=5), st.data())
def test_whatever_is_left_out_the_answer_is_the_same(answer: list[tuple[str, str]], data: st.DataObject) -> None:
    output = []
    for place, (kind, words) in enumerate(answer):
        item: dict[str, Any] = {"type": kind, "id": f"i{place}", "content": [], "summary": []}
        if kind == "function_call":
            item |= {"call_id": f"c{place}", "name": "f", "arguments": json.dumps({"k": words})}
        else:
            part = {"type": "output_text" if kind == "message" else "summary_text", "text": words}
            item["content" if kind == "message" else "summary"] = [part]
        output.append(item)
    found = read(
        *(told for place, item in enumerate(output) for told in events_of(place, item, data.draw)), completed(*output)
    )
    for item_type, kind in ((Message, "message"), (Reasoning, "reasoning")):
        texts = "".join(item.text for item in found.turn.items if isinstance(item, item_type))
        assert sorted(texts) == sorted("".join(words for each, words in answer if each == kind))
    calls = [(call.call_id, json.loads(call.arguments), call.problem) for call in found.turn.calls]
    assert sorted(calls) == [
        (f"c{place}", {"k": words}, None) for place, (kind, words) in enumerate(answer) if kind == "function_call"
    ]


# Any stream at all

TEXTS = st.sampled_from(["", "a", "é", "\ud83d", "\ude00", "{", "\n"])
ARGUMENTS = st.sampled_from(["", "{", "}", '"k":', "1", "null", "{}", OBJECT, '{"k":2}', "x", "\ud83d"])
INDEXES = st.sampled_from([0, 0, 1, 2, None, "0", -1])
IDS = st.sampled_from([None, "a", "b", "", 3, "\ud83d"])
PARTS: st.SearchStrategy[dict[str, Any]] = st.builds(
    lambda kind, value, notes: {"type": kind, "text": value, "refusal": value, "annotations": notes},
    st.sampled_from(["output_text", "refusal", "reasoning_text", "summary_text", "new"]),
    TEXTS,
    st.sampled_from([[], [1], None]),
)
CALLED: st.SearchStrategy[dict[str, Any]] = st.fixed_dictionaries(
    {"type": st.sampled_from(["function_call", "custom_tool_call"])},
    optional={
        "id": IDS, "call_id": IDS, "name": st.sampled_from([None, "f", "g", ""]), "input": TEXTS,
        "arguments": ARGUMENTS | st.just({"k": 1}), "status": st.sampled_from(["completed", "incomplete"]),
    },
)  # fmt: skip
SAID: st.SearchStrategy[dict[str, Any]] = st.fixed_dictionaries(
    {"type": st.sampled_from(["message", "reasoning"])},
    optional={"id": IDS, "content": st.lists(PARTS, max_size=2), "summary": st.lists(PARTS, max_size=2)},
)
OTHERS: st.SearchStrategy[dict[str, Any]] = st.fixed_dictionaries(
    {"type": st.sampled_from(["mcp_call", "web_search_call", "new"])}, optional={"id": IDS, "arguments": ARGUMENTS}
)
ITEMS = CALLED | CALLED | SAID | OTHERS
PIECES: st.SearchStrategy[dict[str, Any]] = st.builds(
    lambda kind, index, item_id, delta: event(
        kind, index, item_id=item_id, delta=delta, text=delta, arguments=delta, input=delta, code=delta
    ),
    st.sampled_from([
        "output_text.delta", "output_text.done", "refusal.delta", "reasoning_text.delta", "reasoning_text.done",
        "reasoning_summary_text.delta", "function_call_arguments.delta", "function_call_arguments.done",
        "custom_tool_call_input.delta", "custom_tool_call_input.done", "mcp_call_arguments.done",
    ]),
    INDEXES,
    IDS,
    TEXTS | ARGUMENTS,
)  # fmt: skip
EVENTS = (
    st.builds(added, ITEMS, INDEXES)
    | st.builds(done, ITEMS, INDEXES)
    | PIECES
    | st.builds(lambda index, part: event("content_part.done", index, part=part), INDEXES, PARTS)
).map(sse)
FAULTS = st.sampled_from([b""] * 9 + [sse(ERROR), sse(FAILED), b"data: {\n\n", b": ping\n\n", b"foo: bar\n\n", b"\xff"])
ENDS = st.builds(
    lambda make, output: sse(make(*output)),
    st.sampled_from([completed, lambda *output: incomplete({"reason": "max_output_tokens"}, *output)]),
    st.lists(ITEMS, max_size=4),
) | st.sampled_from([b"", b"data: [DONE]\n\n"])
BODIES = st.tuples(st.lists(EVENTS, max_size=12), FAULTS, ENDS).map(lambda parts: b"".join([*parts[0], *parts[1:]]))


@settings(max_examples=200)
@given(BODIES, st.integers(0, 9), st.data())
def test_any_stream_keeps_the_grammar_of_tool_input_in_any_cut(body: bytes, seed: int, data: st.DataObject) -> None:
    if data.draw(st.integers(0, 3), label="whole, unless 0") == 0:
        body = body[: data.draw(st.integers(0, len(body)), label="broken off at")]
    found = outcome(OpenAIResponsesDecoder(), [body], ["f"])
    assert same(outcome(OpenAIResponsesDecoder(), random_cut(body, seed), ["f"]), found)
    check(found)


ANY_JSON: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers(-2, 2**65) | st.floats() | st.text("ab\ud83d", max_size=3),
    lambda inner: st.lists(inner, max_size=3)
    | st.dictionaries(
        st.sampled_from([
            "type", "delta", "output_index", "item_id", "item", "part", "response", "output", "id", "call_id", "name",
            "arguments", "content", "summary", "text", "usage", "input_tokens_details", "error", "status", "message",
        ]),
        inner,
        max_size=4,
    ),
    max_leaves=12,
)  # fmt: skip
FIELDS = ["delta", "output_index", "item_id", "content_index", "item", "part", "response", "text", "arguments"]


@given(BODIES, st.data())
def test_no_odd_field_breaks_the_decoder(body: bytes, data: st.DataObject) -> None:
    events = [json.loads(line[6:]) for line in body.splitlines() if line.startswith(b'data: {"')]
    if events:
        told = data.draw(st.sampled_from(events))
        told.update(data.draw(st.dictionaries(st.sampled_from(FIELDS), ANY_JSON, min_size=1, max_size=2)))
        if isinstance(told.get("item"), dict):
            fields = st.sampled_from(["id", "call_id", "name", "content"])
            told["item"].update(data.draw(st.dictionaries(fields, ANY_JSON, max_size=1)))
    found = read(*events, completed())
    assert found.error is None or isinstance(found.error, ModelError)


@given(st.lists(ANY_JSON, max_size=4))
def test_no_json_breaks_the_decoder(events: list[Any]) -> None:
    found = read(*events, completed())
    assert found.error is None or isinstance(found.error, ModelError)


@given(st.binary(max_size=60))
def test_no_bytes_break_the_decoder(body: bytes) -> None:
    found = outcome(OpenAIResponsesDecoder(), [body])
    assert isinstance(found.error, ModelError) or b"[DONE]" in body  # which alone ends a turn, an empty one
    assert found.turn is None or not found.turn.items
