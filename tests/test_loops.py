"""The loop, with a scripted model. The cases are those of `cases/loop.json` that need no other part."""

from typing import Any

import anyio
import msgspec
import pytest

from streamkit.conversation import Conversation
from streamkit.conversing import converse
from streamkit.errors import ModelError
from streamkit.execution.approval import Question, Undecided, Verdict
from streamkit.execution.execute import execute_all
from streamkit.flows.flow import Flow, Sink, flow
from streamkit.items import Message, ToolOutput, Usage, user
from streamkit.journal.memory import memory_journal
from streamkit.loops import Next, Stop, loop, next_state_from, stream_until_complete
from streamkit.parts import UsageReported
from streamkit.testing.grammar import check_grammar
from streamkit.testing.histories import check_items
from streamkit.testing.scripted import ScriptedModel, call, interleave, stop
from streamkit.tool_events import Output, RunEvent, ToolStarted
from streamkit.tools.decorators import tool
from streamkit.tools.toolkit import Toolkit
from streamkit.transcript import Transcript
from streamkit.turns import (
    ToolInputAbandoned,
    ToolInputDelta,
    ToolInputEvent,
    ToolInputStart,
    TurnRequest,
    TurnStarted,
)

from .calling import GUARD_SECONDS, collect


@tool
async def read(p: str = "a") -> str:
    """Reads a file."""
    return f"content of {p}"


@tool
async def search(query: str) -> str:
    """Searches."""
    return f"found {query}"


KIT = Toolkit(search, read)


async def seen(flow: Flow[RunEvent, Any]) -> tuple[list[RunEvent], Any]:
    collected, state = await collect(flow)
    check_grammar(collected)
    return collected, state


def texts(state: Conversation) -> list[str]:
    return [item.text for item in state.history if isinstance(item, Message | ToolOutput)]


async def test_a_run_goes_on_until_the_model_answers() -> None:
    model = ScriptedModel(["Let me look.", call("search", {"query": "x"}, split=3)], ["It ", "is x."])
    events, state = await seen(converse(model, KIT, (user("find x"),)))
    assert (state.ended, state.turns) == ("answer", 2)
    assert texts(state) == ["find x", "Let me look.", "found x", "It is x."]
    assert model.requests[1].history == state.history[:4]
    assert model.requests[0].tools == KIT.specs
    assert "".join(event.delta for event in events if isinstance(event, ToolInputDelta)) == '{"query":"x"}'


async def test_an_unknown_tool_is_told_with_the_names_there_are() -> None:
    model = ScriptedModel([call("serch"), call("read", {"p": "a"})], ["ok"])
    _, state = await seen(converse(model, KIT, (user("go"),)))
    wrong, right = (item for item in model.requests[1].history if isinstance(item, ToolOutput))
    assert (wrong.failed, wrong.text) == (True, "There is no tool serch. The tools are: search, read.")
    assert (right.failed, right.text) == (False, "content of a")
    assert (state.ended, texts(state)[-1]) == ("answer", "ok")


@pytest.mark.parametrize("name", ["nope", "read"])
async def test_at_the_limit_of_turns_nothing_dangles(name: str) -> None:
    model = ScriptedModel(*[[call(name)]] * 10)
    _, state = await seen(converse(model, KIT, (user("go"),), max_turns=4))
    assert (len(model.requests), state.ended, state.turns) == (4, "turn_limit", 4)
    check_items(state.history)
    goes_on = ScriptedModel(["Fine."])
    _, after = await seen(converse(goes_on, KIT, state.say(user("and now?"))))
    check_items(goes_on.requests[0].history)
    assert (after.ended, after.turns) == ("answer", 5)


