"""The recipe with a scripted model. aiostream runs on asyncio alone, and so do these tests."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import msgspec
import pytest

from streamkit import Conversation, Intermediate, Output, RunEvent, TextDelta, Value
from streamkit.codec.jsonl import JsonLinesDecoder
from streamkit.codec.sse import SseDecoder
from streamkit.errors import ProviderError
from streamkit.testing import ScriptedModel, call

from .recipe import LINES_IN_A_PIECE, WRITERS, answer, masked, write_json_lines, write_sse
from .scripted import scripted_model


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


async def pieces(protocol: str, model: ScriptedModel | None = None) -> tuple[list[bytes], Conversation]:
    """What is written, piece by piece."""
    written: list[bytes] = []

    async def write(piece: bytes) -> None:
        written.append(piece)

    conversation = await WRITERS[protocol](answer(model or scripted_model(), "Find the orders from Oslo."), write)
    return written, conversation


async def records(protocol: str) -> list[dict[str, Any]]:
    written, _ = await pieces(protocol)
    if protocol == "sse":
        decoder = SseDecoder()
        return [msgspec.json.decode(event.data) for piece in written for event in decoder.feed(piece)]
    lines = JsonLinesDecoder()
    return [msgspec.json.decode(str(line)) for piece in written for line in lines.feed(piece)]


@pytest.mark.parametrize("protocol", WRITERS)
async def test_what_is_nobodys_business_does_not_leave(protocol: str) -> None:
    written, _ = await pieces(protocol)
    body = b"".join(written)

    assert b"they say" not in body
    assert b"select" not in body
    assert b"4929 1234" not in body
    assert b'"card":"\xe2\x80\xa6 9012"' in body
    assert b"There are two orders " in body


@pytest.mark.parametrize("protocol", WRITERS)
async def test_what_leaves_are_events_and_the_end(protocol: str) -> None:
    *events, end = await records(protocol)

    kinds = [type(msgspec.convert(event, RunEvent)) for event in events]
    assert kinds.count(Intermediate) == 2
    assert kinds.count(Output) == 1
    assert kinds.count(TextDelta) == 3
    assert end == {"type": "ended", "ended": "answer"}


async def test_both_protocols_say_the_same() -> None:
    def timeless(found: list[dict[str, Any]]) -> list[dict[str, Any]]:
        passing = ("seconds", "turn_id", "execution_id")
        return [{name: value for name, value in each.items() if name not in passing} for each in found]

    assert timeless(await records("sse")) == timeless(await records("jsonl"))


async def test_each_server_sent_event_is_a_piece_and_has_a_number() -> None:
    written, _ = await pieces("sse")

    assert [piece.split(b"\n")[0] for piece in written[:-1]] == [
        b"id: %d" % number for number in range(1, len(written))
    ]
    assert all(piece.endswith(b"\n\n") and piece.count(b"\n\n") == 1 for piece in written)


async def test_lines_go_out_several_at_once() -> None:
    written, _ = await pieces("jsonl")

    assert [piece.count(b"\n") for piece in written[:-2]] == [LINES_IN_A_PIECE] * (len(written) - 2)


async def test_the_model_and_the_conversation_notice_nothing() -> None:
    _, conversation = await pieces("sse")

    assert conversation == msgspec.structs.replace(
        await answer(scripted_model(), "Find the orders from Oslo."), history=conversation.history
    )
    assert [item.text for item in conversation.history if hasattr(item, "call_id") and hasattr(item, "text")] == [
        "2 orders: 1, 3"
    ]


@pytest.mark.parametrize("writer", [write_sse, write_json_lines])
async def test_the_error_of_a_run_comes_through_the_pipes_as_itself(writer: Any) -> None:
    model = ScriptedModel(["There ", call("find_orders", '{"ci', ends=False), ProviderError("overloaded")])

    async def ignore(piece: bytes) -> None: ...

    with pytest.raises(ProviderError, match="overloaded"):
        await writer(answer(model, "Find the orders from Oslo."), ignore)


async def test_a_client_that_leaves_ends_the_run() -> None:
    async def leave(piece: bytes) -> None:
        raise ConnectionResetError

    with pytest.raises(ConnectionResetError):
        await write_sse(answer(scripted_model(), "Find the orders from Oslo."), leave)


def test_inner_runs_are_masked_too() -> None:
    inner = Output("b", "find_orders", Value("b", "find_orders", [{"card": "4929"}], "1 order"))
    (outer,) = [masked(Intermediate("a", "agent", None, inner))]

    assert b"4929" not in msgspec.json.encode(outer)


# The program


@pytest.mark.parametrize("protocol", WRITERS)
def test_it_runs_as_a_program(protocol: str) -> None:
    command = [sys.executable, "-m", "recipes.modify_output_stream", "--model", "scripted", "--as", protocol]
    run = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)

    assert (run.returncode, run.stderr) == (0, "")
    assert '{"type":"ended","ended":"answer"}' in run.stdout


def test_a_reader_who_leaves_ends_it_quietly() -> None:
    command = [sys.executable, "-m", "recipes.modify_output_stream", "--model", "scripted"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        process.stdout.close()
        assert process.stderr is not None
        assert (process.stderr.read(), process.wait(timeout=60)) == ("", 0)


def test_an_extra_that_is_missing_is_named_in_one_line() -> None:
    run_it = "runpy.run_module('recipes.modify_output_stream', run_name='__main__')"
    without = f"import runpy, sys; sys.modules['aiostream'] = None; {run_it}"
    run = subprocess.run([sys.executable, "-c", without], capture_output=True, text=True, timeout=60, check=False)
    assert (run.returncode, run.stderr) == (1, "streamkit: the pipes are those of aiostream: pip install '.[pipes]'\n")
