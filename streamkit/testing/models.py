"""`check_model`: does a model of your own keep what loops, tools and screens rely on?"""

from __future__ import annotations

import copy
import gc
import inspect
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass, field

import anyio
import anyio.lowlevel

from ..errors import ModelError
from ..flows.flow import Flow
from ..flows.groups import LoneErrorGroup
from ..items import ToolSpec, user
from ..providers.model import Model
from ..turns import Turn, TurnEnded, TurnEvent, TurnRequest
from .grammar import check_grammar
from .leftovers import nothing_left
from .turns import check, check_turn

MOST_PLACES = 8
"""At so many events of a turn it is left, and cancelled; the first and the last are among them."""
MOST_AHEAD = 100
"""More events than the edge lets a model send while nobody takes them."""
TICKS_OF_WAITING = 200
TICKS_OF_WORK = 3
"""So far a model may go on between the event after which it is cancelled, and that."""


async def check_model(
    model: Model,
    request: TurnRequest | None = None,
    *,
    tools: Iterable[ToolSpec] = (),
    fails: bool = False,
    patience_seconds: float = 10,
) -> None:
    """Raise AssertionError, with the rule that is broken, unless a model is one that loops and tools may rely on.

    Opens fewer than forty turns: whole ones, one after the other and two at once, awaited ones, and such as are left or
    cancelled after any event. It cannot know what the model says, so it holds the events to the grammar, the turn to
    its events, and each end to leave nothing behind: no open call, task, generator or warning.

    request: what is asked; None says "Hello", with `tools`. Best is one that the model answers with a call and some
    text, in few events. fails: the model fails to answer this request each time, with a ModelError. patience_seconds:
    how long the model may take to end after it is left. One that never ends hangs this check, too.
    """
    asked = TurnRequest((user("Hello"),), tuple(tools)) if request is None else request
    before = copy.deepcopy(asked)
    suite = _Suite(model, asked, fails, patience_seconds)
    check(isinstance(model.name, str) and model.name, "a model has a name")
    gc.freeze()  # or else each look for garbage goes through everything that the test runner has
    try:
        await suite.run()
    finally:
        gc.unfreeze()
    check(asked == before, "the model changed the request, which its caller still uses")


@dataclass
class _Run:
    """One opening. shown: every event that was sent; taken: how many of them the consumer took; left_at: the time."""

    shown: list[TurnEvent] = field(default_factory=list)
    taken: int = 0
    left_at: float | None = None
    turn: Turn | None = None
    error: Exception | None = None