async def test_cancelling_while_tools_run_leaves_a_usable_history() -> None:
    started: list[str] = []
    all_run = anyio.Event()

    async def sleep(name: str) -> None:
        started.append(name)
        if len(started) == 2:
            all_run.set()
        await anyio.sleep_forever()

    @tool
    async def quick() -> int:
        """Returns at once."""
        return 1

    @tool
    async def s1() -> None:
        """Sleeps."""
        await sleep("s1")

    @tool
    async def s2() -> None:
        """Sleeps."""
        await sleep("s2")

    model = ScriptedModel([call("quick"), call("s1"), call("s2")])
    transcript = Transcript((user("go"),))
    with anyio.CancelScope() as scope:
        async with converse(model, Toolkit(quick, s1, s2), (user("go"),)).tap(transcript.feed).open() as events:
            async for event in events:
                if isinstance(event, Output) and event.tool == "quick":
                    await all_run.wait()
                    scope.cancel()
    outputs = [item for item in transcript.history("The user cancelled.") if isinstance(item, ToolOutput)]
    assert [(output.tool, output.text) for output in outputs] == [
        ("quick", "1"), ("s1", "The user cancelled."), ("s2", "The user cancelled."),
    ]  # fmt: skip
    again = ScriptedModel(["ok"])
    await converse(again, KIT, (*transcript.history("The user cancelled."), user("go on")))
    check_items(again.requests[0].history)


@pytest.mark.parametrize("text", ["I", " \n"])
async def test_cancelling_while_arguments_are_written_leaves_the_text_only(text: str) -> None:
    model = ScriptedModel([text, call("read", '{"p": "a', split=4, ends=False), anyio.sleep_forever])
    transcript = Transcript((user("go"),))
    heard: list[ToolInputEvent] = []
    kit = Toolkit(tool(read.function, on_input=heard.append))
    with anyio.CancelScope() as scope:
        async with converse(model, kit, (user("go"),)).tap(transcript.feed).open() as events:
            async for event in events:
                if isinstance(event, ToolInputDelta) and event.delta == ': "a':
                    scope.cancel()
    assert isinstance(heard[-1], ToolInputAbandoned)
    assert heard[-1].reason == "incomplete"
    assert transcript.history() == ((user("go"), Message("assistant", "I")) if text == "I" else (user("go"),))


async def test_a_call_cut_by_the_token_limit_never_runs() -> None:
    model = ScriptedModel(["I will", call("read", '{"p', ends=False), stop("length")])
    events, state = await seen(converse(model, KIT, (user("go"),)))
    assert (state.ended, len(model.requests)) == ("length", 1)
    assert [event.reason for event in events if isinstance(event, ToolInputAbandoned)] == ["incomplete"]
    assert not any(isinstance(event, ToolStarted) for event in events)
    check_items(state.history)


async def test_text_before_a_call_is_no_final_answer() -> None:
    model = ScriptedModel(["\n", call("read")], ["It is noon"])
    _, state = await seen(converse(model, KIT, (user("go"),)))
    assert (state.turns, texts(state)[-1]) == (2, "It is noon")


async def test_a_stream_that_breaks_is_an_error_with_all_calls_abandoned() -> None:
    model = ScriptedModel(["First, open", call("read", '{"p', ends=False), ModelError("connection lost")])
    events: list[RunEvent] = []
    with pytest.raises(ModelError, match="connection lost") as caught:
        await converse(model, KIT, (user("go"),)).tap(events.append)
    check_grammar(events)
    assert isinstance(events[-1], ToolInputAbandoned)
    assert caught.value.turn is not None
    assert caught.value.turn.text == "First, open"


async def test_calls_of_a_turn_can_be_written_interleaved() -> None:
    both = interleave(call("read", {"p": "a"}, split=2), call("search", {"query": "b"}, split=2))
    events, state = await seen(converse(ScriptedModel([both], ["ok"]), KIT, (user("go"),)))
    ids = [event.call_id for event in events if isinstance(event, ToolInputDelta)]
    assert ids[:4] == ["call_1", "call_2", "call_1", "call_2"]
    assert texts(state)[1:] == ["content of a", "found b", "ok"]


async def test_usage_of_inner_runs_counts_also_when_they_are_awaited() -> None:
    inner = ScriptedModel(["fine", UsageReported(Usage(10, 1))])

    @tool
    async def ask() -> str:
        """Asks another model and drops its events."""
        return (await inner.stream_turn(TurnRequest((user("?"),)))).text

    outer = ScriptedModel([call("ask"), UsageReported(Usage(100, 5))], ["ok", UsageReported(Usage(200, 5))])
    _, state = await seen(converse(outer, Toolkit(ask), (user("go"),)))
    assert state.usage == Usage(310, 11)


