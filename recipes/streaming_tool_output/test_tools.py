"""The download when the other side is not as it should be, and the file server itself."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import get_args

import anyio
import httpx2
import pytest

from streamkit import Failure, ToolCall, Toolkit, ToolResult, execute_all
from streamkit.testing import ScriptedModel

from .command_line import PROJECT
from .file_server import file_server
from .test_recipe import names_in
from .tools import ARTIFACTS, ArtifactName, Workspace, download_artifact


async def download(folder: Path, answer: Callable[[httpx2.Request], httpx2.Response]) -> ToolResult:
    """The result of a download from a server that answers like this."""
    async with httpx2.AsyncClient(base_url="http://files", transport=httpx2.MockTransport(answer)) as files:
        workspace = Workspace(files, folder, PROJECT, ScriptedModel())
        call = ToolCall("call_1", "download_artifact", '{"file":"mountain.bin"}')
        (result,) = await execute_all(Toolkit(download_artifact), [call], context=workspace)
    return result


async def test_a_file_with_a_wrong_checksum_is_not_kept(tmp_path: Path) -> None:
    result = await download(
        tmp_path, lambda _: httpx2.Response(200, content=b"forged", headers={"Repr-Digest": "sha-256=:AAAA:"})
    )

    assert isinstance(result, Failure)
    assert result.message == "The checksum of mountain.bin is wrong, so it was not saved."
    assert names_in(tmp_path) == []


async def test_a_broken_connection_leaves_nothing_behind(tmp_path: Path) -> None:
    async def half() -> AsyncIterator[bytes]:
        yield b"half"
        raise httpx2.ReadError("the connection broke")

    result = await download(tmp_path, lambda _: httpx2.Response(200, content=half(), headers={"Content-Length": "8"}))

    assert isinstance(result, Failure)
    assert result.message == "mountain.bin could not be downloaded."
    assert names_in(tmp_path) == []


async def test_a_file_that_is_not_there_is_a_failure(tmp_path: Path) -> None:
    result = await download(tmp_path, lambda _: httpx2.Response(404))

    assert isinstance(result, Failure)
    assert names_in(tmp_path) == []


def test_each_file_that_may_be_asked_for_is_served() -> None:
    assert set(get_args(ArtifactName)) == set(ARTIFACTS)


@pytest.mark.parametrize(
    ("method", "path", "status"), [("GET", "/nothing", 404), ("POST", "/a", 405), ("GET", "/a", 200)]
)
async def test_the_file_server_answers(method: str, path: str, status: int) -> None:
    async with (
        file_server({"a": 1}, bytes_per_second=1e9) as url,
        httpx2.AsyncClient(timeout=60, trust_env=False) as client,
    ):
        response = await client.request(method, url + path)

    assert response.status_code == status


async def test_the_file_server_survives_a_client_that_talks_nonsense() -> None:
    async with (
        file_server({"a": 1}, bytes_per_second=1e9) as url,
        httpx2.AsyncClient(timeout=60, trust_env=False) as client,
    ):
        async with await anyio.connect_tcp("127.0.0.1", int(url.rpartition(":")[2])) as stream:
            await stream.send(b"\r\n\r\n")
        assert (await client.get(url + "/a")).status_code == 200
