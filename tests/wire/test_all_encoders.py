"""What holds for every encoder, whatever the run does: its bytes are the same each time, whole, closed, and not more
than may go out."""

import json
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from streamkit.wire.ag_ui import AgUiEncoder
from streamkit.wire.ai_sdk import AiSdkEncoder
from streamkit.wire.encoding import VALUE_LIMIT_BYTES, Encoder
from streamkit.wire.native import NativeEncoder

from .ag_ui_order import Client
from .native_grammar import check_frames, frames_of
from .runs import RUNS, SECRET, Made, play
from .ui_client import UiClient

Make = Callable[..., Encoder]


def ag_ui(**options: Any) -> Encoder:
    return AgUiEncoder(run_id="r", thread_id="t", client_tools={"pick"}, **options)


def ai_sdk(**options: Any) -> Encoder:
    return AiSdkEncoder(run_id="r", **options)


def native(**options: Any) -> Encoder:
    return NativeEncoder(run_id="r", **options)


ENCODERS = pytest.mark.parametrize("make", [native, ai_sdk, ag_ui])


def redact(tool: str, value: Any) -> Any:
    """Hides the secret wherever it stands in JSON."""
    return json.loads(json.dumps(value).replace(SECRET, "***"))


def data_of(body: bytes) -> list[Any]:
    """The JSON in the frames of a body: one line of data each, and a blank one."""
    assert body.endswith(b"\n\n")
    frames = body.decode("utf-8").removesuffix("\n\n").split("\n\n")
    lines = [[line for line in frame.split("\n") if not line.startswith("id: ")] for frame in frames]
    assert all(len(rest) == 1 and rest[0].startswith("data: ") for rest in lines)
    told = [rest[0].removeprefix("data: ") for rest in lines]
    return [json.loads(text) for text in told if text != "[DONE]"]


def check_closed(make: Make, body: bytes) -> None:
    """All that was announced is closed, in the order that the protocol has."""
    if make is native:
        check_frames(frames_of(body))
    elif make is ag_ui:
        assert Client().read(body).last
    else:
        UiClient().read(body)


@ENCODERS
@settings(max_examples=60, deadline=None)
@given(made=RUNS, restarts=st.booleans())
def test_whatever_a_run_does_its_bytes_are_whole_closed_and_the_same_again(
    make: Make, made: Made, restarts: bool
) -> None:
    recorded = play(made, restarts=restarts)
    body = recorded.encode(make())
    assert recorded.encode(make()) == body
    assert data_of(body)
    check_closed(make, body)


@ENCODERS
@settings(max_examples=40, deadline=None)
@given(made=RUNS)
def test_what_is_hidden_and_what_is_too_long_does_not_go_out(make: Make, made: Made) -> None:
    recorded = play(made)
    body = recorded.encode(make(redact=redact, value_limit_bytes=4096))
    assert SECRET.encode() not in body
    assert b"x" * 4096 not in body
    check_closed(make, body)
    assert b"x" * VALUE_LIMIT_BYTES not in recorded.encode(make())


@ENCODERS
@settings(max_examples=20, deadline=None)
@given(made=RUNS)
def test_a_run_ends_once(make: Make, made: Made) -> None:
    encoder = make()
    assert play(made).encode(encoder)
    assert encoder.end(None) + encoder.error(RuntimeError("late")) == b""
