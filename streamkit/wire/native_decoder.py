"""The native protocol: bytes → the events of the run, for a program that is the client."""

from __future__ import annotations

import re
from typing import get_args

import msgspec

from ..codec.once import DecoderOnce
from ..codec.sse import Sse, SseDecoder
from ..errors import DecodeError
from ..tool_events import RunEvent
from . import native_frames as frames
from .native_events import FrameEvents

_NUMBER = re.compile(r"[0-9]{1,18}")

Last = frames.Finish | frames.Error | frames.Stopped


class NativeDecoder(DecoderOnce):
    """Bytes of a native stream to the events of its run, however the bytes were cut.

    feed(data) -> the events that are now whole. Calls have the ids that they have on the wire, values are JSON, long
    ones cut as they came; a `Turn` is made of the events before its end. Raises DecodeError for what is no such stream,
    and where a frame is missing; frames that came already, and those of a type that is not known, are let go.
    end() -> nothing; raises DecodeError where the run has no end yet. The events before a broken frame are given first,
    and the next call raises. After an error, or after end(), feed raises DecoderClosed.

    number: of the last frame. After a lost connection next_body() says that the next bytes are those of another answer,
    which goes on behind it; what was cut is let go. message_id: what the server calls the run, None until it is told.
    last: the frame that ends the run, None until it came; what follows it is let go.

    after: the number of the last frame that somebody else has read.
    """

    def __init__(self, *, after: int = 0) -> None:
        super().__init__()
        self.number = after
        self.message_id: str | None = None
        self.last: Last | None = None
        self._sse = SseDecoder()
        self._events = FrameEvents()

    def feed(self, data: bytes) -> list[RunEvent]:
        self._check_open()
        events: list[RunEvent] = []
        try:
            for sse in self._sse.feed(data):
                events += self._read(sse)
        except DecodeError as error:
            self._failure = error
            if not events:
                self._check_open()
        return events

    def end(self) -> list[RunEvent]:
        self._check_open()
        self._closed = True
        if self.last is None:
            raise DecodeError(f"the stream ended after frame {self.number}, before the run did")
        return []

    def next_body(self) -> None:
        self._sse = SseDecoder()

    def _read(self, sse: Sse) -> list[RunEvent]:
        if not sse.data or self.last is not None or not self._is_next(sse.id):
            return []
        frame = _frame(sse.data)
        match frame:
            case None:
                return []
            case frames.Start(message_id=message_id, protocol=protocol):
                if protocol != frames.PROTOCOL:
                    raise DecodeError(f"the stream is {protocol!r}, not {frames.PROTOCOL}")
                self.message_id = message_id
            case frames.Finish() | frames.Error() | frames.Stopped():
                self.last = frame
        event = self._events.of(frame)
        return [] if event is None else [event]

    def _is_next(self, event_id: str) -> bool:
        """Whether the frame with this id comes now; raises where one before it did not. One without an id does."""
        if not _NUMBER.fullmatch(event_id):
            return True
        number = int(event_id)
        if number > self.number + 1:
            raise DecodeError(f"frame {self.number + 1} of the stream is missing: frame {number} came")
        is_next = number > self.number
        self.number = max(self.number, number)
        return is_next


class _Typed(msgspec.Struct):
    type: str


_decode = msgspec.json.Decoder(frames.AnyFrame).decode
_decode_type = msgspec.json.Decoder(_Typed).decode


def _frame(data: str) -> frames.AnyFrame | None:
    """The frame in an event; None for one of a type that is not known."""
    try:
        frame: frames.AnyFrame = _decode(data)
        return frame
    except (msgspec.DecodeError, RecursionError) as error:
        try:
            told = _decode_type(data).type
        except (msgspec.DecodeError, RecursionError):
            raise DecodeError(f"an event of the stream is not a frame: {error}") from error
        if told not in _TYPES:
            return None
        raise DecodeError(f"a frame {told} cannot be read: {error}") from error


_TYPES = {kind.__struct_config__.tag for kind in get_args(frames.AnyFrame)}
