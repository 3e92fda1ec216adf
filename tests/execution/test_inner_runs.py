"""Questions inside of sub-agents, where nobody is there to answer: the run ends, is stored, and goes on."""

from typing import Any

import anyio
import msgspec
import pytest

from streamkit import (
    Allow,
    ApprovalRequested,
    Conversation,
    Deny,
    Flow,
    RunEvent,
    Sink,
    ToolContext,
    Toolkit,
    Value,
    Verdict,
    VerdictRefused,
    converse,
    from_verdicts,
    tool,
    user,
)
from streamkit.execution.execute import execute_all
from streamkit.items import ToolCall, ToolOutput, Usage
from streamkit.journal.entry import CallPaused
from streamkit.journal.journals import Journal
from streamkit.journal.memory import memory_journal
from streamkit.parts import UsageReported
from streamkit.testing import ScriptedModel, call, check_grammar
from streamkit.tool_events import Failure, Output, Pending, ToolStarted, walk

from ..attacks import ticking

deeds: list[str] = []


@pytest.fixture(autouse=True)
def no_deeds() -> None:
    deeds.clear()


@tool(approval=True)
async def send(to: str) -> str:
    """Send a mail."""
    deeds.append(f"send {to}")
    return f"sent to {to}"


@tool
async def look(at: str) -> str:
    """Look at something."""
    deeds.append(f"look {at}")
    return f"a {at}"


def assistant(model: ScriptedModel, **options: Any) -> Any:
    """A tool that is a run of its own."""

    @tool(name="assistant")
    def ask(task: str) -> Flow[RunEvent, str]:
        """Ask an assistant."""
        deeds.append("assistant")
        return converse(model, Toolkit(send, look), (user(task),), **options).then(lambda state: state.text)

    return ask


def inner_model() -> ScriptedModel:
    return ScriptedModel(
        [call("look", {"at": "lake"}), call("send", {"to": "Ann"}), call("send", {"to": "Bob"})], ["Both have mail."]
    )


def outer_model(*tools: str) -> ScriptedModel:
    return ScriptedModel([call(name, {"task": "mail"}) for name in tools or ("assistant",)], ["Done."])


def stored(state: Conversation) -> Conversation:
    return msgspec.json.decode(msgspec.json.encode(state), type=Conversation)


async def go_on(
    model: ScriptedModel, toolkit: Toolkit, state: Conversation, verdicts: dict[str, Verdict], **options: Any
) -> tuple[list[RunEvent], Conversation]:
    state = stored(state)
    flow = converse(model, toolkit, state, authorize=from_verdicts(verdicts, state), **options)
    async with flow.open() as events:
        return [event async for event in events], events.value


async def begin(model: ScriptedModel, toolkit: Toolkit, **options: Any) -> Conversation:
    return await converse(model, toolkit, (user("Go"),), authorize=from_verdicts({}), **options)


def ids(state: Conversation) -> dict[str, str]:
    """The execution ids of what waits, by the arguments."""
    return {call.arguments: execution_id for execution_id, call in state.undecided.items()}


ANN, BOB = '{"to":"Ann"}', '{"to":"Bob"}'


async def test_a_call_inside_of_which_one_waits_waits_too() -> None:
    outer, inner = outer_model(), inner_model()
    flow = converse(outer, Toolkit(assistant(inner)), (user("Go"),), authorize=from_verdicts({}))
    async with flow.open() as events:
        seen = [event async for event in events]
    state = events.value
    assert state.ended == "pending"
    assert len(outer.requests) == 1
    asked = [walk(event) for event in seen]
    questions = {each.execution_id: path for path, each in asked if isinstance(each, ApprovalRequested)}
    assert state.undecided.keys() == questions.keys()
    assert all(execution_id.startswith(f"{next(iter(state.waiting))}/") for execution_id in questions)
    assert set(questions.values()) == {(state.turn.calls[0].call_id,)} if state.turn else False
    assert not [event for event in seen if isinstance(event, Output)]
    check_grammar(seen, pending=[each.call_id for each in state.waiting.values()])


