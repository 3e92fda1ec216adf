"""`python -m recipes.tool_call_approval [--model local|scripted|PROVIDER:NAME] [ask FILE | decide FILE allow|deny]`"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

from streamkit import (
    Allow,
    ApprovalDesk,
    ApprovalRequested,
    Conversation,
    Deny,
    Model,
    RunEvent,
    from_verdicts,
)
from streamkit.local import open_model
from streamkit.terminal import run_program, visible

from .recipe import WISH, fulfil, live, shown, wished
from .screen import Screen, card_lines
from .scripted import scripted_model
from .stored import OUTBOX, Show, ask, decide

PROGRAM = "python -m recipes.tool_call_approval"


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(PROGRAM, description="Without a command: decide at the keyboard while it runs.")
    parser.add_argument("--model", default="local", help="local (the default), scripted, or PROVIDER:NAME")
    parser.add_argument("--wish", help="what to ask the model for")
    commands = parser.add_subparsers(dest="command")
    asking = commands.add_parser("ask", help="run until somebody has to decide, and store the run in a file")
    asking.add_argument("file", type=Path)
    deciding = commands.add_parser("decide", help="continue the run in a file")
    deciding.add_argument("file", type=Path)
    deciding.add_argument("verdict", choices=["allow", "deny"])
    deciding.add_argument("execution_id", nargs="?", metavar="EXECUTION_ID", help="the call; all that wait by default")
    deciding.add_argument("--reason", default="the person said no", help="why it is denied; the model reads it")
    deciding.add_argument("--arguments", type=json.loads, metavar="JSON", help="run it with these instead of its own")
    options = parser.parse_args()
    if options.model == "scripted" and options.wish:
        parser.error("the scripted model knows only its own wish")
    if getattr(options, "arguments", None) is not None and (options.verdict == "deny" or not options.execution_id):
        parser.error("--arguments goes with allow and an EXECUTION_ID")
    return options


async def main(options: argparse.Namespace) -> None:
    wish, screen = options.wish or WISH, Screen()
    async with open_model(options.model, scripted=scripted_model) as model:
        if options.command is None:
            screen.say(f"? {wish}")
            with TemporaryDirectory(prefix="streamkit-") as folder:
                await at_the_keyboard(model, wish, Path(folder) / OUTBOX, screen)
            return
        if options.command == "ask":
            screen.say(f"? {wish}")
            state = await ask(model, wish, options.file, shows_cards(screen))
        else:
            allow, deny = Allow(options.arguments), Deny(options.reason)
            verdict = allow if options.verdict == "allow" else deny
            state = await decide(model, options.file, verdict, options.execution_id, shows_cards(screen))
    say_what_waits(state, screen, options.file)


async def at_the_keyboard(model: Model, wish: str, outbox: Path, screen: Screen) -> None:
    if sys.platform == "win32" or not (sys.stdin.isatty() and sys.stdout.isatty()):
        run = fulfil(model, wished(wish), outbox, authorize=from_verdicts({}))
        state = await shown(run, shows_cards(screen))
        screen.say(f"(pending calls: {len(state.undecided)}; nobody is at a keyboard, `ask FILE` stores them)")
        return
    from .keyboard import keyboard  # noqa: PLC0415 - there is no termios on Windows
    from .person import Person  # noqa: PLC0415

    with keyboard() as keys:
        desk = ApprovalDesk(timeout_seconds=600)
        person = Person(desk, keys, screen)
        state = await live(model, wish, outbox, desk=desk, person=person, show=screen.show)
    screen.say(f"({state.ended}; in the outbox: {', '.join(sent(outbox)) or 'nothing'})")


def sent(outbox: Path) -> list[str]:
    """To whom mails were sent."""
    lines = outbox.read_text("utf-8").splitlines() if outbox.exists() else []
    return [f"a mail to {visible(line.partition(':')[0])}" for line in lines]


def shows_cards(screen: Screen) -> Show:
    """Shows events, and the cards of calls that nobody decides about now."""

    def show(event: RunEvent) -> None:
        screen.show(event)
        if isinstance(event, ApprovalRequested):
            for line in card_lines(event):
                screen.say(line)
            screen.say(f"╰ waits as {event.execution_id}")

    return show


def say_what_waits(state: Conversation, screen: Screen, file: Path) -> None:
    if not state.undecided:
        screen.say(f"({state.ended or 'to be continued'}; {file} has the whole conversation)")
        return
    screen.say(f"({len(state.undecided)} wait in {file}. Go on with:")
    screen.say(f"   {PROGRAM} decide {file} allow|deny [EXECUTION_ID])")


def run() -> int:
    options = parse()
    return run_program(main, options, tells=(OSError,))


if __name__ == "__main__":
    sys.exit(run())
