"""What a run has shown of each file until now: the state that every screen draws."""

from __future__ import annotations

from dataclasses import dataclass, field

from streamkit import Failure, Output, RunEvent, ToolInputAbandoned, ToolInputStart, ToolStarted, Value
from streamkit.terminal import visible
from streamkit.tool_events import ToolInputField


@dataclass
class Draft:
    """A file that a call writes.

    lines: the last one may still grow. is_written: None while the tool runs, for then it may be. ending: what became of
    it, as soon as that is known. printed: how many lines are out, for a screen that cannot take them back.
    """

    name: str = ""
    lines: list[str] = field(default_factory=lambda: [""])
    is_written: bool | None = False
    ending: str | None = None
    printed: int = 0

    def grow(self, text: str) -> None:
        first, *more = visible(text).split("\n")
        self.lines[-1] += first
        self.lines += more

    def end(self, how: str, *, is_written: bool | None = False) -> None:
        self.ending, self.is_written = " ".join(visible(how).split()), is_written
        if self.lines[-1] == "":  # what follows the end of the last line is no line
            self.lines.pop()

    def interrupt(self) -> None:
        """Nobody will hear how it ends."""
        self.end("interrupted", is_written=self.is_written)

    def told(self) -> str:
        """The ending in one line."""
        name, count = self.name or "a file", len(self.lines)
        if self.is_written:
            return f"✓ {name} is written: {count} line{'' if count == 1 else 's'}"
        return f"✗ {name} {'may be' if self.is_written is None else 'is not'} written: {self.ending}"


class Drafts:
    """The files of a run. open: those of which nobody knows yet what becomes of them, in the order they began."""

    def __init__(self) -> None:
        self._by_call: dict[str, Draft] = {}

    @property
    def open(self) -> list[Draft]:
        return [draft for draft in self._by_call.values() if draft.ending is None]

    def feed(self, event: RunEvent) -> Draft | None:
        """Take an event; gives the file that it belongs to."""
        match event:
            case ToolInputStart(call_id=call_id):
                self._by_call[call_id] = Draft()
            case ToolInputField(call_id=call_id, path=("path",), text=text):
                self._by_call[call_id].name += " ".join(visible(text).split("\n"))
            case ToolInputField(call_id=call_id, path=("content",), text=text):
                self._by_call[call_id].grow(text)
            case ToolStarted(call_id=call_id, arguments={"path": path, "content": content}):
                draft = self._by_call[call_id]  # what was shown may have been wrong; this is what is done
                draft.name, draft.lines, draft.is_written = visible(path), [""], None
                draft.grow(content)
            case ToolInputAbandoned(call_id=call_id, reason=reason, detail=detail) if reason != "malformed":
                self._by_call[call_id].end(detail or reason)
            case Output(call_id=call_id, result=Value()):
                self._by_call[call_id].end("it is written", is_written=True)
            case Output(call_id=call_id, tool=tool, result=Failure(message=message)):
                # A malformed call ends here; one without a name has no other event.
                self._by_call.setdefault(call_id, Draft(tool)).end(message)
            case _:
                return None
        return self._by_call[call_id]
