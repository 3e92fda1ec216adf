"""What the decoders of all dialects share: framing, odd events, errors in any shape, and how a turn ends, once.

A dialect says what its events hold (a msgspec Struct with only the fields that are read), what each of them means
(`read`), and what the end of the body means (`close`).
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any, Generic, Protocol, TypeVar

import msgspec

from ..codec.sse import Sse, SseDecoder
from ..codec.surrogates import Halves, whole
from ..errors import BadModelOutput, BadPayload, DecodeError, IncompleteStream, ModelError, NotAStream
from ..items import StopReason, UnknownItem
from ..parts import Failed, Finished, Part
from .failures import parsed, provider_error, shortened, tells_an_error
from .odd_fields import fitting
from .stop_words import reason_of, tells_unreadable_output

W = TypeVar("W")

STRANGE_LINES = 1000
"""How many lines are kept of a body that is no stream, to say what it is."""

SIGNS_OF_LIFE = ("", "ping", "keepalive", "keep-alive", "heartbeat")
"""What servers send as data that only says that they are there."""


class Framing(Protocol):
    """Bytes to the texts of events, however the bytes were cut. unfinished: what the end of the body cut off."""

    unfinished: Sse | None

    def feed_bare(self, data: bytes, /) -> Sequence[str | Sse]: ...

    def end(self) -> object: ...


class DialectDecoder(Generic[W]):
    """A `Decoder`. A dialect derives from it, and gives read(), close() and mend().

    wire: the type of an event. Its fields are those that are read; one that servers fill in different ways is Any, so
    that an odd one does not cost the whole event. framing: None is server-sent events. calls_at: the field with
    pieces of calls.
    """

    calls_at = "tool_calls"

    def __init__(self, wire: type[W], framing: Framing | None = None) -> None:
        self.ended = False
        self.halves = Halves()
        self._wire = wire
        self._decode = _decoder_of(wire)
        self._framing: Framing = SseDecoder() if framing is None else framing
        self._understood = False  # anything
        self._strange_lines: list[str] = []

    def feed(self, data: bytes) -> Sequence[Part]:
        parts: list[Part] = []
        try:
            if not self.ended:
                self._read_events(self._framing.feed_bare(data), parts)
        except DecodeError as error:
            self.fail(BadPayload(str(error)), parts)
        self._understood = self._understood or bool(parts)
        return parts

    def end(self) -> Sequence[Part]:
        parts: list[Part] = []
        if self.ended:
            return parts
        try:
            self._framing.end()
        except DecodeError as error:
            self.fail(BadPayload(str(error)), parts)
        last = self._framing.unfinished
        if last is not None and last.others:
            self._read_events([last], parts)
        elif last is not None:  # some leave out the last blank line, or all of them
            whole_events = [last.data] if _is_whole(last.data) else _events_in(last.data, may_be_cut=True)
            self._read_events([msgspec.structs.replace(last, data=data) for data in whole_events], parts)
        self._read_bare_body(self._strange_lines, parts)
        if not self.ended:
            self.close(parts)
        self.fail(self._why_incomplete(), parts)
        return parts

    # What a dialect says

    def read(self, event: W, data: str, parts: list[Part]) -> None:
        """Add the parts of one event. data: its text."""
        raise NotImplementedError

    def close(self, parts: list[Part]) -> None:
        """The body has ended: finish the turn, if its end was declared in any way."""

    def mend(self, event: W) -> None:
        """Put characters together that the server cut in two (`mended`), and make the other texts whole (`whole`).

        Called for an event that msgspec refused, and for every event while half a character waits.
        """

    def straighten(self, told: Any) -> Any:
        """An event that msgspec refused, where servers are known to write it in another shape, as it should be."""
        return told

    def read_end_mark(self, data: str, parts: list[Part]) -> bool:
        """Whether data that is no JSON ends the stream; then its parts are added."""
        return False

    # What it says it with

    def finish(self, reason: StopReason, word: str | None, parts: list[Part]) -> None:
        """The end of the turn is declared. Only the first end counts."""
        if not self.ended:
            self.ended = True
            parts.append(Finished(reason, word))

    def finish_with(self, word: str | None, parts: list[Part], told: str = "") -> None:
        """The same, with the provider's word for the reason alone; some tell of a failure, of which told says more."""
        reason = reason_of(word)
        if reason == "error":
            error = f"the provider ended the turn with the word {word}{told}"
            bad_output = BadModelOutput(shortened(error)) if tells_unreadable_output(word) else None
            self.fail(bad_output or provider_error(error), parts, word)
        self.finish(reason, word, parts)

    def fail(self, error: ModelError, parts: list[Part], word: str | None = None) -> None:
        """The turn has failed, unless it has ended. word: the provider's own for the reason to stop."""
        if not self.ended:
            self.ended = True
            parts.append(Failed(error, word))

    def read_unknown(self, told: object, parts: list[Part]) -> None:
        """What the dialect does not know: an error, or something to keep."""
        if tells_an_error(told):
            self.fail(provider_error(told), parts)
        else:
            parts.append(UnknownItem(whole(told)))

    def mended(self, where: object, text: Any) -> Any:
        """The next piece of a text that goes on at this place."""
        return self.halves.mend(where, text) if type(text) is str else whole(text)

    # From the text of an event to its record

    def _read_events(self, events: Sequence[str | Sse], parts: list[Part]) -> None:
        """Nothing is read after the end. One loop, since there are very many of them, and most are plain text."""
        decode, read, waiting = self._decode, self.read, self.halves.waiting
        try:
            for event in events:
                data = event if isinstance(event, str) else self._read_signs_of_failure(event, parts)
                if self.ended:  # by now, or by an event before
                    return
                try:
                    record = decode(data)
                except msgspec.DecodeError:
                    self._read_odd_data(data, parts)
                    continue
                if waiting:
                    self.mend(record)
                read(record, data, parts)
        except RecursionError:
            self.fail(BadPayload("an event of the stream is nested too deeply"), parts)

    def _read_odd_data(self, data: str, parts: list[Part]) -> None:
        """What msgspec refused: an end mark, an empty event, lone surrogates, fields of another shape; or no JSON."""
        if data.strip().lower() in SIGNS_OF_LIFE or self.read_end_mark(data.strip(), parts):
            return
        try:
            told = json.loads(data)
        except ValueError as error:
            if events := _events_in(data):
                self._read_events(events, parts)
            else:
                self.fail(BadPayload(f"an event of the stream is not JSON: {error}"), parts)
            return
        self._read_odd_record(told, data, parts)

    def _read_odd_record(self, told: Any, data: str, parts: list[Part]) -> None:
        """An event of which some fields may not fit. Text that is missing can be seen; a hole in a call cannot."""
        record, left_out = fitting(self.straighten(told), self._wire)
        if left_out:
            told, data = json.loads(data), json.dumps(told)
        if left_out and tells_an_error(told):  # some of its words may be among them
            record = None
        found: list[Part] = []
        if record is not None:
            self.mend(record)
            self.read(record, data, found)
        is_known = record is not None and not (left_out and all(type(part) is UnknownItem for part in found))
        if is_known:
            parts += found
        said = json.dumps({place: value for place, value in left_out.items() if value})
        if self.calls_at in said:
            self.fail(BadPayload(f"a piece of a call cannot be read: {said[:200]}"), parts)
        elif not is_known:
            self.read_unknown(told, parts)
        elif left_out and not self.ended:
            parts.append(UnknownItem(whole(left_out)))

    def _read_signs_of_failure(self, event: Sse, parts: list[Part]) -> str:
        """An error as an event or a field of its own; a body that is no stream at all. Gives the data of the event."""
        told = [line.removeprefix("error:") for line in event.others if line.startswith("error:")]
        if told or event.event == "error":
            self.fail(provider_error(parsed("\n".join(told) or event.data)), parts)
        elif event.others:
            self._read_bare_body(event.others, parts)
            self._strange_lines += event.others[: STRANGE_LINES - len(self._strange_lines)]
        return event.data

    def _read_bare_body(self, lines: Sequence[str], parts: list[Part]) -> None:
        body = parsed("\n".join(lines))
        if tells_an_error(body):
            self.fail(provider_error(body), parts)

    def _why_incomplete(self) -> ModelError:
        if self._understood or not self._strange_lines:
            return IncompleteStream("the answer ended before it gave a reason to stop")
        start = shortened("\n".join(self._strange_lines)[:80])
        return NotAStream(f"the answer is not a stream of events, it begins with {start}")


_DECODERS: dict[type, Any] = {}


def _decoder_of(wire: type[W]) -> Any:
    """Made once for each type: that costs more than a short answer."""
    if wire not in _DECODERS:
        _DECODERS[wire] = msgspec.json.Decoder(wire).decode
    return _DECODERS[wire]


def _events_in(data: str, *, may_be_cut: bool = False) -> list[str]:
    """The events that data which is none holds, one a line: some servers leave out the blank lines between them, or
    write the name of the field twice. None where a line is no event, unless it is the last one, and may be cut.
    """
    lines = [line.strip().removeprefix("data:") for line in data.split("\n")]
    if lines == [data]:
        return []
    if may_be_cut and not _is_whole(lines[-1]):
        lines.pop()
    return lines if all(map(_is_whole, lines)) else []


def _is_whole(data: str) -> bool:
    """Whether the data of an event that was not ended is all of it."""
    said = data.strip()
    return said == "[DONE]" or said.lower() in SIGNS_OF_LIFE or not isinstance(parsed(said), str)
