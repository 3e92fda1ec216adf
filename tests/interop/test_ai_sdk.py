"""Clients on the AI SDK, as its users write them, against a real server: they read whatever a run tells, and answer."""

import json
from collections.abc import Callable, Sequence
from typing import Any

import anyio
import pytest

from streamkit import (
    Flow,
    RunEvent,
    Sink,
    Tool,
    ToolError,
    ToolInputAbandoned,
    ToolInputAvailable,
    ToolInputDelta,
    ToolInputStart,
    Toolkit,
    converse,
    flow,
    last,
    streaming_tool,
    tool,
    user,
)
from streamkit.errors import ProviderError, RunStopped
from streamkit.journal.memory import memory_journal
from streamkit.testing import ScriptedModel, call, interleave, stop
from streamkit.web import RunRequest, app

from ..wire.runs import Restarting
from .parts import needs_node
from .serving import run_node, serve

pytestmark = needs_node

Json = dict[str, Any]
Start = Callable[[RunRequest], Flow[RunEvent, Any]]


@streaming_tool(reduce=last(dict))
async def fetch(name: str) -> Any:
    """Fetches a file."""
    for percent in (50, 100):
        yield {"name": name, "percent": percent}


@tool
async def fails() -> None:
    """Fails."""
    raise ToolError("failed on purpose")


@tool
async def huge() -> str:
    """Gives a long text."""
    return "x" * 50_000_000


@tool(approval=True)
async def send(to: str) -> str:
    """Must be allowed."""
    return f"sent to {to}"


@tool
def delegate(task: str) -> Flow[RunEvent, str]:
    """An inner run."""
    inner = ScriptedModel(["Let me see. ", call("fetch", {"name": "inner"}, split=4)], ["Seen."])
    return converse(inner, Toolkit(fetch), (user(task),)).then(lambda state: state.ended or "")


where: Tool[..., Any] = Tool(name="where", description="Where the person is.", input={"type": "object"})
TOOLKIT = Toolkit(fetch, fails, huge, send, delegate, where)


def answered_by(*turns: Any, model: Any = None) -> Start:
    """A server whose model says these turns, over all its requests."""
    scripted = model or ScriptedModel(*turns)
    return lambda run: converse(
        scripted, TOOLKIT, run.conversation, authorize=run.authorize, max_turns=6, journal=run.journal
    )


def tells(events: Sequence[RunEvent], error: Exception | None = None) -> Start:
    """A server whose runs are these events, and then maybe an error."""

    @flow
    async def run(out: Sink[RunEvent]) -> None:
        for event in events:
            await out.send(event)
        if error is not None:
            raise error

    return lambda _: run()


def read(start: Start, *plan: Json, script: str = "ai_sdk.mjs") -> Json:
    with serve(app(start)) as url:
        seen: Json = run_node(script, f"{url}/ai-sdk", json.dumps(plan))
    return seen


def calls_in(message: Json) -> dict[str, Json]:
    return {part["toolCallId"]: part for part in message["parts"] if "toolCallId" in part}


def text_of(message: Json) -> str:
    return "".join(part["text"] for part in message["parts"] if part["type"] == "text")


@pytest.mark.parametrize("script", ["ai_sdk.mjs", "use_chat.mjs"])
def test_calls_side_by_side_are_written_run_and_read(script: str) -> None:
    model = answered_by(
        ["I look. ", interleave(call("fetch", {"name": "a"}, split=3), call("fetch", {"name": "b"})), call("fails")],
        ["Done \u2028 \U0001f600"],
    )  # fmt: skip
    seen = read(model, {"say": "go"}, script=script)
    assert seen["errors"] == []
    message = seen["messages"][-1]
    assert text_of(message) == "I look. Done \u2028 \U0001f600"
    first, second, third = calls_in(message).values()
    assert (first["input"], first["output"]) == ({"name": "a"}, {"name": "a", "percent": 100})
    assert (second["input"], second["output"]) == ({"name": "b"}, {"name": "b", "percent": 100})
    assert (third["state"], third["errorText"]) == ("output-error", "failed on purpose")
    assert not any(call.get("preliminary") for call in (first, second))


def test_a_call_goes_through_its_states() -> None:
    seen = read(answered_by([call("fetch", {"name": "a"})], ["Done."]), {"say": "go"})
    assert seen["states"]["fetch"] == [
        "input-streaming",
        "input-available",
        'output-available {"name":"a","percent":50}',
        'output-available {"name":"a","percent":100}',
        "output-available",
    ]


