"""One call while the model writes it: its state table, its text, its end.

    WAITING ── Start ──> COLLECTING ── Available ──> READY
                         │  ^ Delta                   │
                         └── Abandoned ──> ABANDONED <┘

The deltas of a call join to its arguments. So text that may turn out not to be part of them is held back: text before
the call is announced, text that begins no object (the whole may be `null`, or a JSON string that holds the object), and
text behind a whole object (some servers repeat it at the end).
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from enum import Enum
from typing import Literal

from .codec.json_object import WholeObjectScan, object_text, same_object
from .items import Opaque, ToolCall
from .turns import (
    AbandonedReason,
    ToolInputAbandoned,
    ToolInputAvailable,
    ToolInputDelta,
    ToolInputEvent,
    ToolInputStart,
)

logger = logging.getLogger("streamkit")


LIMIT_CHARS = 16 * 1024 * 1024


class Phase(Enum):
    """Where a call is on its way."""

    WAITING = "begun, but its id or its name has not come, so nobody was told"
    COLLECTING = "announced, and its arguments are being written"
    READY = "whole"
    ABANDONED = "going nowhere"


MOVES: dict[tuple[Phase, type[ToolInputEvent]], Phase] = {
    (Phase.WAITING, ToolInputStart): Phase.COLLECTING,
    (Phase.COLLECTING, ToolInputDelta): Phase.COLLECTING,
    (Phase.COLLECTING, ToolInputAvailable): Phase.READY,  # the provider said so; parsing is no evidence
    (Phase.COLLECTING, ToolInputAbandoned): Phase.ABANDONED,
    (Phase.READY, ToolInputAbandoned): Phase.ABANDONED,  # whole, but the turn did not keep it
}


class CallInput:
    """The call at one place of a turn. Whoever holds it gives it its id and its name; each method gives events to send.

    has_end_marker: the provider says when the call is whole. limit_chars: longer arguments cannot run.
    """

    custom = False

    def __init__(self, place: int, *, has_end_marker: bool, limit_chars: int = LIMIT_CHARS) -> None:
        self._limit_chars = limit_chars
        self.place = place
        self.has_end_marker = has_end_marker
        self.has_own_index = False  # one that no call had before
        self.phase = Phase.WAITING
        self.call_id = ""
        self.provider_id: str | None = None  # what the provider calls it; not call_id where that was taken already
        self.name = ""
        self.name_so_far = ""  # all that came of it
        self.problem: str | None = None  # why the call, though it ended, cannot run
        self.abandoned: Literal["incomplete", "discarded"] | None = None
        self.opaque: Opaque | None = None
        self.in_stride = False  # whatever the next piece is, it is one more delta
        self._arguments: str | None = None  # once it is whole
        self._pieces: list[str] = []  # all of the text, as it came
        self._opening = ""  # the first character that is not blank
        self._ends_with_brace = False
        self._scan = WholeObjectScan()
        self._flows = False  # all of the text has been sent
        self._sent = 0  # where it does not flow: so many pieces have been sent
        self._surplus_from: int | None = None  # the first piece behind a whole object
        self._late: list[str] = []  # text that came when the call was whole

    @property
    def has_text(self) -> bool:
        return bool(self._pieces)

    @property
    def is_whole(self) -> bool:
        """Whether the call was said to be whole, or its text is one object by now."""
        return self.phase is Phase.READY or (self._ends_with_brace and self._scan.is_whole(self._pieces))

    def is_same(self, name: str, arguments: str) -> bool:
        """Whether a call that came whole is this one, which is whole."""
        known = self._arguments
        return known is not None and self.name == name and same_object(known, object_text(arguments)[0])

    def move(self, event: ToolInputEvent) -> ToolInputEvent:
        """Enter the phase to which an event leads. Returns the event, to be sent."""
        try:
            self.phase = MOVES[self.phase, type(event)]
        except KeyError:
            raise RuntimeError(f"a call that is {self.phase.value} cannot have a {type(event).__name__}") from None
        self.in_stride = self.in_stride and self.phase is Phase.COLLECTING
        return event

    def start(self) -> list[ToolInputEvent]:
        """Announce the call; id and name are there."""
        return [self.move(ToolInputStart(self.call_id, self.name)), *self._release()]

    def take_text(self, text: str) -> Sequence[ToolInputEvent]:
        """The next piece of the arguments. Where the object ends inside it, it is two pieces."""
        if self.in_stride and text and "}" not in text:  # most of the pieces
            self._pieces.append(text)
            return (ToolInputDelta(self.call_id, text),)  # the phase stays as it is: see MOVES
        if "}" in text and self._surplus_from is None and (end := self._scan.end_within(self._pieces, text)):
            return [*self._take_piece(text[:end]), *self._take_piece(text[end:])]
        return self._take_piece(text)

    def _take_piece(self, text: str) -> Sequence[ToolInputEvent]:
        bare = text.strip()
        if self.phase is Phase.READY or self.phase is Phase.ABANDONED:
            self._late.append(text)
            return ()
        if bare and self._surplus_from is None and self.is_whole:
            self._sent = len(self._sent_pieces())
            self._surplus_from = len(self._pieces)
            self._flows = False
        if text:
            self._pieces.append(text)
        if bare:
            self._opening = self._opening or bare[0]
            self._note_end(bare)
        if self._flows and text:
            return (self.move(ToolInputDelta(self.call_id, text)),)
        return self._release()

    def _note_end(self, bare: str) -> None:
        self._ends_with_brace = bare.endswith("}")
        self.in_stride = self._flows and not self._ends_with_brace

    def _release(self) -> list[ToolInputEvent]:
        """What was held back, as one delta, as soon as it is known to belong to the arguments."""
        if self._flows or self.phase is not Phase.COLLECTING or self._opening != "{":
            return []
        held = self._pieces[self._sent : self._surplus_from]
        self._sent += len(held)
        self._flows = self._surplus_from is None
        self.in_stride = self._flows and not self._ends_with_brace
        return [self.move(ToolInputDelta(self.call_id, "".join(held)))] if held else []

    def end(self, told: str = "") -> list[ToolInputEvent]:
        """The provider says that the call is whole.

        told: the arguments, where the provider repeats them; they win, unless they are no object. Where no text came
        before, they are the text. Where the text is no object, the call has a problem from now on, and stays open: the
        end of the turn decides what became of it.
        """
        text = "".join(self._pieces)
        if told and not text.strip():  # what is broken in them must not pass for nothing, which is an empty object
            return [*self.take_text(told), *self.end()]
        if problem := self._too_long(max(text, told, key=len)):
            self.problem = problem
            return []
        text, problem = object_text(text)
        if told:
            told, told_problem = object_text(told)
            if told_problem is None and (problem is not None or not same_object(told, text)):
                text, problem = told, None
        self.problem = problem
        if problem is not None:
            return []
        sent = "".join(self._sent_pieces())
        if not text.startswith(sent) and object_text(sent) == (sent, None) and same_object(sent, text):
            text = sent
        return self._become_available(text, sent)

    def _too_long(self, text: str) -> str | None:
        if len(text) <= self._limit_chars:
            return None
        return f"the arguments have {len(text)} characters, and may have {self._limit_chars}"

    def _become_available(self, text: str, sent: str) -> list[ToolInputEvent]:
        """text: the arguments. sent: what the deltas said of them; what is missing goes out as one more."""
        events: list[ToolInputEvent] = []
        if not text.startswith(sent):
            logger.warning("the deltas of call %s of %s are not what its arguments are", self.call_id, self.name)
        elif len(text) > len(sent):
            events.append(self.move(ToolInputDelta(self.call_id, text[len(sent) :])))
        self._arguments = text
        events.append(self.move(ToolInputAvailable(self.call_id, text)))
        return events

    def check_late_text(self) -> list[ToolInputEvent]:
        """What came for a call that was whole already: the same again adds nothing, anything else spoils it."""
        if self.phase is not Phase.READY or object_text("".join([self._arguments or "", *self._late]))[1] is None:
            return []
        return self.abandon("discarded", "more arguments came after the call was whole")

    def abandon(self, reason: AbandonedReason, detail: str = "") -> list[ToolInputEvent]:
        """The call goes nowhere. What was held back is shown first: the deltas join to what the model wrote."""
        events: list[ToolInputEvent] = []
        held = self._pieces[len(self._sent_pieces()) :]
        if held and self.phase is Phase.COLLECTING:
            events.append(self.move(ToolInputDelta(self.call_id, "".join(held))))
        if reason != "malformed" and reason != "retried":  # noqa: PLR1714 - narrows the type
            self.abandoned = reason
        events.append(self.move(ToolInputAbandoned(self.call_id, reason, detail)))
        return events

    def _sent_pieces(self) -> list[str]:
        return self._pieces if self._flows else self._pieces[: self._sent]

    def record(self, turn_id: str) -> ToolCall:
        """The call as its turn holds it."""
        arguments = "".join(self._pieces) if self._arguments is None else self._arguments
        return ToolCall(
            self.call_id,
            self.name,
            arguments,
            turn_id,
            self.place,
            self.problem,
            self.abandoned,
            self.custom,
            self.opaque,
        )


class CustomCallInput(CallInput):
    """A call whose arguments are plain text: nothing in it is held back, and any text is a whole one."""

    custom = True

    @property
    def is_whole(self) -> bool:
        """Whether the call was said to be whole; its text cannot tell."""
        return self.phase is Phase.READY

    def take_text(self, text: str) -> Sequence[ToolInputEvent]:
        if self.phase is Phase.READY or self.phase is Phase.ABANDONED:
            self._late.append(text)
            return ()
        if text:
            self._pieces.append(text)
        return self._release()

    def _release(self) -> list[ToolInputEvent]:
        held = self._pieces[self._sent :]
        if not held or self.phase is not Phase.COLLECTING:
            return []
        self._sent = len(self._pieces)
        return [self.move(ToolInputDelta(self.call_id, "".join(held)))]

    def end(self, told: str = "") -> list[ToolInputEvent]:
        sent = "".join(self._sent_pieces())
        self.problem = self._too_long(told or sent)
        return [] if self.problem else self._become_available(told or sent, sent)

    def check_late_text(self) -> list[ToolInputEvent]:
        if "".join(self._late) in ("", self._arguments):
            return []
        return self.abandon("discarded", "more text came after the call was whole")
