"""AG-UI: whatever a run does, its events validate, come in an order that clients take, and leave nothing open."""

import json
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from streamkit import (
    ApprovalRequested,
    Conversation,
    Intermediate,
    Output,
    ReasoningDelta,
    RefusalDelta,
    RunEvent,
    TextDelta,
    ToolInputAvailable,
    ToolInputDelta,
    ToolInputStart,
    ToolStarted,
    Turn,
    TurnEnded,
    TurnStarted,
    Usage,
    Value,
    user,
)
from streamkit.errors import ProviderError, RunStopped
from streamkit.items import Image, ToolCall, ToolOutput
from streamkit.testing import call, interleave, stop
from streamkit.tool_events import Failure, Pending
from streamkit.turns import ToolInputAbandoned, TurnRestarted
from streamkit.wire.ag_ui import AgUiEncoder

from .ag_ui_order import Client, read_events
from .runs import RUNS, SECRET, Made, play


def encoded(*events: RunEvent, state: object = None, **options: Any) -> bytes:
    encoder = AgUiEncoder(run_id="r", thread_id="t", **options)
    return encoder.open() + b"".join(map(encoder.event, events)) + encoder.end(state)


def client_of(*events: RunEvent, **options: Any) -> Client:
    return Client().read(encoded(*events, **options))


def kinds(body: bytes) -> list[str]:
    return [event["type"] for event in read_events(body)]


def written(call_id: str, arguments: str = "{}", tool: str = "f") -> list[RunEvent]:
    pieces = [arguments[:2], arguments[2:]]
    return [
        ToolInputStart(call_id, tool),
        *(ToolInputDelta(call_id, piece) for piece in pieces if piece),
        ToolInputAvailable(call_id, arguments),
    ]


def answered(call_id: str, text: str = "1", tool: str = "f") -> list[RunEvent]:
    value = Value(call_id, tool, text, text)
    return [ToolStarted(f"t.{call_id}", call_id, tool, {}), Output(call_id, tool, value, 0.5)]


# Properties


MIXED = Made([[interleave(call("read", {"p": "x"}, split=1), call("huge", {"chars": 400_000}))], ["ok"]])
CUT = Made([[call("read", {"p": "x"}), stop("length")]])


@settings(max_examples=150, deadline=None)
@given(made=RUNS, restarts=st.booleans())
@example(made=MIXED, restarts=True)
@example(made=CUT, restarts=False)
def test_every_run_is_one_that_clients_take(made: Made, restarts: bool) -> None:
    recorded = play(made, restarts=restarts)
    client = Client().read(recorded.encode(AgUiEncoder(run_id="r", client_tools={"pick"})))
    assert client.arguments.keys() == client.ended
    unanswered = [client.names[call_id] for call_id in client.arguments if call_id not in client.results]
    if recorded.state is not None:
        waiting = [call.name for call in recorded.state.waiting.values()]
        assert sorted(unanswered) == sorted(waiting)
        asks = bool({*waiting} - {"pick"})
        assert client.last["outcome"]["type"] == ("interrupt" if asks else "success")
    elif isinstance(recorded.error, RunStopped):
        assert client.last["outcome"]["type"] == "cancelled"
    else:
        assert client.last["type"] == "RUN_ERROR"


# Order


def test_text_is_closed_before_a_call_and_begins_anew_behind_it() -> None:
    body = encoded(TextDelta("Hi"), *written("c1"), *answered("c1"), TextDelta("Bye"))
    names = kinds(body)
    assert names.index("TEXT_MESSAGE_END") < names.index("TOOL_CALL_START")
    client = Client().read(body)
    assert list(client.texts.values()) == ["Hi", "Bye"]
    assert client.results["c1"]["content"] == "1"


