"""The UI message stream of the AI SDK: what a run tells, as the message that a client builds of it."""

from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given, settings

from streamkit import (
    ApprovalRequested,
    Conversation,
    Failure,
    Intermediate,
    Output,
    ReasoningDelta,
    RefusalDelta,
    TextDelta,
    ToolInputAbandoned,
    ToolInputAvailable,
    ToolInputDelta,
    ToolInputStart,
    ToolStarted,
    Turn,
    TurnEnded,
    TurnRestarted,
    TurnStarted,
    Value,
)
from streamkit.errors import ProviderError, RunStopped
from streamkit.execution.approval import Card
from streamkit.items import Image, ProviderTool, Reasoning, ToolOutput
from streamkit.tool_events import RunEvent
from streamkit.turns import AbandonedReason
from streamkit.wire.ai_sdk import AiSdkEncoder
from streamkit.wire.seals import Seal
from streamkit.wire.ui_messages import from_ui_messages

from .runs import RUNS, SECRET, Made, Recorded, play
from .ui_client import UiClient, chunks_of

WRITTEN: list[RunEvent] = [ToolInputStart("c1", "f"), ToolInputDelta("c1", "{}"), ToolInputAvailable("c1", "{}")]
STARTED: list[RunEvent] = [*WRITTEN, ToolStarted("t.0", "c1", "f", {})]
ENDED: list[RunEvent] = [*STARTED, Output("c1", "f", Value("c1", "f", {"r": 1}, '{"r":1}'))]
ASKED: list[RunEvent] = [*WRITTEN, ApprovalRequested("t.0", "c1", "f", {}, Card("Does.", None, "once"))]
DENIED = Failure("c1", "f", "denied", "The call of f was denied: no")


def encoded(events: Sequence[RunEvent], end: object = None, **options: Any) -> bytes:
    error = end if isinstance(end, BaseException) else None
    return Recorded(list(events), end, error).encode(AiSdkEncoder(run_id="m1", **options))  # type: ignore[arg-type]


def shown(events: Sequence[RunEvent], end: object = None, **options: Any) -> UiClient:
    return UiClient().read(encoded(events, end, **options))


def told(events: Sequence[RunEvent], end: object = None, **options: Any) -> list[dict[str, Any]]:
    """The chunks of one step."""
    start, step, *chunks, end_of_step, _ = chunks_of(encoded(events, end, **options))
    assert (start, step, end_of_step) == (
        {"type": "start", "messageId": "m1"},
        {"type": "start-step"},
        {"type": "finish-step"},
    )
    return chunks


def test_each_part_has_a_start_its_deltas_and_an_end() -> None:
    run = [TextDelta("H"), TextDelta("i"), *ENDED, TextDelta("Bye")]
    assert chunks_of(encoded(run, Conversation(ended="answer", turns=1)))[2:] == [
        {"type": "text-start", "id": "text-1"},
        {"type": "text-delta", "id": "text-1", "delta": "H"},
        {"type": "text-delta", "id": "text-1", "delta": "i"},
        {"type": "text-end", "id": "text-1"},
        {"type": "tool-input-start", "toolCallId": "c1", "toolName": "f"},
        {"type": "tool-input-delta", "toolCallId": "c1", "inputTextDelta": "{}"},
        {"type": "tool-input-available", "toolCallId": "c1", "toolName": "f", "input": {}},
        {"type": "tool-output-available", "toolCallId": "c1", "output": {"r": 1}},
        {"type": "finish-step"},
        {"type": "start-step"},
        {"type": "text-start", "id": "text-2"},
        {"type": "text-delta", "id": "text-2", "delta": "Bye"},
        {"type": "text-end", "id": "text-2"},
        {"type": "finish-step"},
        {
            "type": "finish",
            "finishReason": "stop",
            "messageMetadata": {
                "streamkit": {
                    "ended": "answer",
                    "turns": 1,
                    "usage": {"input_tokens": 0, "output_tokens": 0, "cached_tokens": 0, "reasoning_tokens": 0},
                    "pending": [],
                }
            },
        },
    ]


def test_a_turn_is_a_step_with_what_its_calls_gave() -> None:
    turn: list[RunEvent] = [TurnStarted("t", "model"), *WRITTEN, TurnEnded(Turn("t")), *ENDED[-2:]]
    kinds = [chunk["type"] for chunk in chunks_of(encoded([*turn, TurnStarted("u", "model"), TextDelta("Bye")]))]
    assert kinds == [
        "start", "start-step", "tool-input-start", "tool-input-delta", "tool-input-available", "tool-output-available",
        "finish-step", "start-step", "text-start", "text-delta", "text-end", "finish-step", "finish",
    ]  # fmt: skip


