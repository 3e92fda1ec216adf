"""One JSON array in pieces: any cut gives the same elements, and what is no array is told."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamkit.codec.json_array import JsonArrayDecoder
from streamkit.errors import DecodeError, DecoderClosed
from streamkit.testing import every_cut
from streamkit.testing.cuts import random_cut

from ..streams import decode, some_cuts

BODY = '[{"a":"é]}\\"\\\\"}\r\n,\r\n{"b":[1,{"c":"}"}]},[2]]\n'.encode()
ELEMENTS = ['{"a":"é]}\\"\\\\"}', '{"b":[1,{"c":"}"}]}', "[2]"]


def test_any_cut_gives_the_same_elements() -> None:
    for cut in [*every_cut(BODY), *some_cuts(BODY, 100)]:
        assert decode(JsonArrayDecoder(), cut) == ELEMENTS


def test_an_element_comes_as_soon_as_it_is_whole() -> None:
    decoder = JsonArrayDecoder()
    assert [decoder.feed(piece) for piece in (b'[{"a":1', b"}", b",{", b"}", b"]")] == [
        [], ['{"a":1}'], [], ["{}"], [],
    ]  # fmt: skip


@pytest.mark.parametrize("body", [b"[]", b" [ ] ", b"\xef\xbb\xbf[]", b"", b"  ", b"["])
def test_an_empty_body_has_no_elements(body: bytes) -> None:
    for cut in every_cut(body):
        assert decode(JsonArrayDecoder(), cut) == []


def test_one_object_instead_of_an_array_is_its_element() -> None:
    for cut in every_cut(b' {"error": {"code": 400}}\n'):
        assert decode(JsonArrayDecoder(), cut) == ['{"error": {"code": 400}}']


def test_what_the_end_cuts_off_is_no_element() -> None:
    for end in range(len(BODY)):
        found = decode(JsonArrayDecoder(), [BODY[:end]])
        assert found == ELEMENTS[: len(found)]
    assert JsonArrayDecoder().unfinished is None


@pytest.mark.parametrize(
    ("body", "elements", "message"),
    [
        (b"<html>", [], "the body is not a JSON array of objects: before the array comes '<'"),
        (b"[{}, 5]", ["{}"], "the body is not a JSON array of objects: between elements comes '5'"),
        (b'["a"]', [], "the body is not a JSON array of objects: between elements comes '\"'"),
        (b"[{}]x", ["{}"], "the body is not a JSON array of objects: after the array comes 'x'"),
        (b"{}{}", ["{}"], "the body is not a JSON array of objects: after the array comes '{'"),
        (b"\xff", [], "the body is not a JSON array of objects: before the array comes '\ufffd'"),
        (b'[{"a":"\xff"}]', [], "the stream is not UTF-8: invalid start byte"),
    ],
)
def test_garbage_is_told_after_what_came_before(body: bytes, elements: list[str], message: str) -> None:
    decoder = JsonArrayDecoder()
    if elements:
        assert decoder.feed(body) == elements
    with pytest.raises(DecodeError) as raised:
        decoder.feed(body)
    assert str(raised.value) == message
    with pytest.raises(DecoderClosed):
        decoder.feed(b"")
    with pytest.raises(DecoderClosed):
        decoder.end()


@pytest.mark.parametrize("body", [b"<html>", b"[null,{}]", b'["x"]', b"[]]", b"{}{}", b"[\xff\xfe"])
def test_what_is_told_of_garbage_does_not_depend_on_the_cut(body: bytes) -> None:
    messages = set()
    for pieces in ([body], [body[at : at + 1] for at in range(len(body))]):
        with pytest.raises(DecodeError) as raised:
            decode(JsonArrayDecoder(), pieces)
        messages.add(str(raised.value))
    assert len(messages) == 1


def test_a_failure_that_waits_is_told_by_the_end() -> None:
    decoder = JsonArrayDecoder()
    assert decoder.feed(b"[{}, 5]") == ["{}"]
    with pytest.raises(DecodeError, match="between elements"):
        decoder.end()


def test_nothing_is_read_after_the_end() -> None:
    decoder = JsonArrayDecoder()
    decoder.end()
    with pytest.raises(DecoderClosed, match="has ended or failed"):
        decoder.feed(b"[]")


@pytest.mark.parametrize("pieces", [[b'[{"a":"0123"}]'], [b"[", b'{"a":"01', b'23"}'], [b'[{"a":"', b"01234"]])
def test_an_element_has_a_limit(pieces: list[bytes]) -> None:
    with pytest.raises(DecodeError, match="an element of the array is longer than 10 bytes"):
        decode(JsonArrayDecoder(limit_bytes=10), pieces)
    assert decode(JsonArrayDecoder(limit_bytes=12), [b'[{"a":"0123"}', b',{"a":"0123"}]']) == ['{"a":"0123"}'] * 2


def test_a_huge_element_in_tiny_pieces_is_put_together() -> None:
    """In a moment: work that grew with the pieces, too, would take hours."""
    element = b'{"a":"' + b"\\\\x" * 100_000 + b'","b":[' + b"[" * 50_000 + b"]" * 50_000 + b"]}"
    assert len(decode(JsonArrayDecoder(), [b"[" + element + b"]"])[0]) == len(element)
    pieces = [element[at : at + 7] for at in range(0, len(element), 7)]
    assert len(decode(JsonArrayDecoder(), [b"[", *pieces, b"]"])[0]) == len(element)


JSON: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.integers() | st.text('ab"\\{}[]\n,é😀', max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text('"\\{]', max_size=2), inner, max_size=3),
    max_leaves=6,
)
ELEMENTS_OF_ANY_KIND = st.dictionaries(st.text('"\\{]', max_size=2), JSON, max_size=3) | st.lists(JSON, max_size=2)


@given(st.lists(ELEMENTS_OF_ANY_KIND, max_size=3), st.sampled_from([None, 0, 2]), st.booleans(), st.integers(0, 99))
def test_any_array_gives_what_json_gives(values: list[Any], indent: int | None, ascii_only: bool, seed: int) -> None:
    body = json.dumps(values, indent=indent, ensure_ascii=ascii_only).encode()
    assert [json.loads(element) for element in decode(JsonArrayDecoder(), random_cut(body, seed))] == values
