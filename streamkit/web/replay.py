"""Runs that are written down, for whoever watches them: from the start or behind a frame, without gap or repeat.

The same events give the same frames. So a stream that comes back encodes the events of the journal again, from the
first one, and leaves out the frames that its client has. How a run ended is read from the journal, too.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from typing import NamedTuple

import anyio

from .. import errors
from ..conversation import Conversation
from ..errors import RunStopped
from ..flows.flow import Flow, Sink
from ..flows.groups import LoneErrorGroup
from ..journal.entry import RunEnded, Shown
from ..journal.journals import Followed, Journal
from ..journal.log import RunLog
from ..journal.store import JournalStore
from ..tool_events import RunEvent
from ..turns import Turn
from ..wire.encoding import Encoder

LOOK_SECONDS = 1.0
"""So often those who watch a run of another process look whether that is still there."""

_CUT_OFF = ("CancelledError", "Cancelled", "KeyboardInterrupt", "SystemExit", "GeneratorExit")
"""What stands as the error of a run whose process was told to end, so that it may go on later."""


class Standing(NamedTuple):
    """How a run stands in a journal.

    how: what it ended with, "interrupted" where it may go on; None while somebody drives it. error: what it failed
    with, as far as that is written down.
    """

    how: str | None
    conversation: Conversation
    error: Exception | None = None


async def standing_of(journal: Journal, run_id: str) -> Standing | None:
    """How a run stands that this process does not drive; None for one of which nothing is written down."""
    number = await journal.store.last(run_id)
    if not number:
        return None
    log = RunLog(journal.store, run_id, events=False, redaction=None)
    await log.load()
    conversation = log.conversation or Conversation()
    (last,) = await journal.store.read(run_id, number - 1, limit=1)
    if not isinstance(last.entry, RunEnded):
        return Standing(None if await journal.store.is_held(run_id) else "interrupted", conversation)
    if last.entry.error is None:
        return Standing(conversation.ended or "unknown", conversation)
    name, _, message = last.entry.error.partition(": ")
    if name in _CUT_OFF:
        return Standing("interrupted", conversation)
    if name == RunStopped.__name__:
        return Standing("stopped", conversation, RunStopped(message))
    return Standing("failed", conversation, _error_of(name, message))


def _error_of(name: str, message: str) -> Exception:
    """The error that was written down, where it is one that a client may read of."""
    kind = getattr(errors, name, None)
    if isinstance(kind, type) and issubclass(kind, errors.ModelError | errors.ToolError | errors.WorkCancelled):
        return kind(message)
    if isinstance(kind, type) and issubclass(kind, errors.AnswerError):
        return kind(message, turn=Turn(""))
    return Exception(message)


def replayed(journal: Journal, run_id: str, over: anyio.Event | None = None) -> Flow[RunEvent, Standing]:
    """The events of a run, those to come too while somebody drives it, and how it stands behind them.

    over: of a run that this process drives: set when it has ended. Others that are driven tell so in the journal, or
    are left by a process that dies: then the events end as those of any run that may go on.
    """

    async def run(out: Sink[RunEvent]) -> Standing:
        last = 0

        def note(followed: Followed) -> RunEvent:
            nonlocal last
            last = followed.number
            return followed.event

        followed = journal.follow(run_id).map(note)
        standing = None
        if over is not None:
            await _forward_until(over.wait, out, followed)
            await over.wait()  # whoever reads of its end may speak on at once
        elif (standing := await standing_of(journal, run_id)) is not None and standing.how is None:
            await _forward_until(partial(_until_it_is_left, journal.store, run_id), out, followed)
            standing = None
        await _send_known(out, journal, run_id, last)
        standing = standing or await standing_of(journal, run_id)
        return standing or Standing("interrupted", Conversation())

    return Flow(run)


async def _until_it_is_left(store: JournalStore, run_id: str) -> None:
    while await store.is_held(run_id):  # noqa: ASYNC110  # by another process, which cannot wake us
        await anyio.sleep(LOOK_SECONDS)


async def _forward_until(
    over: Callable[[], Awaitable[object]], out: Sink[RunEvent], flow: Flow[RunEvent, None]
) -> None:
    """Not only to the entry that says that the run has ended: a store that failed does not have it."""
    async with LoneErrorGroup() as tasks:

        async def leave() -> None:
            await over()
            tasks.cancel_scope.cancel()

        tasks.start_soon(leave)
        await out.forward(flow)
        tasks.cancel_scope.cancel()


async def _send_known(out: Sink[RunEvent], journal: Journal, run_id: str, after: int) -> None:
    while page := await journal.store.read(run_id, after):
        for numbered in page:
            if isinstance(numbered.entry, Shown):
                await out.send(numbered.entry.event)
        after = page[-1].number


class Replaying:
    """An encoder for what `replayed` gives. after: the number of the last frame that the client has.

    Nothing is said last of a run that may go on: its stream just ends, and the client may come back behind it.
    """

    def __init__(self, encoder: Encoder, *, after: int = 0) -> None:
        self.media_type = encoder.media_type
        self.headers: Mapping[str, str] = encoder.headers
        self._encoder = encoder
        self._after = after
        self._is_behind = not after

    def open(self) -> bytes:
        return self._unseen(self._encoder.open())

    def event(self, event: RunEvent) -> bytes:
        frames = self._encoder.event(event)
        return frames if self._is_behind or not frames else self._unseen(frames)

    def end(self, state: object) -> bytes:
        assert isinstance(state, Standing)
        if state.how in (None, "interrupted"):
            return b""
        if state.error is not None:
            return self._unseen(self._encoder.error(state.error))
        return self._unseen(self._encoder.end(state.conversation))

    def error(self, error: BaseException) -> bytes:
        return b""  # it is the watching that failed, not the run

    def _unseen(self, frames: bytes) -> bytes:
        """The frames, each of which begins with its number, without those that the client has."""
        if self._is_behind:
            return frames
        rest = frames
        while rest:
            number = int(rest[len(b"id: ") : rest.index(b"\n")])
            if number > self._after:
                self._is_behind = True
                return rest
            rest = rest[rest.index(b"\n\n") + 2 :]
        return rest


async def has_more(journal: Journal, run_id: str, encoder: Replaying) -> bool:
    """Whether there is a frame of a run that nobody drives behind those that the client has."""
    flow = replayed(journal, run_id)
    if encoder.open():
        return True
    async with flow.open() as events:
        while batch := await events.take():
            if any(map(encoder.event, batch)):
                return True
        return bool(encoder.end(events.value))