def test_reasoning_and_refusals_are_parts_of_their_own() -> None:
    client = shown([ReasoningDelta("Hm."), ReasoningDelta("So.", "summary"), TextDelta("I"), RefusalDelta("No.")])
    assert [(part["type"], part.get("text")) for part in client.parts] == [
        ("step-start", None), ("reasoning", "Hm."), ("reasoning", "So."), ("text", "I"), ("text", "No."),
    ]  # fmt: skip


def test_what_a_call_shows_is_preliminary_and_what_it_gave_is_not() -> None:
    chunks = told([*STARTED, Intermediate("c1", "f", {"p": 50}), Intermediate("c1", "f", {"p": 100}), ENDED[-1]])
    assert chunks[-3:] == [
        {"type": "tool-output-available", "toolCallId": "c1", "output": {"p": 50}, "preliminary": True},
        {"type": "tool-output-available", "toolCallId": "c1", "output": {"p": 100}, "preliminary": True},
        {"type": "tool-output-available", "toolCallId": "c1", "output": {"r": 1}},
    ]


def test_what_the_model_reads_comes_along_where_it_is_something_else() -> None:
    value = Value("c1", "f", [1, 2, 3], "three numbers")
    client = shown([*STARTED, Output("c1", "f", value)])
    assert client.call("c1")["resultProviderMetadata"] == {"streamkit": {"text": "three numbers"}}
    assert "resultProviderMetadata" not in shown(ENDED).call("c1")


def test_a_failure_is_an_output_error_that_keeps_the_input() -> None:
    client = shown([*STARTED, Output("c1", "f", Failure("c1", "f", "failed", "It broke."))])
    assert client.call("c1") == {
        "type": "tool-f", "toolCallId": "c1", "state": "output-error", "input": {}, "errorText": "It broke.",
        "preliminary": False,
    }  # fmt: skip


@pytest.mark.parametrize("reason", ["incomplete", "discarded", "malformed", "retried"])
def test_an_abandoned_call_is_an_error_with_its_reason(reason: AbandonedReason) -> None:
    written = WRITTEN if reason == "discarded" else WRITTEN[:2]
    part = shown([*written, ToolInputAbandoned("c1", reason, "because")]).call("c1")
    assert (part["state"], part["errorText"]) == ("output-error", f"{reason}: because")
    assert part["input"] == ({} if reason == "discarded" else "{}"), "what was written is still to be seen"


def test_a_call_that_nobody_will_run_is_an_error_before_the_end() -> None:
    assert shown(WRITTEN).call("c1")["errorText"] == "discarded: the run has ended"
    assert shown(WRITTEN[:2], ProviderError("x")).call("c1")["errorText"] == "incomplete: the run failed"


def test_a_call_that_runs_or_waits_at_the_end_stays_as_it_is() -> None:
    assert shown(STARTED).call("c1")["state"] == "input-available"
    assert shown(ASKED).call("c1")["state"] == "approval-requested"


def test_a_turn_that_is_begun_anew_takes_its_step_back() -> None:
    first: list[RunEvent] = [
        TurnStarted("t", "m"),
        *ENDED,
        TurnStarted("u", "m"),
        TextDelta("Half"),
        ToolInputStart("c2", "f"),
    ]
    again: list[RunEvent] = [ToolInputAbandoned("c2", "retried"), TurnRestarted("broke"), TextDelta("Whole")]
    client = shown([*first, *again])
    assert client.text == "Whole"
    assert [part["type"] for part in client.parts] == ["step-start", "tool-f", "step-start", "text"]


def test_what_was_begun_in_an_earlier_response_is_not_taken_back_in_this_one() -> None:
    before = {"id": "m1", "role": "assistant", "parts": [{"type": "step-start"}, {"type": "text", "text": "Kept"}]}
    restart: list[RunEvent] = [ToolInputAbandoned("c9", "retried"), TurnRestarted("gone"), TextDelta("More")]
    assert UiClient(before).read(encoded(restart)).text == "KeptMore"


# Asking


def test_a_question_has_the_execution_id_and_what_the_person_should_see() -> None:
    assert told(ASKED)[-1] == {
        "type": "tool-approval-request",
        "approvalId": "t.0",
        "toolCallId": "c1",
        "approvalDescriptor": {"description": "Does.", "origin": None, "effects": "once", "wantsValue": False},
    }


