"""What is kept of runs that are over, and for how long."""

from typing import Any

import anyio
import pytest

from streamkit.conversation import Conversation
from streamkit.errors import VerdictRefused
from streamkit.execution.approval import Allow, Deny
from streamkit.items import ToolCall, user
from streamkit.tool_events import Pending, Value
from streamkit.turns import Turn
from streamkit.web.ended import Ended, EndedRuns

from ..attacks import in_ticks


def kept(*, limit_bytes: int = 10_000, limit_count: int = 10, limit_seconds: float = 1_000_000) -> EndedRuns:
    return EndedRuns(limit_bytes=limit_bytes, limit_count=limit_count, limit_seconds=limit_seconds)


def said(text: str) -> Ended:
    return Ended("answer", Conversation((user(text),)))


def pending() -> Ended:
    turn = Turn("t", items=(ToolCall("a", "delete", "{}", "t", 0),))
    return Ended("pending", Conversation().add(turn, [Pending("a", "delete")]))


async def test_a_run_is_kept_as_it_was() -> None:
    runs = kept()
    ended = pending().decided("t.0", Allow({"path": "b"}, value=None))
    runs.put("a", ended)
    assert runs.get("a") == ended
    runs.forget("a")
    assert runs.get("a") is None
    runs.forget("a")


async def test_the_oldest_go_first_when_there_are_too_many() -> None:
    runs = kept(limit_count=2)
    for name in "abac":
        runs.put(name, said(name))
    assert [runs.get(name) is not None for name in "abc"] == [True, False, True]


async def test_the_oldest_go_first_when_they_are_too_large() -> None:
    runs = kept(limit_bytes=10_000)
    runs.put("a", said("x" * 4_000))
    runs.put("b", said("x" * 4_000))
    runs.put("c", said("x" * 4_000))
    assert [runs.get(name) is not None for name in "abc"] == [False, True, True]
    runs.put("d", said("x" * 20_000))
    assert [runs.get(name) is not None for name in "abcd"] == [False] * 4
    runs.put("e", said("x" * 4_000))
    assert runs.get("e") is not None


@pytest.mark.parametrize("backend", ["asyncio", "trio"])
def test_the_old_are_forgotten(backend: str) -> None:
    async def main() -> None:
        runs = kept(limit_seconds=100)
        runs.put("a", said("a"))
        await anyio.sleep(50)
        runs.put("b", said("b"))
        assert runs.get("a") is not None
        await anyio.sleep(60)
        assert [runs.get(name) is not None for name in "ab"] == [False, True]

    in_ticks(backend, main)


async def test_half_a_character_and_an_object_of_ones_own_do_not_lose_a_run() -> None:
    runs = kept()
    state = Conversation((user("half \ud83d"),)).add(
        Turn("t", items=(ToolCall("a", "read", "{}", "t", 0),)), [Value("a", "read", object(), "text")]
    )
    runs.put("a", Ended("answer", state))
    found = runs.get("a")
    assert found is not None
    assert found.conversation.history[0] == user("half \ufffd")


async def test_what_cannot_be_written_is_not_kept_and_harms_nobody(caplog: pytest.LogCaptureFixture) -> None:
    nested: list[Any] = []
    nested.append(nested)
    runs = kept()
    turn = Turn("t", items=(ToolCall("a", "read", "{}", "t", 0), ToolCall("b", "read", "{}", "t", 1)))
    runs.put("a", Ended("pending", Conversation().add(turn, [Value("a", "read", nested, ""), Pending("b", "read")])))
    assert runs.get("a") is None
    assert len(caplog.records) == 1


async def test_a_verdict_is_given_once_and_on_what_waits() -> None:
    ended = pending()
    with pytest.raises(VerdictRefused, match="no call waits"):
        ended.decided("t.1", Allow())
    decided = ended.decided("t.0", Deny("no"))
    with pytest.raises(VerdictRefused, match="answered already"):
        decided.decided("t.0", Allow())
