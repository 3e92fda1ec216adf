"""What a run has shown until now, as blocks: what is said, and a card for each call. Nothing here knows how it looks.

A `Run` takes events, and a card of a call that runs another run holds a `Run` of its own. Of what is inside a card
only the last is kept, so that a run of any length takes a bounded room.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from time import monotonic
from typing import Any, Literal

from ..bars import Bar as Bar  # noqa: PLC0414  # users take it from this folder
from ..bars import progress_of
from ..input_fields import FieldReader
from ..items import ProviderTool, UnknownItem
from ..tool_events import (
    ApprovalRequested,
    Failure,
    Intermediate,
    Output,
    ToolInputField,
    ToolResult,
    ToolStarted,
)
from ..turns import (
    ReasoningDelta,
    RefusalDelta,
    TextDelta,
    ToolInputAbandoned,
    ToolInputAvailable,
    ToolInputDelta,
    ToolInputStart,
    TurnEnded,
    TurnRestarted,
    TurnStarted,
)
from .tails import TAIL_CHARACTERS, Fields, Tail
from .words import on_one_line, shown, why_cut, why_dropped

KEPT_LINES = 5
KEPT_BLOCKS = 24
"""Of an inner run."""

Describe = Callable[[Any], Any]
"""What to show in place of something that a tool has sent: text, a `Bar`, None for nothing; or the data as it is."""

Stage = Literal["written", "whole", "asked", "running", "ended"]
Voice = Literal["text", "reasoning", "refusal", "note"]


def as_it_is(data: Any) -> Any:
    return data


def described(data: Any, describe: Describe) -> Any:
    """Text, a bar where there are numbers for one, None for nothing, or else what it is."""
    data = describe(data)
    return data if isinstance(data, str | Bar) else progress_of(data) or data


@dataclass
class Said:
    """Text of the model, or a note about it. rest: what is not out yet; whoever puts its beginning out takes it off."""

    voice: Voice
    rest: str = ""
    ended: bool = False


@dataclass
class Called:
    """A call: while the model writes it, while it runs, and what came of it.

    lines: the last things that it sent, as they are to be shown. interrupted: why nothing will come of it any more.
    """

    tool: str
    fields: Fields = field(default_factory=Fields)
    plain: Tail = field(default_factory=Tail)  # its arguments, where they are no JSON
    stage: Stage = "written"
    began: float | None = None
    seconds: float = 0.0
    bar: Bar | None = None
    lines: deque[Any] = field(default_factory=lambda: deque(maxlen=KEPT_LINES))
    lines_sent: int = 0
    inner: Run | None = None
    result: ToolResult | None = None
    dropped: str = ""
    interrupted: str = ""

    @property
    def ended(self) -> bool:
        return self.stage == "ended"

    @property
    def failed(self) -> bool:
        return isinstance(self.result, Failure)

    def end(self, why: str = "") -> None:
        """why: what to say of what has not ended inside it."""
        self.stage = "ended"
        if self.inner is not None:
            self.inner.close(why)


class Run:
    """The blocks of a run, in the order in which they began. is_inner: only the last of them are kept."""

    def __init__(self, describe: Describe, *, is_inner: bool = False) -> None:
        self.blocks: list[Said | Called] = []
        self.omitted = 0
        self._describe = describe
        self._is_inner = is_inner
        self._calls: dict[str, Called] = {}  # those that have not ended, by id
        self._fields = FieldReader()

    def feed(self, event: object) -> None:
        take = _TAKES.get(type(event))
        if take is not None:
            take(self, event)
        else:  # an event of somebody's own loop
            self._note(on_one_line(shown(event), 300))

    def close(self, why: str) -> None:
        """There will be no more events. why: what to say of what has not ended, empty where it came to its end."""
        speaks = bool(self.blocks) and isinstance(self.blocks[-1], Said) and not self.blocks[-1].ended
        self._end_saying()
        if why and speaks and not self._calls:
            self._note(why)
        for call in self._calls.values():
            waits = call.stage == "asked" and not why
            call.interrupted = "" if call.dropped else "still waits for a decision" if waits else why or "not run"
            call.end(why)
        self._calls.clear()

    def _say(self, voice: Voice, text: str) -> None:
        last = self.blocks[-1] if self.blocks else None
        if not (isinstance(last, Said) and last.voice == voice and not last.ended):
            if not text.strip():
                return
            self._end_saying()
            last, text = Said(voice), text.lstrip("\n")
            self._append(last)
        last.rest += text
        if self._is_inner and len(last.rest) > 2 * TAIL_CHARACTERS:
            last.rest = f"…{last.rest[-TAIL_CHARACTERS:]}"

    def _note(self, text: str) -> None:
        self._end_saying()
        self._append(Said("note", text, ended=True))

    def _end_saying(self) -> None:
        last = self.blocks[-1] if self.blocks else None
        if isinstance(last, Said):
            last.ended = True

    def _append(self, block: Said | Called) -> None:
        self.blocks.append(block)
        if self._is_inner and len(self.blocks) > KEPT_BLOCKS:
            gone = next((number for number, each in enumerate(self.blocks) if each.ended), 0)
            del self.blocks[gone]
            self.omitted += 1

    def _call(self, call_id: str, tool: str) -> Called:
        """The call of this id that has not ended; a new one where there is none."""
        if (call := self._calls.get(call_id)) is None:
            self._end_saying()
            call = self._calls[call_id] = Called(tool)
            self._append(call)
        return call

    def _started(self, event: ToolInputStart) -> None:
        if (unended := self._calls.pop(event.call_id, None)) is not None:  # ids of another turn may come again
            unended.end()
        self._fields.read(event)
        self._call(event.call_id, event.tool)

    def _delta(self, event: ToolInputDelta) -> None:
        if (call := self._calls.get(event.call_id)) is None:
            return
        fields = self._fields.read(event)
        for each in fields:
            call.fields.add(each.path, each.text)
        if not fields and not call.fields.shown:
            call.plain.add(event.delta)

    def _whole(self, event: ToolInputAvailable) -> None:
        self._fields.read(event)
        if (call := self._calls.get(event.call_id)) is not None:
            call.stage = "whole"

    def _abandoned(self, event: ToolInputAbandoned) -> None:
        self._fields.read(event)
        if (call := self._calls.get(event.call_id)) is not None:
            call.dropped = why_dropped(event)
            if event.reason != "malformed":  # that one is answered
                self._calls.pop(event.call_id).end()

    def _asked(self, event: ApprovalRequested) -> None:
        call = self._call(event.call_id, event.tool)
        call.stage = "asked"
        self._runs_with(call, event.arguments)

    def _runs(self, event: ToolStarted) -> None:
        call = self._call(event.call_id, event.tool)
        call.stage, call.began = "running", monotonic()
        self._runs_with(call, event.arguments)

    def _runs_with(self, call: Called, arguments: Any) -> None:
        """What was seen while it was written may have been mended, or edited by a person."""
        if isinstance(arguments, dict):
            call.fields, call.plain = Fields.of(arguments), Tail()

    def _intermediate(self, event: Intermediate) -> None:
        call = self._call(event.call_id, event.tool)
        if event.event is not None:
            if call.inner is None:
                call.inner = Run(self._describe, is_inner=True)
            call.inner.feed(event.event)
            return
        data = described(event.data, self._describe)
        if isinstance(data, Bar):
            call.bar = data
        elif data is not None:
            call.lines.append(data)
            call.lines_sent += 1

    def _output(self, event: Output) -> None:
        call = self._call(event.call_id, event.tool)
        call.result, call.seconds, call.dropped = event.result, event.seconds, ""
        self._calls.pop(event.call_id).end()

    def _turn_ended(self, event: TurnEnded) -> None:
        self._end_saying()
        if why := why_cut(event.turn):
            self._note(why)

    def _restarted(self, event: TurnRestarted) -> None:
        self._note(f"taken back, the model begins again: {on_one_line(event.reason, 200)}")

    def _provider_tool(self, event: ProviderTool) -> None:
        said = event.input if event.output is None else event.output
        self._note(f"{on_one_line(event.name)}, run by the provider: {on_one_line(shown(said), 200)}")


_TAKES: dict[type, Callable[[Run, Any], None]] = {
    TextDelta: lambda run, event: run._say("text", event.text),
    ReasoningDelta: lambda run, event: run._say("reasoning", event.text),
    RefusalDelta: lambda run, event: run._say("refusal", event.text),
    TurnStarted: lambda run, event: run._end_saying(),
    TurnEnded: Run._turn_ended,
    TurnRestarted: Run._restarted,
    ToolInputStart: Run._started,
    ToolInputDelta: Run._delta,
    ToolInputAvailable: Run._whole,
    ToolInputAbandoned: Run._abandoned,
    ToolInputField: lambda run, event: None,  # each call is read here, whether its fields were asked for or not
    ProviderTool: Run._provider_tool,
    UnknownItem: lambda run, event: None,
    ApprovalRequested: Run._asked,
    ToolStarted: Run._runs,
    Intermediate: Run._intermediate,
    Output: Run._output,
}
