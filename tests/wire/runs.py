"""Runs for the tests of encoders: real ones, with every fault there is, as the events they gave and how they ended."""

from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from typing import Any

import anyio
from hypothesis import strategies as st

from streamkit import (
    Conversation,
    Flow,
    ReasoningDelta,
    RefusalDelta,
    RunEvent,
    Sink,
    TextDelta,
    Tool,
    ToolError,
    Toolkit,
    TurnRequest,
    TurnStarted,
    converse,
    count,
    from_verdicts,
    streaming_tool,
    tool,
    user,
)
from streamkit.errors import ProviderError, RunStopped
from streamkit.items import ProviderTool, UnknownItem
from streamkit.testing import ScriptedModel, call, interleave, stop
from streamkit.turns import ToolInputAbandoned, ToolInputStart, TurnRestarted

SECRET = "s3cret"


@tool
async def read(p: str) -> str:
    """Reads."""
    return f"read {p}"


@streaming_tool(reduce=count())
async def tally(upto: int) -> AsyncIterator[dict[str, Any]]:
    """Counts events."""
    for number in range(min(upto, 4)):
        yield {"at": number, "secret": SECRET}


@tool
async def fails() -> None:
    """Fails."""
    raise ToolError("failed on purpose")


@tool(approval=True)
async def send(to: str) -> str:
    """Must be allowed."""
    return f"sent to {to}"


@tool
async def huge(chars: int) -> str:
    """Gives a long text."""
    return "x" * min(chars, 400_000)


pick: Tool[..., Any] = Tool(name="pick", description="The client picks.", input={"type": "object"})


@dataclass
class Made:
    """A run: what the model says, turn by turn, and how many events are let through before it is cut off."""

    turns: list[list[Any]]
    inner: list[list[Any]] = field(default_factory=list)
    cut_after: int | None = None
    stopped: bool = False


@dataclass
class Recorded:
    """The events of a run, and with what it ended: a value or an error."""

    events: list[RunEvent]
    state: Conversation | None = None
    error: BaseException | None = None

    def encode(self, encoder: Any) -> bytes:
        body: bytes = encoder.open() + b"".join(map(encoder.event, self.events))
        ended: bytes = encoder.end(self.state) if self.error is None else encoder.error(self.error)
        return body + ended


FIRST_TRY = (
    TextDelta("Half a text"),
    ReasoningDelta("Half a thought"),
    ToolInputStart("half", "read"),
    ToolInputAbandoned("half", "retried", "it broke"),
    TurnRestarted("it broke"),
)


class Restarting:
    """A model whose streams break at once, and begin anew."""

    name = "restarting"

    def __init__(self, model: ScriptedModel) -> None:
        self._model = model

    def stream_turn(self, request: TurnRequest) -> Flow[Any, Any]:
        async def run(out: Sink[Any]) -> Any:
            async with self._model.stream_turn(request).open() as events:
                async for event in events:
                    await out.send(event)
                    for shown in FIRST_TRY if type(event) is TurnStarted else ():
                        await out.send(shown)
            return events.value

        return Flow(run)


def play(made: Made, *, restarts: bool = False) -> Recorded:
    """Run it, and write down what its consumer sees."""

    def delegate(p: str) -> Flow[RunEvent, str]:
        """An inner run."""
        inner = converse(ScriptedModel(*made.inner), Toolkit(read, fails, tally), (user(p),), max_turns=3)
        return inner.then(lambda state: state.ended or "")

    toolkit = Toolkit(read, tally, fails, send, huge, pick, tool(delegate))
    scripted = ScriptedModel(*made.turns)
    model: Any = Restarting(scripted) if restarts else scripted
    run = converse(model, toolkit, (user("go"),), max_turns=len(made.turns) + 1, authorize=from_verdicts({}))
    recorded = Recorded([])

    async def main() -> None:
        async with run.open() as events:
            async for event in events:
                recorded.events.append(event)
                if made.cut_after == len(recorded.events):
                    return
        recorded.state = events.value

    try:
        anyio.run(main)
    except Exception as error:
        recorded.error = error
    if recorded.state is None and recorded.error is None:
        recorded.error = RunStopped("it was stopped") if made.stopped else RuntimeError("lost")
    return recorded


# Strategies

TEXTS = st.sampled_from(("", "Hi", "a\nb\u2028c\U0001f600", "\ud83d half", "data: x\n\n"))
CALLS = st.one_of(
    st.builds(
        call,
        st.sampled_from(("read", "send", "delegate", "pick")),
        st.sampled_from(({"p": "x", "to": "Ann"}, {"p": SECRET}, {"to": "Bob"})),
        split=st.sampled_from((1, 3, 100)),
    ),
    st.builds(lambda chars: call("huge", {"chars": chars}), st.sampled_from((10, 400_000))),
    st.builds(lambda upto: call("tally", {"upto": upto}), st.integers(0, 4)),
    st.sampled_from((call("fails", {}), call("nothing", {}), call("read", '["no object"]'), call("read", "{bro"))),
)
PARTS = st.one_of(
    TEXTS,
    CALLS,
    st.builds(interleave, CALLS, CALLS),
    st.builds(ReasoningDelta, TEXTS, st.sampled_from(("trace", "summary"))),
    st.builds(RefusalDelta, TEXTS),
    st.sampled_from(
        (
            ProviderTool("w1", "search", {"q": SECRET}),
            ProviderTool("w1", "search", {"q": "x"}, [SECRET]),
            UnknownItem({"new": 1}, "anthropic"),
            ProviderError("no capacity"),
            RuntimeError(SECRET),
            stop("length"),
            stop("content_filter"),
        )
    ),
)
TURNS = st.lists(st.lists(PARTS, max_size=5), min_size=1, max_size=3)
RUNS = st.builds(Made, TURNS, TURNS, st.none() | st.integers(1, 30), st.booleans())