class _Suite:
    def __init__(self, model: Model, request: TurnRequest, fails: bool, patience_seconds: float) -> None:
        self._model = model
        self._request = request
        self._fails = fails
        self._patience = patience_seconds

    async def run(self) -> None:
        await self._step("a turn that was never opened", self._never_opened)
        turn = self._new_turn()
        first = await self._whole(turn)  # what it sets up for good, such as a connection, is nothing left behind
        await self._step("a flow that was opened again", self._again, turn, first)
        await self._step("two turns at once", self._two_at_once)
        await self._step("a turn that was awaited", self._awaited)
        await self._step("a turn whose consumer took one event", self._slow)
        await self._step("a turn that was cancelled at its start", self._cancelled, 0, False)
        for place in _spread(len(first.shown)):
            await self._step(f"a turn that was left after event {place}", self._left, place)
            await self._step(f"a turn that was cancelled after event {place}", self._cancelled, place, False)
            await self._step(f"an awaited turn that was cancelled after event {place}", self._cancelled, place, True)

    async def _step(self, which: str, step: Callable[..., Awaitable[object]], *args: object) -> None:
        try:
            async with nothing_left():
                await step(*args)
        except AssertionError as broken:
            raise AssertionError(f"{which}: {broken}") from broken.__cause__

    def _new_turn(self) -> Flow[TurnEvent, Turn]:
        turn: object = self._model.stream_turn(self._request)
        if inspect.iscoroutine(turn):
            turn.close()  # or else a warning about it follows the error
        check(isinstance(turn, Flow), f"stream_turn is a plain function that gives a Flow, not {type(turn).__name__}")
        assert isinstance(turn, Flow)
        return turn

    async def _read(self, turn: Flow[TurnEvent, Turn], run: _Run, leave_after: int | None = None) -> _Run:
        try:
            async with turn.tap(run.shown.append).open() as events:
                async for _ in events:
                    run.taken += 1
                    if run.taken == leave_after:
                        run.left_at = anyio.current_time()
                        return run
            run.turn = events.value
        except AssertionError:
            raise
        except Exception as error:
            run.error = error
        return run

    # The steps

    async def _never_opened(self) -> None:
        _ = self._new_turn()

    async def _whole(self, turn: Flow[TurnEvent, Turn]) -> _Run:
        run = await self._read(turn, _Run())
        self._check_end(run)
        return run

    async def _again(self, turn: Flow[TurnEvent, Turn], first: _Run) -> None:
        again = await self._whole(turn)
        if first.turn is not None and again.turn is not None:
            turn_id = again.turn.turn_id
            check(turn_id != first.turn.turn_id, f"each opening is a turn of its own, but two have the id {turn_id!r}")

    async def _two_at_once(self) -> None:
        runs = [_Run(), _Run()]
        async with LoneErrorGroup() as tasks:
            for run in runs:
                tasks.start_soon(self._read, self._new_turn(), run)
        for run in runs:
            self._check_end(run)

    async def _awaited(self) -> None:
        run = _Run()
        try:
            run.turn = await self._new_turn().tap(run.shown.append)
        except AssertionError:
            raise
        except Exception as error:
            run.error = error
        self._check_end(run)

    async def _slow(self) -> None:
        run = _Run()
        try:
            async with self._new_turn().tap(run.shown.append).open() as events:
                async for _ in events:
                    for _ in range(TICKS_OF_WAITING):
                        await anyio.lowlevel.checkpoint()
                    break
        except ModelError:
            check(self._fails, "the turn failed")
        ahead = len(run.shown)
        check(
            ahead <= MOST_AHEAD, f"the model sent {ahead} events that nobody took: `send` waits, and is to be awaited"
        )

    async def _left(self, place: int) -> None:
        self._check_left(await self._read(self._new_turn(), _Run(), place))

    async def _cancelled(self, place: int, awaits: bool) -> None:
        run = _Run()
        reached = anyio.Event()

        def note(event: TurnEvent) -> None:
            if len(run.shown) == place:
                reached.set()

        async def work() -> None:
            turn = self._new_turn()
            try:
                if awaits:
                    await turn.tap(run.shown.append).tap(note)
                else:
                    await self._read(turn.tap(note), run)
            except ModelError as error:
                run.error = error
            finally:
                reached.set()

        if place == 0:
            reached.set()
        async with LoneErrorGroup() as tasks:
            tasks.start_soon(work)
            await reached.wait()
            for _ in range(TICKS_OF_WORK):
                await anyio.lowlevel.checkpoint()
            run.left_at = anyio.current_time()
            tasks.cancel_scope.cancel()
        self._check_left(run)

    # What is held

    def _check_end(self, run: _Run) -> None:
        if not self._fails:
            self._check_good_end(run)
            return
        error = run.error
        check(error is not None, "the turn ended well, but `fails=True` says that it fails")
        check(isinstance(error, ModelError), f"a turn that fails raises a ModelError, not {error!r}")
        assert isinstance(error, ModelError)
        check(error.turn is not None or not run.shown, "the error of a turn that had begun has no `turn`")
        if error.turn is not None:
            check_turn(run.shown, error.turn, failed=True)

    def _check_good_end(self, run: _Run) -> None:
        if isinstance(run.error, ModelError):
            raise AssertionError(f"the turn failed, see `fails=`: {run.error}") from run.error
        if run.error is not None:
            raise AssertionError(f"a turn that fails raises a ModelError, not {run.error!r}") from run.error
        check(isinstance(run.turn, Turn), f"the value of the flow is a Turn, not {type(run.turn).__name__}")
        assert isinstance(run.turn, Turn)
        check_turn(run.shown, run.turn)
        may_call = self._request.tool_choice != "none"
        check(may_call or not run.turn.calls, "calls stand in a turn that may call no tools")

    def _check_left(self, run: _Run) -> None:
        """What was shown is closed, be it seen by nobody but a tap: the hooks of tools hear it."""
        seconds = 0.0 if run.left_at is None else anyio.current_time() - run.left_at
        check(seconds <= self._patience, f"it took {seconds:.1f} seconds to leave")
        ends = [event.turn for event in run.shown if type(event) is TurnEnded]
        check_grammar(run.shown, pending=[call.call_id for turn in ends for call in turn.calls])


def _spread(count: int) -> list[int]:
    """Places from 1 to count: all of them, or MOST_PLACES with the first and the last."""
    if count <= MOST_PLACES:
        return list(range(1, count + 1))
    return sorted({1 + place * (count - 1) // (MOST_PLACES - 1) for place in range(MOST_PLACES)})