async def test_a_run_with_a_pending_call_ends_and_asks_the_model_no_more() -> None:
    async def undecided(question: Question) -> Verdict:
        return Undecided()

    model = ScriptedModel([call("read"), call("nope")])
    async with converse(model, KIT, (user("go"),), authorize=undecided).open() as events:
        collected = [event async for event in events]
    state = events.value
    check_grammar(collected, pending=["call_1"])
    assert (state.ended, [result.call_id for result in state.results]) == ("pending", ["call_1", "call_2"])
    assert (await converse(model, KIT, state, authorize=undecided)) == state
    assert len(model.requests) == 1


@pytest.mark.parametrize("history", ["find x", user("find x"), ["find x"], (), None])
def test_a_history_that_is_none_is_refused_before_a_model_is_asked(history: Any) -> None:
    with pytest.raises(TypeError, match="history is a sequence of items"):
        _ = converse(ScriptedModel(["ok"]), KIT, history)


# steps


async def test_the_combinators_say_the_same_in_expressions() -> None:
    model = ScriptedModel([call("read")], ["done"])

    def step(state: Conversation) -> Flow[RunEvent, Next[Conversation] | Stop[Conversation]]:
        return stream_until_complete(
            KIT.listen(model.stream_turn(TurnRequest(state.history, KIT.specs))),
            lambda turn: (
                next_state_from(execute_all(KIT, turn.calls), lambda results: state.add(turn, results))
                if turn.wants_more
                else Stop(state.add(turn))
            ),
        )

    _, state = await seen(loop(step, Conversation((user("go"),))))
    assert (state.ended, state.turns) == ("answer", 2)


async def test_a_state_of_ones_own_may_be_anything() -> None:
    async def step(out: Sink[RunEvent], number: int) -> Next[int] | Stop[int]:
        return Next(number + 1) if number < 5 else Stop(number)

    assert await loop(step, 0) == 5


async def test_anything_but_next_or_stop_is_an_error_that_says_so() -> None:
    async def step(out: Sink[RunEvent], number: int) -> Any:
        return number

    with pytest.raises(TypeError, match=r"a step returns Next\(state\) or Stop\(state\), not int"):
        await loop(step, 0)


async def test_a_loop_that_never_suspends_hears_cancellation() -> None:
    async def step(out: Sink[RunEvent], number: int) -> Next[int] | Stop[int]:
        if number == 100:
            scope.cancel()
        return Next(number + 1)

    with anyio.fail_after(GUARD_SECONDS), anyio.CancelScope() as scope:
        await loop(step, 0)
    assert scope.cancelled_caught


@pytest.mark.parametrize("ends", ["stops", "raises"])
async def test_a_call_that_the_step_forgets_is_abandoned_as_discarded(ends: str) -> None:
    model = ScriptedModel([call("read"), call("search", {"query": "x"})])
    heard: list[ToolInputEvent] = []
    kit = Toolkit(tool(read.function, on_input=heard.append), search)

    async def step(out: Sink[RunEvent], state: Conversation) -> Next[Conversation] | Stop[Conversation]:
        turn = await out.forward(kit.listen(model.stream_turn(TurnRequest(state.history, kit.specs))))
        await execute_all(kit, turn.calls[1:])  # awaited: it counts as taken all the same
        if ends == "raises":
            raise LookupError
        return Stop(state)

    events: list[RunEvent] = []
    run = loop(step, Conversation((user("go"),))).tap(events.append)
    if ends == "raises":
        with pytest.raises(LookupError):
            await run
    else:
        await run
    discarded = [event for event in events if isinstance(event, ToolInputAbandoned)]
    assert [(event.call_id, event.reason) for event in discarded] == [("call_1", "discarded")]
    assert heard[-1] == discarded[0]


