"""What a person is shown: what happens, and the card of a call that waits for them."""

from __future__ import annotations

import json
import textwrap
from collections.abc import Iterator
from shutil import get_terminal_size

from streamkit import ApprovalRequested, Card, Failure, Output, RunEvent, ToolStarted, TurnEnded, Value
from streamkit.terminal import visible

EFFECTS = {
    "none": "changes nothing",
    "idempotent": "the same, however often it runs",
    "once": "something new each time it runs",
}
LABEL_WIDTH = 10


class Screen:
    """Lines, and below them what the person is asked."""

    def __init__(self) -> None:
        self._prompt = ""

    def say(self, line: str = "") -> None:
        if self._prompt:
            print(f"\r\x1b[K{line}\n{self._prompt}", end="", flush=True)
        else:
            print(line, flush=True)

    def ask(self, prompt: str) -> None:
        """What follows is said above this question, until it has its answer."""
        self._prompt = prompt
        print(prompt, end="", flush=True)

    def answered(self, answer: str | None) -> None:
        """The question is out of the way. answer: what was pressed, None where that was shown already."""
        self._prompt = ""
        if answer is not None:
            print(answer, flush=True)

    def show(self, event: RunEvent) -> None:
        match event:
            case ToolStarted(tool=tool, arguments=arguments):
                self.say(f"▸ {tool} runs with {visible(json.dumps(arguments, ensure_ascii=False))}")
            case Output(tool=tool, result=Value(text=text)):
                self.say(f"✓ {tool}: {visible(text)}")
            case Output(tool=tool, result=Failure(message=message)):
                self.say(f"✗ {tool}: {visible(message)}")
            case TurnEnded(turn=turn) if text := turn.text.strip():
                for line in text.splitlines():
                    self.say(visible(line))


def card_lines(asked: ApprovalRequested) -> Iterator[str]:
    """The card of a call: all that it would run with, never shortened."""
    card: Card = asked.card
    width = min(get_terminal_size().columns, 100) - LABEL_WIDTH - 3
    yield f"╭ {asked.tool}: {card.description}"
    told = [("whose", card.origin), ("does", EFFECTS[card.effects]), *asked.arguments.items()]
    for label, value in told:
        if value is not None:
            text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
            rows = [row for line in text.split("\n") for row in textwrap.wrap(visible(line), width) or [""]]
            for number, row in enumerate(rows):
                yield f"│ {label if number == 0 else '':<{LABEL_WIDTH}}{row}".rstrip()
