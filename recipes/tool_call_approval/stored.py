"""The same run in pieces, for a server that keeps nothing between two requests: the conversation lies in a file.

`ask` runs until somebody has to decide. `decide`, in another process, on another day, goes on with the verdicts.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import msgspec

from streamkit import (
    Allow,
    Conversation,
    Deny,
    Failure,
    Flow,
    Model,
    Output,
    RunEvent,
    ToolResult,
    ToolStarted,
    VerdictRefused,
    from_verdicts,
)

from .recipe import fulfil, shown, wished

OUTBOX = "outbox.txt"
"""Beside the file of the conversation."""

Show = Callable[[RunEvent], None]


async def ask(model: Model, wish: str, file: Path, show: Show) -> Conversation:
    """Begin to fulfil a wish, as far as that goes without a person, and store where it stands."""
    refuse_to_replace(file)
    state = await shown(_run(model, wished(wish), {}, file), show)
    store(state, file)
    return state


async def decide(model: Model, file: Path, verdict: Allow | Deny, execution_id: str | None, show: Show) -> Conversation:
    """Go on with a stored run. execution_id: the call that is decided about; None for all that wait.

    Raises VerdictRefused, and changes nothing, where no such call waits, or another process has the run.
    """
    with taken(file) as mine:
        state = msgspec.json.decode(mine.read_bytes(), type=Conversation)
        verdicts = dict.fromkeys(state.undecided if execution_id is None else [execution_id], verdict)
        after = Aftermath(state)
        try:
            state = await shown(_run(model, state, verdicts, file).tap(after.feed), show)
        except BaseException:  # the model failed, somebody pressed Ctrl-C, nobody reads what is shown
            store(after.state(), mine)
            raise
        store(state, mine)
        return state


def _run(
    model: Model, state: Conversation, verdicts: Mapping[str, Allow | Deny], file: Path
) -> Flow[RunEvent, Conversation]:
    return fulfil(model, state, file.with_name(OUTBOX), authorize=from_verdicts(verdicts, state))


class Aftermath:
    """What is known of the calls that waited when a run is cut off, so that none of them runs again."""

    def __init__(self, start: Conversation) -> None:
        self._start = start
        self._waiting = {call.call_id for call in start.waiting.values()}
        self._results: dict[str, ToolResult] = {}

    def feed(self, event: RunEvent) -> None:
        match event:
            case ToolStarted(call_id=call_id, tool=tool) if call_id in self._waiting:
                told = f"The call of {tool} was interrupted while it ran: it may have happened."
                self._results[call_id] = Failure(call_id, tool, "interrupted", told)
            case Output(call_id=call_id, result=result) if call_id in self._waiting:
                self._results[call_id] = result

    def state(self) -> Conversation:
        return self._start.settle(list(self._results.values())) if self._results else self._start


@contextmanager
def taken(file: Path) -> Iterator[Path]:
    """The file under another name while we work with it: two processes that decide at once must not both run the call.

    It comes back however the block is left; if it does not, this process has died, and what it did is not written down.
    """
    mine = taken_name(file)
    try:
        os.link(file, mine)  # unlike a renaming, it fails where there is one
        file.unlink()
    except FileNotFoundError:
        raise VerdictRefused(f"there is no stored run {file.name}") from None
    except FileExistsError:
        raise VerdictRefused(f"another process goes on with {file.name}, or died while it did") from None
    try:
        yield mine
    finally:
        os.replace(mine, file)


def refuse_to_replace(file: Path) -> None:
    if file.exists() or taken_name(file).exists():
        raise FileExistsError(f"{file} holds a run already: decide about it, or give another name")


def taken_name(file: Path) -> Path:
    return file.with_name(f"{file.name}.taken")


def store(state: Conversation, file: Path) -> None:
    """Write it whole, or not at all."""
    new = file.with_name(f"{file.name}.new")
    new.write_bytes(msgspec.json.format(msgspec.json.encode(state)))
    os.replace(new, file)
