"""A run as lines, for pipes and logs: each line of a file as soon as it is whole, after its place.

? Write double.py: a function that doubles a number.
double.py:1: def double(number):
double.py:2:     return number * 2
✓ double.py is written: 2 lines
"""

from __future__ import annotations

from streamkit import RunEvent, TurnEnded
from streamkit.terminal import visible

from .drafts import Drafts


class Lines:
    """A screen that prints. What is out cannot be removed: a last line says when the file has come to nothing."""

    def __init__(self) -> None:
        self._drafts = Drafts()

    def ask(self, wish: str) -> None:
        print(f"? {wish}", flush=True)

    def show(self, event: RunEvent) -> None:
        draft = self._drafts.feed(event)
        if draft is None:
            if isinstance(event, TurnEnded) and (text := event.turn.text.strip()):
                print(visible(text), flush=True)
            return
        whole = draft.lines if draft.is_written else draft.lines[:-1]
        for number, line in enumerate(whole[draft.printed :], draft.printed + 1):
            print(f"{draft.name}:{number}: {line}", flush=True)
        draft.printed = len(whole)
        if draft.ending is not None:
            print(draft.told(), flush=True)
