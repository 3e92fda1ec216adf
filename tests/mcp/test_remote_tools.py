"""Tools of servers as tools of ours: names, descriptions, schemas, and what is believed of them."""

import re
from typing import Any

import mcp_types as types
import pytest
from hypothesis import given
from hypothesis import strategies as some
from mcp import Client

from streamkit.errors import InvalidInput
from streamkit.mcp import Connection
from streamkit.mcp.remote_tools import legal_names
from streamkit.tools.tool import Tool
from streamkit.tools.toolkit import Toolkit

from .servers import Context, Send, listed, server, written_out


async def toolkit_of(*tools: types.Tool, **options: Any) -> Toolkit:
    async with Connection(server(tools=list(tools)), **options) as connection:
        return await connection.toolkit()


NAMES = some.lists(some.text(max_size=100), unique=True, max_size=8)


@given(names=NAMES, prefix=some.from_regex(r"\A[a-zA-Z0-9_-]{0,32}\Z"), order=some.randoms())
def test_names_are_legal_and_differ_whatever_the_server_calls_its_tools(
    names: list[str], prefix: str, order: Any
) -> None:
    legal = dict(zip(names, legal_names(names, prefix), strict=True))
    assert all(re.fullmatch(r"[a-zA-Z0-9_-]{1,64}", name) and name.startswith(prefix) for name in legal.values())
    assert len(set(legal.values())) == len(names)
    order.shuffle(names)
    assert dict(zip(names, legal_names(names, prefix), strict=True)) == legal


@pytest.mark.parametrize(
    ("names", "prefix", "legal"),
    [
        (["get-row", "set_row"], "", ["get-row", "set_row"]),
        (["files/read", "files.list"], "fs_", ["fs_files_read", "fs_files_list"]),
        (["a.b", "a_b", "a/b"], "", ["a_b_2e7336dc", "a_b", "a_b_c14cddc0"]),
        (["n" * 64, "n" * 65], "", ["n" * 64, "n" * 55 + "_" + "1e3fb6d5"]),
    ],
)
def test_names_stay_as_they_are_where_they_can(names: list[str], prefix: str, legal: list[str]) -> None:
    assert legal_names(names, prefix) == legal


async def test_a_tool_is_called_by_the_name_that_its_server_knows() -> None:
    async def read(context: Context, arguments: dict[str, Any]) -> str:
        return f"read {arguments['path']}"

    bodies: Any = {"files/read": read}
    async with Connection(server(**bodies), prefix="fs_") as connection:
        found = await connection.call("files/read", {"path": "a"})
        (tool,) = await connection.toolkit()
    assert tool.name == "fs_files_read"
    assert found.content == [types.TextContent(text="read a")]


async def test_a_tool_keeps_the_words_and_the_schema_of_its_server() -> None:
    schema = {"type": "object", "properties": {"out": {"type": "integer"}, "self": {}}, "required": ["out"]}
    (row, silent) = await toolkit_of(listed("row", schema, description="Finds a row."), listed("silent"), name="db")
    assert (row.description, row.spec.parameters, row.origin) == ("Finds a row.", schema, "db")
    assert row.decode('{"out": 1, "self": 2, "more": 3}') == {"out": 1, "self": 2, "more": 3}
    with pytest.raises(InvalidInput, match="out"):
        row.decode("{}")
    assert silent.description == "silent, a tool of db"


HINTED = [
    listed("reads", annotations=types.ToolAnnotations(read_only_hint=True)),
    listed("sets", annotations=types.ToolAnnotations(idempotent_hint=True, destructive_hint=True)),
    listed("adds", annotations=types.ToolAnnotations(destructive_hint=False)),
    listed("silent"),
]


def believed(toolkit: Toolkit) -> dict[str, tuple[str, bool]]:
    tools: list[Tool[..., Any]] = list(toolkit)
    return {tool.name: (tool.effects, tool.approval) for tool in tools}


async def test_hints_of_a_server_count_only_where_it_is_trusted() -> None:
    assert set(believed(await toolkit_of(*HINTED)).values()) == {("once", False)}
    assert set(believed(await toolkit_of(*HINTED, approval=True)).values()) == {("once", True)}
    assert believed(await toolkit_of(*HINTED, approval=True, trust_hints=True)) == {
        "reads": ("none", False),
        "sets": ("idempotent", True),
        "adds": ("once", True),
        "silent": ("once", True),
    }


async def test_a_tool_that_cannot_be_called_is_left_out() -> None:
    async def answer(message: dict[str, Any], send: Send) -> dict[str, Any] | None:
        execution = {"optional": {"taskSupport": "optional"}, "required": {"taskSupport": "required"}}
        tools = [{"name": name, "inputSchema": {"type": "object"}, "execution": execution[name]} for name in execution]
        return {"tools": tools} if message["method"] == "tools/list" else None

    async with Connection(Client(written_out(answer), mode="legacy")) as connection:
        assert (await connection.toolkit()).names == ("optional",)


async def test_options_are_those_of_every_tool() -> None:
    (tool,) = await toolkit_of(listed("one"), timeout_seconds=5, idle_timeout_seconds=1, serial="db", coerce=False)
    assert (tool.timeout_seconds, tool.idle_timeout_seconds, tool.serial, tool.coerce) == (5, 1, "db", False)


async def test_two_servers_are_one_toolkit_with_prefixes() -> None:
    first, second = await toolkit_of(listed("search"), prefix="web_"), await toolkit_of(listed("search"), prefix="db_")
    assert (first | second).names == ("web_search", "db_search")


async def test_a_regular_expression_of_a_server_is_checked_by_the_server_alone() -> None:
    schema = {"type": "object", "properties": {"word": {"type": "string", "pattern": "^(a+)+$"}}}
    (found,) = await toolkit_of(listed("find", schema))
    assert found.spec.parameters["properties"] == {"word": {"type": "string"}}
    assert found.convert({"word": "a" * 40 + "!"}) == {"word": "a" * 40 + "!"}