async def test_verdicts_by_their_paths_let_it_go_on_where_it_stood() -> None:
    outer, inner = outer_model(), inner_model()
    toolkit = Toolkit(assistant(inner))
    state = await begin(outer, toolkit)
    assert deeds == ["assistant", "look lake"]
    _, state = await go_on(outer, toolkit, state, {ids(state)[BOB]: Allow()})
    assert state.ended == "pending"
    assert list(ids(state)) == [ANN]
    events, state = await go_on(outer, toolkit, state, {ids(state)[ANN]: Deny("not her")})
    assert state.ended == "answer"
    assert state.paused == {}
    assert [deed for deed in deeds if deed != "assistant"] == ["look lake", "send Bob"]
    assert len(inner.requests) == 2
    (result,) = [event.result for event in events if isinstance(event, Output)]
    assert isinstance(result, Value)
    assert result.value == "Both have mail."
    assert [event.attempt for event in events if isinstance(event, ToolStarted)] == [3]
    check_grammar(events)


async def test_the_turns_inside_are_paid_for_once() -> None:
    inner = ScriptedModel(
        [call("send", {"to": "Ann"}), UsageReported(Usage(1, 2))], ["She has mail.", UsageReported(Usage(10, 20))]
    )
    outer, toolkit = outer_model(), Toolkit(assistant(inner))
    state = await begin(outer, toolkit)
    assert state.usage == Usage(1, 2)
    _, state = await go_on(outer, toolkit, state, {each: Allow() for each in state.undecided})
    assert state.usage == Usage(11, 22)


async def test_what_was_allowed_with_other_arguments_goes_on_with_them() -> None:
    seen: list[str] = []
    inner = inner_model()

    @tool(approval=True)
    def assistant(task: str) -> Flow[RunEvent, str]:
        """Ask an assistant."""
        seen.append(task)
        return converse(inner, Toolkit(send, look), (user(task),)).then(lambda state: state.text)

    outer, toolkit = outer_model(), Toolkit(assistant)
    state = await begin(outer, toolkit)
    assert (seen, len(state.undecided)) == ([], 1)
    _, state = await go_on(outer, toolkit, state, {each: Allow({"task": "write"}) for each in state.undecided})
    events, state = await go_on(outer, toolkit, state, {each: Allow() for each in state.undecided})
    assert state.ended == "answer"
    assert seen == ["write", "write"]
    assert not [event for event in events if isinstance(event, ApprovalRequested)]


async def test_what_an_inner_run_is_not_told_the_outer_one_decides() -> None:
    asked: list[tuple[str, Any]] = []

    async def decide(question: Any) -> Verdict:
        asked.append((question.call.name, question.context))
        return Deny("no") if question.call.name == "send" else Allow()

    model = ScriptedModel([call("send", {"to": "Ann"})], ["It was denied."])
    toolkit = Toolkit(assistant(model))
    state = await converse(outer_model(), toolkit, (user("Go"),), authorize=decide, context="mine")
    assert asked == [("assistant", "mine"), ("send", "mine")]
    assert (state.ended, deeds) == ("answer", ["assistant"])


async def test_two_inner_runs_of_one_call_go_on_each_where_it_stood() -> None:
    first = ScriptedModel([call("look", {"at": "sea"})], ["A sea."])
    second = ScriptedModel([call("send", {"to": "Ann"})], ["Ann has mail."])

    @tool
    async def assistant(out: Sink[RunEvent], task: str) -> str:
        """Ask two assistants, one after the other."""
        one = await out.forward(converse(first, Toolkit(look), (user(task),)))
        two = await out.forward(converse(second, Toolkit(send), (user(task), *one.history[1:])))
        return f"{one.text} {two.text}"

    outer, toolkit = outer_model(), Toolkit(assistant)
    state = await begin(outer, toolkit)
    _, state = await go_on(outer, toolkit, state, {each: Allow() for each in state.undecided})
    assert state.text == "Done."
    assert [item.text for item in state.history if isinstance(item, ToolOutput)] == ["A sea. Ann has mail."]
    assert (deeds, len(first.requests), len(second.requests)) == (["look sea", "send Ann"], 2, 2)


async def test_runs_nested_three_deep_go_on() -> None:
    leaf = inner_model()
    middle = ScriptedModel([call("assistant", {"task": "mail"})], ["Middle."])
    innermost = assistant(leaf)

    @tool
    def chief(task: str) -> Flow[RunEvent, str]:
        """Ask somebody who asks somebody."""
        return converse(middle, Toolkit(innermost), (user(task),)).then(lambda state: state.text)

    outer, toolkit = outer_model("chief"), Toolkit(chief)
    state = await begin(outer, toolkit)
    assert [each.count("/") for each in state.undecided] == [2, 2]
    _, state = await go_on(outer, toolkit, state, {ids(state)[ANN]: Allow()})
    _, state = await go_on(outer, toolkit, state, {ids(state)[BOB]: Allow()})
    assert state.ended == "answer"
    assert [deed for deed in deeds if deed != "assistant"] == ["look lake", "send Ann", "send Bob"]
    assert (len(outer.requests), len(middle.requests), len(leaf.requests)) == (2, 2, 2)


