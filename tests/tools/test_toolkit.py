"""Toolkits: exact names, and calls that are checked before they run."""

import asyncio
import json
from collections.abc import Sequence
from typing import Annotated, Any

import anyio
import anyio.lowlevel
import pytest
from msgspec import Meta

from streamkit.errors import DefinitionError, InvalidCall, ToolError
from streamkit.flows.flow import Sink, flow
from streamkit.items import ToolCall
from streamkit.tools.decorators import tool
from streamkit.tools.toolkit import Toolkit, check_toolkit_given
from streamkit.turns import (
    TextDelta,
    ToolInputAbandoned,
    ToolInputAvailable,
    ToolInputDelta,
    ToolInputEvent,
    ToolInputStart,
    TurnEvent,
)


@tool
async def read(p: str) -> str:
    """Reads a file."""
    return p


@tool
async def write(p: str, text: str) -> None:
    """Writes a file."""


def names(kit: Toolkit) -> list[str]:
    return [spec.name for spec in kit.specs]


def test_a_toolkit_offers_its_tools_in_the_order_given() -> None:
    kit = Toolkit(write, read)
    assert names(kit) == ["write", "read"]
    assert ("read" in kit, len(kit), kit["read"]) == (True, 2, read)


def test_subsets_and_prefixes_leave_the_toolkit_as_it_was() -> None:
    kit = Toolkit(read, write)
    assert names(kit.only("write")) == ["write"]
    assert names(kit.without("write")) == ["read"]
    assert names(kit.prefixed("fs_")) == ["fs_read", "fs_write"]
    assert names(kit.disabled("read", "no")) == ["write"]
    assert names(kit.prefixed("a_") | kit.disabled("read", "no")) == ["a_read", "a_write", "write"]
    assert names(kit) == ["read", "write"]


@pytest.mark.parametrize(
    ("make", "says"),
    [
        (lambda: Toolkit(read, read), "tool 'read' is already in this toolkit"),
        (lambda: Toolkit(read) | Toolkit(read), "tool 'read' is already in this toolkit"),
        (lambda: Toolkit(names), "decorate it with @tool"),  # type: ignore[arg-type]
        (lambda: Toolkit([read, write]), r"Toolkit\(\*tools\)"),  # type: ignore[arg-type]
        (lambda: Toolkit(read).only("wirte"), "no tool wirte"),
        (lambda: Toolkit(read).without("wirte"), "no tool wirte"),
        (lambda: Toolkit(read).disabled("wirte", "why"), "no tool wirte"),
    ],
    ids=["twice", "joined", "not a tool", "a list", "only", "without", "disabled"],
)
def test_mistakes_are_raised_where_they_are_made(make: Any, says: str) -> None:
    with pytest.raises(DefinitionError, match=says):
        make()


def test_a_valid_call_has_its_decoded_arguments() -> None:
    valid = Toolkit(read).validate(ToolCall("c1", "read", '{"p": "a"}'))
    assert (valid.tool, valid.arguments) == (read, {"p": "a"})


def test_a_check_of_the_tool_refuses_with_its_own_words() -> None:
    def inside(n: int) -> None:
        if n % 2:
            raise ToolError("n must be even")

    @tool(check=inside)
    async def halve(n: Annotated[int, Meta(ge=0)]) -> int:
        """Halves."""
        return n // 2

    kit = Toolkit(halve)
    assert kit.validate(ToolCall("c", "halve", '{"n": 4}')).arguments == {"n": 4}
    with pytest.raises(InvalidCall, match="n must be even") as caught:
        kit.validate(ToolCall("c", "halve", '{"n": 3}'))
    assert caught.value.failure.kind == "invalid_input"


def test_a_check_that_returns_is_no_guard_and_lets_nothing_through(caplog: pytest.LogCaptureFixture) -> None:
    kit = Toolkit(tool(read.function, check=lambda p: p == "a"))
    with pytest.raises(InvalidCall, match="bad arguments"):
        kit.validate(ToolCall("c", "read", '{"p": "b"}'))
    assert "it raises ToolError, and returns nothing" in caplog.text


# listening


@flow
async def writing(out: Sink[TurnEvent], events: Sequence[TurnEvent], error: Exception | None = None) -> str:
    for event in events:
        await out.send(event)
    if error is not None:
        raise error
    return "turn"


WHOLE: list[TurnEvent] = [
    ToolInputStart("c1", "read"), TextDelta("hm"), ToolInputDelta("c1", "{}"), ToolInputAvailable("c1", "{}"),
    ToolInputStart("c2", "write"), ToolInputAbandoned("c2", "incomplete"),
]  # fmt: skip


@pytest.mark.parametrize("opened", [True, False])
async def test_a_tool_hears_how_its_input_is_written_also_under_await(opened: bool) -> None:
    heard: list[ToolInputEvent] = []

    async def hook(event: ToolInputEvent) -> None:
        await anyio.lowlevel.checkpoint()
        heard.append(event)

    listened = Toolkit(tool(read.function, on_input=hook), write).listen(writing(WHOLE))
    if opened:
        async with listened.open() as events:
            assert [event async for event in events] == WHOLE
        assert events.value == "turn"
    else:
        assert await listened == "turn"
    assert heard == [event for event in WHOLE if getattr(event, "call_id", None) == "c1"]


