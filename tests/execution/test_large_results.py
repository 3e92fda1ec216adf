"""Results that are too long for a model."""

import json
from typing import Any

import pytest

from streamkit.errors import DefinitionError, ToolError
from streamkit.execution.execute import execute_all
from streamkit.execution.large_results import PAGE_CHARS, result_reader
from streamkit.execution.running import Running
from streamkit.items import ToolCall, image
from streamkit.journal.memory import memory_journal
from streamkit.tool_events import Failure, ToolResult, Value
from streamkit.tools.decorators import tool
from streamkit.tools.toolkit import Toolkit

LONG = "".join(f"{number:04}é" for number in range(10_000))


def call(name: str, **arguments: Any) -> ToolCall:
    return ToolCall("c", name, json.dumps(arguments), "t", 0)


@tool(result_limit_bytes=12)
async def dump(what: str) -> Any:
    """Give much."""
    if what == "error":
        raise ToolError(LONG)
    return {"text": LONG, "short": "12 bytes: 12", "list": list(range(10)), "cut": "0123456789éé"}[what]


async def run(toolkit: Toolkit, asked: ToolCall, **options: Any) -> ToolResult:
    (result,) = await execute_all(toolkit, [asked], **options)
    return result


@pytest.mark.parametrize(
    ("what", "text"),
    [
        ("text", "0000é0001é\n[Cut: these are the first 10 of 50000 characters.]"),
        ("short", "12 bytes: 12"),
        ("list", "[0,1,2,3,4,5\n[Cut: these are the first 12 of 21 characters.]"),
        ("cut", "0123456789é\n[Cut: these are the first 11 of 12 characters.]"),
    ],
)
async def test_the_model_reads_the_beginning_and_the_consumer_has_all(what: str, text: str) -> None:
    result = await run(Toolkit(dump), call("dump", what=what))
    assert isinstance(result, Value)
    assert result.text == text
    assert result.value == (await dump(what))


async def test_an_error_may_be_too_long_as_well() -> None:
    result = await run(Toolkit(dump), call("dump", what="error"))
    assert isinstance(result, Failure)
    assert result.message == "0000é0001é\n[Cut: these are the first 10 of 50000 characters.]"
    assert isinstance(result.cause, ToolError)


async def read_all(toolkit: Toolkit, options: dict[str, Any]) -> str:
    """What a model reads that follows the notes."""
    first = await run(toolkit, call("dump", what="text"), **options)
    assert isinstance(first, Value)
    head, _, note = first.text.rpartition("\n")
    assert note.endswith(' read_result with result="t.0" and offset=10 gives more.]')
    offset = 10
    while "gives more" in note:
        page = await run(toolkit, ToolCall("d", "read_result", f'{{"result": "t.0", "offset": {offset}}}', "u", offset))
        assert isinstance(page, Value)
        text, _, note = page.text.rpartition("\n")
        assert len(text) <= PAGE_CHARS
        head += text
        offset += len(text)
    return head


async def test_the_rest_is_read_from_the_running_calls() -> None:
    running = Running()
    toolkit = Toolkit(dump, result_reader(running))
    assert await read_all(toolkit, {"running": running}) == LONG


async def test_the_rest_is_read_from_the_journal_also_later() -> None:
    journal = memory_journal()
    async with journal.drive("r") as log:
        assert await read_all(Toolkit(dump, result_reader(log)), {"journal": log}) == LONG
    async with journal.drive("r") as log:
        page = await run(Toolkit(result_reader(log)), call("read_result", result="t.0", offset=49_990))
        assert isinstance(page, Value)
        assert page.text == LONG[-10:] + "\n[Characters 49990 to 50000 of 50000; this is the end.]"


async def test_the_rest_of_what_stands_beside_an_image_is_read_from_the_journal_as_well() -> None:
    @tool(result_limit_bytes=12)
    async def look() -> list[Any]:
        """Look around."""
        return [image(b"png", "image/png"), LONG, "the end"]

    async with memory_journal().drive("r") as log:
        toolkit = Toolkit(look, result_reader(log))
        await run(toolkit, call("look"), journal=log)
        page = await run(toolkit, ToolCall("d", "read_result", '{"result": "t.0", "offset": 49990}', "u", 0))
    assert isinstance(page, Value)
    assert page.text == f"{LONG[-10:]}\nthe end\n[Characters 49990 to 50008 of 50008; this is the end.]"


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        ({"result": "t.9"}, "There is no result t.9."),
        ({"result": "t.0", "offset": 50_000}, "The result t.0 has 50000 characters: nothing begins at 50000."),
    ],
)
async def test_reading_what_is_not_there_is_told(arguments: dict[str, Any], told: str) -> None:
    running = Running()
    await run(Toolkit(dump), call("dump", what="text"), running=running)
    result = await run(Toolkit(result_reader(running)), call("read_result", **arguments))
    assert isinstance(result, Failure)
    assert result.message == told


def test_a_limit_of_nothing_is_refused() -> None:
    with pytest.raises(DefinitionError, match="result_limit_bytes is 0"):
        tool(dump.function, name="dump", result_limit_bytes=0)
