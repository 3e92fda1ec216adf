"""Bytes to lines, however the bytes were cut."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamkit.codec.jsonl import JsonLinesDecoder
from streamkit.codec.sse import Sse
from streamkit.errors import DecodeError, DecoderClosed
from streamkit.testing.cuts import every_cut

from ..streams import decode

Line = str | Sse


@pytest.mark.parametrize("pieces", every_cut('{"a":"hé"}\n{"b":2}\r\n'.encode()))
def test_lines_do_not_depend_on_the_cuts(pieces: list[bytes]) -> None:
    assert decode(JsonLinesDecoder(), pieces) == ['{"a":"hé"}', '{"b":2}']


@pytest.mark.parametrize(
    ("body", "lines"),
    [
        (b'{"a":1}\r\n\r\n{"b":2}\r\n', ['{"a":1}', '{"b":2}']),
        (b'\n \t\n{"a":1}\n\n\n{"b":2}\n', ['{"a":1}', '{"b":2}']),
        (b'\xef\xbb\xbf{"a":1}\n', ['{"a":1}']),
        (b'\xef\xbb\xbf\n{"a":1}\n', ['{"a":1}']),
        (b'  {"a":1} \n {"b":2} \n', ['{"a":1} ', ' {"b":2} ']),
        (b'{"a":1}\nnot json\n', ['{"a":1}', "not json"]),
        ('{"a":"b\u2028c\u0085d\x0be"}\n'.encode(), ['{"a":"b\u2028c\u0085d\x0be"}']),
        (b"<html>\n\n{}\n", [Sse("", others=("<html>",)), Sse("", others=("{}",))]),
        (b"", []),
    ],
)
def test_each_line_that_is_not_blank_is_given(body: bytes, lines: list[Line]) -> None:
    for pieces in every_cut(body):
        assert decode(JsonLinesDecoder(), pieces) == lines


@pytest.mark.parametrize(
    ("tail", "unfinished"),
    [
        (b'{"b":2}', Sse('{"b":2}')),
        (b'{"b":2}\r', Sse('{"b":2}')),
        (b'{"b":', Sse('{"b":')),
        (b'{"b":"\xc3', None),
        (b" \r", None),
        (b"", None),
    ],
)
def test_a_last_line_without_its_end_can_be_asked_for(tail: bytes, unfinished: Sse | None) -> None:
    for pieces in every_cut(b'{"a":1}\n' + tail):
        decoder = JsonLinesDecoder()
        assert decode(decoder, pieces) == ['{"a":1}']
        assert decoder.unfinished == unfinished


def test_a_body_of_one_line_without_its_end_may_be_something_else() -> None:
    decoder = JsonLinesDecoder()
    assert decode(decoder, [b"upstream is ", b"away"]) == []
    assert decoder.unfinished == Sse("", others=("upstream is away",))


def outcome(pieces: list[bytes], limit_bytes: int) -> tuple[list[Line], str | None]:
    """The lines, and what the error says that came after them."""
    decoder = JsonLinesDecoder(limit_bytes=limit_bytes)
    lines: list[Line] = []
    try:
        for piece in pieces:
            lines += decoder.feed(piece)
        decoder.end()
    except DecoderClosed:
        raise
    except DecodeError as error:
        return lines, str(error)
    return lines, None


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (b"{}\n{\xff}\n{}\n", "the stream is not UTF-8: invalid start byte"),
        (b"{}\n{2345678}\n{}\n", "a line of the stream is longer than 8 bytes"),
        (b"{}\n{23456789", "a line of the stream is longer than 8 bytes"),
        (b"{}\n{234567}\r\r\n", "a line of the stream is longer than 8 bytes"),
    ],
)
def test_the_lines_before_an_error_are_given_first(body: bytes, message: str) -> None:
    for pieces in every_cut(body):
        assert outcome(pieces, limit_bytes=8) == (["{}"], message)


def test_a_line_as_long_as_the_limit_passes() -> None:
    for pieces in every_cut(b"{234567}\r\n{345678}\n{456789}"):
        assert outcome(pieces, limit_bytes=8) == (["{234567}", "{345678}"], None)


def test_a_decoder_is_closed_after_its_end() -> None:
    decoder = JsonLinesDecoder()
    decoder.end()
    with pytest.raises(DecoderClosed):
        decoder.feed(b"{}\n")
    with pytest.raises(DecoderClosed):
        decoder.end()


def test_a_decoder_is_closed_after_an_error() -> None:
    decoder = JsonLinesDecoder()
    with pytest.raises(DecodeError, match="not UTF-8"):
        decoder.feed(b"{\xff\n")
    with pytest.raises(DecoderClosed):
        decoder.feed(b"")


def test_a_byte_order_mark_opens_a_body_and_no_line() -> None:
    for pieces in every_cut("\ufeff\n\ufeff{}\n".encode()):
        assert decode(JsonLinesDecoder(), pieces) == [Sse("", others=("\ufeff{}",))]


@given(st.binary(max_size=60) | st.text('{"é}\n\r \ufeff', max_size=60).map(str.encode))
def test_any_bytes_give_the_same_in_any_cut(body: bytes) -> None:
    whole = outcome([body], limit_bytes=12)
    for pieces in every_cut(body):
        assert outcome(pieces, limit_bytes=12) == whole


class CountedBytes(bytes):
    """Bytes that count how many of them were searched."""

    searched = 0

    def rfind(self, *arguments: Any) -> int:
        CountedBytes.searched += len(self)
        return super().rfind(*arguments)


def test_one_huge_line_in_small_pieces_is_searched_once() -> None:
    CountedBytes.searched = 0
    body = b"{" + b"x" * 100_000 + b"\n"
    pieces = [CountedBytes(body[at : at + 7]) for at in range(0, len(body), 7)]
    assert decode(JsonLinesDecoder(), pieces) == ["{" + "x" * 100_000]
    assert CountedBytes.searched <= len(body)