def test_an_error_is_the_last_event() -> None:
    encoder = AgUiEncoder(run_id="r")
    body = encoder.open() + encoder.event(TextDelta("Hi")) + encoder.error(ProviderError("boom"))
    assert kinds(body)[-2:] == ["TEXT_MESSAGE_END", "RUN_ERROR"]
    last = read_events(body)[-1]
    assert (last["message"], last["code"]) == ("boom", "provider_error")
    assert encoder.event(TextDelta("more")) + encoder.end(None) + encoder.error(ProviderError("again")) == b""


def test_mixed_pieces_of_calls_lie_within_their_own_calls() -> None:
    client = client_of(
        ToolInputStart("c1", "f"),
        ToolInputStart("c2", "f"),
        ToolInputDelta("c2", '{"b":2}'),
        ToolInputDelta("c1", '{"a":1}'),
        ToolInputAvailable("c1", '{"a":1}'),
        ToolInputAvailable("c2", '{"b":2}'),
        *answered("c1"),
        *answered("c2"),
    )
    assert client.arguments == {"c1": '{"a":1}', "c2": '{"b":2}'}


def test_the_calls_of_a_turn_are_in_the_message_that_has_its_text() -> None:
    body = encoded(
        TurnStarted("turn_1", "m"), TextDelta("Hi"), *written("a"), *written("b"), *answered("a"), *answered("b")
    )
    starts = [event for event in read_events(body) if event["type"] == "TOOL_CALL_START"]
    assert {event["parentMessageId"] for event in starts} == {"turn_1"}
    assert Client().read(body).texts == {"turn_1": "Hi"}


def test_an_empty_piece_says_nothing() -> None:
    assert kinds(encoded(TextDelta(""), ReasoningDelta(""))) == ["RUN_STARTED", "RUN_FINISHED"]


# Calls that never ran


@pytest.mark.parametrize("reason", ["incomplete", "discarded", "retried"])
def test_a_call_that_is_abandoned_ends_and_has_its_reason_as_result(reason: Any) -> None:
    client = client_of(ToolInputStart("c", "f"), ToolInputDelta("c", '{"a'), ToolInputAbandoned("c", reason, "why"))
    assert client.ended == {"c"}
    assert client.results["c"]["metadata"]["streamkit"] == {"dropped": True, "reason": reason, "detail": "why"}


def test_a_malformed_call_has_the_failure_that_the_model_reads() -> None:
    failure = Failure("c", "f", "invalid_input", "no object")
    client = client_of(ToolInputStart("c", "f"), ToolInputAbandoned("c", "malformed"), Output("c", "f", failure))
    assert client.results["c"]["content"] == "no object"
    assert client.results["c"]["metadata"]["streamkit"]["error"] == "invalid_input"


def test_a_run_that_breaks_drops_what_nobody_will_run_and_keeps_what_runs() -> None:
    encoder = AgUiEncoder(run_id="r")
    events = [ToolInputStart("a", "f"), *written("b"), *written("c"), ToolStarted("t.2", "c", "f", {})]
    events += [ToolInputStart("d", "f"), ToolInputAbandoned("d", "malformed")]
    body = encoder.open() + b"".join(map(encoder.event, events)) + encoder.error(RuntimeError("inside"))
    client = Client().read(body)
    reasons = {call_id: result["metadata"]["streamkit"]["reason"] for call_id, result in client.results.items()}
    assert reasons == {"a": "incomplete", "b": "discarded", "d": "malformed"}
    assert "inside" not in str(client.last)


def test_a_turn_that_begins_anew_takes_back_what_it_has_shown() -> None:
    body = encoded(
        TurnStarted("turn_1", "m"),
        TextDelta("Half"),
        ReasoningDelta("Hm"),
        ToolInputStart("c", "f"),
        ToolInputAbandoned("c", "retried"),
        TurnRestarted("it broke"),
        TextDelta("Whole"),
    )
    client = Client().read(body)
    assert list(client.texts.values()) == ["Whole"]
    assert client.reasoning == {}
    assert {"turn_1", "r-c"} < client.activities.keys()
    assert all(content == {"reason": "it broke"} for content in client.activities.values())


# Inner runs