async def test_all_forgotten_calls_are_told_of_however_slow_the_consumer_is() -> None:
    model = ScriptedModel([call("read") for _ in range(40)])

    async def step(out: Sink[RunEvent], state: Conversation) -> Next[Conversation] | Stop[Conversation]:
        await out.forward(model.stream_turn(TurnRequest(state.history, KIT.specs)))
        raise LookupError

    events: list[RunEvent] = []
    with pytest.raises(LookupError):
        async with loop(step, Conversation((user("go"),))).open() as opened:
            async for event in opened:
                events.append(event)
                await anyio.sleep(0.02 if isinstance(event, ToolInputAbandoned) else 0)
    check_grammar(events)
    assert sum(isinstance(event, ToolInputAbandoned) for event in events) == 40


async def test_a_model_that_forgets_to_close_its_calls_is_helped() -> None:
    @flow
    async def turn(out: Sink[RunEvent]) -> None:
        await out.send(TurnStarted("t", "m"))
        await out.send(ToolInputStart("c", "read"))

    async def step(out: Sink[RunEvent], state: int) -> Next[int] | Stop[int]:
        await out.forward(turn())
        return Stop(state)

    events: list[RunEvent] = []
    await loop(step, 0).tap(events.append)
    assert events[-1] == ToolInputAbandoned("c", "incomplete")


async def test_a_parameter_with_a_default_makes_no_other_step() -> None:
    model = ScriptedModel(["ok"])

    def step(state: Conversation, model: ScriptedModel = model) -> Flow[RunEvent, Any]:
        return model.stream_turn(TurnRequest(state.history)).then(lambda turn: Stop(state.add(turn)))

    assert (await loop(step, Conversation((user("go"),)))).ended == "answer"


async def test_at_the_limit_a_malformed_call_keeps_the_grammar() -> None:
    _, state = await seen(converse(ScriptedModel([call("read", "[1]")]), KIT, (user("go"),), max_turns=1))
    assert state.ended == "turn_limit"
    check_items(state.history)


async def test_equal_ids_of_an_inner_run_touch_nothing_outside() -> None:
    inner_model = ScriptedModel([call("read", call_id="same")], ["inner answer"])

    @tool
    async def ask(out: Sink[RunEvent]) -> str:
        """Runs an inner loop whose call has the id of this one."""
        state = await out.forward(converse(inner_model, KIT, (user("?"),)))
        return texts(state)[-1]

    outer = ScriptedModel([call("ask", call_id="same")], ["ok"])
    events, state = await seen(converse(outer, Toolkit(ask), (user("go"),)))
    assert texts(state) == ["go", "inner answer", "ok"]
    assert not any(isinstance(event, ToolInputAbandoned) for event in events)


async def test_a_state_that_has_ended_stops_the_loop() -> None:
    async def step(out: Sink[RunEvent], state: Conversation) -> Next[Conversation] | Stop[Conversation]:
        return Next(msgspec.structs.replace(state, ended="budget"))

    assert (await loop(step, Conversation())).ended == "budget"


async def test_a_run_that_has_ended_asks_nobody_again_when_it_goes_on() -> None:
    journal, model = memory_journal(), ScriptedModel(["Hello."])

    async def step(out: Sink[RunEvent], state: Conversation) -> Next[Conversation] | Stop[Conversation]:
        return Stop(state.add(await out.forward(model.stream_turn(TurnRequest(state.history)))))

    for _ in range(2):  # the second time as after a crash behind the last state
        async with journal.drive("r") as run:
            state = await loop(step, run.conversation or Conversation((user("Hi"),)), journal=run)
            assert (texts(state), state.ended) == (["Hi", "Hello."], "answer")


async def test_a_step_that_forgot_the_sink_is_told_so() -> None:
    async def step(state: int) -> Stop[int]:
        return Stop(state)

    forgotten: Any = step
    with pytest.raises(TypeError, match="takes the sink first"):
        await loop(forgotten, 1)


async def test_a_step_that_is_not_async_is_told() -> None:
    def step(out: Sink[Any], state: Conversation) -> Any:
        return Stop(state)

    with pytest.raises(TypeError, match=r"a step is an async function of \(out, state\), but returned a Stop"):
        await loop(step, Conversation())
