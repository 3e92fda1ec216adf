"""The chat template, as llama.cpp's server renders it."""

from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

import httpx2
import pytest

from streamkit import History, ToolCall, ToolOutput, TurnRequest, assistant, tool, user
from streamkit.local.model import CALL_BEGINS, chat_template
from streamkit.local.server import ServerSettings, local_server
from streamkit.providers.openai_chat import encode_request

Render = Callable[[TurnRequest], Awaitable[str]]

CALLED: History = (
    user("Add"),
    ToolCall("c1", "add", '{"a": 1}'),
    ToolCall("c2", "add", '{"a": 2}'),
    ToolOutput("c1", "add", "one"),
    ToolOutput("c2", "add", "two"),
)
CALLED_TEXT = """\
<|im_start|>user
Add<|im_end|>
<|im_start|>assistant
<tool_call>
{"name": "add", "arguments": {"a": 1}}
</tool_call>
<tool_call>
{"name": "add", "arguments": {"a": 2}}
</tool_call><|im_end|>
<|im_start|>user
Results:
one
two"""


@tool
def add(a: int) -> int:
    """Add one."""
    return a + 1


@pytest.fixture(scope="module")
def anyio_backend() -> str:
    return "asyncio"  # what is tested here is the other process


@pytest.fixture(scope="module")
async def client(weights: Path) -> AsyncIterator[httpx2.AsyncClient]:
    settings = ServerSettings(str(weights), chat_template(), context_tokens=512, api_key="k")
    async with (
        local_server(settings, ready_timeout_seconds=60) as server,
        httpx2.AsyncClient(
            base_url=server.address,
            headers={"authorization": "Bearer k", "connection": "close"},
            timeout=60,
            trust_env=False,
        ) as opened,
    ):
        yield opened


@pytest.fixture
def render(client: httpx2.AsyncClient) -> Render:
    async def rendered(request: TurnRequest) -> str:
        answer = await client.post("/apply-template", json=encode_request(request, ""))
        prompt: str = answer.raise_for_status().json()["prompt"]
        return prompt

    return rendered


async def test_the_server_reads_out_of_it_how_calls_look(client: httpx2.AsyncClient) -> None:
    able: dict[str, Any] = (await client.get("/props")).json()["chat_template_caps"]
    assert able["supports_tools"]
    assert able["supports_parallel_tool_calls"]
    assert able["supports_system_role"]


async def test_messages_come_in_turn(render: Render) -> None:
    history = (user("Hi"), assistant("Hello"), user("Who?"))
    assert await render(TurnRequest(history)) == (
        "<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\nHello<|im_end|>\n"
        "<|im_start|>user\nWho?<|im_end|>\n<|im_start|>assistant\n"
    )


async def test_instructions_come_first_and_the_tools_behind_them(render: Render) -> None:
    history = (user("Add"),)
    plain = await render(TurnRequest(history, instructions="Be kind"))
    assert plain.startswith("<|im_start|>system\nBe kind<|im_end|>\n<|im_start|>user\nAdd")
    told = await render(TurnRequest(history, (add.spec,), instructions="Be kind"))
    assert told.startswith("<|im_start|>system\nBe kind\n\nYou can call these tools:\n<tools>\n")
    alone = await render(TurnRequest(history, (add.spec,)))
    assert alone == told.replace("Be kind\n\n", "")
    assert '"name": "add"' in alone


async def test_results_end_with_the_wish_for_an_answer_only_where_they_are_to_be_answered(render: Render) -> None:
    asked = "\n\nAnswer in one sentence.<|im_end|>\n<|im_start|>assistant\n"
    assert await render(TurnRequest(CALLED)) == CALLED_TEXT + asked
    later = await render(TurnRequest((*CALLED, assistant("Three"), user("Sure?"))))
    assert later.startswith(f"{CALLED_TEXT}<|im_end|>\n<|im_start|>assistant\nThree<|im_end|>\n")
    with_tools = await render(TurnRequest(CALLED, (add.spec,)))
    assert with_tools.endswith(f"{CALLED_TEXT}<|im_end|>\n<|im_start|>assistant\n")


async def test_an_answer_that_is_begun_is_left_open(render: Render) -> None:
    begun = await render(TurnRequest((user("Add"), assistant(CALL_BEGINS)), (add.spec,)))
    assert begun.endswith("<|im_start|>user\nAdd<|im_end|>\n<|im_start|>assistant\n<tool_call>\n")