def test_an_inner_run_is_a_sub_agent_of_its_call() -> None:
    inner = [TurnStarted("turn_i", "m"), TextDelta("in"), *written("c"), *answered("c"), ReasoningDelta("hm")]
    deeper = [Intermediate("c", "f", event=TextDelta("deep"))]
    around = [Intermediate("c", "d", event=event) for event in [*inner[:-2], *deeper, *inner[-2:]]]
    body = encoded(*written("c", tool="d"), ToolStarted("t.0", "c", "d", {}), *around, answered("c")[-1])
    client = Client().read(body)
    events = read_events(body)
    started = [event for event in events if event["type"] == "SUBAGENT_STARTED"]
    assert [(event["subagentRunId"], event.get("parentSubagentRunId")) for event in started] == [
        ("c", None),
        ("c~2", "c"),
    ]
    assert [event["type"] for event in events if event["type"].startswith("SUBAGENT_F")] == ["SUBAGENT_FINISHED"] * 2
    assert client.results["c~2"]["subagentRunId"] == "c"
    assert "subagentRunId" not in client.results["c"]


def test_a_sub_agent_fails_with_its_call() -> None:
    failure = Failure("c", "d", "timeout", "too slow")
    body = encoded(
        *written("c", tool="d"), Intermediate("c", "d", event=ToolInputStart("i", "f")), Output("c", "d", failure)
    )
    client = Client().read(body)
    (error,) = [event for event in read_events(body) if event["type"] == "SUBAGENT_ERROR"]
    assert (error["code"], error["message"]) == ("timeout", "too slow")
    assert client.results["i"]["metadata"]["streamkit"]["reason"] == "incomplete"


# What calls show and give


def test_progress_is_one_activity_that_holds_the_last() -> None:
    shown = [Intermediate("c", "f", {"p": 50}), Intermediate("c", "f", {"p": 100})]
    client = client_of(*written("c"), *shown, *answered("c"))
    assert client.activities == {"a-c": {"toolCallId": "c", "toolName": "f", "data": {"p": 100}}}


def test_what_is_too_long_does_not_go_out_whole() -> None:
    body = encoded(
        *written("c"), Intermediate("c", "f", "y" * 5000), *answered("c", "x" * 5000), value_limit_bytes=4000
    )
    client = Client().read(body)
    assert json.loads(client.results["c"]["content"]) == {"truncated": True, "bytes": 5002, "head": "x" * 1024}
    assert client.activities["a-c"]["data"]["truncated"] is True
    assert b"x" * 2000 not in body


def test_an_image_is_a_part_of_the_result() -> None:
    value = Value("c", "f", None, "seen", images=(Image(b"png", "image/png"), Image(url="https://x/y.png")))
    client = client_of(*written("c"), Output("c", "f", value))
    assert client.results["c"]["content"] == [
        {"type": "text", "text": "seen"},
        {"type": "image", "source": {"type": "data", "value": "cG5n", "mimeType": "image/png"}},
        {"type": "image", "source": {"type": "url", "value": "https://x/y.png"}},
    ]


def test_arguments_that_the_pieces_did_not_join_to_are_told_with_the_call() -> None:
    body = encoded(ToolInputStart("c", "f"), ToolInputDelta("c", '{"a":1'), ToolInputAvailable("c", '{"a":2}'))
    (ended,) = [event for event in read_events(body) if event["type"] == "TOOL_CALL_END"]
    assert ended["metadata"]["streamkit"] == {"arguments": '{"a":2}'}


def test_a_secret_goes_nowhere() -> None:
    def redact(tool: str, value: Any) -> Any:
        return json.loads(json.dumps(value).replace(SECRET, "***"))

    events = [
        *written("c", json.dumps({"key": SECRET})),
        ApprovalRequested("t.0", "c", "f", {"key": SECRET}),
        ToolStarted("t.0", "c", "f", {"key": SECRET}),
        Intermediate("c", "f", {"at": SECRET}),
        Output("c", "f", Value("c", "f", SECRET, SECRET)),
    ]
    body = encoded(*events, redact=redact)
    assert SECRET.encode() not in body
    assert json.loads(Client().read(body).arguments["c"]) == {"key": "***"}


