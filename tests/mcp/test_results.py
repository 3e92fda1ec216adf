"""Results of servers as values of ours: what a program gets, and what the model reads and sees."""

from base64 import b64encode
from typing import Any

import mcp_types as types
import pytest

from streamkit.errors import ToolError
from streamkit.items import Image
from streamkit.mcp.results import value_of
from streamkit.tools.values import what_the_model_gets

PNG = b"\x89PNG\r\n\x1a\n picture"
BASE64 = b64encode(PNG).decode()


def result(*content: types.ContentBlock | str, **fields: Any) -> types.CallToolResult:
    blocks = [types.TextContent(text=each) if isinstance(each, str) else each for each in content]
    return types.CallToolResult(content=blocks, **fields)


@pytest.mark.parametrize(
    ("given", "value"),
    [
        (result(), None),
        (result("well"), "well"),
        (result("one", "two"), "one\ntwo"),
        (result(structured_content={"a": 1}), {"a": 1}),
        (result('{"a": 1}', structured_content={"a": 1}), {"a": 1}),
        (result('{"result": 5}', structured_content={"result": 5}), {"result": 5}),
        (result("5", structured_content={"result": 5}), 5),
        (result("5", structured_content={"result": "5"}), "5"),
        (result("x", '{"y": 2}', structured_content={"result": ["x", {"y": 2}]}), ["x", {"y": 2}]),
        (result("[]", structured_content=[]), []),
        (result("three rows are hidden", structured_content={"a": 1}), [{"a": 1}, "three rows are hidden"]),
    ],
)
def test_structured_content_is_the_value_and_text_that_repeats_it_is_left_out(
    given: types.CallToolResult, value: Any
) -> None:
    assert value_of(given) == value


def test_the_model_sees_pictures_beside_the_rest() -> None:
    value = value_of(result("a cat", types.ImageContent(data=BASE64, mime_type="image/png")))
    assert value == ["a cat", Image(PNG, "image/png")]
    assert what_the_model_gets(value) == ("a cat", (Image(PNG, "image/png"),))
    assert value_of(result(types.ImageContent(data=BASE64, mime_type="image/png"))) == Image(PNG, "image/png")


@pytest.mark.parametrize(
    ("block", "shown"),
    [
        (types.AudioContent(data="AAAA", mime_type="audio/wav"), "[audio/wav, which cannot be shown]"),
        (types.ImageContent(data="AAAA", mime_type="image/tiff"), "[image/tiff, which cannot be shown]"),
        (types.ImageContent(data="no base64!", mime_type="image/png"), "[image/png, which cannot be shown]"),
        (
            types.EmbeddedResource(resource=types.TextResourceContents(uri="file:///a.txt", text="inside")),
            "[file:///a.txt]\ninside",
        ),
        (
            types.EmbeddedResource(resource=types.BlobResourceContents(uri="file:///a.zip", blob="AAAA")),
            "[file:///a.zip: bytes, which cannot be shown]",
        ),
        (
            types.ResourceLink(uri="file:///b.csv", name="b", mime_type="text/csv", description="all rows"),
            "[file:///b.csv, b, text/csv, all rows]",
        ),
    ],
)
def test_what_cannot_be_shown_is_named(block: types.ContentBlock, shown: str) -> None:
    assert value_of(result(block)) == shown


def test_a_picture_in_a_resource_is_a_picture() -> None:
    inside = types.BlobResourceContents(uri="file:///a.png", blob=BASE64, mime_type="image/png")
    assert value_of(result(types.EmbeddedResource(resource=inside))) == Image(PNG, "image/png")


@pytest.mark.parametrize(
    ("given", "told"),
    [
        (result("no such row", "try another", is_error=True), "no such row\ntry another"),
        (result(is_error=True, structured_content={"code": 7}), '{"code":7}'),
        (result(is_error=True), "The server says that the call failed, but not why."),
    ],
)
def test_an_error_is_told_with_the_words_of_the_server(given: types.CallToolResult, told: str) -> None:
    with pytest.raises(ToolError) as raised:
        value_of(given)
    assert str(raised.value) == told
