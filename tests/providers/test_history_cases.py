"""The cases of `cases/loop.json` about a history that goes to another provider. Each test names its case."""

import json
import re
from typing import Any

import pytest

from streamkit.items import History, ToolCall, ToolOutput, user
from streamkit.providers import anthropic, gemini, ollama, openai_chat, openai_responses
from streamkit.turns import TurnRequest

Json = dict[str, Any]

IDS = ("functions.run:0", "call_AbCdEfGh12345678ijklmnop", "functions.run:0")
MANY: History = tuple(
    item
    for number, call_id in enumerate(IDS)
    for item in (user("go"), ToolCall(call_id, "run", "{}"), ToolOutput(call_id, "run", f"result {number}"))
)
BIG = 3407112233445566778
ONE: History = (user("go"), ToolCall("a", "run", f'{{"n": {BIG}}}'), ToolOutput("a", "run", "ok"))


def mistral_pairs() -> tuple[list[str], dict[str, str]]:
    """The ids of calls, and what the results of each say."""
    sent = openai_chat.encode_mistral_request(TurnRequest(MANY), "m")["messages"]
    ids = [call["id"] for message in sent for call in message.get("tool_calls", ())]
    return ids, {message["tool_call_id"]: message["content"] for message in sent if message["role"] == "tool"}


def anthropic_pairs() -> tuple[list[str], dict[str, str]]:
    sent = anthropic.encode_request(TurnRequest(MANY), "m", cache=False)["messages"]
    blocks = [block for message in sent for block in message["content"]]
    results = [block for block in blocks if block["type"] == "tool_result"]
    ids = [block["id"] for block in blocks if block["type"] == "tool_use"]
    return ids, {block["tool_use_id"]: block["content"][0]["text"] for block in results}


@pytest.mark.parametrize(("pairs", "legal"), [(mistral_pairs, r"[a-zA-Z0-9]{9}"), (anthropic_pairs, r"[a-zA-Z0-9_-]+")])
def test_ids_fit_the_rules_of_another_provider(pairs: Any, legal: str) -> None:
    """loop-ids-for-other-provider"""
    ids, results = pairs()
    assert all(re.fullmatch(legal, each) for each in ids)
    assert len(set(ids)) == len(IDS)
    assert [results[each] for each in ids] == ["result 0", "result 1", "result 2"]
    assert pairs() == (ids, results)
    assert tuple(item.call_id for item in MANY if isinstance(item, ToolCall)) == IDS


def test_arguments_go_back_in_the_form_that_the_provider_wants() -> None:
    """loop-arguments-sent-back-in-kind"""
    request = TurnRequest(ONE)
    texts = [
        openai_chat.encode_request(request, "m")["messages"][1]["tool_calls"][0]["function"]["arguments"],
        openai_responses.encode_request(request, "m")["input"][1]["arguments"],
    ]
    objects = [
        anthropic.encode_request(request, "m")["messages"][1]["content"][0]["input"],
        gemini.encode_request(request, "m")["contents"][1]["parts"][0]["functionCall"]["args"],
        ollama.encode_request(request, "m")["messages"][1]["tool_calls"][0]["function"]["arguments"],
    ]
    assert all(isinstance(text, str) and json.loads(text) == {"n": BIG} for text in texts)
    assert objects == [{"n": BIG}] * 3
