"""JSON lines: bytes to lines.

Knows nothing of HTTP or providers, and reads no JSON: it gives the text of each line.
Source: jsonlines.org; lines end with LF, and a CR before it belongs to the end. Blank lines are nothing.
"""

from __future__ import annotations

import contextlib

from ..errors import DecodeError
from .once import DecoderOnce
from .sse import LIMIT_BYTES, Sse

_BYTE_ORDER_MARK = "\ufeff"


class JsonLinesDecoder(DecoderOnce):
    """Bytes to the lines of a body, however the bytes were cut.

    feed(data) -> the lines that are now whole; data may be empty or end anywhere, inside a character too. end() ->
    nothing. Both raise DecodeError: bytes that are not UTF-8, or a line of more than limit_bytes (default 64 MiB). The
    lines before the broken one are given first, and the next call raises. After an error, or after end(), feed raises
    DecoderClosed.

    A body whose first line begins no JSON object is something else, such as a page: its lines are given as `others`.

    unfinished: after end(), the last line, where it has no line end. Whoever can tell a whole line from half of one
    may use it.
    """

    def __init__(self, *, limit_bytes: int = LIMIT_BYTES) -> None:
        super().__init__()
        self.unfinished: Sse | None = None
        self._limit_bytes = limit_bytes
        self._pieces: list[bytes] = []  # of the line that is not whole yet
        self._size = 0
        self._is_json: bool | None = None  # None: no line has come
        self._begun = False  # then no byte order mark is expected any more

    def feed(self, data: bytes) -> list[str | Sse]:
        self._check_open()
        lines: list[str | Sse] = []
        end = data.rfind(b"\n") + 1
        if end:
            whole = b"".join([*self._pieces, data[:end]])
            self._pieces.clear()
            self._size = 0
            self._read(whole, lines)
            data = data[end:]
        if data:
            self._keep(data)
        if not lines:
            self._check_open()
        return lines

    feed_bare = feed

    def end(self) -> list[str | Sse]:
        self._check_open()
        self._closed = True
        with contextlib.suppress(UnicodeDecodeError):  # cut inside a character
            rest: list[str | Sse] = []
            self._add(b"".join(self._pieces).decode(), rest)
            self.unfinished = next((Sse(line) if isinstance(line, str) else line for line in rest), None)
        return []

    def _keep(self, data: bytes) -> None:
        """Keep the beginning of a line until its end comes."""
        if self._failure is not None:
            return
        self._pieces.append(data)
        self._size += len(data)
        if self._size - data.endswith(b"\r") > self._limit_bytes:  # that CR may be of the line end
            self._failure = self._too_long()

    def _read(self, whole: bytes, lines: list[str | Sse]) -> None:
        """Add whole lines to lines, up to the first that is broken."""
        try:
            if len(whole) <= self._limit_bytes:
                self._add(whole.decode(), lines)
                return
        except UnicodeDecodeError:
            pass  # of the lines before the broken one none was added
        try:
            for line in whole.split(b"\n"):
                if len(line.removesuffix(b"\r")) > self._limit_bytes:
                    self._failure = self._too_long()
                    return
                self._add(line.decode(), lines)
        except UnicodeDecodeError as error:
            self._failure = DecodeError(f"the stream is not UTF-8: {error.reason}")

    def _add(self, text: str, lines: list[str | Sse]) -> None:
        """Add the lines of a text to lines."""
        if self._is_json is None:
            if not self._begun:
                self._begun = True
                text = text.removeprefix(_BYTE_ORDER_MARK)
            text = text.lstrip()
            self._is_json = text.startswith("{") if text else None
        if "\r" in text:
            text = text.replace("\r\n", "\n").removesuffix("\r")
        found = filter(str.strip, text.split("\n"))  # those that are not blank
        lines += found if self._is_json else [Sse("", others=(line,)) for line in found]

    def _too_long(self) -> DecodeError:
        return DecodeError(f"a line of the stream is longer than {self._limit_bytes} bytes")