async def test_a_verdict_on_the_outer_call_or_an_unknown_path_is_refused() -> None:
    state = await begin(outer_model(), Toolkit(assistant(inner_model())))
    for strange in (next(iter(state.waiting)), f"{next(iter(state.waiting))}/zz.0"):
        with pytest.raises(VerdictRefused, match="no call waits"):
            from_verdicts({strange: Allow()}, state)


async def test_a_tool_that_begins_its_inner_run_otherwise_fails_and_asks_nobody_again() -> None:
    histories = iter(["at noon", "at one"])
    model = ScriptedModel([call("send", {"to": "Ann"})], [call("send", {"to": "Ann"})])

    @tool
    def assistant(task: str) -> Flow[RunEvent, str]:
        """Ask an assistant."""
        return converse(model, Toolkit(send), (user(f"{task} {next(histories)}"),)).then(lambda state: state.text)

    outer, toolkit = outer_model(), Toolkit(assistant)
    state = await begin(outer, toolkit)
    events, state = await go_on(outer, toolkit, state, {each: Allow() for each in state.undecided})
    (result,) = [event.result for event in events if isinstance(event, Output)]
    assert isinstance(result, Failure)
    assert "starts with another history" in str(result.cause)
    assert (deeds, len(model.requests), state.ended) == ([], 1, "answer")


async def test_a_tool_that_fails_since_its_inner_run_waits_waits_itself() -> None:
    model = inner_model()

    @tool
    def assistant(task: str) -> Flow[RunEvent, str]:
        """Ask an assistant."""

        def answered(state: Conversation) -> str:
            assert state.ended == "answer"
            return state.text

        return converse(model, Toolkit(send, look), (user(task),)).then(answered)

    outer, toolkit = outer_model(), Toolkit(assistant)
    state = await begin(outer, toolkit)
    assert state.ended == "pending"
    _, state = await go_on(outer, toolkit, state, {each: Allow() for each in state.undecided})
    assert (state.ended, sorted(deeds)) == ("answer", ["look lake", "send Ann", "send Bob"])


async def test_calls_that_a_tool_runs_without_a_loop_are_waited_for_too() -> None:
    @tool
    async def agent(context: ToolContext[None], out: Sink[RunEvent]) -> str:
        """Calls of its own."""
        mine = [ToolCall("a", "send", '{"to": "Ann"}', "t", 0)]
        (result,) = await out.forward(execute_all(Toolkit(send), mine))
        return type(result).__name__

    outer = ToolCall("o", "agent", "{}", "o", 0)
    assert await execute_all(Toolkit(agent), [outer], authorize=from_verdicts({})) == (Pending("o", "agent"),)
    (result,) = await execute_all(Toolkit(agent), [outer], authorize=from_verdicts({"o.0/t.0": Allow()}))
    assert isinstance(result, Value)
    assert deeds == ["send Ann"]


async def test_inner_runs_that_go_on_at_once_each_go_on_where_they_stood() -> None:
    models = {to: ScriptedModel([call("look", {"at": to}), call("send", {"to": to})], [f"{to} done"]) for to in "AB"}

    @tool
    async def assistant(out: Sink[RunEvent], task: str) -> list[str]:
        """Ask two assistants at once."""
        texts: dict[str, str] = {}

        async def one(to: str) -> None:
            with out.branch() as mine:
                state = await mine.forward(converse(models[to], Toolkit(send, look), (user(f"{task} {to}"),)))
            texts[to] = state.text

        async with anyio.create_task_group() as tasks:
            for to in models:
                tasks.start_soon(one, to)
        return [texts[to] for to in models]

    outer, toolkit = outer_model(), Toolkit(assistant)
    state = await begin(outer, toolkit)
    assert sorted(deeds) == ["look A", "look B"]
    a, b = sorted(ids(state))
    _, state = await go_on(outer, toolkit, state, {ids(state)[b]: Allow()})
    assert sorted(deeds) == ["look A", "look B", "send B"]
    _, state = await go_on(outer, toolkit, state, {ids(state)[a]: Allow()})
    assert [item.text for item in state.history if isinstance(item, ToolOutput)] == ['["A done","B done"]']
    assert sorted(deeds) == ["look A", "look B", "send A", "send B"]


