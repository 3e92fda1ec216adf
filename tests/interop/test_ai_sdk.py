"""Clients on the AI SDK, as its users write them, against a real server: they read whatever a run tells, and answer."""

import json
from collections.abc import Callable, Sequence
from typing import Any

import anyio
import pytest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.routing import Route

from streamkit import (
    Conversation,
    Flow,
    Output,
    RunEvent,
    Sink,
    Tool,
    ToolError,
    ToolInputAbandoned,
    ToolInputAvailable,
    ToolInputDelta,
    ToolInputStart,
    Toolkit,
    ToolOutput,
    TurnRequest,
    Value,
    assistant,
    converse,
    flow,
    from_verdicts,
    last,
    streaming_tool,
    tool,
    user,
)
from streamkit.errors import ProviderError, RunStopped
from streamkit.journal.memory import memory_journal
from streamkit.testing import ScriptedModel, call, check_history, interleave, stop
from streamkit.web import FlowResponse, RunRequest, app
from streamkit.wire.ai_sdk import AiSdkEncoder
from streamkit.wire.seals import Seal
from streamkit.wire.ui_messages import UiChat, from_ui_messages

from ..wire.runs import Restarting
from ..wire.signed import SIGNED
from .parts import needs_node
from .serving import run_node, serve

pytestmark = needs_node

SEAL = Seal(b"a secret of sixteen bytes")
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


def tells(events: Sequence[RunEvent], error: Exception | None = None) -> Callable[[Any], Flow[RunEvent, Any]]:
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


# Parts named for their tools, and parts of dynamic tools


def with_parts(start: Callable[[UiChat], Flow[RunEvent, Any]], *, dynamic: bool) -> Starlette:
    """A server of one's own, with the parts that it wants."""

    async def answer(request: Request) -> FlowResponse:
        body = await request.json()
        chat = from_ui_messages(body["messages"], seal=SEAL, chat_id=body["id"])
        message_id = chat.message_id or f"m{len(body['messages'])}"
        known = {"known_calls": chat.known_calls, "seal": SEAL, "chat_id": body["id"]}
        return FlowResponse(start(chat), AiSdkEncoder(run_id=message_id, dynamic=dynamic, **known))

    return Starlette(routes=[Route("/ai-sdk", answer, methods=["POST"])])


def read_parts(start: Callable[[UiChat], Flow[RunEvent, Any]], *plan: Json, dynamic: bool, script: str) -> Json:
    with serve(with_parts(start, dynamic=dynamic)) as url:
        seen: Json = run_node(script, f"{url}/ai-sdk", json.dumps(plan))
    return seen


@pytest.mark.parametrize("script", ["ai_sdk.mjs", "use_chat.mjs"])
@pytest.mark.parametrize("dynamic", [False, True])
def test_calls_of_both_kinds_are_answered_and_go_on(script: str, dynamic: bool) -> None:
    turn = [call("send", {"to": "Ann"}), call("where"), call("delegate", {"task": "look"}), call("unknown-tool")]

    def answers(request: TurnRequest) -> list[str]:
        return [" ".join(item.text for item in request.history if isinstance(item, ToolOutput))]

    model = ScriptedModel(turn, answers)

    def start(chat: UiChat) -> Flow[RunEvent, Any]:
        return converse(model, TOOLKIT, chat.conversation, authorize=from_verdicts(chat.verdicts))

    plan = ({"say": "go"}, {"answer": {"send": True}, "give": {"where": "home"}})
    seen = read_parts(start, *plan, dynamic=dynamic, script=script)
    assert seen["errors"] == []
    message = seen["messages"][-1]
    assert text_of(message).startswith("sent to Ann home answer ")
    parts = [*calls_in(message).values(), *inner_calls(message)]
    names = ["send", "where", "delegate", "unknown-tool", "fetch"]
    kinds = ["dynamic-tool"] * 5 if dynamic else [f"tool-{name}" for name in names]
    assert [part["type"] for part in parts] == kinds
    assert [part.get("toolName") for part in parts] == (names if dynamic else [None] * 5)


def inner_calls(message: Json) -> list[Json]:
    nested = [part["data"] for part in message["parts"] if part["type"] == "data-nested"]
    return [data for data in nested if "toolCallId" in data]


@pytest.mark.parametrize("dynamic", [False, True])
def test_a_tool_may_be_called_anything(dynamic: bool) -> None:
    names = ["get-the-weather", "a.b/c d", "\U0001f600 \u2028", "input-start", "x" * 200, ""]
    events: list[RunEvent] = []
    for number, name in enumerate(names):
        call_id = f"c{number}"
        events += [ToolInputStart(call_id, name), ToolInputDelta(call_id, "{}"), ToolInputAvailable(call_id, "{}")]
        events += [Output(call_id, name, Value(call_id, name, number, str(number)))]
    asked: list[UiChat] = []

    def start(chat: UiChat) -> Flow[RunEvent, Any]:
        asked.append(chat)
        return tells(events)(None) if len(asked) == 1 else tells([])(None)

    seen = read_parts(start, {"say": "go"}, {"say": "And?"}, dynamic=dynamic, script="ai_sdk.mjs")
    assert seen["errors"] == []
    assert [part["output"] for part in calls_in(seen["messages"][1]).values()] == list(range(len(names)))
    assert list(seen["states"]) == [*names[:-1], "unnamed"]
    outputs = [item for item in asked[1].conversation.history if isinstance(item, ToolOutput)]
    assert [(output.tool, output.text) for output in outputs] == [
        (name or "unnamed", str(number)) for number, name in enumerate(names)
    ]


# What a provider wants back unread


@pytest.mark.parametrize("script", ["ai_sdk.mjs", "use_chat.mjs"])
@pytest.mark.parametrize("dialect", list(SIGNED))
def test_what_a_provider_signed_comes_back_to_it_behind_an_approval(script: str, dialect: str) -> None:
    model = ScriptedModel(SIGNED[dialect], ["Done."], ["That was it."])
    states: list[Conversation] = []

    def note(state: Conversation) -> Conversation:
        states.append(state)
        return state

    def start(run: RunRequest) -> Flow[RunEvent, Conversation]:
        return converse(model, TOOLKIT, run.conversation, authorize=run.authorize).then(note)

    seen = read(start, {"say": "go"}, {"answer": {"send": True}}, {"say": "And?"}, script=script)
    assert seen["errors"] == []
    assert text_of(seen["messages"][-1]) == "That was it."
    sent = Value("call_1", "send", "sent to Ann", "sent to Ann")
    before = states[0].settle([sent]).history
    assert model.requests[1].history == before
    assert model.requests[2].history == (*before, assistant("Done."), user("And?"))
    check_history(model.requests[2].history, dialect)


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