async def test_an_id_that_begins_again_is_heard_by_the_tool_that_it_calls_now() -> None:
    again: list[TurnEvent] = [
        ToolInputStart("c1", "read"),
        ToolInputAbandoned("c1", "retried"),
        ToolInputStart("c1", "write"),
    ]
    heard: list[ToolInputEvent] = []
    kit = Toolkit(tool(read.function, on_input=heard.append), write)
    await kit.listen(writing([*again, ToolInputAvailable("c1", "{}")]))
    assert heard == again[:2]


@pytest.mark.parametrize("error", [LookupError("hook"), asyncio.CancelledError("hook"), SystemExit("hook")])
async def test_what_a_hook_raises_is_logged(error: BaseException, caplog: pytest.LogCaptureFixture) -> None:
    def hook(event: ToolInputEvent) -> None:
        raise error

    assert await Toolkit(tool(read.function, on_input=hook)).listen(writing(WHOLE)) == "turn"
    assert caplog.text.count("Error: hook") + caplog.text.count("Exit: hook") == 3


@pytest.mark.parametrize("ends", ["raises", "left", "cancelled"])
async def test_a_hook_hears_of_a_call_that_a_cut_turn_left_open(ends: str) -> None:
    heard: list[ToolInputEvent] = []
    begun = anyio.Event()

    async def hook(event: ToolInputEvent) -> None:
        await anyio.lowlevel.checkpoint()
        heard.append(event)
        begun.set()

    @flow
    async def hangs(out: Sink[TurnEvent]) -> str:
        await out.send(ToolInputStart("c1", "read"))
        await anyio.sleep_forever()
        return "never"

    async def listen_to_one_that_hangs() -> None:
        await kit.listen(hangs())

    kit = Toolkit(tool(read.function, on_input=hook))
    if ends == "raises":
        with pytest.raises(LookupError):
            await kit.listen(writing([ToolInputStart("c1", "read")], LookupError()))
    elif ends == "left":
        async with kit.listen(hangs()).open() as events:
            async for _ in events:
                break
    else:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(listen_to_one_that_hangs)
            await begun.wait()
            tasks.cancel_scope.cancel()
    assert heard == [ToolInputStart("c1", "read"), ToolInputAbandoned("c1", "incomplete")]


# plain text


@tool
async def run(script: str, seconds: int = 3) -> str:
    """Runs a script."""
    return script


def test_a_call_of_plain_text_gives_it_to_the_one_field_that_takes_text() -> None:
    valid = Toolkit(run).validate(ToolCall("c", "run", '{"script": 1}', custom=True))
    assert valid.arguments == {"script": '{"script": 1}', "seconds": 3}


def test_a_tool_that_takes_no_plain_text_says_so() -> None:
    with pytest.raises(InvalidCall) as caught:
        Toolkit(write).validate(ToolCall("c", "write", "a text", custom=True))
    assert (caught.value.failure.kind, caught.value.failure.message) == (
        "invalid_input",
        "The call of write did not run: it came as plain text, but the arguments are a JSON object with p, text",
    )


def test_what_a_model_reads_of_a_refused_call_is_short_whatever_it_wrote() -> None:
    async def add(numbers: list[int]) -> int:
        """Adds."""
        return sum(numbers)

    kit = Toolkit(tool(add, name="a" * 64))
    texts = json.dumps({"numbers": ["x"] * 1000})
    unknown = ToolCall("c", "x" * 5000, "{}")
    broken = ToolCall("c", "x" * 5000, "{", problem="no")
    for call in (ToolCall("c", "a" * 64, texts), unknown, broken):
        with pytest.raises(InvalidCall) as caught:
            kit.validate(call)
        assert len(caught.value.failure.message) < 1000


def test_a_call_of_plain_text_that_cannot_run_is_not_told_that_it_is_no_json() -> None:
    with pytest.raises(InvalidCall, match=r"^The call of run did not run: it is too long$"):
        Toolkit(run).validate(ToolCall("c", "run", "ls -l", problem="it is too long", custom=True))


def test_arguments_are_mended_unless_the_tool_says_no() -> None:
    call = ToolCall("c", "run", '{"script": "3", "seconds": "5"}')
    assert Toolkit(run).validate(call).arguments == {"script": "3", "seconds": 5}
    with pytest.raises(InvalidCall, match='seconds: expected integer, but got "5"'):
        Toolkit(tool(run.function, coerce=False)).validate(call)


def test_what_is_no_toolkit_says_what_is() -> None:
    with pytest.raises(DefinitionError, match=r"is a tool: write toolkit \| Toolkit\(run\)"):
        Toolkit(write) | run  # type: ignore[operator]
    with pytest.raises(TypeError, match=r"toolkit is a Toolkit, such as Toolkit\(search, read\), not a list"):
        check_toolkit_given([write])
