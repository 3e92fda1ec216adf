"""The run that `test_run_faults` breaks in every way: a model that thinks, talks and calls one tool of each kind.

What happens to the world is kept in `World.ran`, as a file outside would: it outlives the run, and the one that goes on
after it.
"""

from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterable, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import anyio
import anyio.lowlevel

from streamkit import (
    ApprovalDesk,
    ApprovalRequested,
    Conversation,
    Flow,
    Message,
    Output,
    ReasoningDelta,
    RunEvent,
    TextDelta,
    ToolContext,
    ToolError,
    Toolkit,
    ToolOutput,
    ToolStarted,
    Transcript,
    Turn,
    TurnEvent,
    TurnRequest,
    converse,
    count,
    streaming_tool,
    tool,
    user,
)
from streamkit.items import History
from streamkit.journal.log import RunLog
from streamkit.parts import Finished, InputDelta, InputEnd, InputStart
from streamkit.testing import ScriptedModel, call, check_grammar, check_history
from streamkit.tool_events import walk

from .attacks import Own
from .calling import last_text

GO = (user("go"),)
DIALECTS = ("openai-chat", "openai-responses", "anthropic", "gemini", "ollama")
EFFECTS = {"read": "none", "tally": "idempotent", "delegate": "none", "fails": "once", "plain": "once", "send": "once"}
MAY_HAVE_HAPPENED = "it may have happened"


def whole_call(call_id: str, name: str, arguments: str) -> list[Any]:
    return [InputStart(None, call_id, name), InputDelta(arguments, call_id=call_id), InputEnd(call_id=call_id)]


FIRST: tuple[Any, ...] = (
    ReasoningDelta("Hm."),
    TextDelta("I look. "),
    InputStart(None, "r", "read"),
    InputStart(None, "t", "tally"),
    InputDelta('{"p":', call_id="r"),
    InputDelta('{"upto":3}', call_id="t"),
    InputDelta('"a"}', call_id="r"),
    InputEnd(call_id="r"),
    InputEnd(call_id="t"),
    *whole_call("f", "fails", "{}"),
    *whole_call("p", "plain", '{"p":"b"}'),
    *whole_call("s", "send", '{"to":"Ann"}'),
    *whole_call("d", "delegate", "{}"),
    Finished("tool_calls"),
)
SECOND: tuple[Any, ...] = (
    TextDelta("More."),
    *whole_call("again", "read", '{"p":"c"}'),
    Finished("tool_calls"),
)
THIRD: tuple[Any, ...] = (TextDelta("Do"), TextDelta("ne."), Finished("stop"))
TURNS = (FIRST, SECOND, THIRD)
CALLS = ("r", "t", "f", "p", "s", "d")  # of the first turn; the person decides about s
TEXTS = {
    "r": "read a",
    "t": "3",
    "f": "failed on purpose",
    "p": "b done",
    "s": "sent to Ann",
    "d": "inside",
    "again": "read c",
}
"""What the model reads of each call."""


class Ran(NamedTuple):
    """A tool that did something."""

    tool: str
    execution_id: str
    attempt: int


@dataclass
class World:
    """What tools do, and what of theirs is open. returned: what ended by itself. tally_fails_at: raise there."""

    ran: list[Ran] = field(default_factory=list)
    returned: list[str] = field(default_factory=list)
    own: Own = field(default_factory=Own)
    tally_fails_at: int | None = None

    def happen(self, context: ToolContext["World"]) -> None:
        self.ran.append(Ran(context.tool, context.execution_id, context.attempt))

    async def work(self, context: ToolContext["World"]) -> None:
        """In two steps, with something open meanwhile."""
        with self.own.here():
            await anyio.lowlevel.checkpoint()
            self.happen(context)
            await anyio.lowlevel.checkpoint()
        self.returned.append(context.execution_id)

    async def numbers(self, upto: int) -> AsyncGenerator[int, None]:
        async with aclosing(self.own.numbers(upto)) as numbers:
            async for number in numbers:
                if number == self.tally_fails_at:
                    raise LookupError
                yield number


@tool(effects="none")
async def read(context: ToolContext[World], p: str) -> str:
    """Reads."""
    await context.context.work(context)
    return f"read {p}"


@streaming_tool(effects="idempotent", reduce=count())
async def tally(context: ToolContext[World], upto: int) -> AsyncIterator[int]:
    """Counts events."""
    context.context.happen(context)
    async with aclosing(context.context.numbers(upto)) as numbers:
        async for number in numbers:
            yield number


@tool
async def fails(context: ToolContext[World]) -> None:
    """Does something, then fails."""
    await context.context.work(context)
    raise ToolError("failed on purpose")


@tool
def plain(context: ToolContext[World], p: str) -> str:
    """Works on a thread."""
    context.context.happen(context)
    return f"{p} done"


@tool(approval=True)
async def send(context: ToolContext[World], to: str) -> str:
    """Must be allowed."""
    await context.context.work(context)
    return f"sent to {to}"