@pytest.mark.parametrize("script", ["ai_sdk.mjs", "use_chat.mjs"])
def test_abandoned_calls_are_errors_with_their_reasons(script: str) -> None:
    events: list[RunEvent] = []
    for reason in ("incomplete", "discarded", "malformed"):
        events += [ToolInputStart(reason, "fetch"), ToolInputDelta(reason, '{"name":"a')]
        events += [ToolInputAvailable(reason, '{"name":"a"}')] if reason == "discarded" else []
        events += [ToolInputAbandoned(reason, reason, "because")]
    seen = read(tells([*events, ToolInputStart("open", "fetch")]), {"say": "go"}, script=script)
    assert seen["errors"] == []
    assert {
        call_id: (part["state"], part["errorText"]) for call_id, part in calls_in(seen["messages"][-1]).items()
    } == {
        "incomplete": ("output-error", "incomplete: because"),
        "discarded": ("output-error", "discarded: because"),
        "malformed": ("output-error", "malformed: because"),
        "open": ("output-error", "incomplete: the run has ended"),
    }


def test_a_call_that_the_token_limit_cut_is_one() -> None:
    seen = read(answered_by([call("fetch", '{"name":"a', ends=False), stop("length")]), {"say": "go"})
    (part,) = calls_in(seen["messages"][-1]).values()
    assert part["errorText"].startswith("incomplete: ")


def test_a_turn_that_is_begun_anew_leaves_nothing_behind() -> None:
    model = answered_by(model=Restarting(ScriptedModel(["Whole. ", call("fetch", {"name": "a"})], ["Done."])))
    message = read(model, {"say": "go"})["messages"][-1]
    assert text_of(message) == "Whole. Done."
    assert [part["state"] for part in calls_in(message).values()] == ["output-available"]


@pytest.mark.parametrize("script", ["ai_sdk.mjs", "use_chat.mjs"])
def test_an_error_in_the_middle_is_heard_and_what_came_before_stays(script: str) -> None:
    seen = read(answered_by(["Hello", ProviderError("no capacity")]), {"say": "go"}, script=script)
    assert [error.removeprefix("Error: ") for error in seen["errors"]] == ["no capacity"]
    assert text_of(seen["messages"][-1]) == "Hello"


@pytest.mark.parametrize("script", ["ai_sdk.mjs", "use_chat.mjs"])
def test_a_run_that_was_stopped_ends_quietly(script: str) -> None:
    events: list[RunEvent] = [ToolInputStart("c1", "fetch")]
    seen = read(tells(events, RunStopped("enough")), {"say": "go"}, script=script)
    assert seen["errors"] == []


@pytest.mark.parametrize("script", ["ai_sdk.mjs", "use_chat.mjs"])
@pytest.mark.parametrize("approved", [True, False])
def test_a_verdict_goes_on_with_the_message(script: str, approved: bool) -> None:
    def answer(request: Any) -> list[str]:
        return [request.history[-1].text]

    model = answered_by(["I send. ", call("send", {"to": "Ann"})], answer)
    seen = read(model, {"say": "go"}, {"answer": {"send": approved}}, script=script)
    assert seen["errors"] == []
    assert [message["role"] for message in seen["messages"]] == ["user", "assistant"], "one message goes on"
    (part,) = calls_in(seen["messages"][-1]).values()
    if approved:
        assert (part["state"], part["output"]) == ("output-available", "sent to Ann")
        assert text_of(seen["messages"][-1]) == "I send. sent to Ann"
    else:
        assert (part["state"], part["approval"]["approved"]) == ("output-denied", False)
        assert "denied" in text_of(seen["messages"][-1])


@pytest.mark.parametrize("script", ["ai_sdk.mjs", "use_chat.mjs"])
def test_the_client_answers_a_call(script: str) -> None:
    model = answered_by([call("where")], lambda request: [f"At {request.history[-1].text}."])
    seen = read(model, {"say": "go"}, {"give": {"where": "home"}}, script=script)
    assert seen["errors"] == []
    assert text_of(seen["messages"][-1]) == "At home."


def test_an_app_answers_a_call_as_soon_as_it_is_there() -> None:
    model = answered_by([call("where"), call("fetch", {"name": "a"})], lambda request: ["Both."])
    plan = {"say": "go", "auto": {"where": {"city": "Oslo"}}, "responses": 2}
    seen = read(model, plan, script="use_chat.mjs")
    assert seen["errors"] == []
    message = seen["messages"][-1]
    assert text_of(message) == "Both."
    assert [part["output"] for part in calls_in(message).values()] == [{"city": "Oslo"}, {"name": "a", "percent": 100}]


def test_several_questions_and_answers_of_one_turn() -> None:
    turn = [call("send", {"to": "Ann"}), call("where"), call("fetch", {"name": "a"}), call("send", {"to": "Bob"})]
    plan = ({"say": "go"}, {"answer": {"send": True}, "give": {"where": "home"}}, {"say": "And?"})
    seen = read(answered_by(turn, ["Sent."], ["That was it."]), *plan)
    assert seen["errors"] == []
    assert [message["role"] for message in seen["messages"]] == ["user", "assistant", "user", "assistant"]
    assert [part["output"] for part in calls_in(seen["messages"][1]).values()] == [
        "sent to Ann", "home", {"name": "a", "percent": 100}, "sent to Bob",
    ]  # fmt: skip


