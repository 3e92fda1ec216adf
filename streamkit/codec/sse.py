"""Server-sent events: bytes to events.

Knows nothing of HTTP or providers. An event that the end of the body cuts off is not an event.
Source: WHATWG HTML, "Server-sent events". Two things differ, since providers differ: bytes that are not UTF-8 are an
error, and lines that are no field of the format are kept (a server that fails may write `error: {…}`, or bare JSON).
`retry` is skipped: our own clients decide by themselves when to come back.
"""

from __future__ import annotations

import contextlib
import re

import msgspec

from ..errors import DecodeError
from .once import DecoderOnce

LIMIT_BYTES = 64 * 1024 * 1024

_BYTE_ORDER_MARK = b"\xef\xbb\xbf"
_CR = ord("\r")  # searching bytes for a number is ten times as fast as for a piece of length one
_LONE_CR = re.compile(rb"\r(?!\n)")


class Sse(msgspec.Struct, frozen=True, gc=False):
    """One event.

    data: its data lines, joined with LF. event: its name, empty where the server gave none. others: the lines that are
    no field of the format, as they came; an event may consist of them alone, then without data. id: its own, empty
    where it has none; with it a client that lost its connection says where it was.
    """

    data: str
    event: str = ""
    others: tuple[str, ...] = ()
    id: str = ""


class SseDecoder(DecoderOnce):
    """Bytes to server-sent events, however the bytes were cut.

    feed(data) -> the events that are now whole; data may be empty or end anywhere, inside a character too. end() ->
    nothing: an event that the end of the body cuts off is not an event. Both raise DecodeError: bytes that are not
    UTF-8, or an event of more than limit_bytes (default 64 MiB). The events before the broken one are given first, and
    the next call raises. After an error, or after end(), feed raises DecoderClosed.

    unfinished: after end(), the event that the end cut off, if there is one to be read. Some servers leave out the last
    blank line; whoever can tell a whole event from half of one by its data may use it.
    """

    def __init__(self, *, limit_bytes: int = LIMIT_BYTES) -> None:
        super().__init__()
        self.unfinished: Sse | None = None
        self._limit_bytes = limit_bytes
        self._head: bytes | None = b""  # the first bytes, until they are known to be a byte order mark or not
        self._after_cr = False
        self._pieces: list[bytes] = []  # of the event that is not whole yet; line ends are LF here
        self._size = 0

    def feed(self, data: bytes) -> list[Sse]:
        return [Sse(event) if isinstance(event, str) else event for event in self._feed(data, bare=False)]

    def feed_bare(self, data: bytes) -> list[str | Sse]:
        """As feed, but an event that is one line of data may come as its bare text, for readers of very many of them.

        So may one with a name before its data, which says the same once more. Not `error`: what has this name is not
        always JSON.
        """
        return self._feed(data, bare=True)

    def _feed(self, data: bytes, *, bare: bool) -> list[str | Sse]:
        self._check_open()
        if self._head is not None:
            data = self._without_mark(data)
        if self._after_cr or _CR in data:
            data = self._with_plain_line_ends(data)
        # Only the end of the last whole event is looked for, and never in what was seen before: the work grows with the
        # bytes, however small the pieces.
        end = data.rfind(b"\n\n") + 2
        if end == 1:
            spans_pieces = data[:1] == b"\n" and bool(self._pieces) and self._pieces[-1][-1:] == b"\n"
            end = int(spans_pieces)
        events: list[str | Sse] = []
        if end:
            whole = data[:end]
            if self._pieces:
                whole = b"".join([*self._pieces, whole])
                self._pieces.clear()
                self._size = 0
            self._read(whole, events, bare=bare)
            data = data[end:]
        if data:
            self._keep(data)
        if not events:
            self._check_open()
        return events

    def end(self) -> list[Sse]:
        self._check_open()
        self._closed = True
        with contextlib.suppress(UnicodeDecodeError):  # cut inside a character
            self.unfinished = _event(b"".join(self._pieces).strip(b"\n"))
        return []

    def _without_mark(self, data: bytes) -> bytes:
        data = (self._head or b"") + data
        if len(data) < len(_BYTE_ORDER_MARK) and _BYTE_ORDER_MARK.startswith(data):
            self._head = data
            return b""
        self._head = None
        return data.removeprefix(_BYTE_ORDER_MARK)

    def _with_plain_line_ends(self, data: bytes) -> bytes:
        """CRLF and CR as LF. A CR at the end of a piece counts at once; an LF that comes next belongs to it."""
        if self._after_cr and data:
            self._after_cr = False
            data = data.removeprefix(b"\n")
        if data.endswith(b"\r"):
            self._after_cr = True
        if _LONE_CR.search(data) is None:  # five times as fast as to look for pairs, and the rule
            return data.replace(b"\r", b"")
        return data.replace(b"\r\n", b"\n").replace(b"\r", b"\n")

    def _keep(self, data: bytes) -> None:
        """Keep the beginning of an event until its end comes."""
        if not self._pieces:
            data = data.lstrip(b"\n")
        if not data or self._failure is not None:
            return
        self._pieces.append(data)
        self._size += len(data)
        if self._size - data.endswith(b"\n") > self._limit_bytes:  # that LF may be of the blank line
            self._failure = self._too_long()

    def _read(self, whole: bytes, events: list[str | Sse], *, bare: bool) -> None:
        """Add the events of whole blocks to events, up to the first that is broken."""
        try:
            text = whole.decode() if len(whole) <= self._limit_bytes else ""
        except UnicodeDecodeError:
            text = ""
        if text.startswith("data: ") and text.find("\n") == len(text) - 2:  # one event, as servers send what is new
            events.append(text[6:-2])
            return
        if (data := _single_lines(text, bare=bare)) is not None:
            events += data
            return
        try:
            for block in whole.split(b"\n\n"):
                lines_of_block = block.strip(b"\n")
                if len(lines_of_block) > self._limit_bytes:
                    self._failure = self._too_long()
                    return
                if (event := _event(lines_of_block)) is not None:
                    events.append(event)
        except UnicodeDecodeError as error:
            self._failure = DecodeError(f"the stream is not UTF-8: {error.reason}")

    def _too_long(self) -> DecodeError:
        return DecodeError(f"an event of the stream is longer than {self._limit_bytes} bytes")