@ticking
async def test_a_time_limit_of_an_inner_run_that_goes_on_loses_nothing() -> None:
    async def never() -> None:
        await anyio.sleep_forever()

    seen: list[Conversation] = []
    model = ScriptedModel([call("look", {"at": "sea"}), call("send", {"to": "Ann"})], [never])

    @tool
    async def assistant(out: Sink[RunEvent], task: str) -> str:
        """Ask an assistant that has little time."""
        seen.append(await out.forward(converse(model, Toolkit(send, look), (user(task),), timeout_seconds=1000)))
        return "ended"

    outer, toolkit = outer_model(), Toolkit(assistant)
    state = await begin(outer, toolkit)
    _, state = await go_on(outer, toolkit, state, {each: Allow() for each in state.undecided})
    assert seen[-1].ended == "budget"
    assert [item.text for item in seen[-1].history if isinstance(item, ToolOutput)] == ["a sea", "sent to Ann"]


async def test_runs_that_begin_with_one_history_are_told_apart_by_whom_they_ask() -> None:
    def persona(name: str) -> ScriptedModel:
        return ScriptedModel([call("send", {"to": name})], [f"{name}."])

    models = {name: persona(name) for name in "ABCD"}
    begins = iter((list("ABCD"), list("DCBA")))

    @tool
    async def assistant(out: Sink[RunEvent], task: str) -> str:
        """Ask four, in no certain order."""
        texts = []
        for name in next(begins):
            inner = converse(models[name], Toolkit(send), (user(task),), instructions=f"You are {name}.")
            texts.append((await out.forward(inner)).text)
        return " ".join(texts)

    outer, toolkit = outer_model(), Toolkit(assistant)
    state = await begin(outer, toolkit)
    _, state = await go_on(outer, toolkit, state, {each: Allow() for each in state.undecided})
    assert [item.text for item in state.history if isinstance(item, ToolOutput)] == ["D. C. B. A."]
    assert deeds == ["send D", "send C", "send B", "send A"]


# With a journal


async def drive(
    journal: Journal, model: ScriptedModel, toolkit: Toolkit, verdicts: dict[str, Verdict], context: Any = None
) -> tuple[list[RunEvent], Conversation]:
    async with journal.drive("r") as run:
        start = run.conversation or (user("Go"),)
        flow = converse(model, toolkit, start, journal=run, authorize=from_verdicts(verdicts), context=context)
        async with flow.open() as events:
            return [event async for event in events], events.value


async def test_a_run_that_is_written_down_goes_on_inside_too() -> None:
    journal, outer, inner = memory_journal(), outer_model(), inner_model()
    toolkit = Toolkit(assistant(inner))
    _, state = await drive(journal, outer, toolkit, {})
    _, state = await drive(journal, outer, toolkit, {ids(state)[BOB]: Allow()})
    _, state = await drive(journal, outer, toolkit, {ids(state)[ANN]: Allow()})
    assert state.ended == "answer"
    assert [deed for deed in deeds if deed != "assistant"] == ["look lake", "send Bob", "send Ann"]
    async with journal.follow("r").open() as followed:
        check_grammar([each.event async for each in followed])


async def test_inner_runs_that_are_written_down_go_on_as_themselves() -> None:
    journal, outer, inner = memory_journal(), outer_model(), inner_model()

    @tool(name="assistant")
    def ask(context: ToolContext[Journal], task: str) -> Flow[RunEvent, str]:
        """Ask an assistant, whose run is written down."""

        async def work(out: Sink[RunEvent]) -> str:
            async with context.context.drive(context.execution_id) as run:
                start = run.conversation or (user(task),)
                return (await out.forward(converse(inner, Toolkit(send, look), start, journal=run))).text

        return Flow(work)

    toolkit = Toolkit(ask)
    _, state = await drive(journal, outer, toolkit, {}, journal)
    _, state = await drive(journal, outer, toolkit, {ids(state)[BOB]: Allow()}, journal)
    _, state = await drive(journal, outer, toolkit, {ids(state)[ANN]: Deny("no")}, journal)
    assert state.ended == "answer"
    assert deeds == ["look lake", "send Bob"]