def test_a_call_that_the_client_answers_is_no_question() -> None:
    asked = ApprovalRequested("t.0", "c1", "f", {}, Card("Where are you?", None, "once", wants_value=True))
    assert shown([*WRITTEN, asked]).call("c1")["state"] == "input-available"
    as_json = ApprovalRequested("t.0", "c1", "f", {}, {"wantsValue": True})
    assert shown([*WRITTEN, as_json]).call("c1")["state"] == "input-available"


def test_a_verdict_that_came_while_the_run_waited_is_told() -> None:
    allowed = shown([*ASKED, *ENDED[-2:]]).call("c1")
    assert (allowed["state"], allowed["approval"]) == ("output-available", {"id": "t.0", "approved": True})
    denied = shown([*ASKED, Output("c1", "f", DENIED)]).call("c1")
    assert (denied["state"], denied["approval"]) == (
        "output-denied",
        {"id": "t.0", "approved": False, "reason": "no"},
    )


def test_a_call_that_is_denied_without_a_question_has_one_that_nobody_was_asked() -> None:
    part = shown([*WRITTEN, Output("c1", "f", DENIED)]).call("c1")
    assert part["state"] == "output-denied"
    assert part["approval"] == {
        "id": "denied-c1", "isAutomatic": True, "approved": False, "reason": "no"
    }  # fmt: skip


def test_a_message_goes_on_with_the_calls_that_the_client_has() -> None:
    before = shown(ASKED)
    before.answer("t.0", approved=True)
    body = encoded([*ENDED[-2:], TurnStarted("u", "m"), *ENDED, TextDelta("Bye")], known_calls=["c1"])
    client = UiClient(before.message).read(body)
    assert client.call("c1")["output"] == {"r": 1}
    assert client.call("c1~2")["output"] == {"r": 1}, "an id of the messages before is not given to a new call"
    assert [part["type"] for part in client.parts].count("step-start") == 3


def test_a_call_that_the_client_does_not_have_is_announced_first() -> None:
    for events in (ENDED[-2:], [ENDED[-1]], [ASKED[-1], *ENDED[-2:]], [Output("c1", "f", DENIED)]):
        assert shown(events).call("c1")["state"].startswith("output-")


def test_a_signed_question_stays_with_the_client_that_is_asked_again() -> None:
    before = shown(ASKED, seal=SEAL, chat_id="chat")
    body = encoded([ASKED[-1]], known_calls=["c1"], seal=SEAL, chat_id="chat")
    assert UiClient(before.message).read(body).call("c1") == before.call("c1")


# Ends


def test_an_error_is_told_once_and_closes_the_stream_in_good_order() -> None:
    chunks = chunks_of(encoded([], ProviderError("no capacity")))
    assert chunks == [
        {"type": "start", "messageId": "m1"},
        {"type": "error", "errorText": "no capacity", "code": "provider_error"},
    ]
    assert shown([TextDelta("Hi")], RuntimeError(SECRET)).ended == {
        "type": "error", "errorText": "the run failed with an internal error", "code": "internal_error"
    }  # fmt: skip


def test_a_run_that_was_stopped_ends_quietly() -> None:
    client = shown([TextDelta("Hi")], RunStopped("the person had enough"))
    assert client.ended == {"type": "abort", "reason": "the person had enough"}


@pytest.mark.parametrize("end", [None, Conversation(ended="length"), RunStopped("enough")])
def test_a_client_does_not_send_calls_back_that_a_run_left_behind_at_its_end(end: object) -> None:
    assert not shown(WRITTEN, end).sends_by_itself
    assert not shown(ENDED, end).sends_by_itself


def test_a_client_sends_back_what_it_answers() -> None:
    asked = ApprovalRequested("t.0", "c1", "f", {}, Card("Where are you?", None, "once", wants_value=True))
    for state in (object(), Conversation(ended="pending")):
        client = shown([*WRITTEN, asked], state)
        client.give("c1", "home")
        assert client.sends_by_itself


def test_nothing_follows_the_end() -> None:
    encoder = AiSdkEncoder(run_id="m1")
    assert encoder.end(None)
    assert encoder.end(None) == encoder.error(RuntimeError()) == b""


@pytest.mark.parametrize(
    ("ended", "reason"),
    [("answer", "stop"), ("pending", "tool-calls"), ("refusal", "content-filter"), ("budget", "other")],
)
def test_the_finish_says_why_the_run_ended(ended: Any, reason: str) -> None:
    finish = shown([], Conversation(ended=ended)).ended
    assert finish is not None
    assert finish["finishReason"] == reason


def test_a_state_of_ones_own_ends_as_its_last_turn_did() -> None:
    assert shown([TurnStarted("t", "m"), TurnEnded(Turn("t", stop_reason="length"))], object()).ended == {
        "type": "finish", "finishReason": "length"
    }  # fmt: skip


