"""Whatever a model writes as arguments, at worst its call fails: the other calls run, and the run goes on.

It does so where everything looks at what was written: fields, a journal, a redaction that walks down, all encoders, and
the next request of every dialect.
"""

from collections.abc import Iterator
from typing import Any

import msgspec
import pytest
from pydantic import BaseModel

from streamkit import Toolkit, converse, fields, tool, user
from streamkit.journal.memory import memory_journal
from streamkit.providers.http import json_bytes
from streamkit.testing import ScriptedModel, call, check_grammar, check_history
from streamkit.testing.histories import _REQUESTS
from streamkit.tool_events import Output, Value
from streamkit.turns import TurnRequest
from streamkit.wire.ag_ui import AgUiEncoder
from streamkit.wire.ai_sdk import AiSdkEncoder
from streamkit.wire.encoding import Encoder
from streamkit.wire.native import NativeEncoder

from .calling import collect, last_text


class Lax(msgspec.Struct):
    x: int = 0


class Loose(BaseModel):
    x: Any = None


@tool
async def anything(x: Any = None) -> Any:
    """Takes anything."""
    return x


@tool
async def unread(x: Lax | None = None) -> Any:
    """Takes fields that it does not know."""
    return x


@tool
async def modelled(x: Loose | None = None) -> Any:
    """Takes a model of pydantic."""
    return x


@tool(input={"type": "object", "properties": {"x": {"type": ["array", "object"]}}})
async def described(**given: Any) -> Any:
    """Takes what a schema describes."""
    return given


@tool
async def good() -> str:
    """Runs beside them."""
    return "fine"


TOOLS = (anything, unread, modelled, described)
HALF = '"\\ud83d"'


def hostile() -> Iterator[str]:
    for depth in (100, 127, 300, 600, 900, 980, 20_000):
        for inside in ("1", HALF):
            yield "[" * depth + inside + "]" * depth
            yield '{"x": ' * depth + inside + "}" * depth
    yield from ("9" * 5000, "1e400", "NaN", "-0", HALF, f'{{"pw": 1, "y": {HALF}}}', f"{{{HALF}: 1}}")


def hide(tool: str, value: Any) -> Any:
    if isinstance(value, dict):
        return {key: "***" if key == "pw" else hide(tool, each) for key, each in value.items()}
    return [hide(tool, each) for each in value] if isinstance(value, list) else value


@pytest.mark.parametrize("value", [*hostile()], ids=lambda value: f"{value[:8]}-{len(value)}")
async def test_whatever_a_model_writes_its_run_goes_on(value: str) -> None:
    quoted = msgspec.json.encode(value).decode()
    texts = [f'{{"x": {value}}}', f'{{"x": {quoted}}}', f'{{"x": {{"y": {value}}}, "z": {value}}}', value]
    written = [call(tool.name, text) for tool in TOOLS for text in texts]
    model = ScriptedModel([*written, call("good")], ["Done."])
    async with memory_journal(redact=hide).drive("r") as journal:
        run = converse(model, Toolkit(*TOOLS, good), (user("Go"),), journal=journal)
        events, state = await collect(fields(run))
    assert last_text(state) == "Done."
    results = [event.result for event in events if isinstance(event, Output)]
    assert len(results) == len(written) + 1
    assert [result.value for result in results if result.tool == "good" and isinstance(result, Value)] == ["fine"]
    check_grammar(events)
    for redact in (None, hide):
        encoders: list[Encoder] = [
            NativeEncoder(run_id="r", redact=redact),
            AiSdkEncoder(run_id="r", redact=redact),
            AgUiEncoder(run_id="r", thread_id="t", redact=redact),
        ]
        for encoder in encoders:
            assert b"".join([encoder.open(), *map(encoder.event, events), encoder.end(state)]).decode()
    for dialect, requests in _REQUESTS.items():
        check_history(state.history, dialect)
        for encode, name, _, _ in requests:
            assert json_bytes(encode(TurnRequest(state.history), name))
