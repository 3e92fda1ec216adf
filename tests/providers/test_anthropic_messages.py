"""A history as the Messages API takes it, whatever happened; turns go back as they came."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamkit.history import append_turn
from streamkit.items import (
    History,
    Item,
    Message,
    Opaque,
    ProviderTool,
    Reasoning,
    ToolCall,
    ToolOutput,
    UnknownItem,
    assistant,
    image,
    user,
)
from streamkit.providers.anthropic import encode_request
from streamkit.providers.anthropic_decoder import AnthropicDecoder
from streamkit.providers.anthropic_messages import NO_REASON, NOTHING_SAID, messages_of
from streamkit.tool_events import Value
from streamkit.turns import Turn, TurnRequest

from ..streams import case_body, cases, outcome, recorded_body, recordings
from .anthropic_requests import body_of, call, own_result, own_tool, raw, said, thought, used


def test_what_each_said_in_a_row_is_one_message() -> None:
    assert messages_of(
        (
            user("go"),
            user("on"),
            assistant("Look"),
            call("a", '{"x": 1}'),
            UnknownItem({"stop_details": {}}),
            assistant("ing"),
            call("b"),
            ToolOutput("a", "f", "1"),
            ToolOutput("b", "f", "no", failed=True),
            user("and?"),
            assistant("Done. "),
            user("thanks"),
        )
    ) == [
        {"role": "user", "content": [said("go"), said("on")]},
        {"role": "assistant", "content": [said("Look"), used("a", input={"x": 1}), said("ing"), used("b")]},
        {
            "role": "user",
            "content": [
                {"type": "tool_result", "tool_use_id": "a", "content": [said("1")]},
                {"type": "tool_result", "tool_use_id": "b", "content": [said("no")], "is_error": True},
                said("and?"),
            ],
        },
        {"role": "assistant", "content": [said("Done. ")]},
        {"role": "user", "content": [said("thanks")]},
    ]


def test_results_come_first_even_if_somebody_spoke_before_they_came() -> None:
    last = messages_of((user("go"), call("a"), user("wait"), ToolOutput("a", "f", "1")))[-1]
    assert [block["type"] for block in last["content"]] == ["tool_result", "text"]


def test_blank_text_is_left_out_and_so_is_a_message_of_nothing_else() -> None:
    assert messages_of((user("a"), assistant(" \n"), user("\t"), assistant(""), call("1"), user("b"))) == [
        {"role": "user", "content": [said("a")]},
        {"role": "assistant", "content": [used("1")]},
        {"role": "user", "content": [said("b")]},
    ]
    assert messages_of((user("a"), assistant(" "), user("b"))) == [{"role": "user", "content": [said("a"), said("b")]}]
    assert messages_of((user(" "),)) == []
    kept = messages_of((user("a"), thought(signature="s"), user(" "), assistant("b")))[1]["content"]
    assert [block["type"] for block in kept] == ["thinking", "text"]


def test_a_conversation_begins_with_the_person() -> None:
    assert messages_of((assistant("Hello"), user("hi")))[0] == {"role": "user", "content": [said(NOTHING_SAID)]}


def test_a_last_message_of_the_model_does_not_end_in_white_space() -> None:
    history = (user("go"), assistant("<call>\n"))
    assert messages_of(history)[-1]["content"] == [said("<call>")]
    assert messages_of((*history, user("b")))[1]["content"] == [said("<call>\n")]


@pytest.mark.parametrize(
    ("output", "block"),
    [
        (ToolOutput("a", "f", ""), {}),
        (ToolOutput("a", "f", " ", failed=True), {"content": [said(NO_REASON)], "is_error": True}),
        (
            ToolOutput("a", "f", "x", images=(image("https://example.org/a.png"),)),
            {
                "content": [
                    said("x"),
                    {"type": "image", "source": {"type": "url", "url": "https://example.org/a.png"}},
                ]
            },
        ),
        (
            ToolOutput("a", "f", "", failed=True, images=(image(b"\xff\xd8\xff"),)),
            {
                "content": [
                    said(NO_REASON),
                    {"type": "image", "source": {"type": "base64", "media_type": "image/jpeg", "data": "/9j/"}},
                ]
            },
        ),
    ],
)
def test_a_result_is_written_as_the_server_takes_it(output: ToolOutput, block: dict[str, Any]) -> None:
    (found,) = messages_of((user("go"), call("a"), output))[-1]["content"]
    assert found == {"type": "tool_result", "tool_use_id": "a", **block}


def test_images_come_before_the_text_that_speaks_of_them() -> None:
    (message,) = messages_of((user("What is it?", image(b"GIF89a")), user("", image("https://example.org/b"))))
    kinds = [block["source"]["type"] if block["type"] == "image" else "text" for block in message["content"]]
    assert kinds == ["base64", "text", "url"]
    assert message["content"][0]["source"] == {"type": "base64", "media_type": "image/gif", "data": "R0lGODlh"}


def test_ids_and_names_that_are_refused_are_written_in_another_way() -> None:
    history = (ToolCall("functions.f:0", "a.b/ç" + "x" * 200, "{}"), ToolOutput("functions.f:0", "f", "1"))
    made, result = (message["content"][0] for message in messages_of((user("go"), *history))[1:])
    assert made["id"] == result["tool_use_id"]
    assert made["id"].startswith("call_")
    assert made["name"] == "a_b__" + "x" * 123


def test_a_conversation_with_calls_has_tools_though_none_may_be_called() -> None:
    history = (user("go"), ToolCall("a", "f.g", "{}"), ToolOutput("a", "f.g", "1"))
    body = body_of(TurnRequest(history))
    assert [(tool["name"], tool["input_schema"]) for tool in body["tools"]] == [("f_g", {"type": "object"})]
    assert body["tool_choice"] == {"type": "none"}
    assert body["messages"][1]["content"][0]["name"] == "f_g"
    assert "tools" not in body_of(TurnRequest((user("go"),)))


def test_an_id_that_comes_again_in_a_later_turn_is_another_one() -> None:
    turn = (call("c0"), ToolOutput("c0", "f", "1"))
    messages = messages_of((user("go"), *turn, *turn, *turn))
    ids = [block.get("id") or block["tool_use_id"] for message in messages[1:] for block in message["content"]]
    assert ids[0::2] == ids[1::2]
    assert ids[0] == "c0"
    assert len(set(ids)) == 3
    assert messages_of((user("go"), *turn, *turn)) == messages[:5]


def test_a_call_with_plain_text_is_an_object_here() -> None:
    made = messages_of((user("go"), call("a", "print(1)", custom=True)))[1]["content"]
    assert made == [used("a", input={"input": "print(1)"})]


# What goes back unchanged


def test_only_thoughts_of_this_dialect_go_back() -> None:
    history: History = (
        user("go"),
        Reasoning("of another", "trace", {"gemini": {"thought_signature": "x"}}),
        Reasoning("of nobody"),
        thought("Hm", signature=""),
        thought("", data="d"),
        thought("", signature="s"),
        assistant("Yes"),
    )
    assert messages_of(history)[1]["content"] == [
        {"type": "thinking", "thinking": "Hm", "signature": ""},
        {"type": "redacted_thinking", "data": "d"},
        {"type": "thinking", "thinking": "", "signature": "s"},
        said("Yes"),
    ]


def test_thoughts_of_models_that_do_not_sign_go_back_to_them() -> None:
    history = (user("go"), Reasoning("of another", "trace", {"gemini": {}}), thought("Hm"), assistant("Yes"))
    assert messages_of(history, unsigned=True)[1]["content"] == [{"type": "thinking", "thinking": "Hm"}, said("Yes")]
    assert messages_of(history)[1]["content"] == [said("Yes")]


@pytest.mark.parametrize("after", [(), (user("b"),)])
def test_a_message_does_not_end_in_thoughts(after: tuple[Item, ...]) -> None:
    history = (user("a"), assistant("Hi"), thought(signature="s"), thought("", data="d"), *after)
    assert messages_of(history)[1]["content"] == [said("Hi")]
    assert messages_of((user("a"), thought(signature="s"), user("b"))) == [
        {"role": "user", "content": [said("a"), said("b")]}
    ]


def test_what_was_kept_of_an_item_goes_back_with_it() -> None:
    citations: Opaque = {"anthropic": {"citations": [{"n": 1}]}, "gemini": {"x": 1}}
    caller = {"anthropic": {"caller": {"type": "direct"}}}
    history = (user("go"), Message("assistant", "a", opaque=citations), call("1", opaque=caller))
    assert messages_of(history)[1]["content"] == [
        said("a", citations=[{"n": 1}]),
        used("1", caller={"type": "direct"}),
    ]


def test_items_of_other_dialects_are_left_out() -> None:
    others = (
        ProviderTool("s", "search", opaque={"openai_responses": {"type": "web_search_call"}}),
        ProviderTool("t", "search"),
        UnknownItem({"type": "x"}, "openai_responses"),
        UnknownItem({"type": "x"}),
        UnknownItem("text", "anthropic"),
    )
    assert messages_of((user("a"), *others, assistant("b")))[1]["content"] == [said("b")]


@pytest.mark.parametrize(
    ("after", "goes_back"),
    [
        ((), True),
        ((call("c"), ToolOutput("c", "f", "1")), True),
        ((user("b"),), False),
        ((assistant("hm"), user("b")), False),
        ((own_result("s"), user("b")), True),
        ((call("c"), ToolOutput("c", "f", "1"), own_result("s"), user("b")), True),
    ],
)
def test_a_call_of_the_provider_that_nobody_answers_any_more_is_left_out(
    after: tuple[Item, ...], goes_back: bool
) -> None:
    messages = messages_of((user("a"), assistant("Let me see"), own_tool("s"), *after))
    assert any(block["type"] == "server_tool_use" for message in messages for block in message["content"]) == goes_back


def test_of_a_model_that_declined_only_what_stands_goes_back() -> None:
    history = (
        user("go"),
        thought("no", signature="s"),
        thought("", data="d"),
        raw("connector_text"),
        assistant("Well"),
        own_tool("answered"),
        own_result("answered"),
        own_tool("open"),
        call("declined"),
        raw("fallback", to={}),
        thought("yes", signature="t"),
        own_tool("late"),
        call("stands"),
        ToolOutput("declined", "f", "1"),
        ToolOutput("stands", "f", "2"),
    )
    _, model, results = messages_of(history)
    assert [block.get("id") or block["type"] for block in model["content"]] == [
        "text", "answered", "web_search_tool_result", "fallback", "thinking", "late", "stands"
    ]  # fmt: skip
    assert [block["tool_use_id"] for block in results["content"]] == ["stands"]


def replayed(turn: Turn) -> list[dict[str, Any]]:
    """The blocks that go back of a turn; its calls answered, and then a word of the person."""
    results = [Value(made.call_id, made.name, 1, "1") for made in turn.calls]
    messages = messages_of(append_turn((user("go"),), turn, results))
    return [block for message in messages if message["role"] == "assistant" for block in message["content"]]


@pytest.mark.parametrize("case", cases("stream_anthropic_messages.json"))
def test_what_a_case_wants_sent_back_is_sent(case: dict[str, Any]) -> None:
    sent = replayed(outcome(AnthropicDecoder(), case_body(case)).turn)
    wanted = case["expect"].get("replay", [])
    for block, expected in zip(sent, wanted, strict=False):
        assert expected.items() <= block.items()
    assert len(sent) >= len(wanted)


@pytest.mark.parametrize("entry", recordings("anthropic"))
def test_a_recorded_turn_goes_back_as_it_came(entry: dict[str, Any]) -> None:
    body = recorded_body(entry)
    wanted = [block for block in blocks_by_hand(body) if block.get("text", "x").strip()]
    for block in wanted:
        if block["type"] == "tool_use" and entry["expected"]["tool_calls"][0]["arguments"] is None:
            block["input"] = {}  # it was cut
        if not block.get("citations", "x"):
            del block["citations"]
    assert replayed(outcome(AnthropicDecoder(), [body]).turn) == wanted


def blocks_by_hand(body: bytes) -> list[dict[str, Any]]:
    """The content of a message, put together in the plainest way."""
    blocks: dict[int, dict[str, Any]] = {}
    inputs: dict[int, str] = {}
    for line in body.decode().splitlines():
        event: Any = json.loads(line.removeprefix("data:")) if line.startswith("data:") else {}
        index = event.get("index", -1)
        match event:
            case {"content_block": block}:
                blocks[index] = block
            case {"delta": {"type": "input_json_delta", "partial_json": piece}}:
                inputs[index] = inputs.get(index, "") + piece
            case {"delta": {"type": "citations_delta", "citation": citation}}:
                blocks[index]["citations"].append(citation)
            case {"type": "content_block_delta"}:
                for key in event["delta"].keys() - {"type"}:
                    blocks[index][key] = (blocks[index][key] or "") + event["delta"][key]
    for index, text in inputs.items():
        blocks[index]["input"] = json.loads(text) if text.endswith("}") else blocks[index]["input"]
    return [blocks[index] for index in sorted(blocks)]


# Any history at all

IDS = st.sampled_from(["a", "b", "functions.f:0", "srv", ""])
SAID = st.sampled_from(["", " ", "x", "y \n"])
MODEL_ITEMS: st.SearchStrategy[Item] = (
    st.builds(assistant, SAID)
    | st.builds(thought, SAID, signature=SAID)
    | st.builds(lambda data: thought("", data=data), SAID)
    | st.builds(Reasoning, SAID)
    | st.builds(call, IDS, st.sampled_from(["{}", '{"x":1}', '{"x', ""]))
    | st.builds(own_tool, st.sampled_from(["s", "t"]))
    | st.builds(own_result, st.just("s"))
    | st.sampled_from([raw("fallback"), raw("compaction", content="x"), UnknownItem({"type": "x"})])
)
TURNS = st.lists(MODEL_ITEMS, max_size=6).map(tuple)
PERSON = st.lists(st.builds(user, SAID), max_size=2).map(tuple)


@st.composite
def histories(draw: st.DrawFn) -> History:
    history: tuple[Item, ...] = draw(PERSON)
    for turn in draw(st.lists(TURNS, max_size=4)):
        known: dict[str, Item] = {}
        for item in turn:
            if not isinstance(item, ToolCall):
                history += (item,)
            elif item.call_id not in known:  # append_turn refuses one id twice
                known[item.call_id] = item
                history += (item,)
        failed = draw(st.booleans())
        history += tuple(ToolOutput(call_id, "f", draw(SAID), failed=failed) for call_id in known)
        history += draw(PERSON)
    return history


@given(histories())
def test_any_history_is_accepted(history: History) -> None:
    messages = encode_request(TurnRequest(history), "m")["messages"]
    seen: set[str] = set()
    for place, message in enumerate(messages):
        blocks = message["content"]
        assert message["role"] == ("user", "assistant")[place % 2]
        assert blocks
        assert all(block["text"].strip() for block in blocks if block["type"] == "text")
        assert all("cache_control" not in block for block in blocks if message["role"] == "assistant")
        ids = [block["id"] for block in blocks if block["type"] == "tool_use"]
        assert len(ids) == len(set(ids))
        assert not seen & set(ids)
        seen.update(ids)
        after = messages[place + 1]["content"] if place + 1 < len(messages) else []
        answered = [block["tool_use_id"] for block in after if block["type"] == "tool_result"]
        assert answered == ids
        assert all(block["type"] == "tool_result" for block in after[: len(answered)])
        assert all(block["content"] for block in after if block.get("is_error"))
        if message["role"] == "assistant":
            assert blocks[-1]["type"] not in ("thinking", "redacted_thinking")
    if messages and messages[-1]["role"] == "assistant" and messages[-1]["content"][-1]["type"] == "text":
        text = messages[-1]["content"][-1]["text"]
        assert text == text.rstrip()