# What a client keeps

SIGNED = Turn("t", items=(Reasoning("Hm.", opaque={"anthropic": {"signature": "sig"}}),))
SEAL = Seal(b"0123456789abcdef")


def test_a_turn_that_a_provider_signed_is_kept_by_the_client_in_its_step() -> None:
    turn: list[RunEvent] = [TurnStarted("t", "m"), *WRITTEN, TurnEnded(SIGNED), *ENDED[-2:]]
    parts = shown([*turn, TurnStarted("u", "m"), TextDelta("Bye")], seal=SEAL, chat_id="chat").parts
    assert [part["type"] for part in parts] == ["step-start", "tool-f", "custom", "step-start", "text"]
    assert parts[2].keys() == {"type", "kind", "providerMetadata"}
    assert "sig" not in str(parts), "it is closed"


def test_a_turn_that_nothing_was_told_of_is_kept_in_a_step_of_its_own() -> None:
    parts = shown([TurnEnded(SIGNED)], seal=SEAL, chat_id="chat").parts
    assert [part["type"] for part in parts] == ["step-start", "custom"]


@pytest.mark.parametrize("options", [{}, {"seal": SEAL, "redact": lambda tool, value: value}])
def test_no_turn_is_kept_without_a_seal_or_where_something_is_hidden(options: dict[str, Any]) -> None:
    assert shown([TurnStarted("t", "m"), TextDelta("Hi"), TurnEnded(SIGNED)], **options).parts[-1]["type"] == "text"


def test_a_turn_that_holds_nothing_for_its_provider_or_too_much_is_not_kept() -> None:
    plain = Turn("t", items=(Reasoning("Hm."),))
    for turn, limit in ((plain, 100_000), (SIGNED, 50)):
        assert shown([TurnEnded(turn)], seal=SEAL, value_limit_bytes=limit).parts == []


# What is inside of calls


def nested(*events: RunEvent, outer: str = "c1") -> list[RunEvent]:
    return [Intermediate(outer, "f", None, event) for event in events]


def test_an_inner_run_is_data_with_its_path_and_the_shape_of_parts() -> None:
    inner = nested(TurnStarted("i", "m"), TextDelta("Let "), TextDelta("me"), *ENDED)
    client = shown([*STARTED, *inner, ENDED[-1]])
    data = [part["data"] for part in client.parts if part["type"] == "data-nested"]
    assert data == [
        {"path": ["c1"], "type": "text", "text": "Let me", "state": "done"},
        {
            "path": ["c1"], "type": "tool-f", "toolCallId": "c1~2",
            "state": "output-available", "input": {}, "output": {"r": 1}, "preliminary": False,
        },
    ]  # fmt: skip
    pieces = [chunk["data"] for chunk in client.transient]
    assert [(piece["id"], piece["path"], piece["delta"]) for piece in pieces] == [
        ("c1/text-1", ["c1"], "Let "), ("c1/text-1", ["c1"], "me"), ("c1/c1~2", ["c1"], "{}"),
    ]  # fmt: skip


def test_what_a_call_left_open_inside_is_closed_with_it() -> None:
    client = shown([*STARTED, *nested(TextDelta("Half"), *STARTED), ENDED[-1]])
    assert [part["data"]["state"] for part in client.parts if part["type"] == "data-nested"] == ["done", "output-error"]


def test_an_inner_turn_that_is_begun_anew_leaves_no_text_behind() -> None:
    inner = nested(TurnStarted("i", "m"), TextDelta("Half"), TurnRestarted("broke"), TextDelta("Whole"))
    client = shown([*STARTED, *inner, ENDED[-1]])
    assert [part["data"]["text"] for part in client.parts if part["type"] == "data-nested"] == ["", "Whole"]


def test_a_tool_of_the_provider_is_one_part_though_it_is_told_of_twice() -> None:
    asked = ProviderTool("w1", "search", {"q": "x"})
    client = shown([TextDelta("I look."), asked, ProviderTool("w1", "search", None, ["found"]), TextDelta("So")])
    assert client.call("w1") | {"preliminary": False} == {
        "type": "tool-search", "toolCallId": "w1", "state": "output-available",
        "providerExecuted": True, "input": {"q": "x"}, "output": ["found"], "preliminary": False,
    }  # fmt: skip


# What is too long, or nobody's business


def test_a_value_that_is_too_long_goes_out_as_its_head() -> None:
    huge = Value("c1", "f", "x" * 5_000_000, "x" * 5_000_000)
    body = encoded([*STARTED, Intermediate("c1", "f", "y" * 5_000_000), Output("c1", "f", huge)])
    assert len(body) < 10_000
    output = UiClient().read(body).call("c1")["output"]
    assert (output["truncated"], output["bytes"]) == (True, 5_000_002)


