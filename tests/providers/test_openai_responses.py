"""The dialect of the Responses API: what servers send, in all the ways they do."""

import logging
from typing import Any

import pytest

from streamkit.items import Message, ProviderTool, Reasoning, ToolCall, UnknownItem, assistant
from streamkit.turns import ReasoningDelta, RefusalDelta, TextDelta

from .responses_events import (
    OBJECT,
    added,
    arguments,
    call,
    completed,
    done,
    event,
    incomplete,
    kept,
    message,
    read,
    reasoning,
    sent,
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


@pytest.mark.parametrize(("old", "kind"), [("reasoning", "trace"), ("reasoning_summary", "summary")])
def test_reasoning_is_read_under_its_old_names(old: str, kind: str) -> None:
    pieces = [event(f"{old}.delta", delta="Hm, "), event(f"{old}.done", text="Hm, well")]
    part = {"type": "reasoning_text", "text": "Hm, well"}
    found = read(*pieces, event("reasoning_part.done", content_index=0, part=part), completed())
    (item,) = found.turn.items
    assert isinstance(item, Reasoning)
    assert (item.text, item.kind) == ("Hm, well", kind)


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