def _single_lines(text: str, *, bare: bool) -> list[str] | None:
    """The data of whole events, each of which is one line of data; None where one of them is more than that.

    Most are. Splitting at what stands before the next of them is the fastest way there is: a long separator is found
    sooner than a short one, and the name of the field is gone with it. bare: a name may stand before the data.
    """
    start = text[: text.find("data: ") + len("data: ")]  # of the first of them, and mostly of all
    if start == "data: " or (bare and _is_name(start)):
        lines = text.rstrip("\n").split(f"\n\n{start}")
        lines[0] = lines[0].removeprefix(start)
        if "\n" not in "".join(lines):
            return lines
    if bare and text.startswith("event: "):
        lines = text.rstrip("\n").split("\n\nevent: ")
        lines[0] = lines[0].removeprefix("event: ")
        data = [line.partition("\ndata: ")[2] for line in lines]
        has_only_data = all(data) and "".join(lines).count("\n") == len(lines)  # one before the data, none else
        if has_only_data and "\nevent: error\n" not in f"\n{text}":
            return data
    return None


def _is_name(start: str) -> bool:
    """Whether the name of an event and nothing else stands before its data. `error` is not read the fast way."""
    name, newline, field = start.partition("\n")
    return bool(newline) and field == "data: " and name.startswith("event: ") and name != "event: error"


def _event(block: bytes) -> Sse | None:
    data: list[str] = []
    others: list[str] = []
    name = event_id = ""
    for line in block.split(b"\n"):
        field, _, value = line.partition(b":")
        if field == b"data":
            data.append(value.removeprefix(b" ").decode())
        elif field == b"event":
            name = value.removeprefix(b" ").decode()
        elif field == b"id":
            event_id = value.removeprefix(b" ").decode()
        elif field and field != b"retry":
            others.append(line.decode())
    return Sse("\n".join(data), name, tuple(others), event_id) if data or others else None
