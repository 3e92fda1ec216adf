"""Bytes to server-sent events, however the bytes were cut."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamkit.codec.sse import Sse, SseDecoder
from streamkit.errors import DecodeError, DecoderClosed
from streamkit.testing.cuts import every_cut

from ..streams import decode


@pytest.mark.parametrize("pieces", every_cut(b"data: h\xc3\xa9\n\ndata: 2\n\n"))
def test_sse_does_not_depend_on_the_cuts(pieces: list[bytes]) -> None:
    assert decode(SseDecoder(), pieces) == [Sse("hé"), Sse("2")]


@pytest.mark.parametrize(
    ("body", "events"),
    [
        (b"data: 1\r\n\r\ndata: 2\r\n\r\n", [Sse("1"), Sse("2")]),
        (b"data: 1\r\rdata: 2\r\r", [Sse("1"), Sse("2")]),
        (b"data: 1\r\ndata: 2\n\rdata: 3\r\n\n", [Sse("1\n2"), Sse("3")]),
        (b"\xef\xbb\xbfdata: 1\n\n", [Sse("1")]),
        (b"\xef\xbb\xbf\n\n\xef\xbb\xbfdata: 1\n\n", [Sse("", others=("\ufeffdata: 1",))]),
        (b"\n\n\n\ndata: 1\n\n\n\n\ndata: 2\n\n", [Sse("1"), Sse("2")]),
        (b"data:1\n\ndata:  2\n\n", [Sse("1"), Sse(" 2")]),
        (b"data\n\ndata:\n\ndata\ndata\n\n", [Sse(""), Sse(""), Sse("\n")]),
        (b": ping\n\n:\ndata: 1\n: more\n\n: end\n\n", [Sse("1")]),
        (b"event: error\ndata: 1\n\nevent: ping\n\ndata: 2\n\n", [Sse("1", "error"), Sse("2")]),
        (b"id: 7\nretry: 3000\ndata: 1\n\nid: 8\n\ndata: 2\n\n", [Sse("1", id="7"), Sse("2")]),
        (b"foo: bar\ndata: 1\nplain\n\n", [Sse("1", others=("foo: bar", "plain"))]),
        (b'error: {"message": "no"}\n\n', [Sse("", others=('error: {"message": "no"}',))]),
        ("data: a\u2028b\u2029c\u0085d\x0be\x0cf\n\n".encode(), [Sse("a\u2028b\u2029c\u0085d\x0be\x0cf")]),
        (b"", []),
    ],
)
def test_events_are_read_as_the_standard_says(body: bytes, events: list[Sse]) -> None:
    for pieces in every_cut(body):
        assert decode(SseDecoder(), pieces) == events


@pytest.mark.parametrize(
    ("tail", "unfinished"),
    [
        (b"data: 2\n", Sse("2")),
        (b"data: 2", Sse("2")),
        (b"data: 2\r\n", Sse("2")),
        (b"event: x\ndata: {", Sse("{", "x")),
        (b'{"error": 1}', Sse("", others=('{"error": 1}',))),
        (b"data: \xc3", None),
        (b"event: x\n", None),
        (b"", None),
    ],
)
def test_an_event_that_the_end_cuts_off_is_no_event_but_can_be_asked_for(tail: bytes, unfinished: Sse | None) -> None:
    for pieces in every_cut(b"data: 1\n\n" + tail):
        decoder = SseDecoder()
        assert decode(decoder, pieces) == [Sse("1")]
        assert decoder.unfinished == unfinished


def outcome(pieces: list[bytes], limit_bytes: int) -> tuple[list[Sse], str | None]:
    """The events, and what the error says that came after them."""
    decoder = SseDecoder(limit_bytes=limit_bytes)
    events: list[Sse] = []
    try:
        for piece in pieces:
            events += decoder.feed(piece)
        decoder.end()
    except DecoderClosed:
        raise
    except DecodeError as error:
        return events, str(error)
    return events, None


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (b"data: 1\n\ndata: \xff\n\ndata: 3\n\n", "the stream is not UTF-8: invalid start byte"),
        (b"data: 1\n\ndata: 34567\n\ndata: 3\n\n", "an event of the stream is longer than 10 bytes"),
        (b"data: 1\n\ndata: 345678901", "an event of the stream is longer than 10 bytes"),
        (b"data: 1\n\n\n\ndata: 1\ndata", "an event of the stream is longer than 10 bytes"),
    ],
)
def test_the_events_before_an_error_are_given_first(body: bytes, message: str) -> None:
    for pieces in every_cut(body):
        assert outcome(pieces, limit_bytes=10) == ([Sse("1")], message)


def test_an_event_as_long_as_the_limit_passes() -> None:
    for pieces in every_cut(b"\xef\xbb\xbf\ndata: 1234\n\n\ndata: 5678\r\n\r\n"):
        assert outcome(pieces, limit_bytes=10) == ([Sse("1234"), Sse("5678")], None)


def test_a_decoder_is_closed_after_its_end() -> None:
    decoder = SseDecoder()
    decoder.end()
    with pytest.raises(DecoderClosed):
        decoder.feed(b"data: 1\n\n")
    with pytest.raises(DecoderClosed):
        decoder.end()


def test_a_decoder_is_closed_after_an_error() -> None:
    decoder = SseDecoder()
    with pytest.raises(DecodeError, match="not UTF-8"):
        decoder.feed(b"data: \xff\n\n")
    with pytest.raises(DecoderClosed):
        decoder.feed(b"")


@given(st.binary(max_size=80) | st.text("data:even\n\r \ufeff", max_size=80).map(str.encode))
def test_any_bytes_give_the_same_in_any_cut(body: bytes) -> None:
    whole = outcome([body], limit_bytes=20)
    for pieces in every_cut(body):
        assert outcome(pieces, limit_bytes=20) == whole


class CountedBytes(bytes):
    """Bytes that count how many of them were searched."""

    searched = 0

    def rfind(self, *arguments: Any) -> int:
        CountedBytes.searched += len(self)
        return super().rfind(*arguments)


def test_one_huge_event_in_small_pieces_is_searched_once() -> None:
    CountedBytes.searched = 0
    body = b"data: " + b"x" * 100_000 + b"\n\n"
    pieces = [CountedBytes(body[at : at + 7]) for at in range(0, len(body), 7)]
    assert decode(SseDecoder(), pieces) == [Sse("x" * 100_000)]
    assert CountedBytes.searched <= len(body)


@pytest.mark.parametrize("pieces", every_cut(b"event: a\ndata: 1\n\nevent: a\ndata: 2\n\n"))
def test_a_name_is_kept_unless_the_reader_finds_it_in_the_data(pieces: list[bytes]) -> None:
    assert decode(SseDecoder(), pieces) == [Sse("1", "a"), Sse("2", "a")]
    decoder = SseDecoder()
    events = [event for piece in pieces for event in decoder.feed_bare(piece)]
    assert [event if isinstance(event, str) else event.data for event in events] == ["1", "2"]


@pytest.mark.parametrize(
    "block", [b"event: error\ndata: no", b"event: a\ndata: 1\ndata: 2", b"event: a\nid: 1\ndata: 2", b"event: ping"]
)
def test_a_bare_event_loses_nothing_but_its_name(block: bytes) -> None:
    for body in (b"event: a\ndata: 1\n\n" + block + b"\n\n", block + b"\n\nevent: b\ndata: 1\n\n"):
        assert SseDecoder().feed_bare(body) == SseDecoder().feed(body)


@pytest.mark.parametrize("names", ["a", "ab", "aab", "abba"])
def test_bare_events_are_the_same_whatever_their_names_are(names: str) -> None:
    datas = [f"{place} event: error data: " for place in range(len(names))]
    body = "".join(f"event: {name}\ndata: {data}\n\n" for name, data in zip(names, datas, strict=True))
    assert SseDecoder().feed_bare(body.encode()) == datas
