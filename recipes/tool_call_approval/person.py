"""Whoever sits at the terminal: is shown one card after the other, and answers with a key."""

from __future__ import annotations

import json
from typing import Any, Protocol

import anyio

from streamkit import ApprovalDesk, ApprovalRequested, VerdictRefused
from streamkit.terminal import visible

from .screen import Screen, card_lines

KEYS = "╰ [y]es, [n]o, [e]dit, [a]lways? "


class Keys(Protocol):
    """What a `Keyboard` can do."""

    def forget(self) -> None: ...

    async def key(self) -> str: ...

    async def line(self) -> str: ...


class Person:
    """Decides at the keys about the questions of a desk. Each question is a task; they take turns."""

    def __init__(self, desk: ApprovalDesk, keys: Keys, screen: Screen) -> None:
        self._desk = desk
        self._keys = keys
        self._screen = screen
        self._turn = anyio.Lock()

    async def decide(self, asked: ApprovalRequested) -> None:
        async with self._turn:
            while self._still_waits(asked):  # else "always" was said before, or it took too long
                self._keys.forget()  # what was pressed before the card is shown is no answer to it
                for line in card_lines(asked):
                    self._screen.say(line)
                try:
                    await self._answer(asked)
                except VerdictRefused as refused:
                    for line in str(refused).splitlines():
                        self._screen.say(f"  {visible(line)}")

    def _still_waits(self, asked: ApprovalRequested) -> bool:
        return any(question.execution_id == asked.execution_id for question in self._desk.questions)

    async def _answer(self, asked: ApprovalRequested) -> None:
        match await self._key():
            case "y":
                self._desk.allow(asked.execution_id)
            case "a":
                self._desk.allow(asked.execution_id, always=True)
            case "n":
                reason = await self._line("  why not? (the model reads it; Enter for no reason) ")
                self._desk.deny(asked.execution_id, reason or "the person said no")
            case "e":
                self._desk.allow(asked.execution_id, await self._edited(asked.arguments))
            case "":
                self._desk.close()  # the terminal is gone: what waits stays pending

    async def _edited(self, arguments: dict[str, Any]) -> dict[str, Any]:
        edited = {}
        for name, value in arguments.items():
            before = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
            text = await self._line(f"  {name} [{visible(before)}] ")
            edited[name] = (text if isinstance(value, str) else _json(text)) if text else value
        return edited

    async def _key(self) -> str:
        self._screen.ask(KEYS)
        key = ""
        try:
            while (key := await self._keys.key()) not in ("y", "n", "e", "a", ""):
                pass
        finally:
            self._screen.answered(visible(key))
        return key

    async def _line(self, prompt: str) -> str:
        self._screen.ask(prompt)
        line = await self._keys.line()
        self._screen.answered(None)  # the terminal has shown the line and its end
        return line


def _json(text: str) -> Any:
    """What was typed for something that is no text; the desk refuses what does not fit."""
    try:
        return json.loads(text)
    except ValueError:
        return text