def test_a_refusal_is_a_text_that_says_so() -> None:
    body = encoded(TextDelta("I "), RefusalDelta("cannot"))
    starts = [event for event in read_events(body) if event["type"] == "TEXT_MESSAGE_START"]
    assert [event.get("metadata") for event in starts] == [None, {"streamkit": {"refusal": True}}]


# Ids


def test_a_call_has_an_id_that_the_client_does_not_know_yet() -> None:
    known = Conversation((user("go"), ToolCall("c", "f", "{}"), ToolOutput("c", "f", "1")))
    assert list(client_of(*written("c"), *answered("c"), conversation=known).arguments) == ["c~2"]


def test_a_call_that_the_client_knows_is_not_told_of_again() -> None:
    turn = Turn("turn_1", "m", (ToolCall("c", "f", "{}", "turn_1", 0),), "tool_calls")
    waiting = Conversation((user("go"),), turn, (Pending("c", "f"),), ended="pending")
    client = client_of(*answered("c"), conversation=waiting)
    assert client.arguments == {}
    assert client.results["c"]["toolCallId"] == "c"


def test_a_call_that_nobody_saw_being_written_is_told_whole() -> None:
    client = client_of(ToolStarted("t.0", "c", "f", {"a": 1}), answered("c")[-1])
    assert client.arguments == {"c": '{"a":1}'}


# The end


def test_usage_is_told_by_model_and_a_turn_counts_once() -> None:
    ended = TurnEnded(Turn("turn_1", "m", usage=Usage(5, 3, 2, 1)))
    inner = Intermediate("c", "d", event=TurnEnded(Turn("turn_2", "small", usage=Usage(1, 1))))
    last = client_of(ended, ended, inner).last
    assert last["usage"][0] == {
        "model": "m",
        "inputTokens": 5,
        "outputTokens": 3,
        "totalTokens": 8,
        "cachedInputTokens": 2,
        "reasoningTokens": 1,
    }
    assert [entry["model"] for entry in last["usage"]] == ["m", "small"]


def test_calls_that_wait_for_a_verdict_end_the_run_with_interrupts() -> None:
    calls = (ToolCall("a", "send", "{}", "turn_1", 0), ToolCall("b", "pick", "{}", "turn_1", 1))
    events = [TurnStarted("turn_1", "m"), *written("a", tool="send"), *written("b", tool="pick")]
    events.append(ApprovalRequested("turn_1.0", "a", "send", {}, {"why": "it sends"}))
    pending = Conversation((user("go"),), Turn("turn_1", "m", calls, "tool_calls"), ended="pending")
    last = client_of(*events, state=pending, client_tools={"pick"}).last
    (asked,) = last["outcome"]["interrupts"]
    assert (asked["id"], asked["toolCallId"], asked["reason"]) == ("a", "a", "tool_call")
    assert asked["metadata"]["streamkit"]["card"] == {"why": "it sends"}


def test_calls_that_the_client_answers_are_named_at_the_end() -> None:
    calls = (ToolCall("b", "pick", "{}", "turn_1", 0),)
    events = [*written("b", tool="pick"), ApprovalRequested("turn_1.0", "b", "pick", {})]
    pending = Conversation((user("go"),), Turn("turn_1", "m", calls, "tool_calls"), ended="pending")
    client = client_of(*events, state=pending, client_tools={"pick"})
    assert client.last["outcome"] == {"type": "success", "pendingToolCallIds": ["b"]}
    assert client.customs == []


def test_a_run_that_somebody_stopped_is_cancelled() -> None:
    encoder = AgUiEncoder(run_id="r")
    body = encoder.open() + encoder.event(TextDelta("Hi")) + encoder.error(RunStopped("enough"))
    assert Client().read(body).last["outcome"] == {"type": "cancelled"}
