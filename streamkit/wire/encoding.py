"""What all encoders share: the protocol, frames of server-sent events, values and errors that may leave."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

import msgspec

from ..codec.surrogates import whole
from ..errors import AnswerError, ModelError, RunStopped, ToolError, WorkCancelled, words_of
from ..journal.entry import encode as json_of_a_user
from ..journal.entry import plain
from ..tool_events import RunEvent

VALUE_LIMIT_BYTES = 256 * 1024
HEAD_CHARS = 1024

INTERNAL_ERROR = "the run failed with an internal error"


class Encoder(Protocol):
    """One run as the bytes of one response, without I/O: the same events always give the same bytes.

    Called in this order: open(), event(e) for each event, then end(state) with the value of the run, or error(e) with
    what it raised; RunStopped where somebody stopped it. Each gives the bytes to send now, maybe none.
    """

    media_type: str
    headers: Mapping[str, str]

    def open(self) -> bytes: ...

    def event(self, event: RunEvent) -> bytes: ...

    def end(self, state: object) -> bytes: ...

    def error(self, error: BaseException) -> bytes: ...


EVENT_STREAM = "text/event-stream"
STREAM_HEADERS: Mapping[str, str] = {"cache-control": "no-cache, no-transform", "x-accel-buffering": "no"}
"""What keeps proxies from holding a stream back."""

_encode = msgspec.json.Encoder(enc_hook=repr).encode


def json_of(value: Any) -> bytes:
    """JSON on one line in valid UTF-8; half a character becomes U+FFFD. Structs and builtins only: see `Values`."""
    try:
        return _encode(value)
    except UnicodeEncodeError:
        return _encode(whole(value))


def frame(payload: Any, number: int | None = None) -> bytes:
    """A server-sent event whose data is this as JSON. number: its id, for a client that comes back."""
    head = b"data: " if number is None else b"id: %d\ndata: " % number
    return head + json_of(payload) + b"\n\n"


class Values:
    """Values of users as they go out: as JSON knows them, and never longer than a limit.

    of(value) -> JSON to stand inside a payload. One that is longer is replaced by {"truncated": true, "bytes": its
    length, "head": its first characters}.
    """

    def __init__(self, limit_bytes: int = VALUE_LIMIT_BYTES) -> None:
        self._limit_bytes = limit_bytes

    def of(self, value: Any) -> msgspec.Raw:
        return msgspec.Raw(self.written(value))

    def written(self, value: Any) -> bytes:
        """The same as bytes."""
        written = _written(value)
        if len(written) <= self._limit_bytes:
            return written
        text = value if isinstance(value, str) else written[: 4 * HEAD_CHARS].decode(errors="ignore")
        head = whole(text[:HEAD_CHARS])
        return _encode({"truncated": True, "bytes": len(written), "head": head})

    def of_json(self, text: str) -> msgspec.Raw:
        """Of a value that is JSON already, such as the arguments of a call."""
        try:
            return self.of(msgspec.Raw(msgspec.json.format(text.encode(), indent=-1)))
        except (msgspec.DecodeError, UnicodeEncodeError, RecursionError):
            return self.of(text)

    def text(self, text: str) -> str:
        """Of what has to stay text: its first characters and a note, where it is too long."""
        if len(text) * 4 <= self._limit_bytes:
            return text
        size = len(text.encode(errors="replace"))
        return text if size <= self._limit_bytes else f"{text[:HEAD_CHARS]}… (the first of {size:,} bytes)"


def _written(value: Any) -> bytes:
    """A value as JSON; whatever it does when it is looked at, there is something to show."""
    try:
        try:
            return json_of_a_user(value)
        except UnicodeEncodeError:
            return json_of(plain(value))
    except Exception:
        return json_of(f"<{type(value).__name__}>")


def told(error: BaseException) -> tuple[str, str]:
    """The kind of an error and a sentence about it, for whoever watches: nothing of what is inside the program."""
    match error:
        case RunStopped():
            return "stopped", whole(words_of(error))
        case WorkCancelled():
            return "cancelled", "the run was cancelled"
        case ModelError(kind=kind) | AnswerError(kind=kind):
            return kind, whole(words_of(error))
        case ToolError():
            return "failed", whole(words_of(error))
    return "internal_error", INTERNAL_ERROR
