"""A run as it is seen, and what is kept of it."""

from __future__ import annotations

from collections.abc import Iterator

from streamkit import (
    History,
    Intermediate,
    Message,
    Output,
    RunEvent,
    TextDelta,
    ToolCall,
    ToolInputAbandoned,
    ToolOutput,
    ToolStarted,
    Value,
)

from .recipe import Page


def visible(text: str) -> str:
    """Text of a model, without what would steer a terminal."""
    return "".join(each if each.isprintable() or each == "\n" else "\N{REPLACEMENT CHARACTER}" for each in text)


class Lines:
    """Prints text as it comes, and everything else in lines of its own."""

    def __init__(self) -> None:
        self._in_text = False

    def say(self, line: str = "") -> None:
        print(f"\n{line}" if self._in_text else line, flush=True)
        self._in_text = False

    def show(self, event: RunEvent) -> None:
        match event:
            case TextDelta(text=text):
                print(visible(text), end="", flush=True)
                self._in_text = True
            case ToolStarted(tool=tool, arguments=arguments):
                self.say(f"  ▸ {tool} {arguments}")
            case Intermediate(data=Page(number=number, of=of)):
                self.say(f"    page {number} of {of}")
            case Output(tool=tool, result=Value(text=text)):
                self.say(f"  ✓ {tool}: {text}")
            case ToolInputAbandoned(reason=reason):
                self.say(f"  ✗ a call that was being written goes nowhere: {reason}")

    def end(self) -> None:
        if self._in_text:
            print(flush=True)
        self._in_text = False


def kept(history: History) -> Iterator[str]:
    """What a history says, an item a line."""
    for item in history:
        match item:
            case Message(role="user", text=text):
                yield f"the person   {_shortened(text)}"
            case Message(text=text):
                yield f"the model    {_shortened(text)}"
            case ToolCall(name=name, arguments=arguments):
                yield f"its call     {_shortened(f'{name} {arguments}')}"
            case ToolOutput(text=text, failed=failed):
                yield f"{'no result' if failed else 'its result'}{'':<{4 if failed else 3}}{_shortened(text)}"


def _shortened(text: str) -> str:
    line = visible(" ".join(text.split()))
    return line if len(line) <= 60 else f"{line[:40]} … {line[-17:]}"
