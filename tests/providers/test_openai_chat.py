"""The dialect of chat completions: recorded streams, reported oddities, and what goes back."""

from typing import Any

import pytest

from streamkit.providers.openai_chat import OpenAIChatDecoder

from ..streams import (
    assert_expected,
    assert_recorded,
    case_body,
    cases,
    outcome,
    recorded_body,
    recordings,
    some_cuts,
)


@pytest.mark.parametrize("case", cases("stream_framing.json") + cases("stream_openai_chat.json"))
def test_a_reported_stream_gives_what_is_expected_in_any_cut(case: dict[str, Any]) -> None:
    pieces = case_body(case)
    tools = case["input"].get("tools", ())
    found = outcome(OpenAIChatDecoder(), pieces, tools)
    assert_expected(case, found)
    for cut in some_cuts(b"".join(pieces), 200):
        again = outcome(OpenAIChatDecoder(), cut, tools)
        assert again[:2] == found[:2]
        assert repr(again.error) == repr(found.error)


@pytest.mark.parametrize("entry", recordings("openai-chat"))
def test_a_recorded_stream_gives_what_is_expected_in_any_cut(entry: dict[str, Any]) -> None:
    body = recorded_body(entry)
    found = outcome(OpenAIChatDecoder(), [body])
    assert_recorded(entry, found)
    for cut in some_cuts(body, 12):
        again = outcome(OpenAIChatDecoder(), cut)
        assert again[:2] == found[:2]
        assert repr(again.error) == repr(found.error)