def test_a_question_that_the_person_passes_over_is_left() -> None:
    plan = ({"say": "go"}, {"say": "Never mind"})
    seen = read(answered_by([call("send", {"to": "Ann"})], lambda request: [request.history[-2].text]), *plan)
    assert seen["errors"] == []
    assert "nobody decided" in text_of(seen["messages"][-1])


@pytest.mark.parametrize("script", ["ai_sdk.mjs", "use_chat.mjs"])
def test_an_inner_run_is_seen_with_its_path(script: str) -> None:
    seen = read(
        answered_by([call("delegate", {"task": "look"}, call_id="outer")], ["Done."]), {"say": "go"}, script=script
    )
    assert seen["errors"] == []
    inner = [part["data"] for part in seen["messages"][-1]["parts"] if part["type"] == "data-nested"]
    assert [data["path"] for data in inner] == [["outer"]] * 3
    assert [data.get("text") or data["output"] for data in inner] == [
        "Let me see. ", {"name": "inner", "percent": 100}, "Seen.",
    ]  # fmt: skip
    if script == "use_chat.mjs":
        pieces = [part["data"]["delta"] for part in seen["data"] if part["type"] == "data-nested-delta"]
        assert "".join(pieces) == 'Let me see. {"name":"inner"}Seen.'


def test_a_huge_value_does_not_go_out_whole() -> None:
    seen = read(answered_by([call("huge")], ["Done."]), {"say": "go"})
    (part,) = calls_in(seen["messages"][-1]).values()
    assert (part["output"]["truncated"], part["output"]["bytes"]) == (True, 50_000_002)


def test_a_long_argument_is_written_to_its_end() -> None:
    name = "x" * 100_000
    seen = read(answered_by([call("fetch", {"name": name}, split=1000)], ["Done."]), {"say": "go"})
    (part,) = calls_in(seen["messages"][-1]).values()
    assert part["input"] == {"name": name}


def test_the_stop_button_ends_the_run() -> None:
    seen = read(answered_by(["Hello", anyio.sleep_forever]), {"say": "go", "stop": "Hello"}, script="use_chat.mjs")
    assert seen["errors"] == []
    assert (text_of(seen["messages"][-1]), seen["status"]) == ("Hello", "ready")


# Picking a run up again


class ComesBack:
    """An app whose run waits until a client has come back to it, and reads."""

    def __init__(self, *turns: Any) -> None:
        self._served = app(answered_by(*turns), journal=memory_journal(), resumable=True)
        self._is_back = anyio.Event()

    async def wait(self) -> None:
        await self._is_back.wait()

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        async def sends(message: Any) -> None:
            await send(message)
            if scope.get("path", "").endswith("/stream") and message.get("body"):
                self._is_back.set()

        await self._served(scope, receive, sends)


def read_with_a_break(script: str, *plan: Json, turns: Callable[[Any], Sequence[Any]]) -> Json:
    waiting: list[ComesBack] = []

    async def wait() -> None:
        await waiting[0].wait()

    waiting.append(ComesBack(*turns(wait)))
    with serve(waiting[0]) as url:
        seen: Json = run_node(script, f"{url}/ai-sdk", json.dumps(plan))
    return seen


BREAKS: dict[str, Json] = {
    "ai_sdk.mjs": {"reconnect": True},
    "use_chat.mjs": {"stop": "Hel", "resume": True, "responses": 2},
}


@pytest.mark.parametrize("script", list(BREAKS))
def test_a_client_picks_its_answer_up_again(script: str) -> None:
    seen = read_with_a_break(
        script, {"say": "go"} | BREAKS[script], turns=lambda wait: [[call("fetch", {"name": "a"})], ["Hel", wait, "lo"]]
    )
    assert seen["errors"] == []
    assert text_of(seen["messages"][-1]) == "Hello"
    assert [message["role"] for message in seen["messages"]] == ["user", "assistant"]
    assert [part["output"] for part in calls_in(seen["messages"][-1]).values()] == [{"name": "a", "percent": 100}]
    assert seen.get("afterwards") is None, "there is nothing to pick up when the run is over"


@pytest.mark.parametrize("script", list(BREAKS))
def test_a_message_that_went_on_is_picked_up_from_its_beginning(script: str) -> None:
    seen = read_with_a_break(
        script,
        {"say": "go"},
        {"answer": {"send": True}} | BREAKS[script],
        turns=lambda wait: [["I send. ", call("send", {"to": "Ann"})], ["Hel", wait, "lo"]],
    )
    assert seen["errors"] == []
    assert text_of(seen["messages"][-1]) == "I send. Hello"
    assert [part["output"] for part in calls_in(seen["messages"][-1]).values()] == ["sent to Ann"]