async def test_a_call_that_was_paused_and_then_cut_off_is_told() -> None:
    journal, outer, inner = memory_journal(), outer_model(), inner_model()
    toolkit = Toolkit(assistant(inner))
    _, state = await drive(journal, outer, toolkit, {})

    @tool(name="assistant")
    async def endless(task: str) -> str:
        """Ask an assistant, until the process is gone."""
        await anyio.sleep_forever()
        return task

    async with journal.drive("r") as run:
        assert run.conversation is not None
        async with converse(outer, Toolkit(endless), run.conversation, journal=run).open() as events:
            async for event in events:
                if isinstance(event, ToolStarted):
                    break
    seen, state = await drive(journal, outer, toolkit, {})
    (result,) = [event.result for event in seen if isinstance(event, Output)]
    assert isinstance(result, Failure)
    assert (result.kind, state.ended) == ("interrupted", "answer")


@pytest.mark.parametrize(("hidden", "secret"), [("send", b"Ann"), ("assistant", b'"mail')])
async def test_what_is_hidden_stays_hidden_where_a_call_waits_inside(hidden: str, secret: bytes) -> None:
    def redact(name: str, value: Any) -> Any:
        return "***" if name == hidden else value

    journal, outer, inner = memory_journal(redact=redact), outer_model(), inner_model()
    toolkit = Toolkit(assistant(inner))
    await drive(journal, outer, toolkit, {})
    assert secret not in msgspec.json.encode(await journal.store.read("r"))
    async with journal.drive("r") as run:
        state = run.conversation
    assert state is not None
    _, state = await drive(journal, outer, toolkit, {each: Allow() for each in state.undecided})
    (result,) = [item for item in state.history if isinstance(item, ToolOutput)]
    assert (deeds.count("send Ann"), state.ended) == (0, "answer")
    assert ("may have happened" in result.text) == (hidden == "assistant")


async def lose_what_follows_the_pause(journal: Journal, run_id: str) -> None:
    """As if the process had died before it wrote where the run stands."""
    entries = [each.entry for each in await journal.store.read(run_id)]
    last = max(number for number, entry in enumerate(entries) if isinstance(entry, CallPaused))
    store: Any = journal.store
    store._runs[run_id] = store._runs[run_id][: last + 1]


async def test_a_pause_that_was_written_down_last_is_one_inside_too() -> None:
    """Both the outer and the inner run end there, as if the process had died before it wrote where they stood."""
    journal, outer = memory_journal(), outer_model("chief")
    middle, leaf = ScriptedModel([call("assistant", {"task": "mail"})], ["Middle."]), inner_model()

    @tool
    def chief(context: ToolContext[Journal], task: str) -> Flow[RunEvent, str]:
        """Ask somebody who asks somebody, in a run that is written down."""

        async def work(out: Sink[RunEvent]) -> str:
            async with context.context.drive(context.execution_id) as run:
                start = run.conversation or (user(task),)
                return (await out.forward(converse(middle, Toolkit(assistant(leaf)), start, journal=run))).text

        return Flow(work)

    toolkit = Toolkit(chief)
    _, state = await drive(journal, outer, toolkit, {}, journal)
    for run_id in ("r", *state.waiting):
        await lose_what_follows_the_pause(journal, run_id)
    _, state = await drive(journal, outer, toolkit, {each: Allow() for each in state.undecided}, journal)
    assert state.ended == "answer"
    assert [item.text for item in state.history if isinstance(item, ToolOutput)] == ["Middle."]
    assert sorted(deed for deed in deeds if deed != "assistant") == ["look lake", "send Ann", "send Bob"]


async def test_what_was_used_before_a_pause_that_was_written_down_last_is_counted() -> None:
    spent = UsageReported(Usage(10, 1))
    journal, outer = memory_journal(), outer_model()
    inner = ScriptedModel([call("send", {"to": "Ann"}), call("send", {"to": "Bob"}), spent], ["Both.", spent])
    toolkit = Toolkit(assistant(inner))
    _, state = await drive(journal, outer, toolkit, {})
    await lose_what_follows_the_pause(journal, "r")
    _, state = await drive(journal, outer, toolkit, {ids(state)[BOB]: Allow()})
    await lose_what_follows_the_pause(journal, "r")
    _, state = await drive(journal, outer, toolkit, {ids(state)[ANN]: Allow()})
    assert (state.ended, state.usage, state.used.tokens) == ("answer", Usage(20, 2), 22)
