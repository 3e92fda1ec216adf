"""What requests share."""

import logging
import re

import pytest

from streamkit.items import Item, Reasoning, ToolCall, ToolOutput, assistant, image, user
from streamkit.providers.requests import arguments_object, image_url, images_of_results, in_order, legal_id, say_once

LEGAL = re.compile(r"[a-zA-Z0-9_-]{1,64}")
DEEP = f"""{{"a": {"[" * 600}"\\ud83d"{"]" * 600}}}"""
PNG = b"\x89PNG\r\n\x1a\nrest"


def test_a_history_is_told_by_who_said_what() -> None:
    history: tuple[Item, ...] = (
        user("a"), user("b"), Reasoning("c"), ToolCall("1", "f", "{}"), ToolOutput("1", "f", "d"), assistant("e")
    )  # fmt: skip
    assert [(speaker, len(items)) for speaker, items in in_order(history)] == [
        ("user", 2), ("model", 2), ("results", 1), ("model", 1)
    ]  # fmt: skip


def test_an_id_is_rewritten_only_where_it_is_refused_and_always_in_the_same_way() -> None:
    assert legal_id("call_1", LEGAL) == "call_1"
    made = legal_id("functions.f:0", LEGAL)
    assert LEGAL.fullmatch(made)
    assert made == legal_id("functions.f:0", LEGAL) != legal_id("functions.f:1", LEGAL)
    assert re.fullmatch("[0-9a-f]{9}", legal_id("functions.f:0", LEGAL, "{:.9}"))


@pytest.mark.parametrize(
    ("call", "arguments"),
    [
        (ToolCall("1", "f", '{"a": 1}'), {"a": 1}),
        (ToolCall("1", "f", ""), {}),
        (ToolCall("1", "f", "[1]"), {"input": "[1]"}),
        (ToolCall("1", "f", '{"a'), {"input": '{"a'}),
        (ToolCall("1", "f", '{"a": 1}', custom=True), {"input": '{"a": 1}'}),
        (ToolCall("1", "f", DEEP), {"input": DEEP}),
    ],
)
def test_arguments_become_an_object(call: ToolCall, arguments: dict[str, object]) -> None:
    assert arguments_object(call) == arguments


def test_the_address_of_an_image_may_be_its_bytes() -> None:
    assert image_url(image("https://example.org/a.png")) == "https://example.org/a.png"
    assert image_url(image(PNG)) == "data:image/png;base64,iVBORw0KGgpyZXN0"


def test_images_of_results_become_one_message_that_names_their_tools() -> None:
    one, two = image(PNG), image("https://example.org/a.png")
    results: list[Item] = [
        ToolOutput("1", "f", "a", images=(one,)),
        ToolOutput("2", "g", "b"),
        ToolOutput("3", "h", "c", images=(two, one)),
    ]
    assert images_of_results(results) == [user("The images are from the results of: f, h", one, two, one)]
    assert images_of_results(results[1:2]) == []


def test_what_holds_for_every_request_is_said_once(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING, "streamkit"):
        say_once("only in this test")
        say_once("only in this test")
    assert caplog.messages == ["only in this test"]