def test_arguments_that_are_cut_are_marked_so_that_they_do_not_run() -> None:
    arguments = '{"a":"' + "x" * 1000 + '"}'
    events: list[RunEvent] = [ToolInputStart("c1", "f"), ToolInputAvailable("c1", arguments), ASKED[-1]]
    assert shown(events, value_limit_bytes=500).call("c1")["callProviderMetadata"] == {"streamkit": {"partial": True}}
    assert "callProviderMetadata" not in shown(events).call("c1")


def test_an_image_of_a_tool_goes_out_as_json() -> None:
    picture = Image(b"\x89PNG", "image/png")
    part = shown([*STARTED, Output("c1", "f", Value("c1", "f", picture, "", images=(picture,)))]).call("c1")
    assert part["output"] == {"type": "image", "data": "iVBORw==", "media_type": "image/png", "url": None}


def test_calls_are_parts_of_a_dynamic_tool_where_that_is_wanted() -> None:
    inner = nested(*ENDED, ProviderTool("w1", "search", {"q": "x"}, ["found"]))
    client = shown([*STARTED, *inner, ENDED[-1], ProviderTool("w2", "search", {"q": "x"}, ["found"])], dynamic=True)
    calls = [part.get("data", part) for part in client.parts if part["type"] not in ("step-start", "text")]
    assert [(part["type"], part["toolName"]) for part in calls] == [
        ("dynamic-tool", "f"), ("dynamic-tool", "f"), ("dynamic-tool", "search"), ("dynamic-tool", "search"),
    ]  # fmt: skip


@pytest.mark.parametrize("name", ["get-the-weather", "a.b/c d", "é\u2028\U0001f600", "__proto__", "input-start", ""])
def test_a_call_is_found_again_whatever_its_tool_is_called(name: str) -> None:
    for dynamic in (False, True):
        run: list[RunEvent] = [ToolInputStart("c1", name), *WRITTEN[1:], Output("c1", name, Value("c1", name, 1, "1"))]
        client = shown(run, dynamic=dynamic)
        chat = from_ui_messages(
            [{"id": "u", "role": "user", "parts": [{"type": "text", "text": "Hi"}]}, client.message]
        )
        assert [item.tool for item in chat.conversation.history if isinstance(item, ToolOutput)] == [name or "unnamed"]


def test_half_a_character_is_replaced_and_lines_stay_whole() -> None:
    events: list[RunEvent] = [TextDelta("a\nb\u2028c\U0001f600"), TextDelta("\ud83d")]
    assert shown(events).text == "a\nb\u2028c\U0001f600\ufffd"


def hide(tool: str, value: Any) -> Any:
    return "hidden" if SECRET in repr(value) else value


def test_hidden_arguments_come_whole_without_pieces_and_do_not_run_when_they_come_back() -> None:
    arguments = f'{{"p":"{SECRET}"}}'
    events: list[RunEvent] = [
        ToolInputStart("c1", "f"),
        ToolInputDelta("c1", arguments),
        ToolInputAvailable("c1", arguments),
    ]
    part = shown([*events, *ENDED[-2:]], redact=hide).call("c1")
    assert part["input"] == "hidden"
    assert part["callProviderMetadata"] == {"streamkit": {"partial": True}}


# Whatever happens


@settings(max_examples=60)
@given(made=RUNS)
def test_a_client_reads_every_run_to_its_end(made: Made) -> None:
    recorded = play(made)
    body = recorded.encode(AiSdkEncoder(run_id="m1"))
    assert not UiClient().read(body).sends_by_itself, "or it goes round for ever"
    assert body == recorded.encode(AiSdkEncoder(run_id="m1")), "the same events give the same bytes"


@settings(max_examples=30)
@given(made=RUNS)
def test_a_client_reads_every_run_that_is_begun_anew(made: Made) -> None:
    made.cut_after = None
    client = UiClient().read(play(made, restarts=True).encode(AiSdkEncoder(run_id="m1")))
    assert "Half a text" not in client.text


@settings(max_examples=30)
@given(made=RUNS)
def test_no_secret_goes_out(made: Made) -> None:
    recorded = play(made)
    body = recorded.encode(AiSdkEncoder(run_id="m1", redact=hide))
    UiClient().read(body)
    said = [event for event in recorded.events if isinstance(event, ProviderTool | TextDelta)]
    assert SECRET.encode() not in body or SECRET in repr(said)