@tool(effects="none")
def delegate(context: ToolContext[World]) -> Flow[RunEvent, str]:
    """An inner run; the ids of its calls are those of the outer one, too."""
    model = ScriptedModel(["Let me see.", call("read", {"p": "i"}, call_id="r")], ["in", "side"])
    return converse(model, Toolkit(read), (user("look"),), context=context.context).then(last_text)


TOOLKIT = Toolkit(read, tally, fails, plain, send, delegate)


@dataclass
class PlannedModel:
    """Says the turn that comes next in the history that it is asked with. turns: TURNS, or what is wrong with them."""

    turns: Sequence[Sequence[Any]] = TURNS
    requests: list[TurnRequest] = field(default_factory=list)
    name: str = "planned"

    def stream_turn(self, request: TurnRequest) -> Flow[TurnEvent, Turn]:
        self.requests.append(request)
        said = [item.text for item in request.history if isinstance(item, Message) and item.role == "assistant"]
        has_results = any(isinstance(item, ToolOutput) for item in request.history)
        return ScriptedModel(
            self.turns[2 if any(text.startswith("More.") for text in said) else int(has_results)]
        ).stream_turn(request)


@dataclass
class Run:
    """One run, and what was seen of it: by its consumer, and by a tap."""

    world: World
    turns: Sequence[Sequence[Any]] = TURNS
    desk: ApprovalDesk = field(default_factory=ApprovalDesk)
    transcript: Transcript = field(default_factory=lambda: Transcript(GO))
    shown: list[RunEvent] = field(default_factory=list)
    seen: list[RunEvent] = field(default_factory=list)
    state: Conversation | None = None
    model: PlannedModel = field(default_factory=PlannedModel)

    def __post_init__(self) -> None:
        self.model = PlannedModel(self.turns)

    async def go(self, log: RunLog | None = None, at_event: Callable[[RunEvent], object] | None = None) -> None:
        """To the end, or to an event for which at_event gives True; None lets the person allow what is asked for."""
        start = (log.conversation if log is not None else None) or GO
        self.transcript = Transcript(start)
        run = converse(self.model, TOOLKIT, start, authorize=self.desk.authorize, context=self.world, journal=log).tap(
            self._note
        )
        async with run.open() as events:
            async for event in events:
                self.seen.append(event)
                if (at_event or self.allow)(event) is True:
                    return
        self.state = events.value

    def _note(self, event: RunEvent) -> None:
        self.shown.append(event)
        self.transcript.feed(event)

    def allow(self, event: RunEvent) -> None:
        """What the person does, unless somebody else has."""
        inner = walk(event)[1]
        if isinstance(inner, ApprovalRequested) and inner.execution_id in {q.execution_id for q in self.desk.questions}:
            self.desk.allow(inner.execution_id)

    # What has to hold

    def check(self, *, complete: bool, pending: Iterable[str] = ()) -> None:
        """After whatever happened: the grammars hold, nothing is open, and all providers take the history."""
        check_grammar(self.seen, complete=complete, pending=tuple(pending))
        check_grammar(self.shown, complete=False)
        assert self.world.own.all_closed()
        check_by_all(self.transcript.history("It was stopped."))
        if self.state is not None and self.state.turn is None:
            check_by_all(self.state.history)

    def check_answered(self, returned: Iterable[str] = ()) -> None:
        """The run ended with the answer, and each call of it has its text, or says why not: it was interrupted.

        returned: the execution ids of those that were not, whatever became of the run around them.
        """
        assert self.state is not None
        assert (self.state.ended, last_text(self.state)) == ("answer", "Done.")
        told = {item.call_id: item.text for item in self.state.history if isinstance(item, ToolOutput)}
        assert list(told) == [*CALLS, "again"]
        interrupted = {CALLS.index(call_id) for call_id, text in told.items() if not text.startswith(TEXTS[call_id])}
        assert interrupted <= {CALLS.index(call_id) for call_id in "fps"}
        assert all(MAY_HAVE_HAPPENED in told[CALLS[place]] for place in interrupted)
        assert not interrupted & {int(execution_id.rpartition(".")[2]) for execution_id in returned}

    def finished(self) -> set[str]:
        """The execution ids of the outer calls that ran, and have their results."""
        ids = {event.call_id: event.execution_id for event in self.shown if isinstance(event, ToolStarted)}
        return {ids[event.call_id] for event in self.shown if isinstance(event, Output) and event.call_id in ids}


def check_by_all(history: History) -> None:
    for dialect in DIALECTS:
        check_history(history, dialect)


def check_ran(world: World, finished: Iterable[str]) -> None:
    """What a crash must not break: `once` never twice, what was finished not again, attempts under the same id."""
    by_id: dict[str, list[Ran]] = {}
    for ran in world.ran:
        by_id.setdefault(ran.execution_id, []).append(ran)
    for attempts in by_id.values():
        assert len({ran.tool for ran in attempts}) == 1
        assert len(attempts) == 1 or EFFECTS[attempts[0].tool] != "once", f"{attempts} of what may happen once"
        assert [ran.attempt for ran in attempts] == sorted({ran.attempt for ran in attempts})
    for execution_id in finished:
        assert len(by_id.get(execution_id, ())) <= 1 or "/" in execution_id
